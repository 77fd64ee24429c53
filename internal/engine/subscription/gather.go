package subscription

import "github.com/ruedahq/rueda/wire"

// Gather returns about max bytes of the waiting frames in format f. These frames no longer wait.
// The result is dst with the frames appended, or memory that other subscribers share, so the caller
// must not change it. The length of dst is 0. With conflate, Gather returns only the newest waiting
// quote and summary of each instrument, and a snapshot instead of updates of a book. It never
// conflates trades, statuses and bars.
func (s *Subscriber) Gather(dst []byte, max int, f wire.Format, conflate bool) []byte {
	if s.wait == nil {
		if s.head == 0 {
			return dst
		}
		if !conflate {
			if b, ok := s.gatherTurn(dst, max, f); ok {
				return b
			}
		}
	}
	s.hold()
	if f == wire.JSON {
		return s.gatherWaiting(dst, max, conflate)
	}
	sh := s.shard
	rows, before := sh.replayed.Rows, sh.transcoder.Done
	b := s.gatherWaiting(sh.scratch[:0], max, conflate)
	dst = s.Transcode(dst, b, f)
	if done := sh.transcoder.Done; sh.replayed.Rows > rows || sh.visited > 0 {
		x := &sh.replayed.Transcoded
		x.Messages += done.Messages - before.Messages
		x.Compressed += done.Compressed - before.Compressed
		x.Bytes += done.Bytes - before.Bytes
	}
	if cap(b) <= 4*maxPlain {
		s.shard.scratch = b[:0]
	}
	return dst
}

// gatherTurn returns the messages of the present turn for a live subscriber. ok is false, and
// nothing has changed, if the messages have to be checked one by one, or do not fit into max bytes.
func (s *Subscriber) gatherTurn(dst []byte, max int, f wire.Format) (_ []byte, ok bool) {
	sh := s.shard
	e := &sh.entries[s.head-1]
	b := e.item.view.chunk(f, &sh.transcoder)
	if len(b) == 0 || len(b) > max || e.item.flag&overlap != 0 {
		return dst, false
	}
	if e.next == 0 {
		s.head, s.tail = 0, 0
		return b, true
	}
	start := len(dst)
	dst = append(dst, b...)
	for e.next != 0 {
		e = &sh.entries[e.next-1]
		b = e.item.view.chunk(f, &sh.transcoder)
		if len(b) == 0 || len(dst)+len(b) > start+max || e.item.flag&overlap != 0 {
			return dst[:start], false
		}
		dst = append(dst, b...)
	}
	s.head, s.tail = 0, 0
	return dst, true
}

// gatherWaiting appends the waiting frames, as JSON.
func (s *Subscriber) gatherWaiting(dst []byte, max int, conflate bool) []byte {
	w := s.wait
	if w == nil {
		return dst
	}
	limit := len(dst) + max
	dst = w.takeCarry(dst)
	done := 0
	s.shard.visited = 0
	for done < len(w.queue) && len(dst) < limit && !s.shard.visitedEnough() {
		it := w.queue[done]
		var more bool
		dst, more = it.gather(dst, limit, conflate)
		dst = w.takeCarry(dst)
		done++
		switch {
		case it.late.gate != 0:
			it.late.listed = false // until the commit
		case more:
			// The item continues after the others, so that it does not delay them.
			w.queue = append(w.queue, it)
		case it.state() == replaying:
			it.late.listed = false // until the rows are read
		default:
			it.caughtUp()
		}
	}
	n := copy(w.queue, w.queue[done:])
	clear(w.queue[n:])
	w.queue = w.queue[:n]
	w.unfinished = n > 0 && s.shard.visitedEnough()
	if len(dst) < limit {
		dst = s.gatherVenues(dst)
	}
	s.releaseWait()
	return dst
}

// Unfinished reports whether the last Gather ended before its limit of bytes, because it had
// visited enough instruments. That Gather may have returned nothing. The next Gather continues.
func (s *Subscriber) Unfinished() bool { return s.wait != nil && s.wait.unfinished }

// caughtUp marks an item for which nothing waits as not queued. It makes the item live again if
// that is possible.
func (it *item) caughtUp() {
	it.late.listed = false
	if !it.view.tail.Offset().Before(it.late.sent) && it.late.elsewhere == nil {
		it.late = nil
	}
}

// Transcode appends frames to dst in format f. The frames are JSON.
func (s *Subscriber) Transcode(dst, frames []byte, f wire.Format) []byte {
	if f == wire.JSON || len(frames) == 0 {
		return append(dst, frames...)
	}
	return s.shard.transcoder.Append(dst, frames, f)
}

// Scratch returns empty memory of the shard for one message. The next call reuses it.
func (s *Subscriber) Scratch() []byte { return s.shard.message[:0] }

// Pending reports whether Gather may return something.
func (s *Subscriber) Pending() bool {
	return s.head != 0 || s.wait != nil && (len(s.wait.queue) > 0 || len(s.wait.carry) > 0 || len(s.wait.venues) > 0 && s.wait.venueAt == 0)
}

// Replaying reports whether a replay is in progress.
func (s *Subscriber) Replaying() bool {
	for _, it := range s.queue() {
		if it.state() == replaying {
			return true
		}
	}
	return s.wait != nil && len(s.wait.reading) > 0
}

// TakeCarry appends the frames that come before the answer to the last change of the set. It
// returns each frame only once.
func (s *Subscriber) TakeCarry(dst []byte) []byte {
	if s.wait == nil {
		return dst
	}
	dst = s.wait.takeCarry(dst)
	s.releaseWait()
	return dst
}

// gather appends the waiting frames of one item. more reports whether it stopped at the limit.
func (it *item) gather(dst []byte, limit int, conflate bool) (_ []byte, more bool) {
	l := it.late
	if l.gate != 0 {
		return dst, false
	}
	if len(l.held) > 0 {
		dst = append(dst, l.held...)
		l.held = nil
	}
	if it.state() == replaying {
		if dst = it.gatherReplay(dst, limit); it.state() == replaying {
			return dst, !l.replay.waits
		}
	}
	if !it.reads() {
		return dst, false
	}
	if conflate && l.at != it.view.tail && l.progress == nil {
		if !it.channel().Replays() {
			it.sub.shard.Figures.Conflated++
		}
		switch it.channel() {
		case wire.Quotes, wire.Summary:
			if !l.needsSnapshot {
				return it.gatherNewest(dst), false
			}
			dst = it.gatherNotices(dst, it.view.tail)
		case wire.OrderBook:
			dst = it.gatherNotices(dst, it.view.tail)
			l.needsSnapshot = true
		}
	}
	if it.state() == snapshotDue {
		if dst = it.gatherStates(dst, limit, conflate); l.progress != nil || l.gate != 0 {
			return dst, true
		}
	}
	l.fresh = false
	l.elsewhere.SeeAll()
	dst = it.gatherRing(dst, it.view.tail, limit)
	it.forgetSent()
	return dst, l.at != it.view.tail
}

func (it *item) gatherReplay(dst []byte, limit int) []byte {
	r := it.late.replay
	if r.waits {
		return dst
	}
	var payload []byte
	defer r.ToSpans(it.sub.shard.hub, it.channel())
	for len(dst) < limit {
		in, n, rw, ok := r.Next(it.sub.shard.hub, it.channel())
		if !ok && r.AtJournal() {
			it.await()
			return dst
		}
		if r.holds && !r.HasRead() {
			it.endHold()
		}
		if ok {
			it.sub.shard.replayed.Rows++
			payload = rw.Message(payload[:0], in.Ident, n)
			dst = wire.AppendText(dst, payload)
			continue
		}
		r.done(it.sub, true)
		dst = it.sub.wait.takeCarry(dst)
		frame, ok := r.NextKept()
		if !ok {
			it.late.replay = nil
			return dst
		}
		dst = append(dst, frame...)
	}
	return dst
}

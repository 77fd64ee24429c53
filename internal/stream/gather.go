package stream

import (
	"math"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Gather appends the frames that wait, up to about max bytes, and steps over
// them; with max 0 only those made ahead of time, which belong to before the
// last change of the set. With conflate, waiting quotes and books collapse to their newest state first:
// a quote to the newest of its instrument, updates of a book to one R:true.
// Trades and status never do.
func (s *Subscriber) Gather(dst []byte, max int, conflate bool) []byte {
	limit := len(dst) + max
	dst = s.takeCarry(dst)
	done := 0
	for done < len(s.queue) && len(dst) < limit {
		it := s.queue[done]
		var more bool
		dst, more = it.gather(dst, limit, conflate)
		dst = s.takeCarry(dst)
		done++
		if more {
			// It goes on after the others: no instrument starves another.
			s.queue = append(s.queue, it)
		} else {
			it.queued = false
		}
	}
	n := copy(s.queue, s.queue[done:])
	clear(s.queue[n:])
	s.queue = s.queue[:n]
	return dst
}

// Pending says whether Gather would give something, or might.
func (s *Subscriber) Pending() bool { return len(s.queue) > 0 || len(s.carry) > 0 }

// Replaying says whether a replay is under way.
func (s *Subscriber) Replaying() bool {
	for _, it := range s.queue {
		if it.replay != nil {
			return true
		}
	}
	return false
}

func (s *Subscriber) takeCarry(dst []byte) []byte {
	if len(s.carry) == 0 {
		return dst
	}
	dst = append(dst, s.carry...)
	if cap(s.carry) > 4<<10 {
		s.carry = nil
	} else {
		s.carry = s.carry[:0]
	}
	return dst
}

// gather appends what one item has; more says that it stopped at the limit.
func (it *item) gather(dst []byte, limit int, conflate bool) (_ []byte, more bool) {
	if it.replay != nil {
		if dst = it.gatherReplay(dst, limit); it.replay != nil {
			return dst, true
		}
	}
	if it.view == nil {
		return dst, false
	}
	if conflate && it.at != it.view.tail {
		switch it.Channel {
		case wire.Quotes:
			return it.gatherNewest(dst), false
		case wire.OrderBook:
			dst = it.gatherNotices(dst)
			it.state = true
		}
	}
	if it.state {
		dst = it.gatherState(dst)
	}
	it.fresh = false
	dst = it.gatherRing(dst, limit)
	return dst, it.at != it.view.tail
}

// gatherRing appends what lies between the cursor and the tail, up to the limit.
func (it *item) gatherRing(dst []byte, limit int) []byte {
	for len(dst) < limit {
		rec, frame, ok := it.at.peek(it.view.tail)
		if !ok {
			return dst
		}
		it.at.rec++
		if it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
	return dst
}

func (it *item) gatherReplay(dst []byte, limit int) []byte {
	r := it.replay
	var payload []byte
	for len(dst) < limit {
		if in, n, rw, ok := r.next(); ok {
			payload = rw.message(payload[:0], in.ident, n)
			dst = wire.AppendText(dst, payload)
			continue
		}
		r.done(it.sub)
		dst = it.sub.takeCarry(dst)
		if len(r.after) == 0 {
			it.replay = nil
			return dst
		}
		dst = append(dst, r.after[0].frame...)
		r.after = r.after[1:]
	}
	return dst
}

// wants says whether a message of the item's ring is to be sent by this item.
func (it *item) wants(rec *record) bool {
	s := it.sub
	switch {
	case it.Channel == marketStatus:
		return rec.flag&notice != 0 || s.followsStatus(rec.in.id.Market)
	case rec.flag&echo != 0:
		return s.wantsEcho(rec)
	case it.overlap:
		return s.owner(it.Channel, rec.in.id) == it
	}
	return true
}

// wantsEcho says whether a notice in the ring of a book or quote is news: it is
// not where the status itself is subscribed, or the other of the two rings told it.
func (s *Subscriber) wantsEcho(rec *record) bool {
	return s.owner(wire.Status, rec.in.id) == nil && s.unnoticed(rec.in, rec.n)
}

// unnoticed says whether a notice of an instrument with sequence n is news, and
// takes note of it.
func (s *Subscriber) unnoticed(in *instrument, n uint64) bool {
	if s.noticed[in] >= n {
		return false
	}
	if s.noticed == nil {
		s.noticed = make(map[*instrument]uint64)
	}
	s.noticed[in] = n
	return true
}

// gatherNewest appends the newest waiting quote of each instrument.
func (it *item) gatherNewest(dst []byte) []byte {
	if it.state {
		return it.gatherState(it.gatherNotices(dst))
	}
	newest := make(map[*instrument]uint64)
	for at := it.at; ; at.rec++ {
		rec, _, ok := at.peek(it.view.tail)
		if !ok {
			break
		}
		if rec.flag&echo == 0 {
			newest[rec.in] = rec.pos
		}
	}
	for ; ; it.at.rec++ {
		rec, frame, ok := it.at.peek(it.view.tail)
		if !ok {
			return dst
		}
		if (rec.flag&echo != 0 || newest[rec.in] == rec.pos) && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}

// gatherNotices appends the notices among what waits and steps over the rest.
func (it *item) gatherNotices(dst []byte) []byte {
	for ; ; it.at.rec++ {
		rec, frame, ok := it.at.peek(it.view.tail)
		if !ok {
			return dst
		}
		if rec.flag&echo != 0 && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}

// gatherState appends the R:true of all instruments the item owns, and goes on
// from the tail that they are as of.
func (it *item) gatherState(dst []byte) []byte {
	it.state = false
	h := it.sub.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	it.view.tail, it.view.pos = it.view.topic.ring.tail(), h.position
	if (it.Channel == wire.Status || it.Channel == marketStatus) && !it.fresh {
		dst = it.gatherRing(dst, math.MaxInt) // no status is left out once one was told
	}
	it.at = it.view.tail
	for _, in := range h.covered(it.Item) {
		if in.venue {
			dst = it.sub.appendVenue(dst, in)
			continue
		}
		if it.overlap && it.sub.owner(it.Channel, in.id) != it {
			continue
		}
		dst = it.sub.appendState(dst, in, it.Channel, it.Tier)
	}
	return dst
}

// appendState appends the framed R:true of an instrument's tier, or nothing
// where there is none yet. A book that is not known, and quotes that come from it,
// are told as such, once.
func (s *Subscriber) appendState(dst []byte, in *instrument, c wire.Channel, tier Tier) []byte {
	h := s.hub
	if c == wire.Status {
		return h.appendStatus(dst, in, in.phase, in.reason, in.until)
	}
	for _, t := range in.channels[c].tiers {
		if t.tier != tier {
			continue
		}
		if in.stale && (c == wire.OrderBook || in.derivesQuotes()) {
			if !h.marketDown(in) && s.unnoticed(in, in.statuses.last) {
				dst = h.appendStatus(dst, in, market.FeedDown, "no_snapshot", 0)
			}
			return dst
		}
		ok := false
		if c == wire.Quotes {
			h.scratch.payload, ok = in.quoteState(h.scratch.payload[:0], t)
		} else {
			h.scratch.payload, ok = h.bookState(h.scratch.payload[:0], in, t)
		}
		if ok {
			dst = wire.AppendText(dst, h.scratch.payload)
		}
	}
	return dst
}

// appendVenue appends how a market as a whole stands: that its feed is down, to
// everybody, and its phase, where its status is subscribed.
func (s *Subscriber) appendVenue(dst []byte, in *instrument) []byte {
	if in.phase != market.NoPhase && s.followsStatus(in.id.Market) {
		dst = s.hub.appendStatus(dst, in, in.phase, in.reason, in.until)
	}
	if in.down {
		dst = s.hub.appendStatus(dst, in, market.FeedDown, "", 0)
	}
	return dst
}

// appendStatus appends a framed status that tells how things stand.
func (h *Hub) appendStatus(dst []byte, in *instrument, phase market.Phase, reason string, until int64) []byte {
	h.scratch.payload = in.appendStatus(h.scratch.payload[:0], phase, reason, until)
	return wire.AppendText(dst, h.scratch.payload)
}

// appendStatus appends the payload of a status that tells how things stand.
func (in *instrument) appendStatus(b []byte, phase market.Phase, reason string, until int64) []byte {
	s := stamp{in.statuses.lastAt, -1}
	if r, _ := in.statuses.newest(func(r *row) bool { return r.phase == phase }); r != nil {
		s = stamp{r.time, r.latency}
	}
	hd := in.header(in.statuses.last, s)
	return wire.AppendStatus(b, &hd, phase, reason, until, true)
}

package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A snapshot (R:true) of an instrument replaces all messages that were published before it. A
// pattern may have thousands of instruments, and their snapshots are made under the hub's lock.
// They are made in pieces, so that nobody waits long for the lock. The pieces also limit the memory
// to what the socket accepts. A message that is published between two pieces is sent at once if the
// snapshot of its instrument was sent. Otherwise the snapshot contains it.

// stateBatch is the number of snapshots in one piece.
const stateBatch = 64

// maxVisited limits the instruments that one Gather visits for snapshots. Without the limit, other
// clients would wait for a client with many instruments.
const maxVisited = 256

// visitedEnough reports whether the present Gather has visited enough instruments.
func (s *Shard) visitedEnough() bool { return s.visited >= maxVisited }

// snapshotProgress states which snapshots of an item were sent.
type snapshotProgress struct {
	left   []*hub.Instrument // instruments whose snapshots are to be sent, in order
	unsent catalogue.Set     // instruments in left whose messages are not sent, because the snapshot contains them
}

// put adds an instrument at the end.
func (x *snapshotProgress) put(in *hub.Instrument) {
	if !x.unsent.Has(in.Index()) {
		x.unsent.Add(in.Index())
		x.left = append(x.left, in)
	}
}

// gatherStates appends the snapshots of the instruments that the item owns, up to the limit. If not
// all of them fit, late.progress has the others.
func (it *item) gatherStates(dst []byte, limit int, conflate bool) []byte {
	l := it.late
	for {
		if l.progress != nil && !l.needsSnapshot {
			if dst = it.gatherBetween(dst, it.view.tail, limit, conflate); len(dst) >= limit {
				return dst
			}
		}
		dst = it.gatherPiece(dst, conflate)
		it.sub.shard.visited += stateBatch
		if l.progress == nil || l.gate != 0 || len(dst) >= limit || it.sub.shard.visitedEnough() {
			return dst
		}
	}
}

// gatherPiece appends the next piece of snapshots. They contain what was published up to now. If
// some of that is not committed, a gate holds them until it is. All statuses are sent one by one,
// so their snapshots are made only when all published rows are committed.
func (it *item) gatherPiece(dst []byte, conflate bool) []byte {
	l, h := it.late, it.sub.shard.hub
	h.Lock()
	defer h.Unlock()
	h.Commit()
	r := it.view.topic
	now := r.Tail()
	if it.channel() == wire.Status && now != r.End() {
		it.close()
		return dst
	}
	pos, begins := h.Reached(it.tier().Delay), l.needsSnapshot
	var batch []*hub.Instrument
	switch {
	case l.needsSnapshot:
		switch { // after a snapshot was sent, all statuses are sent too
		case it.channel() != wire.Status:
		case l.fresh && l.progress != nil:
			dst = it.gatherBetween(dst, now, maxInt, false)
		default:
			dst = it.gatherRing(dst, now, maxInt)
		}
		l.needsSnapshot = false
		batch = it.beginStates(h.Covered(it.item()))
	default:
		dst = it.gatherBetween(dst, now, maxInt, conflate)
		batch = l.progress.left
	}
	out := &dst
	// The message of a conflated tier may wait for a commit although its rows are committed.
	waits := it.tier().Conflate != 0 && now != r.End()
	if next := batch[:min(stateBatch, len(batch))]; it.channel() != wire.Status && (waits || h.Uncommitted(next)) {
		out, pos, now = it.close(), h.Newest(), r.End()
	}
	switch {
	case it.channel() == wire.Status:
	case begins:
		*out = it.gatherGaps(*out, now)
	case out != &dst:
		*out = it.gatherBetween(*out, now, maxInt, conflate)
	}
	it.skipTo(pos, now)
	h.Visit(min(stateBatch, len(batch)))
	for _, in := range batch[:min(stateBatch, len(batch))] {
		if l.progress != nil {
			l.progress.unsent.Remove(in.Index())
		}
		if it.flag&overlap != 0 && it.sub.owner(it.channel(), in.ID()) != it || !it.resumes(in) {
			continue
		}
		*out = it.sub.appendState(*out, in, it.channel(), it.tier())
	}
	if l.progress != nil {
		if l.progress.left = batch[min(stateBatch, len(batch)):]; len(l.progress.left) == 0 {
			l.progress = nil
		}
	}
	return dst
}

// gatherGaps appends the gap notices that wait before a tail, because no snapshot contains them.
func (it *item) gatherGaps(dst []byte, tail hub.Cursor) []byte {
	if all, _ := it.view.topic.Echoes(); all == 0 {
		return dst
	}
	for at := it.late.at; ; at.Next() {
		rec, frame, ok := at.Peek(tail)
		if !ok {
			return dst
		}
		if rec.Flag&ring.Lost != 0 && !at.Offset().Before(it.late.sent) && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}

// beginStates makes the snapshots of all instruments due, and returns the instruments in the order
// of sending. Instruments that were left from an earlier request come first, so that their
// snapshots are not delayed again.
func (it *item) beginStates(all []*hub.Instrument) []*hub.Instrument {
	l := it.late
	if len(all) <= stateBatch {
		l.progress = nil
		return all
	}
	unsent := slices.Clone(it.view.topic.Set())
	if l.progress != nil {
		if i := slices.Index(all, l.progress.left[0]); i > 0 {
			all = slices.Concat(all[i:], all[:i])
		}
		if it.channel() == wire.Status {
			unsent = l.progress.unsent
		}
	}
	l.progress = &snapshotProgress{all, unsent}
	return all
}

// gatherBetween appends the messages that were published between two pieces, of instruments whose
// snapshots were sent. With conflate, it makes a new snapshot of these instruments due instead.
func (it *item) gatherBetween(dst []byte, tail hub.Cursor, limit int, conflate bool) []byte {
	l := it.late
	for len(dst) < limit {
		rec, frame, ok := it.take(tail)
		switch {
		case !ok:
			return dst
		case rec.Flag&ring.Echo != 0:
		case it.channel() == wire.Status && !it.unseen(rec.Of): // statuses are all sent
		case l.progress.unsent.Has(rec.Of.Index()):
			continue
		case conflate && !it.channel().Replays():
			l.progress.put(rec.Of)
			continue
		}
		if it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
	return dst
}

const maxInt = int(^uint(0) >> 1)

// appendState appends the framed snapshot of an instrument's tier, or nothing if there is none. For
// a stale book, and for quotes that are derived from it, it appends a status that states this,
// once.
func (s *Subscriber) appendState(dst []byte, in *hub.Instrument, c wire.Channel, tier hub.Tier) []byte {
	h := s.shard.hub
	dst, stale := h.AppendState(dst, in, c, tier)
	if stale && !h.MarketDown(in) && s.unnoticed(noticeKey{in: in}, in.Statuses.Last) {
		dst = h.AppendStatus(dst, in, market.FeedDown, "no_snapshot", 0)
	}
	return dst
}

package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
)

// AfterReplay sends a message after the last row that the last Subscribe replays, or at once if it
// replays none. It keeps the frames until then, so the caller must not change them.
func (s *Subscriber) AfterReplay(end ReplayEnd) {
	w := s.waiting()
	rows := s.replayVenues(nil)
	w.carry = append(w.carry, rows...)
	if w.batch == nil || w.batch.left == 0 {
		w.carry = append(w.carry, end.Whole...)
		return
	}
	w.batch.end = end
}

// resumed reports the newest N of an item that was in the set already.
func (t *taking) resumed(it *item) {
	r := t.o.Resume
	if r == nil || it.id().IsPattern() || !it.channel().Replays() {
		return
	}
	name := it.id().String()
	if _, ok := r.Seen[it.channel()][name]; ok {
		h := t.shard.hub
		t.out.resume(it.channel(), name, h.LastCommitted(h.Lookup(it.id(), it.tier().Delay).Recent(it.channel())))
	}
}

// resume continues a new item after the last row of the client, or reports what is lost.
func (t *taking) resume(it *item) {
	h, r, since, out := t.shard.hub, t.o.Resume, &t.since, t.out
	name := it.id().String()
	n, byN := r.Seen[it.channel()][name]
	switch {
	case byN && r.Epoch != h.Epoch():
		out.lose(it.channel(), name, Lost{From: n + 1, Reason: "epoch_changed"})
		return
	case byN:
		t.resumeByN(it, h.Lookup(it.id(), it.tier().Delay), n)
		return
	case since.epoch == "":
		return
	case since.epoch != h.Epoch() || r.Epoch != h.Epoch():
		out.lose(it.channel(), name, Lost{Reason: "epoch_changed"})
		return
	case it.tier().Delay == 0 && since.For(0) > h.Newest(): // at a delay, the answer would reveal the position of real time
		out.lose(it.channel(), name, Lost{Reason: "ahead"})
		return
	}
	t.resumeByPosition(it)
}

// resumeByN continues an item after row n of its instrument.
func (t *taking) resumeByN(it *item, in *hub.Instrument, n uint64) {
	h, out := t.shard.hub, t.out
	out.Work.Resumed++
	last := h.LastCommitted(in.Recent(it.channel()))
	switch {
	case n > last && in.Delayed():
		// The row was sent live, before the right changed. Or it does not exist yet, and the answer
		// must not reveal that.
		out.resume(it.channel(), it.id().String(), n)
		var rows sent.Rows
		rows.Put(in.ID(), sent.To{N: n, HasN: true, By: h.Committed()})
		it.suppress(&rows)
		return
	case n > last:
		out.lose(it.channel(), it.id().String(), Lost{Reason: "ahead"})
		return
	}
	x := sent.To{N: n, HasN: true}
	// The instrument has no rows between the N and the position that a client states. If the client
	// stated no position, the position is not known until row n is found in the journal.
	if since := &t.since; since.epoch == h.Epoch() {
		delay := it.tier().Delay
		x.Safe = min(since.safe.For(delay), since.For(delay))
	}
	c := catchUp{it: it, out: out, at: h.Reached(it.tier().Delay), fresh: true, today: t.o.Today}
	c.behind(in, x)
	c.replay(t.wait.batch)
}

// resumeByPosition replays all rows after a position. These are the rows of one instrument, or of
// the instruments that a pattern covers and no other item of the set owns.
func (t *taking) resumeByPosition(it *item) {
	h, delay := t.shard.hub, it.tier().Delay
	pos := t.since.For(delay)
	c := catchUp{it: it, out: t.out, at: h.Reached(delay), fresh: true, complete: t.since.complete, known: true, today: t.o.Today}
	if pos > c.at { // the rows were sent at another delay
		var rows sent.Rows
		rows.PutPattern(sent.Pattern{ID: it.id(), Pos: pos})
		rows.Most = min(rows.Most, h.Committed()) // so that a position that no client received expires
		it.suppress(&rows)
	}
	covered := h.Covered(it.item())
	t.out.Work.Looked += len(covered)
	for in := range c.pieces(covered) {
		c.behind(in, sent.To{Pos: pos})
	}
	c.replay(t.wait.batch)
}

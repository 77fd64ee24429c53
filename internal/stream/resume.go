package stream

import (
	"errors"
	"slices"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// replay is the rows that an item sends before it continues with its ring. Rows in memory are views
// that were taken under the hub's lock. A view stays as it is while it is used, so a range that was
// promised is sent as a whole, however long that takes.
type replay struct {
	batches []*batch // subscribes that wait for its end
	old     []*old   // rows that only the journal has; they are sent first
	read    []part   // the rows that were read from the journal
	waits   bool     // it waits for the next of those
	holds   bool     // it counts in wait.holders: rows are read for it, or it has some
	stop    func()   // ends the reading; guarded by the hub's lock
	parts   []part
	spans   []span // sent after parts
	after   []kept // live messages that are sent after the rows, by position
	bytes   int    // size of the frames in after
}

// push appends a copy of a live message behind the rows.
func (r *replay) push(k kept) {
	rec := *k.rec
	k = kept{&rec, slices.Clone(k.frame)} // a copy, so that the segment can be freed
	r.after = append(r.after, k)
	r.bytes += len(k.frame)
}

// kept is a message that was taken out of its ring before it is sent.
type kept struct {
	rec   *record
	frame []byte
}

type part struct {
	in   *instrument
	n    uint64 // N of the next row
	rows [][]recent.Row
}

// batch is the replays of one Subscribe. Its message is sent when the last of them has ended.
type batch struct {
	left int
	end  ReplayEnd
}

// ReplayEnd is the framed messages that end the replays of one Subscribe. One of them is sent.
type ReplayEnd struct {
	Whole  []byte // all rows were sent
	Cut    []byte // some were not, because the client removed them from its set; nil: Whole is sent
	Failed []byte // some could not be read; this is sent at once, and nothing after it
}

// done ends a replay for its batches. whole reports whether all of its rows were sent.
func (r *replay) done(s *Subscriber, whole bool) {
	for _, b := range r.batches {
		if !whole && b.end.Cut != nil {
			b.end.Whole = b.end.Cut
		}
		b.left--
		if b.left == 0 {
			w := s.waiting()
			w.carry = append(w.carry, b.end.Whole...)
			b.end = ReplayEnd{}
		}
	}
	r.batches = nil
}

// fail reports to the batches, once, that some rows could not be read. They never send Whole.
func (r *replay) fail(s *Subscriber) {
	w := s.waiting()
	for _, b := range r.batches {
		w.carry = append(w.carry, b.end.Failed...)
		b.end = ReplayEnd{}
	}
}

// errGone reports that the journal no longer has rows that were promised.
var errGone = errors.New("rows are no longer kept")

// AfterReplay sends a message after the last row that the last Subscribe replays, or at once if it
// replays none. The frames are kept until then.
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
		t.out.resume(it.channel(), name, h.last(h.lookupItem(it.item()).Recent(it.channel())))
	}
}

func (o *Outcome) resume(c wire.Channel, name string, n uint64) {
	if o.Resumed[c] == nil {
		o.Resumed[c] = make(map[string]uint64)
	}
	o.Resumed[c][name] = n
}

func (o *Outcome) lose(c wire.Channel, name string, l Lost) {
	if o.Lost[c] == nil {
		o.Lost[c] = make(map[string]Lost)
	}
	o.Lost[c][name] = l
}

// resume has a new item continue where the client was, or reports what is lost.
func (t *taking) resume(it *item) {
	h, r, since, out := t.shard.hub, t.o.Resume, &t.since, t.out
	name := it.id().String()
	n, byN := r.Seen[it.channel()][name]
	switch {
	case byN && r.Epoch != h.epoch:
		out.lose(it.channel(), name, Lost{From: n + 1, Reason: "epoch_changed"})
		return
	case byN:
		t.resumeByN(it, h.lookupItem(it.item()), n)
		return
	case since.epoch == "":
		return
	case since.epoch != h.epoch || r.Epoch != h.epoch:
		out.lose(it.channel(), name, Lost{Reason: "epoch_changed"})
		return
	case it.tier().Delay == 0 && since.For(0) > h.position: // at a delay this would show how far real time is
		out.lose(it.channel(), name, Lost{Reason: "ahead"})
		return
	}
	t.resumeByPosition(it)
}

// resumeByN has an item continue behind row n of its instrument.
func (t *taking) resumeByN(it *item, in *instrument, n uint64) {
	h, out := t.shard.hub, t.out
	last := h.last(in.Recent(it.channel()))
	switch {
	case n > last && in.replica != nil:
		// It was sent live, before the right changed; or it does not exist yet, which must not show.
		out.resume(it.channel(), it.id().String(), n)
		sent := &sentRows{}
		sent.put(in.id, sentTo{n: n, hasN: true, by: h.committed})
		it.suppress(sent)
		return
	case n > last:
		out.lose(it.channel(), it.id().String(), Lost{Reason: "ahead"})
		return
	}
	x := sentTo{n: n, hasN: true}
	// Nothing of this instrument is between the N and the position that a client names. If it named no
	// position, none is known until row n was found in the journal.
	if since := &t.since; since.epoch == h.epoch {
		delay := it.tier().Delay
		x.safe = min(since.safe.For(delay), since.For(delay))
	}
	c := catchUp{it: it, out: out, at: h.reached(it.tier().Delay), fresh: true, today: t.o.Today}
	c.behind(in, x)
	c.replay(t.wait.batch)
}

// resumeByPosition replays everything after a position: of one instrument, or of all that a pattern
// covers and no other item of the set owns.
func (t *taking) resumeByPosition(it *item) {
	h, delay := t.shard.hub, it.tier().Delay
	pos := t.since.For(delay)
	c := catchUp{it: it, out: t.out, at: h.reached(delay), fresh: true, complete: t.since.complete, known: true, today: t.o.Today}
	if pos > c.at { // it was sent at another delay
		sent := &sentRows{}
		sent.putPattern(sentPattern{id: it.id(), pos: pos})
		sent.most = min(sent.most, h.committed) // a position that nobody was sent is forgotten then
		it.suppress(sent)
	}
	covered := h.covered(it.item())
	t.out.Looked += len(covered)
	for in := range c.pieces(covered) {
		c.behind(in, sentTo{pos: pos})
	}
	c.replay(t.wait.batch)
}

// next returns the next row of a replay, and steps over it; ok is false at the end.
func (r *replay) next(h *Hub, c wire.Channel) (in *instrument, n uint64, rw *recent.Row, ok bool) {
	if in, n, rw, ok = takeRow(&r.read); ok || len(r.old) > 0 {
		return in, n, rw, ok
	}
	if in, n, rw, ok = takeRow(&r.parts); ok || len(r.spans) == 0 {
		return in, n, rw, ok
	}
	r.view(h, c)
	return takeRow(&r.parts)
}

// takeRow returns the next row of a list of parts, and steps over it.
func takeRow(parts *[]part) (in *instrument, n uint64, rw *recent.Row, ok bool) {
	for len(*parts) > 0 {
		p := &(*parts)[0]
		for len(p.rows) > 0 && len(p.rows[0]) == 0 {
			p.rows = p.rows[1:]
		}
		if len(p.rows) > 0 {
			rw = &p.rows[0][0]
			n = p.n
			p.rows[0] = p.rows[0][1:]
			p.n++
			return p.in, n, rw, true
		}
		*parts = (*parts)[1:]
	}
	return nil, 0, nil, false
}

// position returns a position after which all unsent rows of the replay are.
func (r *replay) position() uint64 {
	low := ^uint64(0)
	if len(r.after) > 0 {
		low = r.after[0].rec.Position - 1
	}
	for _, parts := range [2][]part{r.read, r.parts} {
		for _, p := range parts {
			for _, c := range p.rows {
				if len(c) > 0 {
					low = min(low, c[0].Pos-1)
					break
				}
			}
		}
	}
	for _, o := range r.old {
		low = min(low, o.pos)
	}
	return min(low, r.spansPosition())
}

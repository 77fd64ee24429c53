package stream

import (
	"errors"
	"slices"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// replay is what an item sends again before it goes on with its ring. Its rows
// are views taken under the hub's lock: they stay while anyone looks at them, so
// that a gap which was promised is sent whole however long it takes.
type replay struct {
	batches []*batch // that wait for it
	old     []*old   // rows that only the journal has; they go out first
	read    []part   // of those, what was read
	waits   bool     // for the next of those
	holds   bool     // it is one of those of its subscriber that rows are read for, or that read is of
	stop    func()   // ends that reading; guarded by the hub's lock
	parts   []part
	spans   []span // go out behind the parts
	after   []kept // live messages that go out behind the rows, by position
	bytes   int    // of those
}

// push puts a copy of a live message behind the rows.
func (r *replay) push(k kept) {
	rec := *k.rec
	k = kept{&rec, slices.Clone(k.frame)} // the segment that it lies in can be freed
	r.after = append(r.after, k)
	r.bytes += len(k.frame)
}

// kept is a message that left its ring before it was gathered.
type kept struct {
	rec   *record
	frame []byte
}

type part struct {
	in   *instrument
	n    uint64 // of the next row
	rows [][]recent.Row
}

// batch is the replays of one Subscribe; when the last has ended, its message goes out.
type batch struct {
	left int
	end  ReplayEnd
}

// ReplayEnd is the framed messages that say how the replays of one Subscribe ended: one of them is sent.
type ReplayEnd struct {
	Whole  []byte // all rows were sent
	Cut    []byte // some were not, since the client took them out of its set; nil: as Whole
	Failed []byte // some could not be read; it goes out at once, and nothing behind it
}

// done tells the batches, once, that the rows have gone, or that the rest of them is not to come.
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

// fail tells the batches that some of the rows will not come: that they are caught up is not
// said, of each batch once.
func (r *replay) fail(s *Subscriber) {
	w := s.waiting()
	for _, b := range r.batches {
		w.carry = append(w.carry, b.end.Failed...)
		b.end = ReplayEnd{}
	}
}

// errGone says that the journal has not the rows that it had when they were promised.
var errGone = errors.New("rows are no longer kept")

// AfterReplay sends a message right after the last row that the last Subscribe replays; at once where
// it replays none. The frames are kept until then.
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

// resumed tells where an item stands that was there already.
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

// resume gives a fresh item of trades or status its replay, or says what is lost.
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
		// It was sent live, before a right fell; or it does not exist yet, which must not show.
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
	// A client that names both an N and a position has nothing of this instrument to come between
	// them. If it named no position, none is known until row n was found in the journal.
	if since := &t.since; since.epoch == h.epoch {
		delay := it.tier().Delay
		x.safe = min(since.safe.For(delay), since.For(delay))
	}
	c := catchUp{it: it, out: out, at: h.reached(it.tier().Delay), fresh: true, today: t.o.Today}
	c.behind(in, x)
	c.replay(t.wait.batch)
}

// resumeByPosition replays everything after a position: of one instrument, or of
// all that a pattern covers and no other item of the set does.
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

// next takes the next row of a replay; ok is false at its end.
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

// takeRow takes the next row of parts.
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

// position is a place that nothing unsent of the replay lies at or before.
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

package subscription

import (
	"iter"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/subscription/replay"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
)

// catchUp finds the rows that an item replays before it continues with its ring. These are the rows
// after those that the client has, up to a position. They are in memory or in the journal, or they
// are lost. The hub's lock is held.
type catchUp struct {
	it       *item
	out      *Outcome
	at       uint64                            // rows up to this position are replayed; later ones are in the ring
	fresh    bool                              // the item is new to the set: out gets the N at which its replay ends
	promised map[*hub.Instrument][]replay.Part // rows of replays that have ended; memory may not have them any more
	complete uint64                            // the journal has all rows after this position
	known    bool                              // complete is set
	today    bool                              // Options.Today

	parts []replay.Part
	older []*replay.Range
}

// pieces yields the instruments of a list that the item owns. It releases the hub's lock in
// between.
func (c *catchUp) pieces(list []*hub.Instrument) iter.Seq[*hub.Instrument] {
	return func(yield func(*hub.Instrument) bool) {
		h := c.it.sub.shard.hub
		for _, in := range list {
			if c.pause(); len(list) > 1 && len(c.parts) == cap(c.parts) { // grow without the lock
				h.Unlock()
				c.parts = slices.Grow(c.parts, max(hub.LockPiece, len(c.parts)))
				h.Lock()
			}
			if c.it.sub.owner(c.it.channel(), in.ID()) == c.it && !yield(in) {
				return
			}
		}
	}
}

// pause counts a visit, and releases the hub's lock for a short time if the present hold is full.
// Messages that are published meanwhile are in the ring.
func (c *catchUp) pause() {
	h := c.it.sub.shard.hub
	h.Step(4) // the rows of an instrument are searched too
}

// behind finds the rows of an instrument after those that the client has. Those that are not stored
// are lost, and the others are replayed. If the client may not replay some of the rows, all of them
// are lost.
func (c *catchUp) behind(in *hub.Instrument, x sent.To) {
	ch := c.it.channel()
	t := in.Recent(ch)
	first, last := t.First(), t.Seek(c.at)
	if x.N < last {
		for _, p := range c.promised[in] {
			c.parts = append(c.parts, p)
			x.N, x.HasN = p.N-1, true
			for _, rows := range p.Rows {
				x.N += uint64(len(rows))
			}
		}
	}
	stored := x.Pos < c.at && t.Dropped > x.Pos && x.N+1 < first // some rows are only in the journal
	n := max(t.Seek(x.Pos), x.N, first-1)
	if h := c.it.sub.shard.hub; c.today && (stored && h.Journal() != nil || n < last && h.IsHistory(in, t.TimeAfter(n))) {
		c.lose(in, x, last, "forbidden")
		return
	}
	if stored {
		o, lost := c.inJournal(in, x, first-1)
		if lost > 0 {
			c.lose(in, x, lost, "buffer_exceeded")
		}
		if o != nil {
			c.older = append(c.older, o)
		}
	}
	if c.fresh && !c.it.id().IsPattern() {
		c.out.resume(ch, in.ID().String(), last)
	}
	if n < last {
		c.parts = append(c.parts, replay.PartOf(in, t, n, last))
	}
}

// lose reports that the rows of an instrument after those of the client, up to N to, are not
// replayed.
func (c *catchUp) lose(in *hub.Instrument, x sent.To, to uint64, reason string) {
	l := Lost{To: to, Reason: reason}
	if x.HasN {
		l.From = x.N + 1
	}
	name := in.ID().String()
	if !c.fresh {
		name = string(c.it.channel().Append(nil, in.ID()))
	}
	c.out.lose(c.it.channel(), name, l)
}

// inJournal returns the rows of an instrument that follow those of the client, up to N to. Only the
// journal has these rows. lost is the N up to which rows are lost; 0: none are. Rows that are
// missing after it are found when the range is read.
func (c *catchUp) inJournal(in *hub.Instrument, x sent.To, to uint64) (o *replay.Range, lost uint64) {
	j := c.it.sub.shard.hub.Journal()
	if j == nil {
		return nil, to
	}
	ch := c.it.channel()
	o = &replay.Range{In: in, Series: in.Series(ch), N: x.N, To: to, Pos: x.Pos, Until: c.at}
	before, complete := min(j.Oldest(o.Series)-1, to), c.completeFrom(j)
	switch {
	case x.Exact:
	case x.HasN && x.Pos == 0:
		o.ByN = true
		if !c.it.id().IsPattern() { // a pattern resumes only by position
			o.Pos = x.Safe
		}
	case x.Pos < complete: // rows after N may have been sent too
		o.Seek, o.Open = true, !x.HasN
	default: // the missing rows were sent
		o.N, o.Seek = max(x.N, before), true
	}
	if o.N >= before || complete > j.Begins() {
		return o, 0
	}
	if o.N, o.Seek = before, false; before == to {
		o = nil
	}
	return o, before
}

// completeFrom returns the position after which the journal has all rows.
func (c *catchUp) completeFrom(j *journal.Journal) uint64 {
	if !c.known {
		c.complete, c.known = j.Complete(), true
	}
	return c.complete
}

// replay adds the rows that were found to the replay of the item. The batches end when the replay
// ends.
func (c *catchUp) replay(batches ...*batch) {
	if len(c.parts)+len(c.older) == 0 {
		return
	}
	l := c.it.behind()
	if l.replay == nil {
		l.replay = &itemReplay{}
	}
	r := l.replay
	r.Add(c.parts, c.older)
	for _, b := range batches {
		if !slices.Contains(r.batches, b) {
			b.begin(c.it.sub.waiting())
			r.batches = append(r.batches, b)
		}
	}
	c.it.sub.enqueue(c.it)
}

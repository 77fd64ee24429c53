package hub

import (
	"context"
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// load loads a replica with the state of one delay ago.
func (c *replica) load(ctx context.Context) {
	h := c.hub
	c.loader.Lock()
	defer c.loader.Unlock()
	if !c.is(replicaLoading) {
		return // another goroutine has loaded it
	}
	err := c.loadRows(ctx)
	if err != nil {
		if ctx.Err() == nil {
			h.log.Error("delayed data could not be loaded from the journal", "delay_seconds", c.seconds, "error", err)
		}
		c.drop()
	}
	h.mu.Lock()
	c.err, c.state = err, replicaReady
	if err != nil {
		c.state = replicaIdle
	}
	ended := c.endLoading()
	h.mu.Unlock()
	for _, w := range ended {
		w.Done()
	}
}

// loading is a replica that is being loaded. Its instruments have no readers.
type loading struct {
	hub   *Hub
	c     *replica
	table []*Instrument // by number in the journal
	pos   uint64        // position of the newest row
}

// loadRows makes the instruments of a replica, and applies the rows that are due. It returns an
// error if the journal cannot be read, or if ctx ends.
func (c *replica) loadRows(ctx context.Context) error {
	h := c.hub
	l := loading{hub: h, c: c}
	h.mu.Lock()
	clock := h.age()
	due, _ := c.times.Due(clock)
	h.mu.Unlock()
	c.virtual = make(map[uint32]bool)
	isDue := func(r *journal.Row) bool { return c.isDue(r, due, clock) }
	if err := h.cfg.Journal.StateUntil(ctx, isDue, l.begin, l.row); err != nil {
		return fmt.Errorf("find the state of a delay ago: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.position = l.pos
	for i, x := range l.table {
		if x == nil || x.Venue {
			continue
		}
		if err := h.refill(ctx, h.cfg.Journal, x, l.pos, len(l.table)-i); err != nil {
			return fmt.Errorf("read the rows of %s: %w", x.id, err)
		}
		h.mu.Step(1)
	}
	return nil
}

// begin makes the instruments, without state.
func (l *loading) begin() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	l.pos, l.table = 0, make([]*Instrument, len(h.numbered))
	for i := range l.table {
		in := h.numbered[i]
		if in == nil {
			continue
		}
		x := in.AtDelay(l.c.seconds)
		if x == nil {
			x = h.follower(in, l.c)
		}
		x.Instrument, x.channels, x.pos = x.Cleared(), [len(x.channels)]channel{}, 0
		h.setClock(x)
		l.table[i] = x
		h.mu.Step(1)
	}
}

// row applies a row of a checkpoint, or a later one.
func (l *loading) row(r *journal.Row) {
	if h := l.hub; r.Position > h.restored && l.pos <= h.restored && h.restored > 0 {
		h.mu.Lock()
		l.c.passRestart()
		h.mu.Unlock()
	}
	l.pos = max(l.pos, r.Position)
	if r.Kind != journal.Gap && int(r.Instrument) < len(l.table) && l.table[r.Instrument] != nil {
		l.hub.restoreRow(l.table[r.Instrument], r)
	}
}

// drop releases a replica without readers.
func (c *replica) drop() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.each(func(live, x *Instrument) {
		live.later = slices.DeleteFunc(slices.Clone(live.later), func(y *Instrument) bool { return y == x })
		h.memory.followers--
		x.Forget(&h.shared)
	})
	h.trading.Drop(c.seconds)
	c.position = 0
}

// follower adds the instrument of a replica that corresponds to a live one. The hub's lock is held.
func (h *Hub) follower(in *Instrument, c *replica) *Instrument {
	x := h.makeInstrument(in.Def, c)
	x.Ident, x.Number, x.handle, x.index = in.Ident.Delayed(c.delay), in.Number, in.handle, in.index
	in.later = append(in.later, x)
	h.memory.followers++
	return x
}

// followNew adds a new instrument to the replicas that are in use. The hub's lock is held.
func (h *Hub) followNew(in *Instrument) {
	for _, c := range h.replicas {
		if c.state != replicaIdle && in.AtDelay(c.seconds) == nil {
			h.follower(in, c)
		}
	}
}

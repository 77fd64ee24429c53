package hub

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/market"
)

// The goroutine of a replica loads it when it is needed, applies the rows that are due, and drops
// it when it is not used any more.

// AwaitDelay waits until the loading of the data at a delay in seconds has ended. The error is the
// cause of the end of ctx.
func (h *Hub) AwaitDelay(ctx context.Context, delay int) error {
	c := h.replica(delay)
	if c == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.awaitEpoch(ctx); err != nil {
		return err
	}
	return c.await(ctx)
}

// await loads a replica that is not ready, and waits until the loading has ended. The hub's lock is
// held, and released meanwhile. The error is the cause of the end of ctx.
func (c *replica) await(ctx context.Context) error {
	h := c.hub
	if c.used = h.clock(); c.state == replicaReady {
		return nil
	}
	c.begin()
	ended, own := c.ended, !h.jobs.Served()
	h.mu.Unlock()
	defer h.mu.Lock()
	if own {
		c.load(ctx)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run serves a replica until ctx ends.
func (c *replica) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		if wait := c.serve(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// endReplicas ends the wait for replicas that are no longer loaded.
func (h *Hub) endReplicas() {
	var ended []*readjob.Wait
	h.mu.Lock()
	for _, c := range h.replicas {
		if c.state == replicaLoading {
			c.state, c.err = replicaIdle, context.Canceled
			ended = append(ended, c.endLoading()...)
		}
	}
	h.mu.Unlock()
	for _, w := range ended {
		w.Done()
	}
}

// serve loads, advances or releases a replica. It returns the time until the next call, or 0 if the
// next call is needed only when the replica is woken.
func (c *replica) serve(ctx context.Context) (wait time.Duration) {
	h := c.hub
	h.mu.Lock()
	state := c.state
	unused := state == replicaReady && c.topics == 0 && c.pins == 0 && h.clock() >= c.used+replicaIdleTime
	if unused {
		c.state = replicaIdle
	}
	h.mu.Unlock()
	switch {
	case unused:
		c.drop()
		return 1 // it may have been needed again
	case state == replicaLoading:
		c.load(ctx)
	case state == replicaIdle:
		return 0
	}
	return c.advance(ctx)
}

// advance applies the rows that are due. It returns the time until the next call, or 0 if the next
// call is needed only when the replica is woken.
func (c *replica) advance(ctx context.Context) (wait time.Duration) {
	h := c.hub
	for {
		from, due, next, ok := c.dueRows()
		if !ok {
			return 0
		}
		if due > from || from < h.restored {
			if err := c.readDue(ctx, from, due); err != nil {
				if ctx.Err() == nil {
					h.log.Error("delayed data wait: the journal could not be read", "delay_seconds", c.seconds, "error", err)
				}
				return replicaRetry
			}
		}
		h.mu.Lock()
		behind, clock := c.position < max(due, h.restored), h.clock()
		switch {
		case behind && c.position > from: // there may be more
			h.mu.Unlock()
			continue
		case behind:
			wait = replicaPoll
		case next > 0:
			wait = max(replicaPiece, time.Duration(next-h.age()))
		default:
			c.quiet = h.position == c.position
			wait = replicaPoll
			if c.quiet {
				wait = 0
			}
		}
		if c.topics == 0 && c.pins == 0 {
			wait = sooner(wait, max(1, time.Duration(c.used+replicaIdleTime-clock)))
		}
		h.mu.Unlock()
		return wait
	}
}

// dueRows returns the position of a replica and the position up to which rows are due. next is the
// time at which more rows are due. ok is false if the replica is not loaded.
func (c *replica) dueRows() (from, due uint64, next int64, ok bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	due, next = c.times.Due(h.age())
	return c.position, due, next, c.state == replicaReady
}

// readDue reads the rows of the journal that are due and applies them.
func (c *replica) readDue(ctx context.Context, from, due uint64) error {
	h := c.hub
	c.batch, c.levels = c.batch[:0], c.levels[:0]
	h.mu.Lock()
	clock := h.age()
	h.mu.Unlock()
	more := false
	err := h.cfg.Journal.Scan(ctx, journal.ScanStart{Position: from}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
		if more = !c.isDue(r, due, clock); more {
			return false
		}
		c.keep(r)
		if len(c.batch) == replicaBatch {
			c.applyDue()
		}
		return true
	})
	c.applyDue()
	if err == nil && !more {
		h.mu.Lock()
		c.position = max(c.position, h.restored) // all rows before the restart are in the journal
		h.mu.Unlock()
	}
	return err
}

// keep copies a row to the batch. The batch reuses its memory.
func (c *replica) keep(r *journal.Row) {
	x := *r
	keep := func(list []market.Level) []market.Level {
		n := len(c.levels)
		c.levels = append(c.levels, list...)
		return c.levels[n:len(c.levels):len(c.levels)]
	}
	x.Bids, x.Asks, x.TradeDetails = keep(r.Bids), keep(r.Asks), r.TradeDetails.Clone()
	c.batch = append(c.batch, x)
}

// applyDue applies the rows of the batch, in pieces.
func (c *replica) applyDue() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	now := time.Now().UnixNano()
	for i := range c.batch {
		c.applyDelayed(&c.batch[i], now)
		if h.mu.Visit(1); (i+1)%publishPiece == 0 {
			h.wakeShards()
			h.mu.Pause()
		}
	}
	h.wakeShards()
	c.batch, c.levels = c.batch[:0], c.levels[:0]
}

// applyDelayed applies a row to a replica, and sets the position of the replica to that of the row.
// The hub's lock is held, and may be released in between.
func (c *replica) applyDelayed(r *journal.Row, now int64) {
	h := c.hub
	if r.Position <= c.position {
		return
	}
	if h.restored > 0 && c.position <= h.restored && r.Position > h.restored {
		c.passRestart()
	}
	if in := c.instrumentOf(r); in != nil {
		if r.Latency >= 0 {
			r.Latency = max(0, h.present()-r.Time)
		}
		in.pos = r.Position
		h.followClock(in, r, now)
		in.SkipLost(r, &h.shared)
		h.applyRow(in, r, now)
	}
	c.position = r.Position
}

// instrumentOf returns the instrument of a row in a replica. It returns nil for a gap, and for an
// unknown instrument.
func (c *replica) instrumentOf(r *journal.Row) *Instrument {
	h := c.hub
	if r.Kind == journal.Gap || int(r.Instrument) >= len(h.numbered) || h.numbered[r.Instrument] == nil {
		return nil
	}
	return h.numbered[r.Instrument].AtDelay(c.seconds)
}

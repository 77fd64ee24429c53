package hub

import (
	"context"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/wire"
)

// conflations are the intervals of conflated tiers, in milliseconds.
var conflations = [...]int{100, 250, 1000}

// clock has the conflated tiers of one interval that have changed. They are sent together, at whole
// multiples of the interval. A step of the wall clock does not delay them, because the hub's clock
// is monotonic.
type clock struct {
	due   int64 // by the hub's clock, ns; 0: no tier waits
	tiers []dirtyTier
	spare []dirtyTier // empty; memory for the tiers of the next interval
}

type dirtyTier struct {
	in      *Instrument
	channel wire.Channel
	tier    *tierState
}

const journalReaders = 2 // number of goroutines that read the journal for shards

// Run sends conflated tiers and bars when they are due, serves delayed data, reads old rows of the
// journal, and commits what was published. It returns nil when ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	if h.cfg.Journal != nil {
		var replicas sync.WaitGroup
		defer h.endReplicas()
		defer replicas.Wait()
		for _, c := range h.replicas {
			replicas.Go(func() { c.run(ctx) })
		}
		defer h.jobs.Start(ctx, journalReaders)()
		defer h.startCommits(ctx)()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.kick:
		case <-timer.C:
		}
		if wait := h.runClocks(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// runClocks sends what is due now, and returns how long to wait before the next call. It returns 0
// if the next call is needed only when the hub is woken.
func (h *Hub) runClocks() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	wait := h.sendDue(time.Now().UnixNano())
	h.published()
	return wait
}

// sendDue sends the conflated tiers that are due and the bars that have ended. It returns how long
// to wait before the next call. It returns 0 if the next call is needed only when the hub is woken.
func (h *sequencer) sendDue(now int64) (wait time.Duration) {
	clock := h.clock()
	for i := range h.clocks {
		c := &h.clocks[i]
		if c.due > 0 && c.due <= clock {
			h.flush(c, now)
		}
		if c.due > 0 {
			wait = sooner(wait, max(1, time.Duration(c.due-clock)))
		}
	}
	if h.trading.due > 0 && h.trading.due <= now {
		h.sendBars(now)
	}
	if h.trading.due > 0 {
		wait = sooner(wait, max(1, time.Duration(h.trading.due-now)))
	}
	wait = sooner(wait, h.measure(h.clock()))
	if h.commitDue != 0 {
		if left := h.commitDue - h.clock(); left > 0 {
			wait = sooner(wait, time.Duration(left))
		} else {
			h.commitNow()
		}
	}
	return wait
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (h *applier) flush(c *clock, now int64) {
	list := c.tiers
	c.tiers, c.spare, c.due = c.spare, nil, 0
	for i, d := range list {
		list[i] = dirtyTier{}
		h.tiers(d.in, d.channel) // updates the tiers: a tier without readers is no longer dirty
		if !d.tier.dirty {
			continue // it has no readers, or a whole book was sent
		}
		d.tier.dirty = false
		if d.channel == wire.Quotes {
			h.flushQuote(d.in, d.tier, now)
		} else {
			h.flushBook(d.in, d.tier, now)
		}
		h.stepPublishing()
	}
	c.spare = list[:0]
}

// markDirty schedules a conflated tier for the end of its interval. s is the time of the change.
func (h *applier) markDirty(in *Instrument, ch wire.Channel, t *tierState, s state.Stamp) {
	t.due = s
	if t.dirty {
		return
	}
	t.dirty = true
	for i, ms := range conflations {
		if ms != t.tier.Conflate {
			continue
		}
		c := &h.clocks[i]
		c.tiers = append(c.tiers, dirtyTier{in, ch, t})
		if c.due == 0 {
			interval := int64(ms) * 1e6
			clock := h.clock()
			c.due = clock - clock%interval + interval
			h.kickClock()
		}
	}
}

package hub

import (
	"context"
	"sync"
	"time"
)

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
	defer h.endOnPanic()
	wait := h.sendDue(h.now())
	h.published()
	ended, next := h.takeReached()
	h.mu.Unlock()
	for _, w := range ended {
		w.Done()
	}
	return sooner(wait, next)
}

// sendDue sends the conflated tiers that are due and the bars that have ended. It returns how long
// to wait before the next call. It returns 0 if the next call is needed only when the hub is woken.
func (h *sequencer) sendDue(now int64) (wait time.Duration) {
	clock := h.clock()
	h.conflated.Flush(clock, func(d dirtyTier) { h.flush(d, now) })
	wait = h.conflated.Next(clock)
	if due := h.trading.Due(); due > 0 && due <= now {
		h.sendBars(now)
	}
	if due := h.trading.Due(); due > 0 {
		wait = sooner(wait, max(1, time.Duration(due-now)))
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

// flush sends the newest state of a conflated tier.
func (h *applier) flush(d dirtyTier, now int64) {
	h.tiers(d.in, d.channel) // updates the tiers: a tier without readers is no longer dirty
	if !d.tier.Dirty {
		return // it has no readers, or a whole book was sent
	}
	if frame := h.encoder.Conflated(&d.in.Instrument, d.channel, &d.tier.State, now); frame != nil {
		h.emit(d.tier, frame, Record{Position: h.newest(d.in), N: d.in.Sequences[d.channel].N, At: now, Of: d.in})
	}
	h.stepPublishing()
}

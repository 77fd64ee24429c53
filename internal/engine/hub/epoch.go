package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/logage"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/state"
)

// A hub that follows another one can begin an epoch while it has readers. They leave after
// EndEpoch, and subscribe again in the new epoch. Positions rise over epochs.

// ErrHasRows means that a hub which has rows cannot begin an epoch at a position.
var ErrHasRows = errors.New("the hub has rows or readers, and begins this epoch only after a restart")

// ending is the end of an epoch. The hub's lock guards it.
type ending struct {
	over  chan struct{} // closed when the next epoch has begun; nil: no epoch ends
	waits []*readjob.Wait
}

const leavePoll = 2 * time.Millisecond // between two looks whether readers have left

// EndEpoch makes those wait that subscribe, until BeginEpoch returns.
func (h *Hub) EndEpoch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.over = make(chan struct{})
	}
}

// BeginEpoch begins an epoch of the log that this hub follows, in the hub and its journal, when all
// readers have left. position is that of the newest row before it. Instruments stay listed, without
// state. The error is ErrHasRows if ctx ends before that, if the hub has later rows, or if the
// journal has earlier rows of this epoch. Otherwise it is that of the journal.
func (h *Hub) BeginEpoch(ctx context.Context, epoch string, position uint64) error {
	h.EndEpoch()
	for {
		h.Commit()
		done, ended, err := h.tryEpoch(epoch, position)
		for _, w := range ended {
			w.Done()
		}
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return ErrHasRows
		case <-time.After(leavePoll):
		}
	}
}

// tryEpoch begins an epoch if all readers have left. It returns the waits that have ended.
func (h *Hub) tryEpoch(epoch string, position uint64) (done bool, ended []*readjob.Wait, err error) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.left() {
		return false, nil, nil
	}
	ended, err = h.beginEpoch(epoch, position)
	return true, ended, err
}

// left reports whether nothing waits to be written, only shards read the hub, and no replica is in
// use. It makes replicas leave. The hub's lock is held.
func (h *Hub) left() bool {
	left := !h.writing && !h.pending() && h.committed == h.position
	for key := range h.topics {
		if key.Channel != state.MarketStatus { // each shard reads that
			left = false
			break
		}
	}
	for _, c := range h.replicas {
		if c.state != replicaIdle || c.position > 0 {
			left, c.used = false, h.clock()-replicaIdleTime
			c.wake()
		}
	}
	return left
}

// awaitEpoch waits while an epoch ends. The error is the cause of the end of ctx. The hub's lock is
// held, and released meanwhile.
func (h *publisher) awaitEpoch(ctx context.Context) error {
	for h.over != nil {
		over := h.over
		h.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// beginEpoch does the work of BeginEpoch, and returns the waits that have ended. The hub's lock is
// held.
func (h *Hub) beginEpoch(epoch string, position uint64) (ended []*readjob.Wait, err error) {
	if position < h.position {
		return nil, ErrHasRows
	}
	if j := h.cfg.Journal; j != nil {
		if epoch != j.Epoch() && slices.Contains(j.Epochs(), epoch) {
			return nil, ErrHasRows // rows of the log would be in the journal twice
		}
		if err := j.BeginEpoch(epoch, position); err != nil {
			return nil, err
		}
	}
	h.epoch.Store(&epoch)
	h.position, h.committed, h.restored = position, position, position
	h.recent = nil
	h.trading.Drop(0)
	for _, in := range h.handles {
		h.renew(in)
	}
	clear(h.unlisted)
	for _, c := range h.replicas {
		c.times = logage.New(c.delay, max(sampleEvery, c.delay/samplesOfADelay))
	}
	h.version++
	for _, x := range h.reaches {
		ended = append(ended, x.wait)
	}
	ended, h.reaches = append(ended, h.waits...), nil
	close(h.over)
	h.ending = ending{}
	return ended, nil
}

// renew drops the state of an instrument.
func (h *Hub) renew(in *Instrument) {
	in.Forget(&h.shared)
	for c := range in.channels {
		for _, t := range in.channels[c].tiers {
			h.memory.covers -= int64(len(t.topics))
			t.topics, t.Dirty = nil, false
		}
	}
	in.source = nil
	in.Instrument, in.channels, in.pos = in.Cleared(), [len(in.channels)]channel{}, 0
	h.setClock(in)
}

// Continue begins the numbering of a hub without rows in an epoch, after a position. The error is
// ErrHasRows if it has rows.
func (h *Hub) Continue(epoch string, position uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.position > 0 {
		return ErrHasRows
	}
	h.epoch.Store(&epoch)
	h.position, h.committed, h.restored = position, position, position
	return nil
}

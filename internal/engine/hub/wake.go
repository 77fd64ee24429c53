package hub

import (
	"context"
	"slices"
)

// AwaitTurn waits until every shard has seen the messages that were published before the call. It
// does not wait for the newest messages. behind is their number. A feed that does not follow real
// time limits its rate with AwaitTurn. The error is the cause of the end of ctx.
func (h *publisher) AwaitTurn(ctx context.Context, behind uint64) error {
	h.mu.Lock()
	until := h.position - min(h.position, behind)
	for !h.takenUpTo(until) {
		if h.taken == nil {
			h.taken = make(chan struct{})
		}
		taken := h.taken
		h.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		h.mu.Lock()
	}
	h.mu.Unlock()
	return nil
}

// takenUpTo reports whether all shards have seen the messages up to a position. The hub's lock is
// held.
func (h *publisher) takenUpTo(pos uint64) bool {
	if pos > h.committed && h.unshown() {
		return false
	}
	for _, p := range h.ports {
		if len(p.touched) > 0 && p.position < pos {
			return false
		}
	}
	return true
}

// unshown reports whether topics have messages that are not committed. The hub's lock is held.
func (h *publisher) unshown() bool {
	return len(h.grown) > 0 || slices.ContainsFunc(h.parts, func(p part) bool { return len(p.marks) > 0 })
}

func (h *publisher) wakeShards() {
	for _, p := range h.ports {
		p.wakeIfTouched()
	}
}

func (p *Port) wakeIfTouched() {
	if !p.woken && (len(p.touched) > 0 || p.wakeDue()) {
		p.woken = true
		p.wake(p.deferred)
	}
}

func (p *Port) wakeUrgently() {
	if !p.urgent {
		p.urgent = true
		p.wake(true)
	}
}

// askReport requests a report at the shard's next turn.
func (p *Port) askReport() {
	p.report.Store(true)
	if !p.woken {
		p.woken = true
		p.wake(false)
	}
}

// ReportAsked reports whether the hub waits for a report of the shard. The caller does not need the
// lock.
func (p *Port) ReportAsked() bool { return p.report.Load() }

// Wake wakes the shard.
func (p *Port) Wake() { p.wake(false) }

// WakeAt wakes the shard when its readers at a delay in seconds have all rows up to a position.
// Without a delay these are the committed rows.
func (p *Port) WakeAt(delay int, pos uint64) {
	if first, ok := p.wakeAt[delay]; !ok || pos < first {
		p.wakeAt[delay] = pos
	}
}

// wakeDue reports whether a position that was given to WakeAt is reached.
func (p *Port) wakeDue() bool {
	for delay, pos := range p.wakeAt {
		if pos <= p.hub.reached(delay) {
			return true
		}
	}
	return false
}

// TakeWakes reports whether a position that was given to WakeAt is reached. If so, it drops all
// positions, and the caller calls WakeAt again for the remaining ones.
func (p *Port) TakeWakes() bool {
	due := p.wakeDue()
	if due {
		clear(p.wakeAt)
	}
	return due
}

// urgentBytes is the number of new bytes of one topic that wakes a shard with urgent. A shard does
// not delay them in order to write more at once.
const urgentBytes = 16 << 10

package hub

import "context"

// AwaitTurn waits until every shard has seen the messages that were published before the call. It
// does not wait for the newest messages; behind is the number of these. A feed that does not follow
// real time limits its rate with AwaitTurn. The error is the cause of the end of ctx.
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
	if pos > h.committed && len(h.grown)+len(h.marks) > 0 {
		return false
	}
	for _, p := range h.ports {
		if len(p.touched) > 0 && p.position < pos {
			return false
		}
	}
	return true
}

func (h *publisher) wakeShards() {
	for _, p := range h.ports {
		p.wakeIfTouched()
	}
}

package stream

import "context"

// AwaitTurn waits until every shard has seen all that was published until now, except for the newest
// messages, of which there may be as many as behind. A feed whose events are not bound to time uses it
// to limit its rate. The error is that of ctx.
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

// takenUpTo reports whether all shards have seen what was published up to a position.
func (h *publisher) takenUpTo(pos uint64) bool {
	if pos > h.committed && len(h.grown)+len(h.marks) > 0 {
		return false
	}
	for _, s := range h.shards {
		if len(s.touched) > 0 && s.position < pos {
			return false
		}
	}
	return true
}

func (h *publisher) wakeShards() {
	for _, s := range h.shards {
		s.wakeIfTouched()
	}
}

package hub

import "github.com/ruedahq/rueda/market"

// Interrupted publishes that events of the instruments may be missing, because another process ran
// the feeds until now. Each instrument gets a gap with the reason, and its book is stale until its
// next snapshot. If the log has numbers of an instrument's source, only its book is stale, because
// the source resumes where the other process ended.
func (h *Hub) Interrupted(reason string) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	now := h.now()
	for i := 0; i < len(h.handles); i++ {
		in := h.handles[i]
		if in.Venue {
			continue
		}
		if in.source != nil {
			h.loseBook(in, now, &market.Event{Reason: reason})
		} else {
			h.takeGap(in, now, &market.Event{Reason: reason})
		}
		h.published()
		h.stepPublishing()
	}
}

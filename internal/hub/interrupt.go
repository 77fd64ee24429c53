package hub

import (
	"time"

	"github.com/ruedahq/rueda/market"
)

// Interrupted publishes that events of the instruments may be missing, because another process ran
// the feeds until now. Each instrument gets a gap with the reason, and its book is stale until its
// next snapshot. Instruments that continues returns true for are left out: their feed resumes where
// the other process ended. A nil continues leaves out none.
func (h *Hub) Interrupted(reason string, continues func(market.InstrumentID) bool) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	now := time.Now().UnixNano()
	for i := 0; i < len(h.handles); i++ {
		in := h.handles[i]
		if in.Venue {
			continue
		}
		if continues != nil && continues(in.id) {
			in.unfed = false
			continue
		}
		h.takeGap(in, now, &market.Event{Reason: reason})
		h.published()
		h.stepPublishing()
	}
}

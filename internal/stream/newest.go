package stream

import "time"

// Clock is what time it is on a market: for one with a virtual clock the newest event time, and
// otherwise now.
func (h *Hub) Clock(name string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range h.listed {
		if in.id.Market == name && in.def.VirtualClock {
			return time.Unix(0, h.publication(in, time.Now().UnixNano()))
		}
		h.step()
	}
	return time.Now()
}

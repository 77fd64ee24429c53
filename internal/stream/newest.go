package stream

import "time"

// Newest is the N of the newest message of a channel of an instrument, as its readers under the item's
// delay have been told; 0 where there was none yet, or nothing is served under that delay.
func (h *Hub) Newest(x Item) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.lookupItem(x)
	if in == nil {
		return 0
	}
	return in.channels[x.Channel].n
}

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

package stream

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

// Commit has all that was published until now found in the journal.
func (h *Hub) Commit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
}

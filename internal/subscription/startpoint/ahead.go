package startpoint

import (
	"slices"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/wire"
)

// AwaitAhead returns a Search that ends when the hub has the rows that a resume says the client
// has, or some seconds later. pos is the position of the resume in an epoch. AwaitAhead returns nil
// if there is nothing to wait for: only a hub that follows another one can be behind its clients.
func AwaitAhead(h *hub.Port, r *wire.Resume, epoch string, pos uint64, items []hub.Item, found func()) *Search {
	if r == nil || found == nil || !hub.Follows(h) || r.Epoch != h.Epoch() {
		return nil
	}
	if epoch != h.Epoch() || !slices.ContainsFunc(items, func(x hub.Item) bool { return x.Tier.Delay == 0 }) {
		pos = 0
	}
	var seen []aheadOf
	for _, x := range items {
		if n, ok := r.Seen[x.Channel][x.ID.String()]; ok && x.Tier.Delay == 0 && !x.ID.IsPattern() {
			seen = append(seen, aheadOf{x, n})
		}
	}
	ahead := func() bool {
		if h.Committed() < pos {
			return true
		}
		for len(seen) > 0 {
			in := h.Lookup(seen[0].ID, 0)
			if in != nil && h.LastCommitted(in.Recent(seen[0].Channel)) < seen[0].n {
				return true
			}
			seen = seen[1:] // it stays so
		}
		return false
	}
	if w := hub.AwaitRows(h, ahead, found); w != nil {
		return Await(w)
	}
	return nil
}

// aheadOf is an N that a client states.
type aheadOf struct {
	hub.Item
	n uint64
}

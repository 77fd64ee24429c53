package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/subscription/startpoint"
)

// awaitAhead returns a Search that ends when the hub has the rows that a resume says the client
// has, or some seconds later. It returns nil if there is nothing to wait for: only a hub that
// follows another one can be behind its clients.
func (t *taking) awaitAhead(items []hub.Item) *Search {
	r, h := t.o.Resume, t.shard.hub
	if r == nil || t.o.Search != nil || t.o.Found == nil || !h.Follows() || r.Epoch != h.Epoch() {
		return nil
	}
	var pos uint64
	if t.since.epoch == h.Epoch() && slices.ContainsFunc(items, func(x hub.Item) bool { return x.Tier.Delay == 0 }) {
		pos = t.since.For(0)
	}
	seen := make([]aheadOf, 0, len(items))
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
	if w := h.AwaitRows(ahead, t.o.Found); w != nil {
		return startpoint.Await(w)
	}
	return nil
}

// aheadOf is an N that a client states.
type aheadOf struct {
	hub.Item
	n uint64
}

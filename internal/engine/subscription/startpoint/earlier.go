package startpoint

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

// needsEarlier returns a fault if a resume asks for rows of days that the journal of this node does
// not have yet. Other nodes have them. The arguments are those of NewAhead.
func needsEarlier(h *hub.Port, r *wire.Resume, epoch string, at func(delay int) uint64, items []hub.Item) *wire.Fault {
	j := h.Journal()
	if j == nil || len(j.Earlier()) == 0 {
		return nil
	}
	h.Lock()
	defer h.Unlock()
	begins := j.Begins()
	for _, x := range items {
		h.Step(1)
		if !x.Channel.Replays() {
			continue
		}
		n, byN := r.Seen[x.Channel][x.ID.String()]
		switch in := h.Lookup(x.ID, 0); {
		case byN && in != nil && n+1 < j.Oldest(in.Series(x.Channel)), !byN && epoch == h.Epoch() && at(x.Tier.Delay) < begins:
			return earlierFault()
		}
	}
	return nil
}

// earlierFault returns the fault of a client that asks for rows of days that are still missing.
func earlierFault() *wire.Fault {
	return &wire.Fault{
		Reason: wire.Overloaded, Msg: "This server is new and does not have all earlier days yet",
		Hint: "Reconnect and ask again: another server may have them", RetryAfter: 1,
	}
}

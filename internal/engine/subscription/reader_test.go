package subscription_test

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
)

// lookup returns a listed instrument.
func lookup(h *hub.Hub, id market.InstrumentID) (in *hub.Instrument) {
	peek(h, id, func(x *hub.Instrument) { in = x })
	return in
}

// peek calls f with a listed instrument while it holds the hub's lock.
func peek(h *hub.Hub, id market.InstrumentID, f func(in *hub.Instrument)) {
	p := h.NewPort(func(bool) {})
	p.Lock()
	defer p.Unlock()
	f(p.Lookup(id, 0))
}

// idOf returns the identifier of a handle of a hub without markets as a whole.
func idOf(h *hub.Hub, hd market.Handle) market.InstrumentID {
	list, _ := h.Instruments()
	return list[hd].ID
}

// newest returns the position of the newest row.
func newest(sh *subscription.Shard) uint64 {
	sh.Port().Lock()
	defer sh.Port().Unlock()
	return sh.Port().Newest()
}

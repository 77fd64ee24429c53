package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// MaxPatterns limits the patterns of a subscriber, because the search for the owner of an
// instrument visits all of them.
const MaxPatterns = 64

// maxHints limits the unknown identifiers of a message for which a similar identifier is searched.
const maxHints = 10

// noMemory is the hint of an item that is refused because the memory is full.
const noMemory = "The server's memory for the stream is full; use a depth and conflation that others use, or try later"

// accept returns the items that may be subscribed, and the others as rejected. It accepts an exact
// item only if its instrument is listed. It accepts a pattern if its market is known, because a
// pattern also covers later listings. The hub's lock is not held.
func (t *taking) accept(items []hub.Item) (taken []hub.Item, rejected []Rejected) {
	h := t.shard.hub
	patterns := len(t.patterns())
	if t.o.Replace {
		patterns = 0
	}
	hints := 0
	taken = make([]hub.Item, 0, len(items))
	reject := func(x hub.Item, reason wire.Reason, hint string) {
		if rejected == nil {
			rejected = make([]Rejected, 0, len(items)-len(taken))
		}
		rejected = append(rejected, Rejected{x, reason, hint})
	}
	for _, x := range items {
		t.o.visit(1)
		if !t.Serves(x.Tier.Delay) {
			reject(x, wire.NotEntitled, "Data at your delay are not served here")
			continue
		}
		if !h.Ready(x.Tier.Delay) {
			reject(x, wire.Unavailable, "Data at your delay could not be read; try later")
			continue
		}
		if x.ID.IsPattern() {
			if _, ok := h.Catalogue().Market(x.ID.Market); !ok && x.ID.Market != market.Any {
				reject(x, wire.UnknownInstrument, "No market "+x.ID.Market+" is listed; see GET /market/markets")
				continue
			}
			if !t.Has(x.Channel, x.ID) || t.o.Replace {
				patterns++
			}
			if patterns > MaxPatterns {
				reject(x, wire.SubscriptionLimit, "A connection holds at most 64 patterns")
				continue
			}
			if !h.MayAdd(x) {
				reject(x, wire.SubscriptionLimit, noMemory)
				continue
			}
			taken = append(taken, x)
			continue
		}
		listed, book := h.Catalogue().HasBook(x.ID)
		if !listed {
			hint := "See GET /market/instruments"
			if hints++; hints <= maxHints {
				t.out.Work.Hints++
				if near, ok := h.Catalogue().Suggest(x.ID); ok {
					hint = "Did you mean " + near.String() + "?"
				}
			}
			reject(x, wire.UnknownInstrument, hint)
			continue
		}
		if x.Channel == wire.OrderBook && !book {
			reject(x, wire.UnknownChannel, "This instrument has no order book")
			continue
		}
		if !h.MayAdd(x) {
			reject(x, wire.SubscriptionLimit, noMemory)
			continue
		}
		taken = append(taken, x)
	}
	return taken, rejected
}

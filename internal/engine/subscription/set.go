package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

type itemKey struct {
	channel wire.Channel
	id      market.InstrumentID
}

// itemSet has the identifiers of a subscriber.
type itemSet struct {
	items []*item // in the order in which they were added
	set   *set    // nil: few items, all of them exact, of a hub without delays
}

// set has the parts of an itemSet that only sets with many identifiers or with patterns need, or
// those of a hub with delays.
type set struct {
	index    map[itemKey]*item // nil: few items, which are searched one by one
	patterns []*item
	noticed  map[noticeKey]uint64 // N of the newest notice of an instrument that was sent as an echo

	noticedBytes int    // memory that is counted for noticed
	rights       uint64 // of the client; see Subscriber.SetRights
}

// Len returns the number of identifiers in the set.
func (s *itemSet) Len() int { return len(s.items) }

// Has reports whether an identifier is in the set, as the client wrote it.
func (s *itemSet) Has(c wire.Channel, id market.InstrumentID) bool { return s.find(c, id) != nil }

// manyItems is the largest size of a set without an index.
const manyItems = 16

func (s *itemSet) find(c wire.Channel, id market.InstrumentID) *item {
	if s.set != nil && s.set.index != nil {
		return s.set.index[itemKey{c, id}]
	}
	for _, it := range s.items {
		if it.view.key.Channel == c && it.view.key.ID == id {
			return it
		}
	}
	return nil
}

// patterns returns the items with a wildcard, in the order in which they were added.
func (s *itemSet) patterns() []*item {
	if s.set == nil {
		return nil
	}
	return s.set.patterns
}

// pattern returns the first pattern of a channel that covers id.
func (s *itemSet) pattern(c wire.Channel, id market.InstrumentID) *item {
	for _, it := range s.patterns() {
		if it.channel() == c && it.id().Matches(id) {
			return it
		}
	}
	return nil
}

// owner returns the item that sends a channel of an instrument: the exact one, or the first pattern
// that covers it.
func (s *itemSet) owner(c wire.Channel, id market.InstrumentID) *item {
	if it := s.find(c, id); it != nil && it.reads() {
		return it
	}
	return s.pattern(c, id)
}

// covering returns the pattern of the same tier that sends the messages of an exact item, or nil.
func (s *itemSet) covering(x hub.Item) *item {
	if x.ID.IsPattern() {
		return nil
	}
	if p := s.pattern(x.Channel, x.ID); p != nil && p.tier() == x.Tier {
		return p
	}
	return nil
}

// replaced returns the items of the set that are not in a list. It calls visit for each item of the
// list and of the set.
func (s *itemSet) replaced(items []hub.Item, visit func(n int)) (gone []*item) {
	keep := make(map[itemKey]bool, len(items))
	for _, x := range items {
		keep[itemKey{x.Channel, x.ID}] = true
		visit(1)
	}
	for _, it := range s.items {
		if !keep[it.key()] {
			gone = append(gone, it)
		}
		visit(1)
	}
	return gone
}

// overlaps marks an item that begins to read, and the patterns that may share instruments with it.
// rearrange removes the marks that are not needed.
func (s *itemSet) overlaps(it *item) {
	if !it.reads() {
		return
	}
	for _, p := range s.patterns() {
		switch {
		case p == it || p.channel() != it.channel() || !catalogue.Overlap(p.id(), it.id()):
		case it.id().IsPattern():
			p.flag |= overlap
			it.flag |= overlap
		default:
			p.flag |= overlap
		}
	}
}

func (s *itemSet) more() *set {
	if s.set == nil {
		s.set = &set{}
	}
	return s.set
}

// List returns the items of a channel, in the order in which they were added.
func (s *itemSet) List(c wire.Channel) []hub.Item {
	var list []hub.Item
	for _, it := range s.items {
		if it.channel() == c {
			list = append(list, it.item())
		}
	}
	return list
}

// All yields all items, in the order in which they were added.
func (s *itemSet) All(yield func(hub.Item) bool) {
	for _, it := range s.items {
		if !yield(it.item()) {
			return
		}
	}
}

// Count returns the number of instruments that the items of a channel cover.
func (s *Subscriber) Count(c wire.Channel) (n int) {
	h := s.shard.hub
	var covered catalogue.Set
	h.Lock()
	patterns := false
	for _, it := range s.patterns() {
		if it.channel() == c {
			patterns = true
			h.Unite(&covered, it.id())
		}
	}
	if c == wire.OrderBook {
		h.KeepBooks(covered)
	}
	h.Unlock()
	for _, it := range s.items {
		switch {
		case it.channel() != c || it.id().IsPattern():
		case !patterns:
			n++
		default:
			if i, ok := h.Catalogue().Index(it.id()); ok {
				covered.Add(uint32(i))
			}
		}
	}
	return n + covered.Count()
}

// hasState reports whether a channel has snapshots.
func hasState(c wire.Channel) bool { return c == wire.Status || !c.Replays() }

func without(list []*item, it *item) []*item {
	if i := slices.Index(list, it); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

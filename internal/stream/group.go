package stream

import (
	"slices"

	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/market"
)

// A group is the listed instruments that an identifier covers, as they are told under a delay. It
// is found once, without the hub's lock, and grows with the catalogue.
type group struct {
	members []*instrument // in the order of listing; only appended to
	set     catalogue.Set // the same
	topics  int           // that take their messages
}

type groupKey struct {
	id    market.InstrumentID
	delay int // seconds
}

// groups finds the instruments that an identifier covers. Everything in it is guarded by the hub's lock.
type groups struct {
	byPattern                  map[groupKey]*group
	bySymbol, byMarket, byTerm map[string][]*instrument
	withBook                   catalogue.Set
}

// maxIdleGroups bounds the groups of patterns that nobody reads.
const maxIdleGroups = 512

// enterGroups puts an instrument that is listed into the groups that cover it.
func (h *Hub) enterGroups(in *instrument) {
	g := &h.groups
	if g.bySymbol == nil {
		g.bySymbol, g.byMarket, g.byTerm = make(map[string][]*instrument), make(map[string][]*instrument), make(map[string][]*instrument)
	}
	g.noteBook(in)
	g.bySymbol[in.id.Symbol] = append(g.bySymbol[in.id.Symbol], in)
	g.byMarket[in.id.Market] = append(g.byMarket[in.id.Market], in)
	g.byTerm[in.id.Term] = append(g.byTerm[in.id.Term], in)
	for s := range catalogue.NumShapes {
		h.byPattern[groupKey{s.Pattern(in.id), 0}].add(in)
		for _, x := range in.later {
			h.byPattern[groupKey{s.Pattern(in.id), x.delay()}].add(x)
		}
	}
}

// add appends an instrument; there may be no group.
func (g *group) add(in *instrument) {
	if g != nil && in != nil {
		g.members = append(g.members, in)
		g.set.Add(in.index)
	}
}

// noteBook notes whether an instrument has an order book.
func (g *groups) noteBook(in *instrument) {
	g.withBook.Add(in.index)
	if in.Def.NoBook {
		g.withBook.Remove(in.index)
	}
}

// group finds or makes the group of an identifier. That of a pattern may take long to make: see prepare.
// The hub's lock is held.
func (h *Hub) group(key groupKey) *group {
	if !key.id.IsPattern() {
		g := &group{}
		if in := h.lookup(key.id); in != nil {
			g.add(in.under(key.delay))
		}
		return g
	}
	if g := h.byPattern[key]; g != nil {
		return g
	}
	list := h.candidates(key.id)
	h.mu.visit(len(list))
	return h.putGroup(key, key.members(nil, list))
}

// candidates are the listed instruments among which those are that a pattern covers. The list is
// only appended to.
func (h *Hub) candidates(id market.InstrumentID) []*instrument {
	list := h.listed
	for _, x := range [...]struct {
		word  string
		index map[string][]*instrument
	}{{id.Symbol, h.bySymbol}, {id.Market, h.byMarket}, {id.Term, h.byTerm}} {
		if some := x.index[x.word]; x.word != market.Any && len(some) < len(list) {
			list = some
		}
	}
	return list
}

// members appends those of a list that a group has. The hub's lock is held.
func (k groupKey) members(dst, list []*instrument) []*instrument {
	n := len(dst)
	dst = k.matching(dst, list)
	for i := n; i < len(dst); i++ {
		dst[i] = dst[i].under(k.delay)
	}
	return slices.DeleteFunc(dst, func(x *instrument) bool { return x == nil })
}

// matching appends those of a list that the identifier of a group covers. It needs no lock.
func (k groupKey) matching(dst, list []*instrument) []*instrument {
	for _, in := range list {
		if k.id.Matches(in.id) {
			dst = append(dst, in)
		}
	}
	return dst
}

func (h *Hub) putGroup(key groupKey, members []*instrument) *group {
	if h.byPattern == nil {
		h.byPattern = make(map[groupKey]*group)
	}
	if len(h.byPattern) >= maxIdleGroups {
		h.dropIdleGroups()
	}
	g := &group{members: members}
	for _, in := range members {
		g.set.Add(in.index)
	}
	h.byPattern[key] = g
	return g
}

// dropIdleGroups lets go of groups that nobody reads.
func (h *Hub) dropIdleGroups() {
	for key, g := range h.byPattern {
		if g.topics == 0 {
			delete(h.byPattern, key)
		}
	}
}

// prepare makes the groups of patterns that are not there yet, without holding the hub's lock for
// long. The lock is not held.
func (h *Hub) prepare(items []Item) {
	for _, x := range items {
		if x.ID.IsPattern() {
			h.prepareGroup(groupKey{x.ID, x.Tier.Delay})
		}
	}
}

func (h *Hub) prepareGroup(key groupKey) {
	h.mu.Lock()
	had := h.byPattern[key] != nil
	list, listed := h.candidates(key.id), len(h.listed)
	h.mu.Unlock()
	if had {
		return
	}
	members := key.matching(nil, list)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range members {
		members[i] = members[i].under(key.delay)
		h.step()
	}
	if h.byPattern[key] == nil {
		h.putGroup(key, key.members(members, h.listed[listed:])) // and those listed meanwhile
	}
}

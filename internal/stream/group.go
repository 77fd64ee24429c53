package stream

import (
	"slices"

	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/market"
)

// group has the listed instruments that an identifier covers, at a delay. It is found once, without
// the hub's lock, and grows with the catalogue.
type group struct {
	members []*instrument // in the order of listing; only appended to
	set     catalogue.Set // the same
	topics  int           // that take their messages
}

type groupKey struct {
	id    market.InstrumentID
	delay int // seconds
}

// groups finds the instruments that an identifier covers. The hub's lock guards it.
type groups struct {
	byPattern                  map[groupKey]*group
	bySymbol, byMarket, byTerm map[string][]*instrument
	withBook                   catalogue.Set
}

func newGroups() groups {
	return groups{
		byPattern: make(map[groupKey]*group), bySymbol: make(map[string][]*instrument),
		byMarket: make(map[string][]*instrument), byTerm: make(map[string][]*instrument),
	}
}

// maxIdleGroups bounds the groups of patterns that nobody reads.
const maxIdleGroups = 512

// enterGroups adds a listed instrument to the groups that cover it.
func (d *directory) enterGroups(in *instrument) {
	g := &d.groups
	g.noteBook(in)
	g.bySymbol[in.id.Symbol] = append(g.bySymbol[in.id.Symbol], in)
	g.byMarket[in.id.Market] = append(g.byMarket[in.id.Market], in)
	g.byTerm[in.id.Term] = append(g.byTerm[in.id.Term], in)
	for s := range catalogue.NumShapes {
		d.byPattern[groupKey{s.Pattern(in.id), 0}].add(in)
		for _, x := range in.later {
			d.byPattern[groupKey{s.Pattern(in.id), x.delay()}].add(x)
		}
	}
}

// add adds an instrument to a group. Both may be nil.
func (g *group) add(in *instrument) {
	if g != nil && in != nil {
		g.members = append(g.members, in)
		g.set.Add(in.index)
	}
}

// noteBook records whether an instrument has an order book.
func (g *groups) noteBook(in *instrument) {
	g.withBook.Add(in.index)
	if in.Def.NoBook {
		g.withBook.Remove(in.index)
	}
}

// group returns the group of an identifier. That of a pattern may take long to make: see prepare. The
// hub's lock is held.
func (d *directory) group(key groupKey) *group {
	if !key.id.IsPattern() {
		g := &group{}
		if in := d.lookup(key.id); in != nil {
			g.add(in.under(key.delay))
		}
		return g
	}
	if g := d.byPattern[key]; g != nil {
		return g
	}
	list := d.candidates(key.id)
	d.mu.visit(len(list))
	return d.putGroup(key, key.members(nil, list))
}

// candidates returns listed instruments that include all those a pattern covers. The list is only
// appended to.
func (d *directory) candidates(id market.InstrumentID) []*instrument {
	list := d.listed
	for _, x := range [...]struct {
		word  string
		index map[string][]*instrument
	}{{id.Symbol, d.bySymbol}, {id.Market, d.byMarket}, {id.Term, d.byTerm}} {
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

func (d *directory) putGroup(key groupKey, members []*instrument) *group {
	if len(d.byPattern) >= maxIdleGroups {
		d.dropIdleGroups()
	}
	g := &group{members: members}
	for _, in := range members {
		g.set.Add(in.index)
	}
	d.byPattern[key] = g
	return g
}

// dropIdleGroups releases groups that nobody reads.
func (d *directory) dropIdleGroups() {
	for key, g := range d.byPattern {
		if g.topics == 0 {
			delete(d.byPattern, key)
		}
	}
}

// prepare makes the missing groups of patterns, without holding the hub's lock for long. The caller
// does not hold it.
func (d *directory) prepare(items []Item) {
	for _, x := range items {
		if x.ID.IsPattern() {
			d.prepareGroup(groupKey{x.ID, x.Tier.Delay})
		}
	}
}

func (d *directory) prepareGroup(key groupKey) {
	d.mu.Lock()
	had := d.byPattern[key] != nil
	list, listed := d.candidates(key.id), len(d.listed)
	d.mu.Unlock()
	if had {
		return
	}
	members := key.matching(nil, list)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range members {
		members[i] = members[i].under(key.delay)
		d.mu.step()
	}
	if d.byPattern[key] == nil {
		d.putGroup(key, key.members(members, d.listed[listed:])) // and those listed meanwhile
	}
}

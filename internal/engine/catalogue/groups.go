package catalogue

import "github.com/ruedahq/rueda/market"

// Listed is a listed instrument.
type Listed interface {
	ID() market.InstrumentID
	Index() uint32 // in the catalogue
}

// Groups finds the instruments that identifiers cover. The zero Groups is empty. It is not locked;
// the caller must guard it.
type Groups[T Listed] struct {
	all                        []T // by index in the catalogue
	byPattern                  map[market.InstrumentID]*Group[T]
	bySymbol, byMarket, byTerm map[string][]T
}

// Group has the listed instruments that an identifier covers. It grows with the catalogue.
type Group[T Listed] struct {
	Members []T // in the order of listing; it is only appended to
	Set     Set // Members as a set; empty if the identifier is not a pattern
	Readers int // the group of a pattern with readers is kept
}

// maxIdle limits the groups of patterns that nobody reads.
const maxIdle = 512

// Add adds an instrument that is listed, whose index follows the last one.
func (g *Groups[T]) Add(x T) {
	if g.bySymbol == nil {
		g.bySymbol, g.byMarket, g.byTerm = make(map[string][]T), make(map[string][]T), make(map[string][]T)
	}
	id := x.ID()
	g.all = append(g.all, x)
	g.bySymbol[id.Symbol] = append(g.bySymbol[id.Symbol], x)
	g.byMarket[id.Market] = append(g.byMarket[id.Market], x)
	g.byTerm[id.Term] = append(g.byTerm[id.Term], x)
	for s := range NumShapes {
		if p := g.byPattern[s.Pattern(id)]; p != nil {
			p.add(x)
		}
	}
}

func (g *Group[T]) add(x T) {
	g.Members = append(g.Members, x)
	g.Set.Add(x.Index())
}

// All returns all instruments by index. The result is only appended to.
func (g *Groups[T]) All() []T { return g.all }

// Find returns the group of a pattern, or nil if Make was not called for it.
func (g *Groups[T]) Find(id market.InstrumentID) *Group[T] { return g.byPattern[id] }

// Candidates returns instruments that include all those a pattern covers. The result is only
// appended to. Matching finds those that are covered.
func (g *Groups[T]) Candidates(id market.InstrumentID) []T {
	list := g.all
	for _, x := range [...]struct {
		word  string
		index map[string][]T
	}{{id.Symbol, g.bySymbol}, {id.Market, g.byMarket}, {id.Term, g.byTerm}} {
		if some := x.index[x.word]; x.word != market.Any && len(some) < len(list) {
			list = some
		}
	}
	return list
}

// Matching appends those of a list that an identifier covers.
func Matching[T Listed](dst, list []T, id market.InstrumentID) []T {
	for _, x := range list {
		if id.Matches(x.ID()) {
			dst = append(dst, x)
		}
	}
	return dst
}

// Make makes the group of a pattern, with the members that it has.
func (g *Groups[T]) Make(id market.InstrumentID, members []T) *Group[T] {
	if len(g.byPattern) >= maxIdle {
		for id, p := range g.byPattern {
			if p.Readers == 0 {
				delete(g.byPattern, id)
			}
		}
	}
	p := &Group[T]{Members: members}
	for _, x := range members {
		p.Set.Add(x.Index())
	}
	if g.byPattern == nil {
		g.byPattern = make(map[market.InstrumentID]*Group[T])
	}
	g.byPattern[id] = p
	return p
}

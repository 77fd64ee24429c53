package catalogue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

type listed struct {
	id    market.InstrumentID
	index uint32
}

func (x *listed) ID() market.InstrumentID { return x.id }
func (x *listed) Index() uint32           { return x.index }

// TestGroupsModel compares groups with a walk through all instruments, while the catalogue grows.
func TestGroupsModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(words ...string) string { return words[rng.IntN(len(words))] }
	var g Groups[*listed]
	var all []*listed
	for i := range uint32(500) {
		x := &listed{market.InstrumentID{Symbol: word("A", "B", "C", "D"), Market: word("M", "N"), Term: word("CI", "24hs")}, i}
		g.Add(x)
		all = append(all, x)
		id := market.InstrumentID{Symbol: word("A", "B", "*"), Market: word("M", "N", "*"), Term: word("CI", "24hs", "*")}
		if !id.IsPattern() {
			continue
		}
		if g.Find(id) == nil {
			g.Make(id, Matching(nil, g.Candidates(id), id))
		}
		want := slices.DeleteFunc(slices.Clone(all), func(x *listed) bool { return !id.Matches(x.id) })
		p := g.Find(id)
		if !slices.Equal(p.Members, want) || p.Set.Count() != len(want) || slices.ContainsFunc(want, func(x *listed) bool { return !p.Set.Has(x.index) }) {
			t.Fatalf("%v has %d of %d members, and %d in its set", id, len(p.Members), len(want), p.Set.Count())
		}
	}
	if !slices.Equal(g.All(), all) {
		t.Errorf("%d instruments, want %d", len(g.All()), len(all))
	}
}

// TestIdleGroupsGo checks that only so many groups that nobody reads are kept.
func TestIdleGroupsGo(t *testing.T) {
	var g Groups[*listed]
	kept := market.InstrumentID{Symbol: "*", Market: "*", Term: "*"}
	g.Make(kept, nil).Readers = 1
	for i := range 3 * maxIdle {
		g.Make(market.InstrumentID{Symbol: "*", Market: string(rune('A' + i)), Term: "CI"}, nil)
	}
	if len(g.byPattern) > maxIdle || g.Find(kept) == nil {
		t.Errorf("%d groups, that with a reader is %v", len(g.byPattern), g.Find(kept))
	}
}

// TestSetModel compares a set with a map.
func TestSetModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b Set
	x, y := map[uint32]bool{}, map[uint32]bool{}
	for range 200 {
		i, k := rng.Uint32N(300), rng.Uint32N(500)
		a.Add(i)
		b.Add(k)
		x[i], y[k] = true, true
	}
	for range 50 {
		i := rng.Uint32N(600)
		a.Remove(i)
		delete(x, i)
	}
	both, either := slices.Clone(a), slices.Clone(a)
	both.Intersect(b)
	either.Unite(b)
	n := 0
	for i := range uint32(600) {
		if a.Has(i) != x[i] || both.Has(i) != (x[i] && y[i]) || either.Has(i) != (x[i] || y[i]) {
			t.Fatalf("member %d", i)
		}
		if x[i] && y[i] {
			n++
		}
	}
	if both.Count() != n || a.Count() != len(x) {
		t.Errorf("%d and %d members, want %d and %d", both.Count(), a.Count(), n, len(x))
	}
}

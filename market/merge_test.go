package market

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMergeIsManySets applies the same random levels with Merge and with single calls of Set.
func TestMergeIsManySets(t *testing.T) {
	for _, side := range []Side{Buy, Sell} {
		rng := rand.New(rand.NewPCG(uint64(side), 2))
		var merged, single Book
		for range 300 {
			prices := map[Price]bool{}
			var levels []Level
			for range rng.IntN(60) {
				if p := Price(rng.IntN(200)); !prices[p] {
					prices[p] = true
					levels = append(levels, Level{Price: p, Size: Size(rng.IntN(3))})
				}
			}
			slices.SortFunc(levels, func(a, b Level) int {
				if side == Sell {
					return int(b.Price - a.Price)
				}
				return int(a.Price - b.Price)
			})
			var got, want []Level
			merged.Merge(side, levels, func(was, now Level) { got = append(got, was, now) })
			for _, l := range levels {
				if was, changed := single.Set(side, l); changed {
					want = append(want, was, l)
				}
			}
			if !slices.Equal(got, want) || !slices.Equal(merged.Append(nil, side, 0), single.Append(nil, side, 0)) {
				t.Fatalf("side %d: merge of %v: changes %v, want %v", side, levels, got, want)
			}
		}
	}
}

package export

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestFinalModel cancels and corrects at random, by number and by id, over several epochs, and
// compares the final rows with a model.
func TestFinalModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &finalModel{standing: map[string]market.Price{}}
		var f finals
		f.reset()
		for epoch := range 1 + rng.IntN(3) {
			m.epoch(rng, fmt.Sprint("e", epoch))
		}
		for _, r := range m.rows {
			f.add(r.epoch, &r.row)
		}
		if f.unresolved() {
			for _, r := range m.rows {
				f.resolve(r.epoch, &r.row)
			}
		}
		f.finish()
		var got []market.Price
		for _, r := range m.rows {
			if f.final(r.epoch, &r.row) {
				got = append(got, r.row.Price)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(maps.Values(m.standing))
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: final are %v, want %v", seed, got, want)
		}
	}
}

type epochRow struct {
	epoch string
	row   journal.Row
}

// finalModel generates rows with distinct prices and tracks the final ones.
type finalModel struct {
	rows     []epochRow
	ids      []string // of trades, in order
	standing map[string]market.Price
	price    market.Price
}

func (m *finalModel) epoch(rng *rand.Rand, name string) {
	n := uint64(rng.IntN(50)) // the day begins in the middle of an epoch
	yesterday := n
	trades := map[string]uint64{}
	for range rng.IntN(60) {
		n++
		m.price++
		r := journal.Row{Kind: journal.Trade, N: n, Price: m.price}
		if len(m.ids) == 0 || rng.IntN(3) > 0 {
			r.ID = fmt.Sprint("t", len(m.ids))
			m.ids = append(m.ids, r.ID)
			m.standing[r.ID] = r.Price
			trades[r.ID] = n
		} else {
			r.Kind = journal.Cancel + journal.Kind(rng.IntN(2))
			r.ID = m.ids[rng.IntN(len(m.ids))]
			r.RefN = trades[r.ID] // 0: it is of another epoch
			switch {
			case yesterday > 0 && rng.IntN(8) == 0:
				r.ID, r.RefN = "old", 1+rng.Uint64N(yesterday)
			case rng.IntN(8) == 0:
				r.ID, r.RefN = "unheard of", 0
			case r.Kind == journal.Cancel:
				delete(m.standing, r.ID)
			default:
				m.standing[r.ID] = r.Price
			}
		}
		m.rows = append(m.rows, epochRow{name, r})
	}
}

package pairs

import (
	"fmt"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high float64
		want      string
	}{
		{"around 1", 0.98, 1.02, NotSlower},
		{"ends at the bound", 1.01, 1.05, NotSlower},
		{"faster and wide", 0.7, 0.9, NotSlower},
		{"narrow, above 1 and across the bound", 1.02, 1.06, Slower},
		{"narrow and across both", 0.999, 1.051, Undecided},
		{"above the bound and wide", 1.06, 1.4, Slower},
		{"wide across the bound", 1.01, 1.2, Undecided},
	} {
		if got := decide(c.low, c.high, true); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := decide(0, 0, false); got != Undecided {
		t.Errorf("without an interval: %s", got)
	}
}

// TestCompareNoisy checks that a figure is undecided if more than half of its pairs are noisy.
func TestCompareNoisy(t *testing.T) {
	for _, c := range []struct {
		pairs, noisy int
		ratio        float64
		want         string
	}{
		{9, 4, 1, NotSlower}, {9, 5, 1, Undecided}, {9, 9, 1, Undecided},
		{10, 5, 2, Slower}, {10, 6, 2, Undecided},
	} {
		list := []Pair{{New: 1, Noisy: true}, {Old: 1, Noisy: true}} // do not count
		for i := range c.pairs {
			list = append(list, Pair{Old: 1, New: c.ratio, Noisy: i < c.noisy})
		}
		got := Compare("x", Figure{Name: "cost"}, list)
		if got.Decision != c.want || got.Noisy != c.noisy || got.Low != c.ratio || got.High != c.ratio {
			t.Errorf("%d of %d pairs with ratio %v are noisy: %+v, want %s", c.noisy, c.pairs, c.ratio, got, c.want)
		}
	}
}

// TestCompare checks that a ratio above 1 means that the newer program is worse, and which pairs
// count.
func TestCompare(t *testing.T) {
	number := func(v float64) string { return fmt.Sprint(v) }
	var rates, costs []Pair
	for i := range 9 {
		v := float64(100 + i)
		rates, costs = append(rates, Pair{Old: 2 * v, New: v}), append(costs, Pair{Old: v, New: 2 * v})
	}
	rate := Compare("x", Figure{"rate", number, true}, rates)
	cost := Compare("x", Figure{"cost", number, false}, costs)
	if cost.Old != 104 || cost.New != 208 || rate.Old != 208 || rate.New != 104 {
		t.Errorf("medians are %v, %v of rates and %v, %v of costs", rate.Old, rate.New, cost.Old, cost.New)
	}
	for _, c := range []*Comparison{rate, cost} {
		if c.Ratio != 2 || c.Low != 2 || c.High != 2 || c.Pairs != 9 || c.Decision != Slower || c.Wide() {
			t.Errorf("%+v", c)
		}
	}
	costs[0].Old, costs[1].New, costs[2].Noisy = 0, 0, true
	for i, ratio := range []float64{1, 1, 0.9, 1.1, 1.02, 0.98, 1.01, 0.97, 1} {
		costs[i].New = costs[i].Old * ratio
	}
	costs[1].New = 0
	few := Compare("x", Figure{"cost", number, false}, costs)
	if few.Pairs != 7 || few.Noisy != 1 || few.Ratio != 1 || few.Low != 0.9 || few.High != 1.1 || !few.Wide() || few.Decision != Undecided {
		t.Errorf("%+v", few)
	}
	var table strings.Builder
	if err := WriteTable(&table, []*Comparison{rate, few, Compare("y", Figure{"cost", number, false}, nil)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{
		{"x", "rate", "208", "104", "2.000", "2.000 to 2.000", "9", "slower"},
		{"x", "cost", "105", "106.08", "1.000", "0.900 to 1.100", "7 (1 noisy)", "undecided"},
		{"y", "cost", "0", "0", "0.000", "-", "0", "undecided"},
	} {
		found := false
		for line := range strings.Lines(table.String()) {
			found = found || strings.Join(want, "|") == strings.Join(cells(line), "|")
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, table.String())
		}
	}
}

// cells returns the cells of a line of a table.
func cells(line string) (list []string) {
	for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
		if cell = strings.TrimSpace(cell); cell != "" {
			list = append(list, cell)
		}
	}
	return list
}

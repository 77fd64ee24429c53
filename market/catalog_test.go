package market

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func mustID(t *testing.T, s string) InstrumentID {
	t.Helper()
	id, err := ParsePattern(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return id
}

func newCatalog(t *testing.T, ids ...string) *Catalog {
	t.Helper()
	c := new(Catalog)
	for i, s := range ids {
		got, err := c.Add(Instrument{ID: mustID(t, s)})
		if err != nil || got != i {
			t.Fatalf("Add(%s) = %d, %v, want %d", s, got, err, i)
		}
	}
	return c
}

func TestCatalog(t *testing.T) {
	c := newCatalog(t, "GGAL|BYMA|24hs", "GGAL|BYMA|CI", "BTCUSDT|BINANCE|SPOT", "AL30|BYMA|CI")

	i, err := c.Add(Instrument{ID: mustID(t, "GGAL|BYMA|CI"), Name: "Grupo Galicia"})
	if err != nil || i != 1 || c.Len() != 4 {
		t.Errorf("replacing: index %d, error %v, %d instruments", i, err, c.Len())
	}
	if in, ok := c.Lookup(mustID(t, "GGAL|BYMA|CI")); !ok || in.Name != "Grupo Galicia" || c.At(1).Name != in.Name {
		t.Errorf("Lookup = %v, %v", in, ok)
	}
	if i, ok := c.Index(mustID(t, "AL30|BYMA|CI")); !ok || i != 3 {
		t.Errorf("Index = %d, %v, want 3", i, ok)
	}
	if _, ok := c.Lookup(mustID(t, "AL30|BYMA|24hs")); ok {
		t.Error("found what is not listed")
	}
	if _, err := c.Add(Instrument{ID: InstrumentID{"*", "BYMA", "CI"}}); err == nil {
		t.Error("a pattern was listed")
	}

	for _, tt := range []struct {
		pattern string
		want    []int
	}{
		{"GGAL|BYMA|CI", []int{1}},
		{"GGAL|BYMA|48hs", nil},
		{"*|BYMA|CI", []int{1, 3}},
		{"GGAL|*|*", []int{0, 1}},
		{"*|*|*", []int{0, 1, 2, 3}},
		{"*|NYSE|*", nil},
	} {
		var got []int
		for i, in := range c.Match(mustID(t, tt.pattern)) {
			if in != c.At(i) {
				t.Errorf("Match(%s) gives %v at %d", tt.pattern, in.ID, i)
			}
			got = append(got, i)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Match(%s) = %v, want %v", tt.pattern, got, tt.want)
		}
	}
	for range c.Match(mustID(t, "*|*|*")) {
		break // must not panic
	}
	for range new(Catalog).Match(mustID(t, "*|*|*")) {
		t.Error("an empty catalogue has a match")
	}
}

func TestCatalogMarkets(t *testing.T) {
	var c Catalog
	if _, err := c.Add(Instrument{ID: mustID(t, "GGAL|BYMA|48hs"), SettlementDays: 2}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutMarket(Market{ID: "A3"}); err != nil {
		t.Fatal(err)
	}
	byma := Market{ID: "BYMA", Name: "Bolsas y Mercados", Terms: []Term{{"CI", 0}, {"24hs", 1}}}
	if err := c.PutMarket(byma); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(Instrument{ID: mustID(t, "GGAL|BYMA|24hs"), SettlementDays: 7}); err != nil {
		t.Fatal(err)
	}
	m, ok := c.Market("BYMA")
	if want := []Term{{"CI", 0}, {"24hs", 1}, {"48hs", 2}}; !ok || m.Name != byma.Name || !slices.Equal(m.Terms, want) {
		t.Errorf("Market(BYMA) = %v, %v, want terms %v", m, ok, want)
	}
	if len(byma.Terms) != 2 {
		t.Error("the caller's terms were changed")
	}
	list := c.Markets()
	if len(list) != 2 || list[0].ID != "BYMA" || list[1].ID != "A3" {
		t.Errorf("Markets() = %v", list)
	}
	list[0].Terms[0].Name = "x"
	if m, _ := c.Market("BYMA"); m.Terms[0].Name != "CI" {
		t.Error("Markets() lent the catalogue's own memory")
	}

	for _, tt := range []struct {
		m    Market
		want string
	}{
		{Market{}, `market "": id must be`},
		{Market{ID: "*"}, `market "*": id must be`},
		{Market{ID: "B", Terms: []Term{{"C I", 0}}}, `term "C I": name must be`},
		{Market{ID: "B", Terms: []Term{{"CI", 0}, {"CI", 1}}}, "term CI: listed twice"},
		{Market{ID: "B", Terms: []Term{{"CI", -1}}}, "must not be negative"},
		{Market{ID: "B", Schedule: Schedule{Holidays: []Holiday{{Date: "24/12"}}}}, "market B: schedule: holiday 1"},
	} {
		if err := c.PutMarket(tt.m); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("PutMarket(%v): %v, want %q", tt.m, err, tt.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	c := newCatalog(t, "GGAL|BYMA|24hs", "GGAL|BYMA|CI", "AL30|BYMA|CI", "AL30D|BYMA|CI", "AL35|BYMA|24hs",
		"BTCUSDT|BINANCE|SPOT", "BTCUSDT|BINANCE|PERP", "X|SIM|CI", "GGAL|NYSE|T1")
	for _, tt := range []struct{ in, want string }{
		{"ggal|byma|ci", "GGAL|BYMA|CI"},     // case
		{"GGAL|BYMA|24HS", "GGAL|BYMA|24hs"}, // case of the term
		{"GGAL|BYMA|48hs", "GGAL|BYMA|24hs"}, // no such term: the first of that market
		{"GGAL|XMEV|CI", "GGAL|BYMA|CI"},     // no such market
		{"GGAL|CI|BYMA", "GGAL|BYMA|CI"},     // the wrong way round
		{"GGAL|NYSE|CI", "GGAL|NYSE|T1"},     // market before term
		{"GGLA|BYMA|CI", "GGAL|BYMA|CI"},     // swapped
		{"GAL|BYMA|CI", "GGAL|BYMA|CI"},      // missing
		{"GGALL|BYMA|CI", "GGAL|BYMA|CI"},    // too many
		{"GFAL|BYMA|CI", "GGAL|BYMA|CI"},     // wrong
		{"AL3|BYMA|CI", "AL30|BYMA|CI"},      // AL30 and AL35 are as near: the term decides
		{"AL3|BYMA|24hs", "AL35|BYMA|24hs"},  // ... here too
		{"AL31|BYMA|48hs", "AL30|BYMA|CI"},   // ... or the order of listing
		{"BTCUSD|BINANCE|SPOT", "BTCUSDT|BINANCE|SPOT"},
		{"Y|SIM|CI", ""},     // one letter says nothing of another
		{"GGAL|BYMA|CI", ""}, // listed
		{"*|BYMA|CI", ""},    // a pattern
		{"ZZZZ|BYMA|CI", ""}, // nothing near
		{"GLAG|BYMA|CI", ""}, // two slips
		{"BTCUSDT1|X|Y", "BTCUSDT|BINANCE|SPOT"},
	} {
		got, ok := c.Suggest(mustID(t, tt.in))
		if ok != (tt.want != "") || (ok && got.String() != tt.want) {
			t.Errorf("Suggest(%s) = %v, %v, want %q", tt.in, got, ok, tt.want)
		}
	}
	if _, ok := new(Catalog).Suggest(mustID(t, "A|B|C")); ok {
		t.Error("an empty catalogue suggests")
	}
}

// BenchmarkSuggest measures the worst case with 10,000 similar identifiers.
func BenchmarkSuggest(b *testing.B) {
	var c Catalog
	for i := range 10_000 {
		id := InstrumentID{fmt.Sprintf("GFGC%05d", i), "BYMA", "CI"}
		if _, err := c.Add(Instrument{ID: id}); err != nil {
			b.Fatal(err)
		}
	}
	ask := InstrumentID{"GFGC0500X", "BYMA", "24hs"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Suggest(ask); !ok {
			b.Fatal("no suggestion")
		}
	}
}

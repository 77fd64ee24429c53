package decode

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestOrders compares Orders with a map through growth, removals in clusters and resets.
func TestOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table Orders
	model := map[uint64]Order{}
	for i := range 200_000 {
		id := rng.Uint64N(500)
		if i%3 == 0 {
			id <<= 40 // ids far apart
		}
		switch _, there := model[id]; {
		case i%50_000 == 49_999:
			table.Reset()
			clear(model)
		case rng.IntN(2) == 0:
			o := Order{ID: id, Price: market.Price(i), Size: uint32(1 + i), Side: market.Buy}
			if table.Add(o) == there {
				t.Fatalf("added order %d, which is there: %v", id, there)
			}
			if !there {
				model[id] = o
			}
		default:
			table.Remove(id)
			delete(model, id)
		}
		if table.Len() != len(model) {
			t.Fatalf("%d orders, want %d", table.Len(), len(model))
		}
		want, there := model[id]
		if got := table.Find(id); (got != nil) != there || there && *got != want {
			t.Fatalf("order %d is %v, want %v, %v", id, got, want, there)
		}
	}
	for id, want := range model {
		if got := table.Find(id); got == nil || *got != want {
			t.Errorf("order %d is %v, want %v", id, got, want)
		}
	}
}

// TestBatchReset checks that events after the last cut stay, with their levels, and that removed
// events are unchanged.
func TestBatchReset(t *testing.T) {
	var b Batch
	h := b.List(Equity("A", "M"))
	if again := b.List(Equity("A", "M")); again != h || len(b.Listed) != 1 {
		t.Error("listed twice")
	}
	add := func(price market.Price) {
		e := b.Add(market.KindQuote, h)
		e.Bids = b.Level(market.Level{Price: price, Size: 1})
		b.AppendLevel(market.Level{Price: price, Size: 2})
		b.AppendLevel(market.Level{Price: price + 1, Size: 3})
		e.Asks = b.LastLevels(2, 0)
	}
	b.Cut()
	add(1)
	b.Cut()
	b.Cut()
	add(5)
	if len(b.Cuts) != 1 || b.Cuts[0] != 1 {
		t.Errorf("cuts %v", b.Cuts)
	}
	b.Reset()
	add(7)
	b.Cut()
	if got := fmt.Sprint(b.Events[0].Bids, b.Events[0].Asks, b.Events[1].Bids, b.Cuts); got != "[{0.00000005 0.00000001 0}] [{0.00000005 0.00000002 0} {0.00000006 0.00000003 0}] [{0.00000007 0.00000001 0}] [2]" {
		t.Error(got)
	}
	if b.Level(market.Level{Price: 1}) != nil || b.LastLevels(0, 0) != nil {
		t.Error("an empty side is not nil")
	}
	if s := b.CopyLevels([]market.Level{{Price: 9}}); len(s) != 1 || cap(s) != 1 || s[0].Price != 9 {
		t.Errorf("kept %v", s)
	}
	b.Note("reason", "first %d", 1)
	b.Note("reason", "second")
	if len(b.Notes) != 1 || b.Notes[0].Detail != "first 1" {
		t.Errorf("notes %v", b.Notes)
	}
}

// TestDecimal checks that texts stay valid after their batch and cost one block per few hundred.
func TestDecimal(t *testing.T) {
	var b Batch
	var texts []string
	const n = 10_000
	for i := range uint64(n) {
		texts = append(texts, b.Decimal(i*i*i*i*i))
		b.Reset()
	}
	for i, s := range texts {
		if want := strconv.FormatUint(uint64(i)*uint64(i)*uint64(i)*uint64(i)*uint64(i), 10); s != want {
			t.Fatalf("%q, want %q", s, want)
		}
	}
	if allocs := testing.AllocsPerRun(n, func() { b.Decimal(1 << 63) }); allocs > 0.02 {
		t.Errorf("%g allocations a text", allocs)
	}
}

func TestSymbol(t *testing.T) {
	for raw, want := range map[string]string{
		"AAPL    ": "AAPL", "AAPL\x00\x00X": "AAPL", "BRK A": "BRK_A", "A|B*C,D": "A_B_C_D", "        ": "", "": "", "\xffX": "_X", " X": "_X",
	} {
		if got := Symbol([]byte(raw)); got != want {
			t.Errorf("%q is %q, want %q", raw, got, want)
		}
	}
}

func TestFilter(t *testing.T) {
	id := market.InstrumentID{Symbol: "A", Market: "M", Term: "T"}
	for _, tt := range []struct {
		names []string
		want  bool
	}{{nil, true}, {[]string{"A"}, true}, {[]string{"B", "A|M|T"}, true}, {[]string{"A|M|CI"}, false}, {[]string{"a"}, false}} {
		if got := NewFilter(tt.names).Matches(id); got != tt.want {
			t.Errorf("%v takes %s: %v", tt.names, id, got)
		}
	}
}

// TestHaltReason checks that every reason is a valid word.
func TestHaltReason(t *testing.T) {
	for code, want := range map[string]string{
		"    ": "", "NA  ": "", "T1  ": "news_pending", "T12 ": "information_requested", "LUDP": "volatility_pause",
		"MWC1": "market_wide_circuit_breaker", "IPO1": "ipo_not_yet_trading", "R4  ": "resumption", "????": "other",
	} {
		if got := HaltReason([]byte(code)); got != want {
			t.Errorf("%q is %q, want %q", code, got, want)
		}
	}
	if Opposite(market.Buy) != market.Sell || Opposite(market.Sell) != market.Buy || Opposite(market.NoSide) != market.NoSide {
		t.Error("sides")
	}
}

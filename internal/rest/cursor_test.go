package rest

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
)

func askTrades() *history {
	return &history{path: "/market/trades", start: 1, end: 99, series: journal.Series{
		Instrument: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, Channel: journal.Trades}}
}

// A cursor is good for its own question and no other.
func TestCursorOfItsQuestion(t *testing.T) {
	x := askTrades()
	at := place{epoch: "e7k2", n: 1042}
	text := x.cursor(at)
	if got, ok := parseCursor(text, x); !ok || got != at {
		t.Fatalf("got %+v, %v", got, ok)
	}
	for name, change := range map[string]func(*history){
		"path":           func(x *history) { x.path = "/market/quotes" },
		"instrument":     func(x *history) { x.series.Instrument.Term = "CI" },
		"channel":        func(x *history) { x.series.Channel = journal.Bars },
		"interval":       func(x *history) { x.series.Interval = market.Hour },
		"start":          func(x *history) { x.start++ },
		"end":            func(x *history) { x.end++ },
		"after_sequence": func(x *history) { x.since = true },
		"its number":     func(x *history) { x.after = 7 },
		"epoch":          func(x *history) { x.epoch = "e7k2" },
		"order":          func(x *history) { x.desc = true },
	} {
		other := askTrades()
		change(other)
		if _, ok := parseCursor(text, other); ok {
			t.Errorf("taken with another %s", name)
		}
	}
	x.limit = 5
	if _, ok := parseCursor(text, x); !ok {
		t.Error("refused with another limit")
	}
}

// A cursor that is taken is one that was given out.
func FuzzCursor(f *testing.F) {
	x := askTrades()
	f.Add(x.cursor(place{"e1", 1}))
	f.Add(x.cursor(place{"e1", 0}))
	f.Add(x.cursor(place{"averylongepochname", 1<<63 - 1}))
	f.Add("")
	f.Add("aH")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("h12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")))
	f.Fuzz(func(t *testing.T, text string) {
		at, ok := parseCursor(text, x)
		if !ok {
			return
		}
		if at.epoch == "" {
			t.Errorf("%q: no epoch", text)
		}
		if again, ok := parseCursor(x.cursor(at), x); !ok || again != at {
			t.Errorf("%q: %+v and %+v", text, at, again)
		}
	})
}

func FuzzInstant(f *testing.F) {
	for _, text := range []string{"2026-11-20T14:30:00Z", "2026-11-20", "1763649000000000000", "0", "-1", "2026-11-20T14:30:00 03:00", "9999-99-99"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ns, fault := parseInstant("start", text); fault == nil && ns <= 0 {
			t.Errorf("%q is %d", text, ns)
		}
	})
}

// A cursor backwards into an epoch that has gone since it was looked at leaves nothing to read; one forwards leaves
// what is newer.
func TestEpochsBehindCursor(t *testing.T) {
	all := []string{"e2", "e3"}
	for _, tt := range []struct {
		at   string
		desc bool
		want []string
	}{
		{"e2", false, all}, {"e3", false, []string{"e3"}}, {"e3", true, []string{"e3", "e2"}}, {"e2", true, []string{"e2"}},
		{"e1", false, all}, {"e1", true, nil},
	} {
		x := askTrades()
		x.at, x.onwards, x.desc = place{epoch: tt.at, n: 7}, true, tt.desc
		if got := x.epochs(all); !slices.Equal(got, tt.want) {
			t.Errorf("%s, backwards %v: %v", tt.at, tt.desc, got)
		}
	}
}

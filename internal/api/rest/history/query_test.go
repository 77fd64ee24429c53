package history

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func tradesQuery() *query {
	return &query{path: "/market/trades", start: 1, end: 99, series: journal.Series{
		Instrument: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, Channel: journal.Trades}}
}

// TestCursorOfQuery checks that a cursor is valid for its own query only.
func TestCursorOfQuery(t *testing.T) {
	x := tradesQuery()
	at := cursor{epoch: "e7k2", n: 1042}
	text := x.cursorText(at)
	if got, ok := x.parseCursor(text); !ok || got != at {
		t.Fatalf("got %+v, %v", got, ok)
	}
	for name, change := range map[string]func(*query){
		"path":           func(x *query) { x.path = "/market/quotes" },
		"instrument":     func(x *query) { x.series.Instrument.Term = "CI" },
		"channel":        func(x *query) { x.series.Channel = journal.Bars },
		"interval":       func(x *query) { x.series.Interval = market.Hour },
		"start":          func(x *query) { x.start++ },
		"end":            func(x *query) { x.end++ },
		"after_sequence": func(x *query) { x.since = true },
		"its number":     func(x *query) { x.after = 7 },
		"epoch":          func(x *query) { x.epoch = "e7k2" },
		"order":          func(x *query) { x.desc = true },
	} {
		other := tradesQuery()
		change(other)
		if _, ok := other.parseCursor(text); ok {
			t.Errorf("taken with another %s", name)
		}
	}
	x.limit = 5
	if _, ok := x.parseCursor(text); !ok {
		t.Error("refused with another limit")
	}
}

// FuzzCursor checks that an accepted cursor encodes to the same text.
func FuzzCursor(f *testing.F) {
	x := tradesQuery()
	f.Add(x.cursorText(cursor{"e1", 1}))
	f.Add(x.cursorText(cursor{"e1", 0}))
	f.Add(x.cursorText(cursor{"averylongepochname", 1<<63 - 1}))
	f.Add("")
	f.Add("aH")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("h12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")))
	f.Fuzz(func(t *testing.T, text string) {
		at, ok := x.parseCursor(text)
		if !ok {
			return
		}
		if at.epoch == "" {
			t.Errorf("%q: no epoch", text)
		}
		if again, ok := x.parseCursor(x.cursorText(at)); !ok || again != at {
			t.Errorf("%q: %+v and %+v", text, at, again)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-11-20T14:30:00Z", "2026-11-20", "1763649000000000000", "0", "-1", "2026-11-20T14:30:00 03:00", "9999-99-99"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ns, fault := parseTime(api.Params{"start": {text}}, "start", time.FixedZone("", 9*3600)); fault == nil && ns <= 0 && text != "" {
			t.Errorf("%q is %d", text, ns)
		}
	})
}

// TestEpochsBehindCursor checks cursors into an epoch that was removed: backwards there is nothing
// to read, forwards there are newer rows.
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
		x := tradesQuery()
		x.at, x.continues, x.desc = cursor{epoch: tt.at, n: 7}, true, tt.desc
		if got := x.epochs(all); !slices.Equal(got, tt.want) {
			t.Errorf("%s, backwards %v: %v", tt.at, tt.desc, got)
		}
	}
}

// TestHintOfPlus checks that the hint about + comes only with a time in which a + was decoded.
func TestHintOfPlus(t *testing.T) {
	for text, want := range map[string]bool{"yesterday": false, "2026-02-30": false, "2026-11-20T11:00:10 03:00": true} {
		if _, f := parseTime(api.Params{"at": {text}}, "at", time.UTC); f == nil || (f.Hint != "") != want {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// TestUnixTimes checks integers in other units: they are refused, with the time that they stand
// for.
func TestUnixTimes(t *testing.T) {
	for text, want := range map[string]string{
		"1795942800":           "It looks like Unix seconds: write 2026-11-29T09:00:00Z, or 1795942800000000000",
		"1795942800123":        "It looks like Unix milliseconds: write 2026-11-29T09:00:00.123Z, or 1795942800123000000",
		"1795942800123456":     "It looks like Unix microseconds: write 2026-11-29T09:00:00.123456Z, or 1795942800123456000",
		"99999999999999999":    "",
		"7":                    "",
		"0":                    "",
		"100000000000000000":   "1973-03-03T09:46:40Z",
		"1795942800123456789":  "2026-11-29T09:00:00.123456789Z",
		"99999999999999999999": "",
	} {
		ns, f := parseTime(api.Params{"start": {text}}, "start", time.FixedZone("", 9*3600))
		if f == nil {
			if at := time.Unix(0, ns).UTC().Format(time.RFC3339Nano); at != want {
				t.Errorf("%s is %s, want %s", text, at, want)
			}
		} else if f.Reason != wire.BadField || f.Hint != want {
			t.Errorf("%s: %+v, want the hint %q", text, f, want)
		}
	}
}

// TestEmptyRange checks the hint for a range that ends where it begins.
func TestEmptyRange(t *testing.T) {
	for end, want := range map[string]string{"2026-11-20": "end is exclusive: for a whole day, write the next day", "2026-11-19": ""} {
		var q query
		if f := q.parseTimes(api.Params{"start": {"2026-11-20"}, "end": {end}}); f == nil || f.Hint != want {
			t.Errorf("end %s: %+v", end, f)
		}
	}
}

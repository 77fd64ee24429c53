package replay

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// writeRecording writes a recording of trades, with what else its first line has, and opens it. A line is seconds of receiving,
// an instrument, N and seconds of T; others are taken as they are.
func writeRecording(t *testing.T, more string, config Config, lines ...string) *Source {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `{"rueda":"recording","version":1,"began":"2026-11-20T14:30:00Z","channels":["trades"],"ids":["*|BYMA|CI"]%s}`+"\n", more)
	for _, l := range lines {
		var received, at float64
		var symbol string
		var n int
		if _, err := fmt.Sscanf(l, "%g %s %d %g", &received, &symbol, &n, &at); err == nil && len(symbol) == 1 {
			l = fmt.Sprintf(`%d {"type":"T","S":"%s","I":"%s|BYMA|CI","N":%d,"T":"%s","P":%d,"Z":1,"X":"%s%d"}`, begin+int64(received*1e9), symbol, symbol, n,
				time.Unix(0, begin+int64(at*1e9)).UTC().Format("2006-01-02T15:04:05.000000000Z"), n, symbol, n)
		} else if received > 0 {
			_, body, _ := strings.Cut(l, " ")
			l = fmt.Sprintf("%d %s", begin+int64(received*1e9), body)
		}
		b.WriteString(l + "\n")
	}
	path := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path, config)
}

// TestOrderOfArrival plays what arrived out of order in the order of its times; late trades stay late.
func TestOrderOfArrival(t *testing.T) {
	const cut, back, subscribed, caughtUp = `{"recording":"disconnected"}`, `{"recording":"connected"}`, `{"type":"Subscription","id":1,"epoch":"e"}`, `{"type":"CaughtUp","id":1}`
	for _, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"in order", []string{"1 A 1 1", "2 B 1 2", "3 A 2 3"}, "A1 B1 A2"},
		{"one topic after another", []string{"1 A 1 10", "1.1 A 2 70", "1.2 B 1 59", "1.3 B 2 71", "1.4 A 3 72"}, "A1 B1 A2 B2 A3"},
		{"a late trade", []string{"1 A 1 10", "1.1 A 2 5", "1.2 B 1 7", "1.3 A 3 12"}, "B1 A1 A2 A3"},
		{"after a lost connection", []string{"1 A 1 1", "2 " + cut, "3 " + back, "3 " + subscribed, "3.1 A 2 90", "5 B 1 2", "7 B 2 3", "8 " + caughtUp, "9 A 3 99"}, "A1 B1 B2 A2 A3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r feedtest.Recorder
			if err := writeRecording(t, "", Config{Speed: math.Inf(1)}, tc.lines...).Run(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range r.Events() {
				if e.Kind == market.KindTrade {
					got = append(got, e.TradeID)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("played %v, want %s", got, tc.want)
			}
		})
	}
}

// TestOrderWaits holds events back for a while, and longer where old ones are to come.
func TestOrderWaits(t *testing.T) {
	var a arrived
	for i, step := range []struct {
		received, at float64
		behind       bool
		want         string
	}{
		{0, 10, false, ""},
		{0.9, 70, false, ""},
		{1, 11, false, "10"},
		{1.3, 71, false, ""},
		{1.9, 72, false, "11 70 71"},
		{2, 5, false, ""}, // too late
		{3, 73, true, ""},
		{31, 74, true, ""},
		{32, 75, true, "5 72 73 74"},
		{33.5, 76, false, ""}, // since one was too late it is waited for twice as long
		{34.1, 77, false, "75"},
	} {
		a.take(&market.Event{Kind: market.KindTrade, Handle: market.Handle(i), Time: int64(step.at * 1e9), Receive: begin + int64(step.received*1e9)})
		var got []string
		for _, e := range a.due(step.behind, false) {
			got = append(got, fmt.Sprint(e.Time/1e9))
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("step %d: %v, want %s", i, got, step.want)
		}
	}
}

// TestOrderKeepsBooks has many events held at once, whose levels stay theirs.
func TestOrderKeepsBooks(t *testing.T) {
	var a arrived
	levels := make([]market.Level, 3)
	const n = maxArrived + 10
	got, last := 0, int64(-1)
	check := func(all bool) {
		for _, e := range a.due(false, all) {
			if e.Time <= last || len(e.Bids) != 3 || int64(e.Bids[0].Price) != e.Time || cap(e.Bids) != 3 {
				t.Fatalf("event %d after %d: %v", e.Time, last, e.Bids)
			}
			got, last = got+1, e.Time
		}
	}
	for i := range int64(n) {
		at := i ^ 1 // in pairs that changed places
		levels[0].Price = market.Price(at)
		a.take(&market.Event{Kind: market.KindUpdate, Handle: market.Handle(at & 1), Time: at, Receive: begin + i, Bids: levels})
		if i&1 == 1 {
			check(false)
		}
	}
	if got == 0 {
		t.Error("more is held than may be")
	}
	check(true)
	if got != n {
		t.Errorf("%d events of %d", got, n)
	}
}

// TestMarketsOfRecording has the markets of a recording for whoever plays it, each once, and names its instruments.
func TestMarketsOfRecording(t *testing.T) {
	more := `,"markets":[{"market":"BYMA","name":"Bolsas","timezone":"America/Argentina/Buenos_Aires","terms":[]},{"market":"ROFX","timezone":"UTC","terms":[]}]`
	lines := []string{"1 A 1 1", "2 B 1 2", "3 C 1 3", "4 D 1 4", "5 E 1 5", "6 F 1 6"}
	s := writeRecording(t, more, Config{}, lines...)
	list := s.AppendMarkets([]market.Market{{ID: "ROFX", Name: "mine"}})
	if len(list) != 2 || list[0].Name != "mine" || list[1].ID != "BYMA" || list[1].Timezone != "America/Argentina/Buenos_Aires" || !list[1].FeedTold {
		t.Errorf("%+v", list)
	}
	if got := s.Few(); got != "A|BYMA|CI, B|BYMA|CI, C|BYMA|CI, D|BYMA|CI and 2 more" {
		t.Error(got)
	}
	if s := writeRecording(t, "", Config{}, lines[:1]...); s.AppendMarkets(nil) != nil || s.Few() != "A|BYMA|CI" {
		t.Errorf("an old recording: %v, %s", s.AppendMarkets(nil), s.Few())
	}
}

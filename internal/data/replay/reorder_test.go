package replay

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// writeRecording writes a recording of trades and opens it. more is added to its first line. A line
// is the receive time in seconds, an instrument, N and the seconds of T; other lines are written
// unchanged.
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

// TestOrderOfArrival checks that events that arrived out of order are played in the order of their
// times. Late trades stay late.
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

// TestOrderLostWhileCatchingUp has connections that are lost before they have caught up, at ten
// minutes of the market per second. Each receives the present of one instrument and a part of the
// past of another; only the newest connection catches up. The events queued for the slow client
// then follow CaughtUp.
func TestOrderLostWhileCatchingUp(t *testing.T) {
	const connections, rows = 7, 400 // more rows than are decoded at once
	const lost = 600 * 10            // time of the first connection
	var lines []string
	now, missed := 0, 0
	write := func(received float64, symbol string, n *int, at int) {
		*n++
		lines = append(lines, fmt.Sprintf("%.3f %s %d %d", received, symbol, *n, at))
	}
	for c := range connections {
		received := 1 + 10*float64(c)
		if c > 0 {
			lines = append(lines, fmt.Sprintf(`%g {"recording":"disconnected"}`, received), fmt.Sprintf(`%g {"recording":"connected"}`, received),
				fmt.Sprintf(`%g {"type":"Subscription","id":1,"epoch":"e"}`, received))
		}
		for i := range rows {
			at := received + 9*float64(i)/rows
			write(at, "A", &now, int(600*at))
			switch {
			case c == 0:
				write(at, "B", &missed, int(600*at))
			case i%10 == 0:
				write(at, "B", &missed, lost+missed)
			}
		}
	}
	last := 600 * (1 + 10*connections)
	for i := range rows {
		write(70.5, "B", &missed, lost+missed+i*(last-lost-missed-rows)/rows)
	}
	lines = append(lines, `70.6 {"type":"CaughtUp","id":1}`)
	for i := range rows {
		write(73.5, "A", &now, last+2000+i) // of a channel that is not late
	}
	for i := range rows {
		write(74, "B", &missed, last+i)
	}
	var log strings.Builder
	var r feedtest.Recorder
	c := Config{Speed: math.Inf(1), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := writeRecording(t, "", c, lines...).Run(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	var newest int64
	numbers := map[market.Handle]uint64{}
	for i, e := range r.Events() {
		if e.Time < newest || e.Sequence != numbers[e.Handle]+1 {
			t.Fatalf("event %d, %s: %v before the one in front of it, N %d after %d", i, e.TradeID, time.Duration(newest-e.Time), e.Sequence, numbers[e.Handle])
		}
		newest, numbers[e.Handle] = e.Time, e.Sequence
	}
	if n := len(r.Events()); n != now+missed || log.Len() > 0 {
		t.Errorf("%d events of %d, log: %s", n, now+missed, log.String())
	}
}

// gather returns the events that are due, as seconds of T and of the receive time.
func gather(t *testing.T, a *reorderBuffer, behind, all bool) string {
	t.Helper()
	var got []string
	if err := a.flush(behind, all, func(events []market.Event) error {
		for _, e := range events {
			got = append(got, fmt.Sprintf("%d@%g", e.Time/1e9, float64(e.Receive-begin)/1e9))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(got, " ")
}

func trade1(handle int, received, at float64) *market.Event {
	return &market.Event{Kind: market.KindTrade, Handle: market.Handle(handle), Time: int64(at * 1e9), Receive: begin + int64(received*1e9)}
}

// TestOrderWaits checks that events are held for a while, and as long as old ones are expected. No
// event is due later than those after it; otherwise the last one would delay all events of a lost
// connection, which would then come at once.
func TestOrderWaits(t *testing.T) {
	var a reorderBuffer
	for i, step := range []struct {
		received, at float64
		behind       bool
		want         string
	}{
		{0, 10, false, ""},
		{7, 70, false, ""},
		{15.9, 11, false, ""},
		{16, 71, false, "10@0 11@7 70@7"},
		{17, 5, false, ""}, // too late
		{18, 73, true, ""},
		{99, 74, true, ""}, // the connection is lost repeatedly
		{100, 72, true, ""},
		{107, 76, false, ""}, // queued events are still expected
		{107.9, 73.5, false, ""},
		{108, 77, false, "5@16 71@16 72@18 73@18 73@99 74@99"},
	} {
		a.add(trade1(i, step.received, step.at))
		if got := gather(t, &a, step.behind, false); got != step.want {
			t.Errorf("step %d: %v, want %s", i, got, step.want)
		}
	}
	if got := gather(t, &a, false, true); got != "76@107 77@108" || a.late != 1 || a.bytes != 0 || len(a.held) != 0 {
		t.Errorf("at the end %s; %d were late, %d bytes of %d events are held", got, a.late, a.bytes, len(a.held))
	}
}

// TestOrderIsBounded checks the memory limit while old events are expected. The earliest events are
// emitted first, because later arrivals belong before the others. Late arrivals are counted.
func TestOrderIsBounded(t *testing.T) {
	a := reorderBuffer{maxBytes: 40 * (heldEventSize + 30)}
	given, most := 0, 0
	for i := range 1000 {
		a.add(trade1(0, float64(i)/10, 1e6+float64(i))) // current
		a.add(trade1(1, float64(i)/10, float64(i)))     // replayed
		if got := gather(t, &a, true, false); got != "" {
			given += len(strings.Fields(got))
		}
		most = max(most, a.bytes)
	}
	if given == 0 || a.late == 0 || a.late > 1000 || most > a.maxBytes+2*(heldEventSize+30) {
		t.Errorf("%d were given, %d late, %d bytes of %d held", given, a.late, most, a.maxBytes)
	}
	if n := len(strings.Fields(gather(t, &a, true, true))); given+n != 2000 {
		t.Errorf("%d and at the end %d of 2,000", given, n)
	}
}

// TestOrderKeepsEvents holds events with all fields and many books; each is emitted unchanged.
func TestOrderKeepsEvents(t *testing.T) {
	var a reorderBuffer
	whole := market.Event{
		Kind: market.KindCorrect, Side: market.Sell, Phase: market.Auction, Handle: 300, Time: 1, Receive: begin, Sequence: math.MaxUint64, Price: -5, Size: 6,
		OldPrice: math.MinInt64, OldSize: math.MaxInt64, OrderID: math.MaxUint64, Until: begin, TradeID: "A-1", Reason: "halted", TradeDetails: market.TradeDetails{Conditions: []string{"", "odd_lot"}},
		Bids: []market.Level{{Price: math.MaxInt64, Size: 1, Orders: math.MaxUint32}, {Price: math.MinInt64, Size: 2}}, Asks: []market.Level{{Price: 7, Size: 0}},
	}
	a.add(&whole)
	const n = 100_000
	levels := make([]market.Level, 3)
	for i := range int64(n) {
		at := 2 + i ^ 1 // in swapped pairs
		levels[0].Price = market.Price(at)
		a.add(&market.Event{Kind: market.KindUpdate, Handle: market.Handle(at & 1), Time: at, Receive: begin + at, Bids: levels})
	}
	got, last := 0, int64(1)
	if err := a.flush(false, true, func(events []market.Event) error {
		for i := range events {
			e := &events[i]
			if got++; got == 1 {
				if !reflect.DeepEqual(*e, whole) {
					t.Errorf("%+v, want %+v", *e, whole)
				}
				continue
			}
			if e.Time <= last || len(e.Bids) != 3 || int64(e.Bids[0].Price) != e.Time || cap(e.Bids) != 3 || e.Asks != nil {
				t.Fatalf("event %d after %d: %v", e.Time, last, e.Bids)
			}
			last = e.Time
		}
		return nil
	}); err != nil || got != n+1 {
		t.Errorf("%d events of %d: %v", got, n+1, err)
	}
}

// TestOrderReportsLateTrades has a trade that arrives after the reorder window. It is played and
// reported.
func TestOrderReportsLateTrades(t *testing.T) {
	var log strings.Builder
	c := Config{Speed: math.Inf(1), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	var r feedtest.Recorder
	lines := []string{"1 A 1 10"}
	for i := range 300 { // more than is decoded at once
		lines = append(lines, fmt.Sprintf("%d A %d %d", 20+i, i+2, 20+i))
	}
	if err := writeRecording(t, "", c, append(lines, "330 B 1 7")...).Run(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Events()); n != 302 || !strings.Contains(log.String(), "late_trades") || !strings.Contains(log.String(), "1 trades arrived more than 8s after") {
		t.Errorf("%d events, log: %s", n, log.String())
	}
}

// TestMarketsOfRecording checks that AppendMarkets returns each market of a recording once and that
// Summary names its instruments.
func TestMarketsOfRecording(t *testing.T) {
	more := `,"markets":[{"market":"BYMA","name":"Bolsas","timezone":"America/Argentina/Buenos_Aires","terms":[]},{"market":"ROFX","timezone":"UTC","terms":[]}]`
	lines := []string{"1 A 1 1", "2 B 1 2", "3 C 1 3", "4 D 1 4", "5 E 1 5", "6 F 1 6"}
	s := writeRecording(t, more, Config{}, lines...)
	list := s.AppendMarkets([]market.Market{{ID: "ROFX", Name: "mine"}})
	if len(list) != 2 || list[0].Name != "mine" || list[1].ID != "BYMA" || list[1].Timezone != "America/Argentina/Buenos_Aires" || !list[1].StatusFromFeed {
		t.Errorf("%+v", list)
	}
	if got := s.Summary(); got != "A|BYMA|CI, B|BYMA|CI, C|BYMA|CI, D|BYMA|CI and 2 more" {
		t.Error(got)
	}
	if s := writeRecording(t, "", Config{}, lines[:1]...); s.AppendMarkets(nil) != nil || s.Summary() != "A|BYMA|CI" {
		t.Errorf("an old recording: %v, %s", s.AppendMarkets(nil), s.Summary())
	}
}

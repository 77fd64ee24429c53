package marketdata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// at is the header of the events of these tests.
func at(id string, n uint64) client.Header {
	parsed, err := market.ParsePattern(id)
	if err != nil {
		panic(err)
	}
	return client.Header{Instrument: parsed, N: n, Time: time.Date(2026, 11, 20, 14, 30, 0, 123456789, time.Local)}
}

func price(text string) market.Price {
	p, err := market.ParsePrice(text)
	if err != nil {
		panic(err)
	}
	return p
}

func level(p string, size, orders int) market.Level {
	return market.Level{Price: price(p), Size: market.Size(size) * market.Scale, Orders: uint32(orders)}
}

// TestLines checks the lines of events, whose columns are aligned and grow.
func TestLines(t *testing.T) {
	t.Parallel()
	const id = "GGAL|BYMA|CI"
	var out strings.Builder
	p := newPrinter(&screen{out: &out}, nil, 5)
	for _, tc := range []struct {
		ev   client.Event
		want string
	}{
		{&client.Trade{Header: at(id, 9), Trade: wire.Trade{Kind: market.KindTrade, Price: price("7050.5"), Size: 120 * market.Scale, Side: market.Sell}},
			"14:30:00.123  T  GGAL|BYMA|CI     7050.5 x 120    sell  #9"},
		{&client.Trade{Header: at(id, 9), Trade: wire.Trade{Kind: market.KindCancel, ID: "88", Price: price("7050"), Size: 120 * market.Scale}},
			"14:30:00.123  X  GGAL|BYMA|CI    trade 88 of 7050 x 120 cancelled  #9"},
		{&client.Trade{Header: at(id, 9), Trade: wire.Trade{Kind: market.KindCorrect, ID: "88", Price: price("7045"), Size: market.Scale, OldPrice: price("7450"), OldSize: market.Scale}},
			"14:30:00.123  C  GGAL|BYMA|CI    trade 88 of 7450 x 1 corrected to 7045 x 1  #9"},
		{&client.Quote{Header: at(id, 9), Bid: level("0.00000001", 3, 0)},
			"14:30:00.123  Q  GGAL|BYMA|CI    0.00000001 x 3      |          -          #9"},
		{&client.Trade{Header: at("VERYLONG|BYMA|24hs", 10), Trade: wire.Trade{Kind: market.KindTrade, Price: price("1"), Size: market.Scale}},
			"14:30:00.123  T  VERYLONG|BYMA|24hs           1 x 1            #10"},
		{&client.Status{Header: at(id, 4), Phase: market.Halt, Reason: "volatility", Until: at(id, 1).Time.Add(time.Minute)},
			"14:30:00.123  H  GGAL|BYMA|CI        halt (volatility) until 14:31:00  #4"},
		{&client.Status{Header: at(id, 4), Phase: market.Halt, Snapshot: true}, ""}, // it was shown
		{&client.Bar{Header: at(id, 2), Bar: wire.Bar{Interval: market.Minute, Open: price("1"), High: price("3"), Low: price("1"), Close: price("2"), Trades: 2}},
			"14:30:00.123  K  GGAL|BYMA|CI        1m  open 1  high 3  low 1  close 2  volume 0  trades 2  #2"},
		{&client.Summary{Header: at(id, 2), Figures: wire.Figures{PreviousClose: price("7")}},
			"14:30:00.123  D  GGAL|BYMA|CI        previous 7  volume 0  trades 0  #2"},
	} {
		out.Reset()
		shown, err := p.event(tc.ev)
		if got := strings.TrimSuffix(out.String(), "\n"); err != nil || got != tc.want || shown != (tc.want != "") {
			t.Errorf("got  %q\nwant %q, %v", got, tc.want, err)
		}
	}
}

// bookOf returns an update that is the whole book, with its checksum.
func bookOf(id string, n uint64, depth int, bids, asks []market.Level) *client.BookUpdate {
	sum, _ := wire.Checksum(nil, bids, asks, wire.ChecksumLevels(depth), 2, 0)
	return &client.BookUpdate{Header: at(id, n), Snapshot: true, Depth: depth, Bids: bids, Asks: asks, Checksum: sum}
}

// TestLadder checks books as text, and that they fit 80 columns whatever they hold.
func TestLadder(t *testing.T) {
	t.Parallel()
	const id = "GGAL|BYMA|24hs"
	var out strings.Builder
	p := newPrinter(&screen{out: &out}, []string{id}, 5)
	if _, err := p.event(&client.Status{Header: at(id, 1), Phase: market.Open}); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	u := bookOf(id, 10, 5, []market.Level{level("7031", 240, 3), level("7030.5", 1_000_000, 12)}, []market.Level{level("7035", 660, 5)})
	if shown, err := p.event(u); !shown || err != nil {
		t.Fatal(shown, err)
	}
	want := strings.Join([]string{
		"GGAL|BYMA|24hs  open  spread 4  14:30:00.123  #10",
		"orders        size         bid | ask               size  orders",
		"     3         240        7031 | 7035               660       5",
		"    12     1000000      7030.5 |",
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	wide := level("1234567.12345678", 999_999_999, 4_000_000_000)
	if shown, _ := p.event(&client.BookUpdate{Header: at(id, 12), Previous: 11}); shown || out.Len() > 0 {
		t.Errorf("an update after a gap is shown: %q", out.String())
	}
	for depth, n := range map[int]int{5: 5, 0: 40} {
		out.Reset()
		p.depth = depth
		var bids, asks []market.Level
		for i := range n {
			b, a := wide, wide
			b.Price -= market.Price(i)
			a.Price += market.Price(i + 1)
			bids, asks = append(bids, b), append(asks, a)
		}
		u := bookOf(id, 20, depth, bids, asks)
		u.Checksum, _ = wire.Checksum(nil, bids, asks, wire.ChecksumLevels(depth), 8, 0)
		if shown, err := p.event(u); !shown || err != nil {
			t.Fatal(depth, shown, err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2+min(n, maxLevelsShown) {
			t.Errorf("depth %d: %d lines", depth, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > screenWidth {
				t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
			}
		}
	}
}

// TestScreen checks that a book stays in its place on a terminal, below the lines, and that the
// newest one is drawn.
func TestScreen(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	s := &screen{out: &out, inPlace: true}
	a := &around{screen: s, to: &errs}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return s.line("one\n") }, "one\n"},
		{func() error { return s.show("a\nb\n") }, "a\nb\n"},
		{func() error { return s.show("c\nd\n") }, ""}, // with the next redraw
		{s.redraw, "\x1b[2A\x1b[Jc\nd\n"},
		{s.redraw, ""},
		{func() error { return s.line("two\n") }, "\x1b[2A\x1b[Jtwo\nc\nd\n"},
		{func() error { _, err := a.Write([]byte("talk\n")); return err }, "\x1b[2A\x1b[Jc\nd\n"},
	} {
		out.Reset()
		if err := step.do(); err != nil || out.String() != step.want {
			t.Errorf("%q, want %q, %v", out.String(), step.want, err)
		}
	}
	if errs.String() != "talk\n" {
		t.Errorf("%q", errs.String())
	}
}

// TestSilence checks when a silence is reported, once, with its cause.
func TestSilence(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	live := client.StateChange{State: client.Live}
	id := at("GGAL|BYMA|CI", 1).Instrument
	phase := func(p market.Phase) map[market.InstrumentID]client.InstrumentHealth {
		return map[market.InstrumentID]client.InstrumentHealth{id: {Phase: p}}
	}
	for _, tc := range []struct {
		name   string
		health client.Health
		want   string
	}{
		{"quiet", client.Health{Instruments: phase(market.Open)}, "the connection is alive, and the feed sends nothing"},
		{"closed", client.Health{Instruments: phase(market.Closed)}, "the trading status is closed"},
		{"feed", client.Health{Down: []string{"BYMA"}}, "the feed of BYMA is down"},
		{"stalled", client.Health{Stream: 18 * time.Second}, "the gateway has stopped the stream"},
		{"dead", client.Health{Link: 16 * time.Second, Stream: 18 * time.Second}, "the connection is silent too"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s silence
			if got := s.check(tc.health, began); got != "" {
				t.Errorf("before the connection: %s", got)
			}
			s.event(live, began)
			s.event(&client.Quote{}, began.Add(time.Second))
			if got := s.check(tc.health, began.Add(15*time.Second)); got != "" {
				t.Errorf("early: %s", got)
			}
			if got := s.check(tc.health, began.Add(16*time.Second)); !strings.HasPrefix(got, "nothing for 15s: ") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := s.check(tc.health, began.Add(30*time.Second)); got != "" {
				t.Errorf("again: %s", got)
			}
			if got := s.event(&client.Trade{}, began.Add(41*time.Second)); got != "data again after 40s" {
				t.Errorf("at the end: %q", got)
			}
			s.event(client.StateChange{State: client.Waiting}, began.Add(50*time.Second))
			if got := s.check(tc.health, began.Add(time.Hour)); got != "" {
				t.Errorf("without a connection: %s", got)
			}
		})
	}
}

// TestClock checks that a clock that is off is reported once.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		health client.Health
		want   string
	}{
		{client.Health{ClockOffset: time.Hour}, ""}, // not measured
		{client.Health{RoundTrip: 3 * time.Second, ClockOffset: 4 * time.Second}, ""},
		{client.Health{RoundTrip: time.Millisecond, ClockOffset: -90 * time.Second}, "the clock of this machine is 1m30s ahead of that of the gateway"},
		{client.Health{RoundTrip: time.Millisecond, ClockOffset: 3 * time.Second}, "the clock of this machine is 3s behind that of the gateway"},
	} {
		var s silence
		got := s.checkClock(tc.health)
		if again := s.checkClock(tc.health); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || again != "" {
			t.Errorf("%+v: %q, again %q", tc.health, got, again)
		}
	}
}

// TestTerminalIsSafe checks that text of a server or a feed cannot move the cursor, set the title
// or reorder the line.
func TestTerminalIsSafe(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\u001b[2J\u001b]0;owned\u0007", "\u009b2J", "\u009d0;owned\u009c", "\u202e987", "a\u007fb", "a\rb"} {
		var out strings.Builder
		p := newPrinter(&screen{out: &out}, nil, 5)
		h := client.Header{Instrument: market.InstrumentID{Symbol: text, Market: "B", Term: "C"}, N: 1}
		for _, ev := range []client.Event{
			&client.Trade{Header: h, Trade: wire.Trade{Kind: market.KindCancel, ID: text}},
			&client.Status{Header: h, Reason: text},
			&client.BookUpdate{Header: h, Snapshot: true},
		} {
			if _, err := p.event(ev); err != nil {
				t.Fatal(err)
			}
		}
		if out := strings.ReplaceAll(out.String(), "\n", ""); strings.Count(out, "B|C") < 2 || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q was printed", out)
		}
		raw := command.EscapeControls([]byte(text))
		if strings.ContainsFunc(string(raw), func(r rune) bool { return r >= 0x7f && r <= 0x9f }) {
			t.Errorf("%q was printed as JSON", raw)
		}
	}
}

// TestThreat43HostileRecording verifies a recording with texts that a terminal acts on, wherever a
// report repeats a text: names, reasons, epochs and definitions.
func TestThreat43HostileRecording(t *testing.T) {
	t.Parallel()
	const control = `\u001b]0;owned\u0007\u009b2J\u202e` + "\u009b2J"
	lines := strings.NewReplacer("@", control).Replace(`{"rueda":"recording","version":1,"server":"s@","began":"2026-11-20T00:00:00Z","epoch":"e@","channels":["trades"],"ids":[],"instruments":[{"instrument":"A@|B|CI"}]}
1 {"recording":"disconnected","reason":"r@"}
2 {"type":"Subscription","epoch":"f@","lost":{"trades@":{"A@":{"reason":"r@"}}}}
3 {"type":"T","I":"A@","N":1,"T":"2026-11-20T00:00:00Z","P":1,"Z":1,"X":"x@"}
`)
	name := filepath.Join(t.TempDir(), "hostile.jsonl")
	if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{name}, {name, "--json"}} {
		var stdout, stderr strings.Builder
		cmd := NewVerify(command.Streams{Out: &stdout, Err: &stderr})
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		_ = cmd.ExecuteContext(t.Context()) // it has findings
		out := stdout.String() + stderr.String()
		if !strings.Contains(out, "owned") || strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), unicode.IsControl) {
			t.Errorf("%v printed %q", args, out)
		}
	}
}

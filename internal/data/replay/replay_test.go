package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// begin is the receive time of the first line of each recording in testdata.
const begin = 1723161255000000000

func open(t testing.TB, path string, config Config) *Source {
	t.Helper()
	source, err := Open(path, config)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// describe describes an event in a few words; times are ms since begin.
func describe(e market.Event) string {
	var b strings.Builder
	ms := func(ns int64) int64 {
		if ns == 0 {
			return -1
		}
		return (ns - begin) / 1e6
	}
	switch e.Kind {
	case market.KindTrade:
		fmt.Fprintf(&b, "trade %s: %s at %s, aggressor %d", e.TradeID, e.Size, e.Price, e.Side)
	case market.KindQuote:
		fmt.Fprintf(&b, "quote %v %v", e.Bids, e.Asks)
	case market.KindUpdate:
		fmt.Fprintf(&b, "update %v %v", e.Bids, e.Asks)
	case market.KindSnapshot:
		fmt.Fprintf(&b, "snapshot %v %v", e.Bids, e.Asks)
	case market.KindGap:
		fmt.Fprintf(&b, "gap %s", e.Reason)
	}
	fmt.Fprintf(&b, " (%d, event %d, received %d)", e.Sequence, ms(e.Time), ms(e.Receive))
	return b.String()
}

// recording is a file of testdata and its expected events.
type recording struct {
	file  string
	in    market.Instrument
	want  []string
	stats Stats
}

func recordings() []recording {
	return []recording{
		{
			"futures.jsonl",
			market.Instrument{
				ID:   market.InstrumentID{Symbol: "BTCUSDT", Market: "BINANCE", Term: "PERP"},
				Name: "BTCUSDT perpetual", Kind: "perpetual", Currency: "USDT",
				PriceDecimals: 2, SizeDecimals: 3, QuotesFromFeed: true, VirtualClock: true, Listed: begin + 1e9,
			},
			[]string{
				"trade 7: 0.25 at 100.1, aggressor 1 (7, event 1020, received 20)",
				"snapshot [{100 2 0} {99.9 1 0}] [{100.1 3 0} {100.2 4 0}] (103, event 1030, received 30)",
				"update [{100 5 0}] [{100.2 0 0}] (105, event 1010, received 10)",
				"quote [{100 5 0}] [{100.1 3 0}] (105, event 1040, received 40)",
				"update [{99.9 0 0} {99.8 1.5 0}] [] (110, event 1050, received 50)",
				"gap sequence_gap (120, event 1070, received 70)",
				"trade 8: 1 at 100, aggressor 2 (8, event 1090, received 90)",
				"snapshot [{100 8 0}] [{100.1 7 0}] (121, event 1110, received 110)",
				"update [{100 2 0}] [] (125, event 1080, received 80)",
				"update [] [{100.1 6 0}] (130, event 1120, received 120)",
			},
			Stats{Lines: 13, Trades: 2, Quotes: 1, Depth: 6, Levels: 8, Snapshots: 2, Gaps: 1, Used: 9, Skipped: decode.Skipped{decode.Repeated: 3, decode.OtherType: 1}, Passes: 1},
		},
		{
			"spot.jsonl",
			market.Instrument{
				ID:   market.InstrumentID{Symbol: "BTCUSDT", Market: "BINANCE", Term: "SPOT"},
				Name: "BTCUSDT spot", Kind: "spot", Currency: "USDT",
				PriceDecimals: 8, SizeDecimals: 8, QuotesFromFeed: true, VirtualClock: true, Listed: begin + 1e9,
			},
			[]string{
				"snapshot [{100 2 0}] [{100.1 3 0}] (100, event -1, received 10)",
				"update [{100 2.5 0} {99.9 1 0}] [] (104, event 1030, received 30)",
				"quote [{100 2.5 0}] [{100.1 3 0}] (105, event -1, received 40)",
				"trade 3: 0.5 at 100.1, aggressor 2 (3, event 1050, received 50)",
				"gap sequence_gap (107, event 1060, received 60)",
				"quote [{100 2.5 0}] [] (108, event -1, received 70)",
			},
			Stats{Lines: 8, Trades: 1, Quotes: 2, Depth: 4, Levels: 4, Snapshots: 1, Gaps: 1, Used: 6, Skipped: decode.Skipped{decode.Repeated: 1, decode.UnknownBook: 1}, Passes: 1},
		},
		{
			"nosnapshot.jsonl",
			market.Instrument{
				ID:   market.InstrumentID{Symbol: "BTCUSDT", Market: "BINANCE", Term: "SPOT"},
				Name: "BTCUSDT spot", Kind: "spot", Currency: "USDT",
				PriceDecimals: 8, SizeDecimals: 8, QuotesFromFeed: true, VirtualClock: true, Listed: begin + 1e9,
			},
			[]string{
				"trade 1: 0.5 at 100.1, aggressor 2 (1, event 1010, received 10)",
				"quote [{100 2 0}] [{100.1 3 0}] (102, event -1, received 30)",
			},
			Stats{Lines: 4, Trades: 1, Quotes: 1, Depth: 2, Levels: 2, Used: 2, Skipped: decode.Skipped{decode.UnknownBook: 2}, Passes: 1},
		},
	}
}

// TestLateLine checks that a line with an earlier receive time is skipped and counted, and that a
// recording of which more than one line in a thousand is lost is reported.
func TestLateLine(t *testing.T) {
	for _, tt := range []struct {
		lines int
		level string
	}{{400, "WARN"}, {4000, "INFO"}} {
		var text strings.Builder
		fmt.Fprintf(&text, "%d {\"stream\":\"btcusdt@trade\",\"data\":{\"e\":\"trade\",\"E\":1723161255000,\"T\":1723161255000,\"s\":\"BTCUSDT\",\"t\":1,\"p\":\"100\",\"q\":\"1\",\"X\":\"MARKET\",\"m\":false}}\n", begin+10)
		for i := range tt.lines {
			receive := begin + 20 + int64(i)
			if i == 100 {
				receive = begin + 15
			}
			fmt.Fprintf(&text, "%d {\"stream\":\"btcusdt@trade\",\"data\":{\"e\":\"trade\",\"E\":1723161255000,\"T\":1723161255000,\"s\":\"BTCUSDT\",\"t\":%d,\"p\":\"100\",\"q\":\"1\",\"X\":\"MARKET\",\"m\":false}}\n", receive, i+2)
		}
		path := filepath.Join(t.TempDir(), "late.jsonl")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		source, err := Open(path, Config{Speed: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		var r feedtest.Recorder
		if err := source.Run(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		s := source.Stats()
		if len(r.Events()) != tt.lines || s.Skipped.String() != "1 late" || s.Used != tt.lines || s.Lines != tt.lines+1 {
			t.Errorf("%d events, counted %+v", len(r.Events()), s)
		}
		if !strings.Contains(log.String(), "level="+tt.level+` msg="recording played"`) || !strings.Contains(log.String(), "line=102 reason=late") {
			t.Error(log.String())
		}
	}
}

func TestReplay(t *testing.T) {
	for _, tt := range recordings() {
		t.Run(tt.file, func(t *testing.T) {
			source := open(t, filepath.Join("testdata", tt.file), Config{Speed: -1})
			var r feedtest.Recorder
			if err := source.Run(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
			if got := r.Definitions(); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(tt.in) || fmt.Sprint(source.Instrument()) != fmt.Sprint(tt.in) {
				t.Errorf("defined %+v, want %+v", got, tt.in)
			}
			var got []string
			for _, e := range r.Events() {
				got = append(got, describe(e))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("played\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if got := source.Stats(); got != tt.stats {
				t.Errorf("counted %+v\n    want %+v", got, tt.stats)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	feedtest.Run(t, func(t *testing.T) feed.Source {
		return open(t, "testdata/futures.jsonl", Config{Speed: math.Inf(1)})
	}, feedtest.Options{Finite: true, TimeSlack: time.Second})
	feedtest.Run(t, func(t *testing.T) feed.Source {
		return open(t, "testdata/nosnapshot.jsonl", Config{Speed: 100})
	}, feedtest.Options{Finite: true, StaleBooks: true})
}

// TestPace checks that each event comes when it is due, to the millisecond of the fake clock.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		speed float64
		last  time.Duration // due time of the last line (120 ms)
	}{
		{0, 120 * time.Millisecond},
		{1, 120 * time.Millisecond},
		{10, 12 * time.Millisecond},
		{0.5, 240 * time.Millisecond},
		{1e-6, 120_000 * time.Second},
		{-1, 0},
		{math.Inf(1), 0},
	} {
		t.Run(fmt.Sprint(tt.speed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := open(t, "testdata/futures.jsonl", Config{Speed: tt.speed})
				sink := timing{begun: time.Now()}
				if err := source.Run(t.Context(), &sink); err != nil {
					t.Fatal(err)
				}
				if last := sink.at[len(sink.at)-1]; last != tt.last {
					t.Errorf("last event after %v, want %v", last, tt.last)
				}
				if first := sink.at[0]; first != tt.last/6 { // due time of its line (20 ms)
					t.Errorf("first event after %v, want %v", first, tt.last/6)
				}
			})
		})
	}
}

// timing records when events come.
type timing struct {
	feedtest.Recorder
	begun time.Time
	at    []time.Duration
}

func (s *timing) Publish(events []market.Event) error {
	for range events {
		s.at = append(s.at, time.Since(s.begun))
	}
	return s.Recorder.Publish(events)
}

func TestPaceEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := open(t, "testdata/futures.jsonl", Config{Speed: 1e-300})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var r feedtest.Recorder
		if err := source.Run(ctx, &r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run returned %v", err)
		}
		if n := len(r.Events()); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}

func TestLoop(t *testing.T) {
	source := open(t, "testdata/futures.jsonl", Config{Speed: -1, Loop: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	var r feedtest.Recorder
	go func() { ended <- source.Run(ctx, &r) }()
	err := r.Wait(t.Context(), func(events []market.Event) bool { return len(events) >= 21 })
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	events := r.Events()
	if got := describe(events[10]); !strings.HasPrefix(got, "gap replay_restarted") {
		t.Errorf("the second time begins with %s", got)
	}
	for i := range 10 {
		if got, want := describe(events[11+i]), describe(events[i]); got != want {
			t.Errorf("second time %s, first %s", got, want)
		}
	}
	if source.Stats().Passes < 2 {
		t.Errorf("%+v", source.Stats())
	}
}

// pack compresses text with gzip.
func pack(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tape")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDamage checks that a damaged recording is played up to the damage and that the error has its
// position.
func TestDamage(t *testing.T) {
	good := read(t, "testdata/futures.jsonl")
	rows := bytes.SplitAfter(good, []byte("\n"))
	upTo := func(n int) int64 { return int64(len(bytes.Join(rows[:n], nil))) }
	third := string(rows[2]) // the first trade
	inThird := func(old, new string) []byte {
		if strings.Count(third, old) != 1 {
			t.Fatalf("%q is not once in %s", old, third)
		}
		return bytes.Join([][]byte{rows[0], rows[1], []byte(strings.Replace(third, old, new, 1)), rows[3]}, nil)
	}
	at := func(s string) int64 { return upTo(2) + int64(strings.Index(third, s)) }
	packed := pack(t, good)
	sumBroken := slices.Clone(packed)
	sumBroken[len(sumBroken)-5] ^= 1
	for _, tt := range []struct {
		name   string
		data   []byte
		line   int
		offset int64
		text   string
		events int
	}{
		{"not JSON", inThird(`"data":{`, `"data":<`), 3, at(`"data":`) + 7, "bad JSON: expected \"{\"", 0},
		{"JSON cut off", bytes.TrimSuffix(good, []byte("\"6.000\"]]}}\n")), 13, int64(len(good)) - 12, "unexpected end", 9},
		{"text behind", inThird("}}\n", "}} {}\n"), 3, at("}}\n") + 3, "text after the value", 0},
		{"bad price", inThird(`"100.10"`, `"100.1O"`), 3, at(`100.10`), `bad price "100.1O": not a plain decimal`, 0},
		{"price too exact", inThird(`"100.10"`, `"100.1000000001"`), 3, at(`100.10`), "more than 8 decimals", 0},
		{"negative size", inThird(`"0.250"`, `"-0.250"`), 3, at(`0.250`), `bad size "-0.250": number out of range`, 0},
		{"bad trade id", inThird(`"t":7`, `"t":"7"`), 3, at(`"t":7`) + 4, "not an integer", 0},
		{"trade id too large", inThird(`"t":7`, `"t":99999999999999999999`), 3, at(`"t":7`) + 4, "too large", 0},
		{"event time too large", inThird(`"T":1723161256020`, `"T":9999999999999`), 3, at(`"T":`) + 17, "bad time", 0},
		{"field missing", inThird(`,"m":false`, ``), 3, upTo(2), "trade with a field missing", 0},
		{"field twice", inThird(`,"m":false`, `,"m":false,"m":true`), 3, at(`,"m"`) + 15, `name "m" twice`, 0},
		{"no receive time", inThird("1723161255020000000 ", ""), 3, upTo(2), "receive time", 0},
		{"space before the receive time", inThird("1723161255020000000 ", " 1723161255020000000 "), 3, upTo(2), "receive time", 0},
		{"receive time in ms", inThird("1723161255020000000 ", "1723161255020 "), 3, upTo(2), "receive time", 0},
		{"another symbol", inThird("BTCUSDT", "ETHUSDT"), 3, upTo(2), `symbol "ETHUSDT" in a recording of BTCUSDT`, 0},
		{"another market", inThird(`"m":false`, `"m":false,"M":true`), 3, upTo(2), "another market", 0},
		{"no message", inThird(third[20:], "{}\n"), 3, upTo(2), "not a message", 0},
		{"empty line", inThird(third, "\n"), 3, upTo(2), "receive time", 0},
		{"a price twice", bytes.Replace(good, []byte(`["99.80","1.500"],["99.90"`), []byte(`["99.80","1.500"],["99.80"`), 1), 6, upTo(5), "a price twice", 4},
		{"empty level in a snapshot", bytes.Replace(good, []byte(`["100.10","3.000"],["100.20","4.000"]`), []byte(`["100.10","3.000"],["100.20","0.000"]`), 1), 4, upTo(3), "empty level", 1},
		{"long line", append(slices.Clone(good), bytes.Repeat([]byte("x"), maxLine+1)...), 14, upTo(13), "longer than 4 MiB", 10},
		{"gzip cut off", packed[:len(packed)-20], 0, -1, "the gzip file is cut off: unexpected EOF", -1},
		{"gzip without its sum", packed[:len(packed)-8], 14, int64(len(good)), "the gzip file is cut off: unexpected EOF", 10},
		{"gzip sum wrong", sumBroken, 14, int64(len(good)), "the gzip file is damaged: gzip: invalid checksum", 10},
		{"text behind gzip", append(slices.Clone(packed), "text"...), 14, int64(len(good)), "the gzip file is", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.data)
			source := open(t, path, Config{Speed: -1})
			var r feedtest.Recorder
			err := source.Run(t.Context(), &r)
			bad, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Run returned %v, want an *Error", err)
			}
			if bad.File != path || tt.line > 0 && bad.Line != tt.line || tt.offset >= 0 && bad.Offset != tt.offset || !strings.Contains(bad.Error(), tt.text) {
				t.Errorf("Run returned %v\nwant line %d, offset %d: %s", err, tt.line, tt.offset, tt.text)
			}
			if !strings.Contains(err.Error(), fmt.Sprintf("%s: line %d, offset %d: ", path, bad.Line, bad.Offset)) {
				t.Errorf("the text %q does not name the place", err)
			}
			if n := len(r.Events()); tt.events >= 0 && n != tt.events {
				t.Errorf("%d events before the fault, want %d", n, tt.events)
			}
		})
	}
}

// TestCutOff checks that every complete line of a truncated compressed file is played.
func TestCutOff(t *testing.T) {
	var text []byte
	for i := range 2000 {
		text = fmt.Appendf(text, `%d {"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256021,"T":1723161256020,"s":"BTCUSDT","t":%d,"p":"100.10","q":"0.250","X":"MARKET","m":false}}`+"\n", int64(begin)+int64(i), i*7919%100_003)
	}
	packed := pack(t, text)
	source := open(t, write(t, packed[:len(packed)/2]), Config{Speed: -1})
	var r feedtest.Recorder
	err := source.Run(t.Context(), &r)
	bad, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("Run returned %v", err)
	}
	n := len(r.Events())
	if n < 500 || bad.Line != n+1 {
		t.Errorf("%d events, fault in line %d", n, bad.Line)
	}
}

func TestOpenRefuses(t *testing.T) {
	good := read(t, "testdata/futures.jsonl")
	many := bytes.Repeat([]byte(`1723161255000000000 {"stream":"btcusdt@kline","data":{}}`+"\n"), 200)
	for _, tt := range []struct {
		name string
		data []byte
		text string
	}{
		{"nothing", nil, "the file is empty"},
		{"one byte", []byte{0x1f}, "line 1, offset 0: does not begin with a receive time"},
		{"prose", []byte("Dear reader,\n"), "captures of Binance have lines of a receive time"},
		{"JSON lines", []byte(`{"type":"T"}` + "\n"), "captures of Binance have lines"},
		{"foreign JSON", []byte(`1723161255000000000 {"type":"T"}` + "\n"), "captures of Binance have lines"},
		{"packed prose", pack(t, []byte("Dear reader,\n")), "captures of Binance have lines"},
		{"packed nothing", pack(t, nil), "the file is empty"},
		{"half a gzip header", pack(t, good)[:5], "the gzip file is cut off"},
		{"gzip header alone", pack(t, good)[:10], "the gzip file is cut off"},
		{"other streams alone", many, "no trade, aggTrade, bookTicker or depth message in the first 100 lines"},
		{"partial books alone", bytes.ReplaceAll(many, []byte("@kline"), []byte("@depth20@100ms")), "only partial books (depth5, depth10, depth20)"},
		{"second line damaged", []byte("1723161255000000000 {\"stream\":\"x@kline\",\"data\":{}}\n{\n"), "line 2, offset 51"},
		{"symbol that is no symbol", bytes.ReplaceAll(good, []byte(`"s":"BTCUSDT"`), []byte(`"s":"BTC|USDT"`)), "not of the form SYMBOL|MARKET|TERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.data)
			_, err := Open(path, Config{})
			if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open returned %v, want %q", err, tt.text)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Config{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Open("testdata/futures.jsonl", Config{Speed: math.NaN()}); err == nil {
		t.Error("speed NaN taken")
	}
}

// TestLineEnds checks the line ends of other systems, and a last line without one.
func TestLineEnds(t *testing.T) {
	good := read(t, "testdata/futures.jsonl")
	for name, data := range map[string][]byte{
		"CRLF":             bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")),
		"no end":           bytes.TrimSuffix(good, []byte("\n")),
		"packed":           pack(t, good),
		"packed in pieces": append(pack(t, good[:1000]), pack(t, good[1000:])...),
	} {
		source := open(t, write(t, data), Config{Speed: -1})
		var sink feedtest.CountSink
		if err := source.Run(t.Context(), &sink); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n, _ := sink.Count(); n != 10 {
			t.Errorf("%s: %d events, want 10", name, n)
		}
	}
}

// refusing rejects snapshots, or fails.
type refusing struct {
	feedtest.Recorder
	err error
}

func (s *refusing) Publish(events []market.Event) error {
	if s.err != nil {
		return s.err
	}
	var errs []error
	for i, e := range events {
		if e.Kind == market.KindSnapshot {
			errs = append(errs, &market.Refused{Index: i, Reason: "crossed"})
		}
	}
	return errors.Join(append(errs, s.Recorder.Publish(events))...)
}

func TestRefusedEvents(t *testing.T) {
	source := open(t, "testdata/futures.jsonl", Config{Speed: -1})
	if err := source.Run(t.Context(), new(refusing)); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if got := source.Stats(); got.Rejected != 2 || got.Lines != 13 {
		t.Errorf("%+v", got)
	}
	full := errors.New("disk full")
	if err := source.Run(t.Context(), &refusing{err: full}); !errors.Is(err, full) {
		t.Errorf("Run returned %v", err)
	}
}

// TestHeldIsBounded checks the limit of messages that wait for a snapshot, and that a snapshot that
// is too old for the rest is not used.
func TestHeldIsBounded(t *testing.T) {
	var p splicer
	levels := make([]market.Level, 100)
	for i := range uint64(3 * maxHeld) {
		if v := p.follow(&diff{first: i + 1, last: i + 1, event: market.Event{Bids: levels}}); v != hold {
			t.Fatalf("verdict %d", v)
		}
		if len(p.held) > maxHeld || p.levels > maxHeldLevels || p.levels != 100*len(p.held) {
			t.Fatalf("%d messages with %d levels held", len(p.held), p.levels)
		}
	}
	if _, use := p.snapshot(5); use {
		t.Error("a snapshot was used whose successors are gone")
	}
	held, use := p.snapshot(3*maxHeld - 3)
	if !use || len(held) == 0 {
		t.Fatal("a snapshot in the middle of what is held was not used")
	}
	applied := 0
	for i := range held {
		if p.follow(&held[i]) == apply {
			applied++
		}
	}
	if applied != 3 {
		t.Errorf("%d messages applied, want 3", applied)
	}
}

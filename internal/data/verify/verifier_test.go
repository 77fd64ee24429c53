package verify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestGoodStreams checks that nothing is wrong with the streams of a server whose channels are
// interleaved at random.
func TestGoodStreams(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(seed)
		w.run(6)
		list := w.list
		if seed%2 == 1 {
			list = shuffled(w, list)
		}
		r := judge(t, list, Config{Instruments: []market.Instrument{w.def}})
		if r.Wrong() > 0 {
			t.Fatalf("seed %d:\n%s", seed, text(r))
		}
		for c, least := range map[Check]uint64{Chain: 500, Checksum: 500, Crossed: 500, Quote: 50, Sequence: 800, Reference: 20, Bars: 5, Levels: 500, Time: 800} {
			if got := r.Result(c); got.Judged < least {
				t.Errorf("seed %d: %s was judged %d times, want %d at least", seed, c, got.Judged, least)
			}
		}
	}
}

// shuffled randomly swaps neighbouring messages of different channels.
func shuffled(w *world, list []string) []string {
	list = slices.Clone(list)
	channel := func(s string) string {
		kind := s[len(`{"type":"`):][:1]
		if strings.Contains("TXC", kind) {
			return "T"
		}
		return kind
	}
	for i := 4; i+1 < len(list); i++ {
		if channel(list[i]) != channel(list[i+1]) && w.random.IntN(2) == 0 {
			list[i], list[i+1] = list[i+1], list[i]
		}
	}
	return list
}

// find returns the index of the n-th message that contains a text.
func find(list []string, part string, n int) int {
	for i, s := range list {
		if strings.Contains(s, part) {
			if n--; n < 0 {
				return i
			}
		}
	}
	return -1
}

// edit replaces the first match of a pattern in the n-th message of a type.
func edit(kind string, n int, pattern, with string) func([]string) []string {
	return func(list []string) []string {
		i := find(list, `{"type":"`+kind+`"`, n)
		list[i] = regexp.MustCompile(pattern).ReplaceAllString(list[i], with)
		return list
	}
}

func drop(kind string, n int) func([]string) []string {
	return func(list []string) []string {
		i := find(list, `{"type":"`+kind+`"`, n)
		return slices.Delete(list, i, i+1)
	}
}

func twice(kind string, n int) func([]string) []string {
	return func(list []string) []string {
		i := find(list, `{"type":"`+kind+`"`, n)
		return slices.Insert(list, i, list[i])
	}
}

// TestGapInStream checks that gaps are counted among the statuses and that the phase before them
// stays in force.
func TestGapInStream(t *testing.T) {
	w := newWorld(3)
	w.run(3)
	w.status(market.Gap, false)
	w.run(3)
	r := judge(t, w.list, Config{Instruments: []market.Instrument{w.def}})
	if r.Wrong() > 0 || r.Result(Crossed).Judged < 250 || !slices.Contains(r.Figures, Figure{"gaps", 1}) {
		t.Errorf("%s\n%+v", text(r), r.Figures)
	}
}

// TestEachWrong corrupts one thing in a good stream and checks that it is found, at its position,
// by its check.
func TestEachWrong(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func([]string) []string
		check Check
		also  []Check // what follows from it
		want  string
	}{
		{"checksum", edit("O", 30, `"K":\d+`, `"K":1`), Checksum, nil, "K is 1"},
		{"update dropped", drop("O", 30), Chain, []Check{Quote, Levels}, "follows 70"},
		{"update of other books", edit("O", 30, `"L":\d+`, `"L":7`), Chain, nil, "follows 7"},
		{"update twice", twice("O", 30), Sequence, nil, "order_book came with this N"},
		{"size changed", edit("O", 30, `,(\d+)\]\]`, `,77777]]`), Checksum, []Check{Checksum, Quote}, "K is"},
		{"trade dropped", drop("T", 30), Sequence, []Check{Bars, Reference}, "is missing"},
		{"trade twice", twice("T", 30), Sequence, nil, "came with this N"},
		{"status skipped", edit("H", 1, `"N":\d+`, `"N":9`), Sequence, nil, "N 2 to 8 are missing"},
		{"bar skipped", drop("K", 2), Sequence, nil, "bars 1m: N 3 is missing"},
		{"bar of other volume", edit("K", 2, `"TV":\d+`, `"TV":1`), Bars, nil, "TV is 1"},
		{"bar of other high", edit("K", 3, `"HI":[\d.]+`, `"HI":1`), Bars, nil, "HI is 1"},
		{"bar of other turnover", edit("K", 3, `"EV":[\d.]+`, `"EV":1`), Bars, nil, "EV is 1"},
		{"bar of other count", edit("K", 3, `"TC":\d+`, `"TC":1`), Bars, nil, "TC is 1"},
		{"bar of no interval", edit("K", 3, `"1m"`, `"7m"`), Message, []Check{Sequence}, "without the member IV"},
		{"cancel of nothing", edit("X", 1, `"XN":\d+`, `"XN":999999`), Reference, []Check{Bars}, "not before this message"},
		{"cancel of another", edit("X", 1, `"X":"t\d+"`, `"X":"other"`), Reference, []Check{Bars}, "not other"},
		{"cancel of another price", edit("X", 1, `"P":[\d.]+`, `"P":1`), Reference, nil, "it gives trade"},
		{"correction without XN", edit("C", 1, `,"XN":\d+`, ``), Reference, nil, "XN is absent"},
		{"quote of another price", edit("Q", 20, `"BP":[\d.]+`, `"BP":6000`), Quote, nil, "the quote is 6000 x"},
		{"quote of no size", edit("Q", 20, `,"AP":[\d.]+,"AZ":\d+`, ``), Quote, nil, "| -"},
		{"quote back", edit("Q", 20, `"N":\d+`, `"N":3`), Sequence, []Check{Quote}, "quotes came with this N"},
		{"trade of another day", edit("T", 30, `"T":"2026-11-20T`, `"T":"2026-11-19T`), Bars, nil, "TC is 45, but there are 44 trades"},
		{"time of a quote back", edit("Q", 20, `"T":"2026-11-20T`, `"T":"2026-11-19T`), Time, []Check{Quote}, "quotes went back"},
		{"time of a book back", edit("O", 30, `"T":"2026-11-20T`, `"T":"2026-11-19T`), Time, []Check{Quote}, "order_book went back"},
		{"state out of order", edit("O", 0, `\[7000,10\],\[6999,11\]`, `[6999,11],[7000,10]`), Levels, nil, "which is better"},
		{"state with an empty level", edit("O", 0, `\[7000,10\]`, `[7000,0]`), Levels, nil, "empty level"},
		{"price twice", edit("O", 0, `\[6999,11\]`, `[7000,11]`), Levels, nil, "occurs twice"},
		{"not JSON", edit("T", 30, `}$`, ``), Message, []Check{Sequence, Bars, Reference}, "bad message"},
		{"no instrument", edit("T", 30, `"I":"[^"]+"`, `"I":"GGAL"`), Message, []Check{Sequence, Bars, Reference}, "not of the form SYMBOL|MARKET|TERM"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(7)
			w.run(3)
			w.status(market.Halt, false)
			w.status(market.Open, false)
			w.run(3)
			list := tc.spoil(slices.Clone(w.list))
			r := judge(t, list, Config{Instruments: []market.Instrument{w.def}})
			got := r.Result(tc.check)
			if got.Wrong == 0 {
				t.Fatalf("nothing was found by %s:\n%s", tc.check, text(r))
			}
			if s := got.Findings[0].line("line"); !strings.Contains(s, tc.want) || got.Findings[0].Position.Line == 0 {
				t.Errorf("found %q, want %q in it", s, tc.want)
			}
			for _, c := range r.Checks {
				if c.Wrong > 0 && c.Check != tc.check && !slices.Contains(tc.also, c.Check) {
					t.Errorf("found by %s too:\n%s", c.Check, text(r))
				}
			}
		})
	}
}

func message(kind string, n int, at int, rest string) string {
	return fmt.Sprintf(`{"type":"%s","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:30:%02d.000000000Z",%s}`, kind, n, at, rest)
}

// TestCrossed checks that crossed and locked books are found while the market is open, and accepted
// in an auction, whichever of status and book comes first.
func TestCrossed(t *testing.T) {
	const state, crossed, locked = `"R":true,"DL":0,"B":[[10,1]],"A":[[11,1]]`, `"L":1,"A":[[9,1]]`, `"L":1,"A":[[10,1]]`
	for _, tc := range []struct {
		name string
		list []string
		want uint64
	}{
		{"open", []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, state), message("O", 2, 2, crossed)}, 1},
		{"locked", []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, state), message("O", 2, 2, locked)}, 1},
		{"auction", []string{message("H", 1, 0, `"E":"auction"`), message("O", 1, 1, state), message("O", 2, 2, crossed)}, 0},
		{"auction told later", []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, state), message("O", 2, 2, crossed), message("H", 2, 2, `"E":"auction"`)}, 0},
		{"auction after it", []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, state), message("O", 2, 2, crossed), message("H", 2, 3, `"E":"auction"`)}, 1},
		{"market closed", []string{message("H", 1, 0, `"E":"open"`), `{"type":"H","S":"*","I":"*|B|*","N":1,"E":"closed"}`, message("O", 1, 1, state), message("O", 2, 2, crossed)}, 0},
		{"market closed, told later", []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, state), message("O", 2, 3, crossed), `{"type":"H","S":"*","I":"*|B|*","N":1,"T":"2026-11-20T14:30:02.000000000Z","E":"closed"}`}, 0},
		{"status not told", []string{message("O", 1, 1, state), message("O", 2, 2, crossed)}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if r := judge(t, append(slices.Clone(tc.list), silence(5)...), Config{}); r.Result(Crossed).Wrong != tc.want {
				t.Errorf("want %d:\n%s", tc.want, text(r))
			}
			if got := judge(t, tc.list, Config{}).Result(Crossed); got.Wrong > 0 || got.Unjudged < tc.want {
				t.Errorf("at the end of the stream: %d found, %d unjudged", got.Wrong, got.Unjudged)
			}
		})
	}
}

// TestUnknown checks that books are judged while the status is unknown, and that crossed ones are
// counted in a note and are no finding. The status that follows decides about what comes after it.
func TestUnknown(t *testing.T) {
	list := []string{
		message("H", 1, 0, `"E":"unknown"`),
		message("O", 1, 1, `"R":true,"DL":0,"B":[[10,1]],"A":[[11,1]]`),
		message("O", 2, 2, `"L":1,"A":[[9,1]]`), // crossed
		message("O", 3, 3, `"L":2,"B":[[9,1]]`), // still
		message("O", 4, 4, `"L":3,"A":[[9,0]]`),
	}
	for _, tc := range []struct {
		then            string
		judged, missing uint64
		wrong           string
	}{
		{"", 2, 2, ""},
		{message("H", 2, 5, `"E":"open"`), 3, 2, "bid 10, ask 10"},
		{message("H", 2, 5, `"E":"pre_open"`), 2, 2, ""},
		{message("H", 2, 5, `"E":"unknown"`), 2, 3, ""},
	} {
		list := slices.Clone(list)
		if tc.then != "" {
			list = append(list, tc.then, message("O", 5, 6, `"L":4,"A":[[10,1]]`)) // locked
		}
		r := judge(t, append(list, silence(5)...), Config{})
		c := r.Result(Crossed)
		note := fmt.Sprintf("%d books are locked or crossed, and no trading status is known", tc.missing)
		if c.Judged != tc.judged || c.Unjudged != tc.missing || c.Wrong > 0 != (tc.wrong != "") || r.Wrong() != c.Wrong || !strings.Contains(text(r), note) || !strings.Contains(text(r), tc.wrong) {
			t.Errorf("after %q: want %d judged, %d not, %q\n%s", tc.then, tc.judged, tc.missing, tc.wrong, text(r))
		}
	}
}

// silence returns messages without content.
func silence(n int) []string { return slices.Repeat([]string{`{"type":"Alive","code":200}`}, n) }

// TestFastMarket has half a minute of an auction come within milliseconds before its status.
func TestFastMarket(t *testing.T) {
	list := []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, `"R":true,"DL":0,"B":[[10,1]],"A":[[11,1]]`)}
	for i := range 40 {
		list = append(list, message("O", i+2, i+10, fmt.Sprintf(`"L":%d,"B":[[12,%d]]`, i+1, i+1)), message("Q", i+1, i+10, `"R":false`))
	}
	reported := append(slices.Clone(list), message("H", 2, 5, `"E":"auction"`), message("O", 42, 55, `"L":41,"B":[[12,99]]`))
	for name, tc := range map[string]struct {
		list  []string
		wrong uint64
	}{"auction": {reported, 0}, "open": {list, 40}} {
		v := New(Config{Findings: 1})
		d := stream.Decoder{Lenient: true}
		var m stream.Message
		for i, s := range append(tc.list, silence(3)...) {
			if err := d.Decode([]byte(s), &m); err != nil {
				t.Fatal(err)
			}
			at := int64(i) * 1e6
			if i >= len(tc.list) {
				at += int64(i) * 1e9
			}
			v.Message(int64(i+1), start+at, &m)
		}
		r := v.Report()
		if r.Result(Crossed).Wrong != tc.wrong || r.Result(Quote).Wrong > tc.wrong || tc.wrong > 0 && r.Result(Quote).Wrong == 0 {
			t.Errorf("%s: want %d crossed:\n%s", name, tc.wrong, text(r))
		}
	}
}

// TestLate has a late trade, first before and then after the bar of its time, which becomes its
// first and its last trade.
func TestLate(t *testing.T) {
	at := func(n, second, price int) string {
		return fmt.Sprintf(`{"type":"T","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:31:%02d.000000000Z","P":%d,"Z":1}`, n, second, price)
	}
	bar := func(n int, open, end, volume, value int, rest string) string {
		return fmt.Sprintf(`{"type":"K","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:31:00.000000000Z","IV":"1m","OP":%d,"HI":9,"LO":5,"CL":%d,"TV":%d,"EV":%d,"TC":%d%s}`,
			n, open, end, volume, value, volume, rest)
	}
	summary := func(n, second, high, last, value int) string {
		return fmt.Sprintf(`{"type":"D","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:31:%02d.000000000Z","OP":1,"HI":%d,"LO":1,"LA":%d,"TV":%d,"EV":%d,"TC":%d}`,
			n, second, high, last, n+1, value, n+1)
	}
	list := []string{message("T", 1, 0, `"P":1,"Z":1`), at(2, 10, 5), summary(1, 10, 5, 5, 6), at(3, 20, 9), summary(2, 20, 9, 9, 15), at(4, 5, 6), summary(3, 5, 9, 9, 21)}
	list = append(list, bar(1, 6, 9, 3, 20, ""), at(5, 20, 7), summary(4, 20, 9, 7, 28), bar(2, 6, 7, 4, 27, `,"R":true`))
	r := judge(t, append(list, silence(6)...), Config{})
	if r.Wrong() > 0 || r.Figure("late trades") != 1 || r.Result(Bars).Judged != 1 {
		t.Errorf("a late trade:\n%s", text(r))
	}
	list[7] = bar(1, 5, 9, 3, 20, "") // which determined the first by its N
	const want = "1m bar: OP is 5, but 6 by the trades"
	if r := judge(t, append(list[:8], silence(6)...), Config{}); r.Result(Bars).Wrong != 1 || r.Result(Bars).Findings[0].Text != want {
		t.Errorf("the first in order of N:\n%s", text(r))
	}
}

// TestLateFirst begins with a late trade: the trades in between were before the recording.
func TestLateFirst(t *testing.T) {
	list := []string{message("Q", 1, 50, `"BP":1,"BZ":1`), minuteTrade(7, 20), minuteBar(1, 25, 3), minuteBar(2, 30, 4)}
	if r := judge(t, append(list, silence(6)...), Config{}); r.Wrong() > 0 || r.Result(Bars).Unjudged != 2 {
		t.Errorf("a recording that begins with a late trade:\n%s", text(r))
	}
}

// TestRevisionToCome judges a bar after its late trade and before its revision.
func TestRevisionToCome(t *testing.T) {
	list := []string{minuteTrade(1, 29), minuteTrade(2, 31), minuteBar(1, 31, 1)}
	list = append(list, silence(3)...)
	list = append(list, minuteTrade(3, 31))
	list = append(list, silence(2)...)
	list = append(list, minuteBar(2, 29, 1), strings.Replace(minuteBar(3, 31, 2), `"TC"`, `"R":true,"TC"`, 1))
	if r := judge(t, append(list, silence(6)...), Config{}); r.Wrong() > 0 || r.Result(Bars).Judged != 2 {
		t.Errorf("a revision:\n%s", text(r))
	}
}

// TestUntimed has a state without market time before one with a time.
func TestUntimed(t *testing.T) {
	list := []string{`{"type":"O","S":"A","I":"A|B|C","N":1,"R":true,"DL":0,"B":[],"A":[]}`, message("O", 2, 2, `"L":1,"B":[[10,1]]`)}
	if r := judge(t, list, Config{}); r.Wrong() > 0 || r.Result(Chain).Judged != 1 {
		t.Errorf("a state without a time:\n%s", text(r))
	}
}

// TestSingular checks the singular of figures.
func TestSingular(t *testing.T) {
	r := judge(t, []string{message("T", 1, 1, `"P":1,"Z":1`), message("T", 3, 2, `"P":1,"Z":1`), message("H", 1, 1, `"E":"open"`)}, Config{})
	r.Figures = append(r.Figures, Figure{"epochs", 1}, Figure{"days", 2}, Figure{applied, 1})
	for _, want := range []string{"  1 instrument, 2 trades, 1 status, 1 epoch, 2 days, 1 book change applied\n", "Wrong: 1 finding\n"} {
		if !strings.Contains(text(r), want) {
			t.Errorf("no %q:\n%s", want, text(r))
		}
	}
}

// TestLevels checks that deletions of unknown levels, and too many levels for the depth, are found.
func TestLevels(t *testing.T) {
	state := message("O", 1, 1, `"R":true,"DL":1,"B":[[10,1]],"A":[[11,1]]`)
	for want, update := range map[string]string{
		"deletes a level at 9":       `"L":1,"B":[[9,0]]`,
		"more levels than its depth": `"L":1,"B":[[9,1]]`,
		"price 8 occurs twice":       `"L":1,"B":[[8,1],[8,2]]`,
		"level 8 comes before 9":     `"L":1,"B":[[8,1],[9,2]]`,
		"level 13 comes before 12":   `"L":1,"A":[[13,1],[12,2]]`,
	} {
		r := judge(t, []string{state, message("O", 2, 2, update)}, Config{})
		if got := r.Result(Levels); got.Wrong != 1 || !strings.Contains(got.Findings[0].Text, want) {
			t.Errorf("%s: %s", update, text(r))
		}
	}
}

// TestReportedGaps checks that losses and new epochs reported by the server are accepted.
func TestReportedGaps(t *testing.T) {
	trade := func(n int) string { return message("T", n, n, `"P":1,"Z":1`) }
	lost := `{"type":"Subscription","code":200,"epoch":"e1","lost":{"trades":{"A|B|C":{"from":3,"to":4,"reason":"buffer_exceeded"}}}}`
	epoch := `{"type":"Subscription","code":200,"epoch":"e2"}`
	first := `{"type":"Subscription","code":200,"epoch":"e1"}`
	for _, tc := range []struct {
		name  string
		list  []string
		wrong uint64
		notes int
	}{
		{"told", []string{first, trade(1), trade(2), lost, trade(5)}, 0, 2},
		{"told, then another", []string{first, trade(1), trade(2), lost, trade(5), trade(7)}, 1, 2},
		{"not told", []string{first, trade(1), trade(2), trade(5)}, 1, 0},
		{"new epoch", []string{first, trade(9), epoch, trade(10 - 9)}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := judge(t, tc.list, Config{})
			if got := r.Result(Sequence).Wrong; got != tc.wrong || len(r.Notes) != tc.notes {
				t.Errorf("%d wrong, %d notes:\n%s", got, len(r.Notes), text(r))
			}
		})
	}
}

// TestIndependentQuotes checks that quotes of an independent source are not reported as wrong, and
// that a book that was never quoted is found, also while the status is unknown.
func TestIndependentQuotes(t *testing.T) {
	for _, phase := range []string{"open", "unknown"} {
		t.Run(phase, func(t *testing.T) { independentQuotes(t, phase) })
	}
}

func independentQuotes(t *testing.T, phase string) {
	var list []string
	list = append(list, message("H", 1, 0, `"E":"`+phase+`"`), message("O", 1, 0, `"R":true,"DL":0,"B":[[9,2]],"A":[[10,1]]`))
	for i := range 40 {
		at := fmt.Sprintf("2026-11-20T14:30:%02d", i)
		list = append(list,
			fmt.Sprintf(`{"type":"Q","S":"A","I":"A|B|C","N":%d,"T":"%s.100000000Z","BP":%d,"BZ":1,"AP":%d,"AZ":1}`, 2*i+1, at, 10+i, 11+i),
			fmt.Sprintf(`{"type":"Q","S":"A","I":"A|B|C","N":%d,"T":"%s.200000000Z","BP":%d,"BZ":2,"AP":%d,"AZ":1}`, 2*i+2, at, 10+i, 11+i),
			fmt.Sprintf(`{"type":"O","S":"A","I":"A|B|C","N":%d,"T":"%s.250000000Z","L":%d,"B":[[%d,2],[%d,0]],"A":[[%d,0],[%d,1]]}`, i+2, at, i+1, 10+i, 9+i, 10+i, 11+i))
	}
	if r := judge(t, list, Config{}); r.Wrong() > 0 || r.Result(Quote).Judged < 30 {
		t.Errorf("a good stream:\n%s", text(r))
	}
	i := find(list, `"B":[[29,2]`, 0)
	list[i] = strings.Replace(list[i], `"B":[[29,2]`, `"B":[[29,3]`, 1)
	if r := judge(t, list, Config{}); r.Result(Quote).Wrong != 1 || r.Wrong() != 1 {
		t.Errorf("a top that was not quoted:\n%s", text(r))
	}
}

// TestClocksDiffer has quotes whose T is not of the clock of the books, as those of Binance's spot
// market, which have only a receive time. A top that was not quoted is found nevertheless.
func TestClocksDiffer(t *testing.T) {
	const step = 250 * time.Millisecond
	for _, skew := range []time.Duration{-5 * time.Second, 0, 1300 * time.Millisecond} {
		list := []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 0, `"R":true,"DL":0,"B":[[9,1]],"A":[[999,1]]`)}
		for i := range 100 {
			at := func(d time.Duration) string {
				return time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC).Add(time.Duration(i)*step + d).Format("2006-01-02T15:04:05.000000000Z")
			}
			list = append(list,
				fmt.Sprintf(`{"type":"Q","S":"A","I":"A|B|C","N":%d,"T":"%s","BP":%d,"BZ":1,"AP":999,"AZ":1}`, i+1, at(skew), 10+i),
				fmt.Sprintf(`{"type":"O","S":"A","I":"A|B|C","N":%d,"T":"%s","L":%d,"B":[[%d,1],[%d,0]]}`, i+2, at(step/2), i+1, 10+i, 9+i))
		}
		wrong := slices.Clone(list)
		i := find(wrong, `[50,1]`, 0)
		wrong[i] = strings.Replace(wrong[i], `[50,1]`, `[50,7]`, 1)
		for want, list := range [][]string{list, wrong} {
			v := New(Config{})
			d := stream.Decoder{Lenient: true}
			var m stream.Message
			for i, s := range list {
				if err := d.Decode([]byte(s), &m); err != nil {
					t.Fatal(err)
				}
				v.Message(int64(i+1), start+int64(i)*int64(step/2), &m)
			}
			r := v.Report().Describe("test", "messages")
			if q := r.Result(Quote); q.Wrong != uint64(want) || r.Wrong() != uint64(want) || q.Judged < 70 {
				t.Errorf("quotes are %v ahead: want %d wrong:\n%s", skew, want, text(r))
			}
		}
	}
}

func TestReportJSON(t *testing.T) {
	r := judge(t, []string{message("T", 1, 1, `"P":1,"Z":1`), message("T", 3, 2, `"P":1,"Z":1`)}, Config{})
	var b strings.Builder
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Good   bool `json:"good"`
		Checks []struct {
			Check    string `json:"check"`
			Wrong    int    `json:"wrong"`
			Findings []struct {
				Line       int    `json:"line"`
				N          int    `json:"n"`
				Instrument string `json:"instrument"`
				Time       string `json:"time"`
			} `json:"findings"`
		} `json:"checks"`
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Checks {
		if c.Check == "sequence" {
			if f := c.Findings[0]; got.Good || c.Wrong != 1 || f.Line != 2 || f.N != 3 || f.Instrument != "A|B|C" || f.Time != "2026-11-20T14:30:02.000000000Z" {
				t.Errorf("%s", b.String())
			}
			return
		}
	}
	t.Errorf("no finding: %s", b.String())
}

func FuzzVerifier(f *testing.F) {
	w := newWorld(3)
	w.run(1)
	f.Add(strings.Join(w.list[:60], "\n"))
	f.Fuzz(func(t *testing.T, all string) {
		v := New(Config{Instruments: []market.Instrument{w.def}})
		d := stream.Decoder{Lenient: true}
		var m stream.Message
		for i, line := range strings.Split(all, "\n") {
			if err := d.Decode([]byte(line), &m); err != nil {
				v.Unreadable(int64(i), err)
				continue
			}
			v.Message(int64(i), int64(i), &m)
		}
		_ = text(v.Report())
	})
}

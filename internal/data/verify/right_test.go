package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestFidelity checks a small recording and its falsifications by others.
func TestFidelity(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(capture(t, filepath.Join("fidelity", "verify", "base.jsonl"))), "*.jsonl"))
	if err != nil || len(files) < 11 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		text1, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if r := verified(t, text1); r.Wrong() > 0 != (filepath.Base(name) != "base.jsonl") {
			t.Errorf("%s:\n%s", name, text(r))
		}
	}
}

// TestRightRecordings checks that nothing is wrong with recordings of markets that run at several
// speeds, and that all checks judge something.
func TestRightRecordings(t *testing.T) {
	for seed, speed := range []int64{1, 60, 600} {
		x := recorded(t, uint64(seed), 33*time.Minute, 5*time.Minute, speed, "GGAL|BYMA|24hs", "FAKE|SIM|CI")
		r := verified(t, x.bytes())
		if r.Wrong() > 0 || len(r.Notes) > 1 || !slices.Equal(r.NotJudged, []Check{Orders, Records}) {
			t.Errorf("speed %d:\n%s", speed, text(r))
		}
		for c, least := range map[Check]uint64{Quote: 1000, Summary: 500, Aggressor: 500, Bars: 100, Reference: 500} {
			if got := r.Result(c).Judged; got < least {
				t.Errorf("speed %d: %s was judged %d times, want %d at least", speed, c, got, least)
			}
		}
	}
}

// gateway is a hub with a journal, and another hub whose stream is recorded.
type gateway struct {
	*hub.Hub
	t        *testing.T
	journal  *journal.Journal
	folder   string
	recorder *recorder
	begin    time.Time // of the recording, an hour ago
	handle   market.Handle
	whole    market.Handle
	size     market.Size
}

// newGateway defines an instrument and its market as a whole.
func newGateway(t *testing.T, def market.Instrument) *gateway {
	t.Helper()
	g := &gateway{t: t, folder: t.TempDir(), begin: time.Now().Add(-time.Hour).Truncate(time.Second)}
	var err error
	if g.journal, err = journal.Open(t.Context(), journal.Config{Folder: g.folder, BootID: "boot"}); err != nil {
		t.Fatal(err)
	}
	g.Hub = hub.New(hub.Config{Journal: g.journal})
	g.recorder = newRecorder(t, g.begin, 1, "A|B|C")
	def.ID = instrumentOf("A|B|C").ID
	whole := market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: "B", Term: market.Any}, VirtualClock: def.VirtualClock}
	sinks := both{g.Hub, g.recorder}
	if g.handle, err = sinks.Define(def); err == nil {
		g.whole, err = sinks.Define(whole)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// publish publishes events of the instrument.
func (g *gateway) publish(events ...market.Event) {
	g.t.Helper()
	for i := range events {
		if events[i].Handle == 0 {
			events[i].Handle = g.handle
		}
	}
	if err := (both{g.Hub, g.recorder}).Publish(events); err != nil {
		g.t.Fatal(err)
	}
}

// second publishes what a market does in a second from a time on: a whole book, a trade and
// statuses.
func (g *gateway) second(at time.Time, phases ...market.Phase) {
	g.t.Helper()
	g.size += market.Scale
	level := func(p market.Price) []market.Level { return []market.Level{{Price: p * market.Scale, Size: g.size}} }
	ns := at.UnixNano()
	g.publish(market.Event{Kind: market.KindSnapshot, Time: ns, Bids: level(9), Asks: level(11)},
		market.Event{Kind: market.KindTrade, Time: ns + 1e6, Price: 11 * market.Scale, Size: g.size, Side: market.Buy})
	for i, p := range phases {
		g.publish(market.Event{Kind: market.KindStatus, Time: ns + int64(i+2)*1e6, Phase: p})
	}
}

// verified returns the report about the journal.
func (g *gateway) verified() *Report {
	g.t.Helper()
	g.Commit()
	if err := g.journal.Close(); err != nil {
		g.t.Fatal(err)
	}
	r, err := Journal(g.t.Context(), g.folder, 0, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// TestOutages has feeds that are down, and sequencers that take over. Their statuses have the
// gateway's time. The statuses that a resumed producer sends afterwards are of the outage.
func TestOutages(t *testing.T) {
	for name, virtual := range map[string]bool{"real time": false, "virtual clock": true} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, market.Instrument{PriceDecimals: 2, VirtualClock: virtual})
			for i := range 40 {
				g.second(g.begin.Add(time.Duration(i)*time.Second), market.Halt, market.Open)
				switch i % 10 {
				case 3:
					g.publish(market.Event{Kind: market.KindStatus, Handle: g.whole, Phase: market.FeedDown, Reason: "disconnected"})
					g.publish(market.Event{Kind: market.KindStatus, Handle: g.whole, Phase: market.FeedUp})
				case 7:
					g.Interrupted("new_sequencer")
					g.recorder.Sink.(*hub.Hub).Interrupted("new_sequencer")
				}
			}
			for _, r := range []*Report{g.verified(), verified(t, g.recorder.end().bytes())} {
				if r.Wrong() > 0 || r.Figure("statuses") < 80 || r.Result(Time).Judged < 100 {
					t.Errorf("%s", text(r))
				}
			}
		})
	}
}

// TestStatusBack checks that a status of the market with an earlier time is found.
func TestStatusBack(t *testing.T) {
	g := newGateway(t, market.Instrument{PriceDecimals: 2})
	at := time.Now().Add(-time.Hour)
	g.second(at, market.Halt, market.Open)
	g.publish(market.Event{Kind: market.KindStatus, Time: at.UnixNano(), Phase: market.Halt})
	if r := g.verified(); r.Result(Time).Wrong != 1 || r.Wrong() != 1 {
		t.Errorf("%s", text(r))
	}
}

// TestVirtualStart has a virtual market that begins in the past, and whose definitions do not say
// when.
func TestVirtualStart(t *testing.T) {
	g := newGateway(t, market.Instrument{PriceDecimals: 2, VirtualClock: true})
	at := time.Date(2024, 8, 8, 23, 59, 50, 0, time.UTC)
	for i := range 20 {
		g.second(at.Add(time.Duration(i)*time.Second), market.Halt, market.Open)
	}
	if r := g.verified(); r.Wrong() > 0 || r.Figure("days") != 2 {
		t.Errorf("%s", text(r))
	}
}

// TestOwnQuotes checks that quotes of another source than the book, some of them locked, are notes.
func TestOwnQuotes(t *testing.T) {
	g := newGateway(t, market.Instrument{PriceDecimals: 2, QuotesFromFeed: true, VirtualClock: true})
	at := time.Now().Add(-time.Hour)
	for i := range 60 {
		at := at.Add(time.Duration(i) * time.Second)
		g.second(at)
		ask := []market.Level{{Price: market.Price(12+i%3) * market.Scale, Size: market.Scale}}
		bid := []market.Level{{Price: 12 * market.Scale, Size: market.Scale}}
		g.publish(market.Event{Kind: market.KindQuote, Time: at.UnixNano(), Bids: bid, Asks: ask})
	}
	r := g.verified()
	if s := text(r); r.Wrong() > 0 || !strings.Contains(s, "A|B|C: 20 quotes are locked") || !strings.Contains(s, "quotes and book are of different sources") {
		t.Errorf("%s", s)
	}
}

// TestLocked checks that a locked quote is a finding where quotes follow from the book. In an
// auction, and while the status is unknown, it is none.
func TestLocked(t *testing.T) {
	for phase, want := range map[string]uint64{"open": 1, "auction": 0, "unknown": 0} {
		list := []string{message("H", 1, 0, `"E":"`+phase+`"`), message("O", 1, 1, `"R":true,"DL":0,"B":[[9,1]],"A":[[11,1]]`)}
		for i := range 20 {
			at := i + 2
			list = append(list, message("O", i+2, at, fmt.Sprintf(`"L":%d,"B":[[9,%d]]`, i+1, i+2)))
			bid := 9
			if i == 10 {
				bid = 11
			}
			list = append(list, message("Q", i+2, at, fmt.Sprintf(`"BP":%d,"BZ":%d,"AP":11,"AZ":1`, bid, i+2)))
		}
		if r := judge(t, append(list, silence(6)...), Config{}); r.Result(Quote).Wrong != want || r.Wrong() != want {
			t.Errorf("%s: want %d:\n%s", phase, want, text(r))
		}
	}
}

// TestUnquotedInAuction has a top without a quote come before the status of its auction. It is no
// finding, however many statuses follow.
func TestUnquotedInAuction(t *testing.T) {
	quote := func(n, at, bid int) string {
		return message("Q", n, at, fmt.Sprintf(`"BP":%d,"BZ":1,"AP":50,"AZ":1`, bid))
	}
	book := func(n, at int) string {
		return message("O", n, at, fmt.Sprintf(`"L":%d,"B":[[%d,1],[%d,0]]`, n-1, n, n-1))
	}
	before := []string{
		message("H", 1, 0, `"E":"open"`), message("O", 1, 1, `"R":true,"DL":0,"B":[[1,1]],"A":[[50,1]]`), quote(1, 1, 1),
		book(2, 3), quote(2, 3, 2), book(3, 6), book(4, 8), quote(3, 8, 4),
	}
	for phase, want := range map[string]uint64{"auction": 0, "open": 1} {
		list := append(slices.Clone(before), message("H", 2, 5, `"E":"`+phase+`"`), message("H", 3, 9, `"E":"open"`))
		for i := range 2 * keptPhases {
			list = append(list, message("H", i+4, 10, `"E":"open"`))
		}
		if r := judge(t, list, Config{}); r.Result(Quote).Wrong != want {
			t.Errorf("%s: want %d:\n%s", phase, want, text(r))
		}
	}
}

// TestConflated checks that missing quotes and summaries are findings, unless the server warned
// that it conflates.
func TestConflated(t *testing.T) {
	warning := `{"type":"Warning","code":200,"reason":"slow_client","msg":"Read faster","behind_ms":900,"queued":3}`
	list := []string{message("Q", 3, 1, `"BP":9,"BZ":1`), message("Q", 5, 2, `"BP":9,"BZ":2`)}
	for _, tc := range []struct {
		list  []string
		wrong uint64
	}{{list, 1}, {append(slices.Clone(list), warning), 0}, {[]string{list[0], strings.Replace(list[1], `"BP"`, `"R":true,"BP"`, 1)}, 0}} {
		if r := judge(t, tc.list, Config{}); r.Result(Sequence).Wrong != tc.wrong || r.Wrong() != tc.wrong {
			t.Errorf("want %d:\n%s", tc.wrong, text(r))
		}
	}
}

// TestRefusedChannel checks that a channel of which the server refuses instruments may be absent.
func TestRefusedChannel(t *testing.T) {
	config := Config{Channels: []string{"trades", "summary", "bars"}, Intervals: []string{"1s"}}
	list := []string{minuteTrade(1, 30), minuteTrade(2, 31), minuteTrade(3, 32)}
	for _, refused := range []bool{false, true} {
		v := New(config)
		d := stream.Decoder{Lenient: true}
		var m stream.Message
		lines := slices.Concat(list, silence(6))
		if refused {
			lines = append([]string{`{"type":"Subscription","code":200,"id":1,"epoch":"e1","rejected":[{"channel":"summary","instrument":"A|B|C","code":403,"reason":"forbidden","msg":"No"},{"channel":"bars","instrument":"A|B|C","code":403,"reason":"forbidden","msg":"No"}]}`}, lines...)
		}
		for i, s := range lines {
			if err := d.Decode([]byte(s), &m); err != nil {
				t.Fatal(err)
			}
			v.Message(int64(i+1), start+int64(i)*1e9, &m)
		}
		if r := v.Report(); r.Result(Summary).Wrong+r.Result(Bars).Wrong != map[bool]uint64{false: 2}[refused] {
			t.Errorf("refused %v:\n%s", refused, text(r))
		}
	}
}

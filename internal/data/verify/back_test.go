package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

var timeOf = regexp.MustCompile(`"T":"([^"]+)"`)

// skewed moves the times of the books and quotes of ten seconds five seconds ahead, as if a clock
// was corrected afterwards. back is the index of the first correct message.
func skewed(t *testing.T, list []string, from int64) (out []string, back int) {
	t.Helper()
	out = slices.Clone(list)
	for i, s := range out {
		if !strings.HasPrefix(s, `{"type":"O"`) && !strings.HasPrefix(s, `{"type":"Q"`) {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, timeOf.FindStringSubmatch(s)[1])
		if err != nil {
			t.Fatal(err)
		}
		switch passed := at.UnixNano() - from; {
		case passed >= 10e9 && back == 0:
			back = i
		case passed >= 0 && passed < 10e9:
			later := at.Add(5 * time.Second).Format("2006-01-02T15:04:05.000000000Z")
			out[i] = timeOf.ReplaceAllString(s, `"T":"`+later+`"`)
		}
	}
	return out, back
}

// TestTimeBack has times that are ahead for a while and go back. That is found. No quote is
// compared with an earlier book, but wrong quotes are found, also within the repeated times.
func TestTimeBack(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(seed)
		w.run(2)
		list, back := skewed(t, w.list, start+60e9)
		for name, c := range map[string]Config{"stream": {}, "journal": {Ordered: true}} {
			c.Instruments = []market.Instrument{w.def}
			reported := append(slices.Clone(list), silence(6)...)
			if !c.Ordered {
				reported = shuffled(w, reported)
			}
			r := judge(t, reported, c)
			if found := r.Result(Time).Wrong; found == 0 || r.Wrong() != found {
				t.Errorf("seed %d, %s: want the time alone to be wrong:\n%s", seed, name, text(r))
			}
			if judged, all := r.Result(Quote).Judged, judge(t, w.list, c).Result(Quote).Judged; judged+2 < all {
				t.Errorf("seed %d, %s: %d quotes were judged, and %d where time doesn't go back", seed, name, judged, all)
			}
			for _, behind := range []int{10, 60} { // within the repeated times, and after them
				at := back + behind
				at += find(list[at:], `{"type":"Q"`, 0)
				spoilt := slices.Clone(list)
				spoilt[at] = regexp.MustCompile(`"BP":[\d.]+`).ReplaceAllString(spoilt[at], `"BP":6000`)
				r := judge(t, append(spoilt, silence(6)...), c)
				if got := r.Result(Quote); got.Wrong != 1 || got.Findings[0].Position.Line != int64(at+1) {
					t.Errorf("seed %d, %s: the quote of line %d is wrong:\n%s", seed, name, at+1, text(r))
				}
			}
		}
	}
}

// TestBackBetween has one of the two channels go back before the other has reported its previous
// state.
func TestBackBetween(t *testing.T) {
	book := func(n, at int) string {
		return message("O", n, at, fmt.Sprintf(`"L":%d,"B":[[%d,1],[%d,0]]`, n-1, n, n-1))
	}
	quote := func(n, at, bid int) string {
		return message("Q", n, at, fmt.Sprintf(`"BP":%d,"BZ":1,"AP":50,"AZ":1`, bid))
	}
	before := []string{message("H", 1, 0, `"E":"open"`), message("O", 1, 1, `"R":true,"DL":0,"B":[[1,1]],"A":[[50,1]]`), book(2, 14), book(3, 15)}
	behind := []string{book(5, 13), book(6, 14), book(7, 15), book(8, 16), book(9, 17), quote(3, 17, 9), book(10, 18)}
	for name, between := range map[string][]string{
		"books first":  {quote(1, 14, 2), book(4, 10), quote(2, 15, 3)},
		"quotes first": {quote(1, 15, 3), quote(2, 10, 4), book(4, 10)},
	} {
		list := slices.Concat(before, between, behind, silence(6))
		if r := judge(t, list, Config{}); r.Result(Time).Wrong == 0 || r.Wrong() != r.Result(Time).Wrong || r.Result(Quote).Judged == 0 {
			t.Errorf("%s: want the time alone to be wrong:\n%s", name, text(r))
		}
		at := find(list, `"BP":9`, 0)
		list[at] = strings.Replace(list[at], `"BP":9`, `"BP":6`, 1)
		if r := judge(t, list, Config{}); r.Result(Quote).Wrong != 1 {
			t.Errorf("%s: want a quote to be wrong:\n%s", name, text(r))
		}
	}
}

// TestTimeFarAhead has one book or quote with a time in another year. Later ones are judged as
// before. At the time of the quote, there is none that equals the book.
func TestTimeFarAhead(t *testing.T) {
	for kind, unquoted := range map[string]uint64{"O": 0, "Q": 1} {
		w := newWorld(3)
		w.run(2)
		list := edit(kind, 12, `"T":"2026`, `"T":"2036`)(slices.Clone(w.list))
		v := New(Config{Ordered: true})
		d := stream.Decoder{Lenient: true}
		var m stream.Message
		for i, s := range list {
			if err := d.Decode([]byte(s), &m); err != nil {
				t.Fatal(err)
			}
			v.Message(int64(i+1), 0, &m)
		}
		if r := v.Report(); r.Result(Time).Wrong != 1 || r.Result(Quote).Wrong != unquoted || r.Wrong() != 1+unquoted || r.Result(Quote).Unjudged > 5 {
			t.Errorf("%s:\n%s", kind, text(r))
		}
	}
}

// TestTwoClocks has quotes without event time, so that theirs is the receive time, a second and
// more behind the clock of the books. In a journal both are judged by their time of publication.
func TestTwoClocks(t *testing.T) {
	const ahead = 1300 * time.Millisecond
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	begin := time.Date(2024, 8, 8, 23, 54, 0, 0, time.UTC).UnixNano()
	in, err := h.Define(market.Instrument{ID: market.InstrumentID{Symbol: "BTCUSDT", Market: "BINANCE", Term: "SPOT"},
		PriceDecimals: 8, SizeDecimals: 8, QuotesFromFeed: true, VirtualClock: true, Listed: begin})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		at := begin + int64(i)*int64(100*time.Millisecond)
		bids := []market.Level{{Price: market.Price(100+i) * market.Scale, Size: market.Scale}}
		asks := []market.Level{{Price: market.Price(101+i) * market.Scale, Size: market.Scale}}
		if err := h.Publish([]market.Event{
			{Kind: market.KindSnapshot, Handle: in, Time: at + int64(ahead), Receive: at, Bids: bids, Asks: asks},
			{Kind: market.KindQuote, Handle: in, Receive: at, Bids: bids, Asks: asks},
		}); err != nil {
			t.Fatal(err)
		}
	}
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Journal(t.Context(), folder, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Result(Quote); r.Wrong() > 0 || c.Judged < 150 {
		t.Errorf("%d quotes were judged, %d were not:\n%s", c.Judged, c.Unjudged, text(r))
	}
}

package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// busyDay records a market whose trades are late, cancelled and corrected, with reference figures,
// over the end of a trading day.
func busyDay(t *testing.T, seed uint64) *sample {
	t.Helper()
	begin := time.Date(2026, 11, 20, 23, 58, 0, 0, time.UTC)
	r := newRecorder(t, begin, 10, "A|B|C")
	id := instrumentOf("A|B|C").ID
	h, err := r.Define(market.Instrument{ID: id, PriceDecimals: 2, SizeDecimals: 0, VirtualClock: true, Listed: begin.UnixNano()})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var trades []market.Event
	for i := range 1200 {
		at := begin.UnixNano() + int64(i)*200e6
		e := market.Event{Kind: market.KindTrade, Handle: h, Time: at, TradeID: fmt.Sprint(i + 1),
			Price: market.Price(100+random.IntN(9)) * market.Scale, Size: market.Size(1+random.IntN(50)) * market.Scale}
		switch n := random.IntN(12); {
		case n == 0 && i > 0: // late
			e.Time -= int64(random.IntN(90e9))
		case n == 1 && len(trades) > 0:
			k := random.IntN(len(trades))
			e = trades[k]
			trades = slices.Delete(trades, k, k+1)
			e.Kind, e.Time = market.KindCancel, at
		case n == 2 && len(trades) > 0:
			x := &trades[random.IntN(len(trades))]
			was := *x
			x.Price += market.Scale
			e = *x
			e.Kind, e.Time, e.OldPrice, e.OldSize = market.KindCorrect, at, was.Price, was.Size
		case n == 3:
			e = market.Event{Kind: market.KindReference, Handle: h, Time: at, Settlement: e.Price}
		}
		if e.Kind == market.KindTrade {
			trades = append(trades, e)
		}
		if err := r.Publish([]market.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	return r.end()
}

// TestSummaries checks the summaries of a busy day: none is wrong, nearly all are judged, and each
// wrong figure is found.
func TestSummaries(t *testing.T) {
	for seed := range uint64(4) {
		x := busyDay(t, seed)
		r := verified(t, x.bytes())
		if s := r.Result(Summary); r.Wrong() > 0 || s.Judged < 1000 || s.Unjudged > 20 {
			t.Fatalf("seed %d:\n%s", seed, text(r))
		}
		for _, name := range []string{"TC", "TV", "EV", "VW"} {
			def := instrumentOf("A|B|C")
			f := &forger{sample: x.clone(), t: t, random: rand.New(rand.NewPCG(seed, 2)), def: &def}
			f.scale(f.one("D", live), name, 1, 1)
			if s := verified(t, f.bytes()).Result(Summary); s.Wrong != 1 {
				t.Errorf("seed %d: %s is changed, and %d findings", seed, name, s.Wrong)
			}
		}
	}
}

// TestTradeIDs checks that ids which fall are findings if they are few. They may begin again after
// an outage.
func TestTradeIDs(t *testing.T) {
	trade := func(n, id int) string {
		return fmt.Sprintf(`{"type":"T","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:%02d:%02d.000000000Z","P":5,"Z":1,"X":"%d"}`, n, 30+n/60, n%60, id)
	}
	var list []string
	for i := range 100 {
		list = append(list, trade(i+1, 1000+i))
	}
	replace := func(each, id int) []string {
		list := slices.Clone(list)
		for i := 50; i < 100; i += each {
			list[i] = trade(i+1, id)
		}
		return list
	}
	outage := slices.Insert(replace(100, 7), 50, `{"type":"H","S":"*","I":"*|B|*","N":1,"T":"2026-11-20T14:30:50.000000000Z","E":"feed_down"}`)
	for name, tc := range map[string]struct {
		list  []string
		wrong uint64
	}{
		"rising": {list, 0}, "one is low": {replace(100, 7), 1}, "one is high": {replace(100, 70_000), 1}, "one is twice": {replace(100, 1049), 1},
		"in no order": {replace(2, 7), 0}, "after an outage": {outage, 0}, "texts": {[]string{strings.Replace(list[1], `"1001"`, `"b"`, 1), list[2]}, 0},
	} {
		if r := judge(t, tc.list, Config{}); r.Result(Reference).Wrong != tc.wrong {
			t.Errorf("%s: want %d:\n%s", name, tc.wrong, text(r))
		}
	}
}

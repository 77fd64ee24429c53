package hub_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// figures holds the members of T, X, C, D and K messages from which a client counts.
type figures struct {
	Type, I, T, X, IV    string
	DE                   int
	N, XN, TC            uint64
	P, Z, OP, HI, LO, CL json.Number
	LA, TV, EV, VW       json.Number
	SE, OI               json.Number
	R                    bool
	D                    *int64
}

// readFigures parses server frames.
func readFigures(t testing.TB, b []byte) (list []figures) {
	t.Helper()
	for len(b) > 0 {
		n, head := int(b[1]), 2
		if n == 126 {
			n, head = int(binary.BigEndian.Uint16(b[2:])), 4
		}
		var f figures
		if err := json.Unmarshal(b[head:head+n], &f); err != nil {
			t.Fatalf("%v in %s", err, b[head:head+n])
		}
		list = append(list, f)
		b = b[head+n:]
	}
	return list
}

// oldTrade is a trade that a client keeps so that it can count bars itself.
type oldTrade struct {
	n     uint64
	at    int64
	price market.Price
	size  market.Size
}

// counter is a client that counts bars and summary again from trades, cancels and corrections.
type counter struct {
	t        testing.TB
	zone     *time.Location
	trades   []oldTrade
	last     map[string]uint64 // N, by channel
	received map[string]figures
	days     []figures // D
	newest   int64     // T
	now      int64     // when the event was published, by the clock of the market; 0: not known
	each     bool      // the client reads after each event, so a summary covers what it has read
}

func newCounter(t testing.TB, zone *time.Location) *counter {
	return &counter{t: t, zone: zone, last: map[string]uint64{}, received: map[string]figures{}}
}

func (c *counter) take(list []figures) {
	c.t.Helper()
	rank := func(f figures) int { return strings.Index("TXC", f.Type) }
	slices.SortStableFunc(list, func(a, b figures) int { // trades and changes before summaries and bars
		return cmp.Compare(min(rank(b), 0), min(rank(a), 0))
	})
	for _, f := range list {
		channel := f.Type + f.IV
		switch f.Type {
		case "X", "C":
			channel = "T"
		case "H":
			continue
		}
		if last := c.last[channel]; last != 0 && f.N != last+1 {
			c.t.Fatalf("%s: N %d after %d", channel, f.N, last)
		}
		c.last[channel] = f.N
		c.count(f)
	}
}

func (c *counter) count(f figures) {
	c.t.Helper()
	at, err := wire.ParseTime(f.T)
	if err != nil {
		c.t.Fatal(err)
	}
	price, _ := market.ParsePrice(string(f.P))
	size, _ := market.ParseSize(string(f.Z))
	old := slices.IndexFunc(c.trades, func(o oldTrade) bool { return o.n == f.XN })
	if f.D != nil {
		c.now = at + *f.D - int64(f.DE)*1e9
	}
	if c.now != 0 && (f.Type == "T" || old >= 0) {
		// The hub revises the bars of this trading day. In the first hour of the day it also
		// revises those of the day before.
		day, _ := market.TradingDay(time.Unix(0, c.now-int64(time.Hour)), c.zone)
		received := at
		if old >= 0 {
			received = c.trades[old].at
		}
		if received < day.UnixNano() {
			return
		}
	}
	switch {
	case f.Type == "T":
		c.trades = append(c.trades, oldTrade{f.N, at, price, size})
		c.newest = max(c.newest, at)
	case f.Type == "X" && old >= 0:
		c.trades = slices.Delete(c.trades, old, old+1)
	case f.Type == "C" && old >= 0:
		c.trades[old].price, c.trades[old].size = price, size
	case f.Type == "D":
		c.days = append(c.days, f)
		if c.each && f.N%7 == 0 { // a comparison counts all trades again
			c.compareDay(f, max(c.newest, c.now))
		}
	case f.Type == "K":
		key := f.IV + " " + f.T
		if _, was := c.received[key]; was != f.R {
			c.t.Fatalf("bar %s, told before %v: R is %v", key, was, f.R)
		}
		c.received[key] = f
	}
}

// compareDay compares a summary at the time now with the trades.
func (c *counter) compareDay(got figures, now int64) {
	c.t.Helper()
	from, _ := market.TradingDay(time.Unix(0, now), c.zone)
	days := c.recount(market.Day)
	want := bars.Totals{}
	if day := days[from.UnixNano()]; day != nil {
		want = *day
	}
	last, before := int64(0), json.Number("")
	for start, day := range days {
		if start < from.UnixNano() && start > last {
			last, before = start, json.Number(day.Last.String())
		}
	}
	text := "    0 0 0 "
	if want.Trades > 0 {
		text = barText(&want)
	}
	at := got
	at.CL = got.LA
	if at.text() != text || got.CL != before {
		c.t.Fatalf("summary %d at %s\n got %s, before %s\nwant %s, before %s", got.N, got.T, at.text(), got.CL, text, before)
	}
}

// recount counts the bars of an interval from the trades, by their start.
func (c *counter) recount(i market.Interval) map[int64]*bars.Totals {
	all := map[int64]*bars.Totals{}
	for _, o := range c.trades {
		start := o.at - o.at%int64(i.Length())
		if i == market.Day {
			from, _ := market.TradingDay(time.Unix(0, o.at), c.zone)
			start = from.UnixNano()
		}
		if all[start] == nil {
			all[start] = &bars.Totals{}
		}
		all[start].Add(o.at, o.price, o.size)
	}
	return all
}

// compare compares the received bars with those counted from the trades, and returns how many it
// compared. It skips bars that end after open.
func (c *counter) compare(open int64) (bars int) {
	c.t.Helper()
	for i := range market.NumIntervals {
		for start, want := range c.recount(i) {
			if start+int64(i.Length()) > open {
				continue
			}
			bars++
			at := string(wire.AppendTime(nil, start))
			got, ok := c.received[i.String()+" "+at]
			if !ok {
				c.t.Fatalf("bar %s %s was not told", i, at)
			}
			if g, w := got.text(), barText(want); g != w {
				c.t.Fatalf("bar %s %s\n got %s\nwant %s", i, at, g, w)
			}
		}
	}
	return bars
}

func (f *figures) text() string {
	return fmt.Sprint(f.OP, " ", f.HI, " ", f.LO, " ", f.CL, " ", f.TV, " ", f.EV, " ", f.TC, " ", f.VW)
}

func barText(t *bars.Totals) string {
	return fmt.Sprint(t.First, " ", t.High, " ", t.Low, " ", t.Last, " ",
		string(t.Volume.Append(nil, market.SizeDecimals)), " ", string(t.Value.Append(nil, market.ValueDecimals)), " ",
		t.Trades, " ", string(market.AppendAverage(nil, t.Value, t.Volume)))
}

// everyBar returns the items of an instrument's trades, summary and bars.
func everyBar(name string, delay int) (items []hub.Item) {
	for _, c := range []wire.Channel{wire.Trades, wire.Summary} {
		items = append(items, hub.Item{c, streamtest.ID(name), hub.Tier{Delay: delay}})
	}
	for i := range market.NumIntervals {
		items = append(items, hub.Item{wire.BarsOf(i), streamtest.ID(name), hub.Tier{Delay: delay}})
	}
	return items
}

func gatherAll(t testing.TB, s *subscription.Subscriber) (list []figures) {
	for s.Pending() {
		list = append(list, readFigures(t, s.Gather(nil, 1<<20, wire.JSON, false))...)
	}
	return list
}

// randomTrades makes the events of a busy and unreliable market: late trades, cancels and
// corrections of old trades, bursts and pauses.
type randomTrades struct {
	rng  *rand.Rand
	ids  int
	sent []market.Event
}

func (r *randomTrades) next(hd market.Handle, now int64) market.Event {
	price := func() market.Price { return market.Price(100*market.Scale + r.rng.Int64N(1000)*market.Scale/100) }
	size := func() market.Size { return market.Size(1+r.rng.Int64N(5000)) * market.Scale / 1000 }
	if n := len(r.sent); n > 0 && r.rng.IntN(12) == 0 {
		old := r.sent[max(0, n-1-r.rng.IntN(1+r.rng.IntN(n)))]
		e := market.Event{Kind: market.KindCancel, Handle: hd, Time: now, TradeID: old.TradeID, Price: old.Price, Size: old.Size}
		if r.rng.IntN(2) == 0 {
			e.Kind, e.OldPrice, e.OldSize = market.KindCorrect, old.Price, old.Size
			e.Price, e.Size = price(), size()
		}
		return e
	}
	r.ids++
	e := market.Event{Kind: market.KindTrade, Handle: hd, Time: now, Price: price(), Size: size(), TradeID: strconv.Itoa(r.ids)}
	switch r.rng.IntN(20) {
	case 0:
		e.Time -= r.rng.Int64N(5e9)
	case 1:
		e.Time -= r.rng.Int64N(int64(50 * time.Minute))
	case 2:
		e.Time += r.rng.Int64N(3e9) // the market's clock is ahead of ours
	}
	r.sent = append(r.sent, e)
	return e
}

func (r *randomTrades) pause() time.Duration {
	switch r.rng.IntN(30) {
	case 0:
		return time.Duration(r.rng.Int64N(int64(20 * time.Minute)))
	case 1, 2, 3:
		return time.Duration(r.rng.Int64N(int64(90 * time.Second)))
	}
	return time.Duration(r.rng.Int64N(int64(700 * time.Millisecond)))
}

// TestBarsEqualTheirTrades checks that all bars equal those counted from the trades, cancels and
// corrections. One client reads live and one with a delay of 15 minutes, over a midnight of the
// market.
func TestBarsEqualTheirTrades(t *testing.T) {
	zone, err := time.LoadLocation("America/Argentina/Buenos_Aires")
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(1)
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 80
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := streamtest.RunningHub(t, hub.Config{
				Markets: []market.Market{{ID: "M", Timezone: zone.String()}},
				Delays:  []time.Duration{15 * time.Minute},
			})
			hd := streamtest.Define(t, h, "A|M|CI", nil)
			sh := subscription.NewShard(h, func(bool) {})
			live, late := streamtest.NewClient(t, sh), streamtest.NewClient(t, sh)
			live.Sub.Subscribe(everyBar("A|M|CI", 0), subscription.Options{})
			late.Sub.Subscribe(everyBar("A|M|CI", 900), subscription.Options{})
			a, b := newCounter(t, zone), newCounter(t, zone)
			a.each = true
			r := &randomTrades{rng: rand.New(rand.NewPCG(seed, 1))}
			for range 1500 {
				streamtest.Publish(t, h, r.next(hd, time.Now().UnixNano()))
				time.Sleep(r.pause())
				streamtest.Turn(sh)
				a.take(gatherAll(t, live.Sub))
				b.take(gatherAll(t, late.Sub))
			}
			time.Sleep(25 * time.Hour)
			streamtest.Turn(sh)
			a.take(gatherAll(t, live.Sub))
			b.take(gatherAll(t, late.Sub))
			if n := a.compare(1 << 62); n < 500 {
				t.Errorf("%d bars", n)
			}
			b.compare(1 << 62)
			if fmt.Sprint(a.last) != fmt.Sprint(b.last) {
				t.Errorf("numbers live %v, late %v", a.last, b.last)
			}
			if uint64(len(a.days)) != a.last["T"] || a.last["D"] != a.last["T"] {
				t.Errorf("%d trades and %d summaries", a.last["T"], a.last["D"])
			}
		})
	}
}

// TestVirtualBars checks that the bars of a virtual clock follow the newest event time of the
// market. An event of one instrument ends the bars of all. Two runs send the same messages.
func TestVirtualBars(t *testing.T) {
	var first []string
	for run := range 2 {
		h := hub.New(hub.Config{})
		virtual := func(in *market.Instrument) { in.VirtualClock = true }
		a, b := streamtest.Define(t, h, "A|M|CI", virtual), streamtest.Define(t, h, "B|M|CI", virtual)
		streamtest.Define(t, h, "C|M|CI", nil)
		sh := subscription.NewShard(h, func(bool) {})
		c := streamtest.NewClient(t, sh)
		c.Sub.Subscribe(everyBar("A|M|CI", 0), subscription.Options{})
		count := newCounter(t, time.UTC)
		count.each = true
		r := &randomTrades{rng: rand.New(rand.NewPCG(7, 7))}
		now := int64(1_700_000_000e9)
		var all []string
		for range 1200 {
			now += int64(r.pause())
			if r.rng.IntN(3) == 0 { // an event of another instrument ends the bars
				streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: b, Time: now, Bids: []market.Level{streamtest.Level(1, 1)}})
				count.now = max(count.now, now)
				continue
			}
			e := r.next(a, now)
			streamtest.Publish(t, h, e)
			streamtest.Turn(sh)
			count.now = max(count.now, e.Time)
			list := gatherAll(t, c.Sub)
			for _, f := range list {
				if f.D != nil {
					t.Fatalf("a latency of a virtual clock: %+v", f)
				}
				all = append(all, fmt.Sprint(f))
			}
			count.take(list)
		}
		streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: b, Time: now + 48*int64(time.Hour), Phase: market.Closed})
		streamtest.Turn(sh)
		count.take(gatherAll(t, c.Sub))
		if n := count.compare(1 << 62); n < 400 {
			t.Errorf("%d bars", n)
		}
		if run == 0 {
			first = all
		} else if !slices.Equal(first, all) {
			t.Error("two runs differ")
		}
	}
}

// TestBarsOfARecordingThatBeginsAgain checks that the bars are counted again from the start when
// the time of a recording goes back.
func TestBarsOfARecordingThatBeginsAgain(t *testing.T) {
	h := hub.New(hub.Config{})
	a := streamtest.Define(t, h, "A|M|CI", func(in *market.Instrument) { in.VirtualClock = true })
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe(everyBar("A|M|CI", 0), subscription.Options{})
	counts := map[string]int{}
	for range 3 {
		for i := range 200 {
			e := streamtest.Trade(a, i)
			e.Time = int64(1_700_000_000e9) + int64(i)*int64(time.Second)
			streamtest.Publish(t, h, e)
		}
		streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: a, Reason: "replay_restarted"})
	}
	streamtest.Turn(sh)
	days := 0
	for _, f := range gatherAll(t, c.Sub) {
		counts[f.Type+f.IV]++
		if f.Type == "K" && f.R {
			t.Fatalf("a bar of another run is revised: %+v", f)
		}
		if f.IV == "1d" {
			days++
			if f.TC != 200 || f.N != uint64(days) {
				t.Errorf("a day of %d trades, N %d", f.TC, f.N)
			}
		}
	}
	if counts["K1s"] != 600 || counts["K1m"] != 3*4 || days != 3 {
		t.Errorf("%v", counts)
	}
	if h.Shared().Trades != 0 {
		t.Errorf("%d deals are kept", h.Shared().Trades)
	}
}

// TestBarsWithinTheBudget checks that bars remain right when the hub drops old trades to stay
// within its budget. A cancel of a dropped trade has no XN.
func TestBarsWithinTheBudget(t *testing.T) {
	h := hub.New(hub.Config{RecentBytes: 4 * 512 * bars.TradeBytes, TradesKept: recent.ChunkRows})
	virtual := func(in *market.Instrument) { in.VirtualClock = true }
	a, b := streamtest.Define(t, h, "A|M|CI", virtual), streamtest.Define(t, h, "B|M|CI", virtual)
	sh := subscription.NewShard(h, func(bool) {})
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe(everyBar("A|M|CI", 0), subscription.Options{})
	count := newCounter(t, time.UTC)
	now := int64(1_700_000_000e9)
	for i := range 10 * 512 {
		now += int64(20 * time.Millisecond)
		for _, hd := range []market.Handle{a, b} {
			e := streamtest.Trade(hd, i)
			e.Time = now
			if i%10 == 9 {
				e.Time -= int64(time.Second)
			}
			streamtest.Publish(t, h, e)
		}
		streamtest.Turn(sh)
		count.take(gatherAll(t, c.Sub))
		if h.Shared().Trades > 6*512 {
			t.Fatalf("%d deals are kept", h.Shared().Trades)
		}
	}
	before := count.last["K1m"]
	streamtest.Publish(t, h, market.Event{Kind: market.KindCancel, Handle: a, Time: now, TradeID: "5", Price: 100 * market.Scale, Size: market.Scale})
	streamtest.Turn(sh)
	list := gatherAll(t, c.Sub)
	if len(list) != 2 || list[0].XN != 0 {
		t.Errorf("a cancel of a trade long dropped: %+v", list)
	}
	count.take(list)
	streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: b, Time: now + 48*int64(time.Hour), Phase: market.Closed})
	streamtest.Turn(sh)
	count.take(gatherAll(t, c.Sub))
	if before == 0 || count.compare(1<<62) < 100 {
		t.Errorf("%d bars of minutes", before)
	}
}

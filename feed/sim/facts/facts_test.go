package facts

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

const lot = market.Size(market.Scale)

func price(p float64) market.Price { return market.Price(math.Round(p * market.Scale)) }

// stream sends events of one instrument to a collector.
type stream struct {
	t  *testing.T
	c  *Collector
	h  market.Handle
	at int64
}

func newStream(t *testing.T, change func(*market.Instrument)) *stream {
	t.Helper()
	in := market.Instrument{
		ID:    market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"},
		Kind:  "equity",
		Ticks: []market.Tick{{Step: price(.5)}}, StartsEmpty: true,
	}
	if change != nil {
		change(&in)
	}
	x := &stream{t: t, c: New(), at: 1_800_000_000 * second}
	var err error
	if x.h, err = x.c.Define(in); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *stream) publish(e market.Event) {
	x.t.Helper()
	e.Handle, e.Time = x.h, x.at
	if err := x.c.Publish([]market.Event{e}); err != nil {
		x.t.Fatal(err)
	}
}

func level(p float64, size int) market.Level {
	return market.Level{Price: price(p), Size: market.Size(size) * lot}
}

func (x *stream) update(bids, asks []market.Level) {
	x.publish(market.Event{Kind: market.KindUpdate, Bids: bids, Asks: asks})
}

func (x *stream) trade(side market.Side, p float64, size int) {
	x.publish(market.Event{Kind: market.KindTrade, Side: side, Price: price(p), Size: market.Size(size) * lot})
}

func (x *stream) row() Row {
	x.t.Helper()
	t := x.c.Table()
	if len(t.Instruments) != 1 || len(t.Classes) != 1 {
		x.t.Fatalf("%d instruments, %d classes", len(t.Instruments), len(t.Classes))
	}
	return t.Instruments[0]
}

func near(t *testing.T, what string, got Figure, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-9+.011*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestLateTrades checks that trades are not counted, but reported, if they arrive after their
// second. Counted in the second of their arrival, a burst of them would look like clustered trades.
func TestLateTrades(t *testing.T) {
	x := newStream(t, nil)
	x.update([]market.Level{level(10, 5)}, []market.Level{level(11, 5)})
	begin := x.at
	for i := range int64(100) {
		x.at = begin + i*second
		x.trade(market.Buy, 11, 1)
	}
	for range 50 {
		x.at = begin + 98*second
		x.trade(market.Buy, 11, 1)
	}
	x.at = begin + 99*second - 1e6 // by as much as channels differ
	x.trade(market.Buy, 11, 1)
	x.at = begin + 200*second
	x.update([]market.Level{level(10, 6)}, nil)
	got := x.c.Table()
	if r := got.Instruments[0]; got.Late != 50 || r.Trades != 101 || r.Fano > 1 {
		t.Errorf("%d late, %d trades, Fano factor %v", got.Late, r.Trades, r.Fano)
	}
	var b strings.Builder
	if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), "and are not counted: 50\n") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestTradesBehindBook has trades that arrive after a newer book. Trades of different times are
// different marketable orders.
func TestTradesBehindBook(t *testing.T) {
	x := newStream(t, nil)
	x.update([]market.Level{level(10, 5)}, []market.Level{level(11, 5)})
	begin := x.at
	for i := range int64(40) {
		x.at = begin + i*second + second/2
		x.update([]market.Level{level(10, 6+int(i))}, nil)
		for range 2 { // two fills of one order
			x.at = begin + i*second + second/4
			x.trade(market.Buy, 11, 1)
		}
		x.at = begin + i*second + second/3
		x.trade(market.Buy, 11+float64(i%2)/2, 1)
	}
	if n := x.c.all[0].orderCount; n != 80 {
		t.Errorf("%d marketable orders, want 80", n)
	}
	if r := x.row(); r.Trades != 120 || !(r.TradePriceACF < 0) {
		t.Errorf("%d trades, autocorrelation of their prices %v", r.Trades, r.TradePriceACF)
	}
}

// TestByHand checks a few minutes whose figures can be calculated by hand.
func TestByHand(t *testing.T) {
	x := newStream(t, nil)
	x.publish(market.Event{Kind: market.KindSnapshot, Bids: []market.Level{level(99, 5)}, Asks: []market.Level{level(101, 5), level(103, 5)}})
	x.at += 30 * second
	x.update([]market.Level{level(100, 2)}, nil) // inside; the spread was 4 ticks for 30 s
	x.at += 10 * second
	x.trade(market.Buy, 101, 5) // one order that meets two
	x.trade(market.Buy, 103, 1)
	x.update(nil, []market.Level{level(101, 0), level(103, 4)})
	x.at += 20 * second                          // 2 ticks for 10 s, 6 for 20 s
	x.update([]market.Level{level(100, 0)}, nil) // cancelled
	x.update([]market.Level{level(96, 1)}, nil)  // 6 ticks behind
	x.trade(market.Sell, 99, 2)
	x.update([]market.Level{level(99, 1), level(99.5, 1)}, nil) // 2 taken and 2 cancelled at once; and one inside

	x.publish(market.Event{Kind: market.KindStatus, Phase: market.Halt})
	x.trade(market.Sell, 99, 2) // not continuous trading
	x.at += 100 * second
	r := x.row()
	if r.Trades != 3 || r.Amends != 0 || r.Events != 11 {
		t.Errorf("%d trades, %d amends, %d events", r.Trades, r.Amends, r.Events)
	}
	near(t, "hours", r.Hours, 60.0/3600)
	near(t, "adds to a trade", r.AddsPerTrade, 3.0/3)
	near(t, "cancels to a trade", r.CancelsPerTrade, 2.0/3)
	near(t, "spread p10", r.SpreadTicks[0], 2)
	near(t, "spread p50", r.SpreadTicks[1], 4)
	near(t, "spread p90", r.SpreadTicks[2], 6)
	near(t, "spread p50 in basis points", r.SpreadBasis[1], 200)
	for i, want := range []float64{2.0 / 3, 0, 0, 1.0 / 3, 0} {
		near(t, "placement", r.Placement[i], want)
	}
	// 60 seconds, of which one has 2 trades and the last one's second has not ended.
	near(t, "Fano", r.Fano, (4.0/60-(2.0/60)*(2.0/60))/(2.0/60))
	if r.Kurtosis.Known() || r.SignACF[0].Known() || r.Life[0].Known() {
		t.Errorf("figures without enough data: %v %v %v", r.Kurtosis, r.SignACF, r.Life)
	}
}

// TestSigns compares with the autocorrelation computed from the whole list.
func TestSigns(t *testing.T) {
	x := newStream(t, nil)
	x.update([]market.Level{level(99, 1000000)}, []market.Level{level(101, 1000000)})
	rng := rand.New(rand.NewPCG(1, 1))
	side := market.Buy
	var list []float64
	for range 5000 {
		x.at += second / 3
		if rng.IntN(3) == 0 {
			side = market.Buy + market.Sell - side
		}
		p := 101.0
		if side == market.Sell {
			p = 99
		}
		list = append(list, 3-2*float64(side))
		reported := side
		if rng.IntN(2) == 0 {
			reported = market.NoSide // inferred from the mid price
		}
		x.trade(reported, p, 1)
	}
	r := x.row()
	mean := 0.0
	for _, v := range list {
		mean += v / float64(len(list))
	}
	for i, lag := range lags {
		num := 0.0
		for k := lag; k < len(list); k++ {
			num += list[k] * list[k-lag] / float64(len(list)-lag)
		}
		want := (num - mean*mean) / (1 - mean*mean)
		if got := float64(r.SignACF[i]); math.Abs(got-want) > 1e-9 {
			t.Errorf("lag %d: %v, want %v", lag, got, want)
		}
	}
	near(t, "Fano", r.Fano, float64(x.c.all[0].count.fano()))
	if r.Fano > .1 { // three per second, always
		t.Errorf("Fano %v of a clock", r.Fano)
	}
}

// TestReturns checks volatility and tails of known returns.
func TestReturns(t *testing.T) {
	x := newStream(t, func(in *market.Instrument) { in.Ticks = nil; in.QuotesFromFeed = true; in.NoBook = true })
	rng := rand.New(rand.NewPCG(2, 2))
	mid, second2, four := 1000.0, 0.0, 0.0
	const n = 400
	for i := range n + 1 {
		x.publish(market.Event{Kind: market.KindQuote, Bids: []market.Level{level(mid-1, 1)}, Asks: []market.Level{level(mid+1, 1)}})
		x.at += minute
		if i == n-1 {
			break
		}
		r := .002 * rng.NormFloat64()
		before := math.Log(float64(price(mid-1)+price(mid+1)) / 2)
		mid *= math.Exp(r)
		r = math.Log(float64(price(mid-1)+price(mid+1))/2) - before
		if i < n-2 { // no minute follows the last one
			second2 += r * r
			four += r * r * r * r
		}
	}
	r := x.row()
	near(t, "volatility", r.Volatility, math.Sqrt(second2/(n-2)*360))
	near(t, "kurtosis", r.Kurtosis, four/(n-2)/(second2/(n-2)*second2/(n-2)))
	if r.Kurtosis < 2.2 || r.Kurtosis > 4 {
		t.Errorf("kurtosis %v of a normal distribution", r.Kurtosis)
	}
}

// TestSingleOrders checks order lives of order-by-order events.
func TestSingleOrders(t *testing.T) {
	x := newStream(t, nil)
	x.publish(market.Event{Kind: market.KindOrderAdd, OrderID: 1, Side: market.Buy, Price: price(99), Size: lot})
	x.publish(market.Event{Kind: market.KindOrderAdd, OrderID: 2, Side: market.Sell, Price: price(101), Size: 2 * lot})
	x.at += 2 * second
	x.publish(market.Event{Kind: market.KindOrderAdd, OrderID: 3, Side: market.Buy, Price: price(99), Size: lot})
	x.at += 3 * second
	x.publish(market.Event{Kind: market.KindOrderDelete, OrderID: 3})
	x.publish(market.Event{Kind: market.KindOrderDelete, OrderID: 77}) // unknown order
	x.trade(market.Buy, 101, 2)
	x.publish(market.Event{Kind: market.KindOrderFill, OrderID: 2, Size: 2 * lot})
	r := x.row()
	near(t, "life", r.Life[1], 3)
	near(t, "adds", r.AddsPerTrade, 3)
	near(t, "cancels", r.CancelsPerTrade, 1)
	if n := len(x.c.all[0].addedAt); n != 1 {
		t.Errorf("%d births are kept", n)
	}
}

// TestGap checks that nothing is counted while the book is unknown.
func TestGap(t *testing.T) {
	x := newStream(t, nil)
	x.update([]market.Level{level(99, 5)}, []market.Level{level(101, 5)})
	x.at += 10 * second
	x.publish(market.Event{Kind: market.KindGap})
	x.at += 1000 * second
	x.trade(market.Buy, 101, 1)
	x.update([]market.Level{level(1, 5)}, nil)
	x.publish(market.Event{Kind: market.KindSnapshot, Bids: []market.Level{level(50, 5)}, Asks: []market.Level{level(51, 5)}})
	x.at += 5 * second
	x.trade(market.Buy, 51, 1)
	r := x.row()
	near(t, "hours", r.Hours, 15.0/3600)
	if r.Trades != 1 {
		t.Errorf("%d trades", r.Trades)
	}
}

func TestTable(t *testing.T) {
	c := New()
	c.Class = func(in market.Instrument) string { return "class of " + in.ID.Symbol[:1] }
	for _, symbol := range []string{"B1", "A2", "A1"} {
		h, err := c.Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "M", Term: "CI"}, StartsEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(3) {
			if err := c.Publish([]market.Event{{Kind: market.KindTrade, Handle: h, Time: (1 + i) * second, Side: market.Buy, Price: 1, Size: 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, err := c.Define(market.Instrument{ID: market.InstrumentID{Symbol: "*", Market: "M", Term: "*"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish([]market.Event{{Kind: market.KindStatus, Handle: whole, Phase: market.Closed}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish([]market.Event{{Handle: 99}}); err == nil {
		t.Error("no error for a handle of nobody")
	}
	table := c.Table()
	if len(table.Classes) != 2 || table.Classes[0].Name != "class of A" || table.Classes[0].Instruments != 2 || table.Instruments[0].Name != "A1|M|CI" {
		t.Errorf("%+v", table)
	}
	var text strings.Builder
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fact                       class of A  class of B  AAPL, cited\n", "kurtosis of minutes         too short   too short            -\n", "sign ACF, lag 1               too few     too few        0.690\n",
		"too short: this needs 31 minutes of continuous trading", "B1|M|CI    class of B",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "order life") {
		t.Errorf("orders have no lives there:\n%s", text.String())
	}
	if b, err := json.Marshal(table); err != nil || !strings.Contains(string(b), `"minute_kurtosis":null`) {
		t.Errorf("%s %v", b, err)
	}
}

// TestText checks the order of the simulated classes, the width of lines, and the marks of figures
// outside their range, which need at least an hour.
func TestText(t *testing.T) {
	var table Table
	for _, name := range append([]string{"another class"}, simulated()...) {
		r := Measured()
		r.Name, r.SpreadTicks, r.SpreadBasis[0] = name, [3]Figure{1, 4, 91}, .00123
		if name == "general" {
			r.Hours, r.Volatility = .9, Figure(math.NaN())
		}
		table.Classes = append(table.Classes, r)
		r.Class, r.Name = name, "SYMBOL|BYMA|24hs"
		table.Instruments = append(table.Instruments, r)
	}
	var b strings.Builder
	if err := table.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fact                       leading  sovereign    general  cedear  illiquid  lively  another class\n",
		"spread p10, ticks                1<         1          1       1<        1<      1              1\n",
		"spread p50, ticks                4<         4          4       4<        4<      4              4\n",
		"spread p90, ticks               91>        91>        91      91>       91>     91             91\n",
		"spread p10, bp              0.0012<    0.0012<    0.0012  0.0012<   0.0012< 0.0012         0.0012\n",
		"volatility of a day              -          -  too short       -         -       -              -\n",
		"order life p90, s            11.20      11.20      11.20   11.20     11.20   11.20          11.20\n",
		"range of the class               leading       sovereign          cedear        illiquid\n",
		"trades a day               2000 to 12000   3000 to 25000     300 to 4000      100 to 600\n",
		"The ranges of a class apply to recordings of an hour or more.\n",
		"SYMBOL|BYMA|24hs leading",
		"< and >: below and above the range of the class",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > width+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if t.Failed() {
		t.Logf("\n%s", b.String())
	}
}

func BenchmarkCollector(b *testing.B) {
	c := New()
	h, err := c.Define(market.Instrument{ID: market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}, StartsEmpty: true})
	if err != nil {
		b.Fatal(err)
	}
	events := make([]market.Event, 256)
	levels := make([]market.Level, len(events))
	at := second
	b.ReportAllocs()
	for b.Loop() {
		for i := range events {
			at += second / 10
			levels[i] = level(float64(100+i%7), i%5)
			events[i] = market.Event{Kind: market.KindUpdate, Handle: h, Time: at, Bids: levels[i : i+1]}
		}
		if err := c.Publish(events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
}

// TestMoves checks the facts of returns and volumes where each minute has one move, which is larger
// in minutes with more volume.
func TestMoves(t *testing.T) {
	x := newStream(t, nil)
	quote := func(old, mid float64) {
		x.update([]market.Level{level(old-1, 0), level(mid-1, 9)}, []market.Level{level(old+1, 0), level(mid+1, 9)})
	}
	x.at -= x.at % minute
	quote(0, 100)
	mid := 100.0
	for i := range int64(80) {
		for range i%4 + 1 { // the fourth minute has most volume
			x.at += second
			x.trade(market.Buy, mid+1, int(1+i%4))
		}
		x.at += second
		move := float64(i%4) / 2
		if i%8 >= 4 {
			move = -move
		}
		quote(mid, mid+move)
		mid += move
		x.at += minute - x.at%minute
	}
	x.update([]market.Level{level(mid-1, 8)}, nil)
	r := x.row()
	// A minute has one return that is not 0, so sums of squares are equal; there are 79 minutes.
	near(t, "variance ratio", r.VarianceRatio, 1.0/60*float64(60*79+58)/79)
	if r.SecondKurtosis < 50 || r.Kurtosis > 5 {
		t.Errorf("kurtosis %v of seconds and %v of minutes", r.SecondKurtosis, r.Kurtosis)
	}
	if r.VolumeReturn < .85 || r.VolumeACF > .2 || r.AbsoluteACF > .2 {
		t.Errorf("volume and return %v, with the minute before %v and %v", r.VolumeReturn, r.VolumeACF, r.AbsoluteACF)
	}
	near(t, "moves without a trade", r.SilentMoves, 0)
	near(t, "share of auctions", r.AuctionShare, 0)
	x.publish(market.Event{Kind: market.KindStatus, Phase: market.Auction})
	before := x.c.all[0].turnover[0]
	x.trade(market.NoSide, 50, 100)
	x.publish(market.Event{Kind: market.KindStatus, Phase: market.PostClose})
	x.trade(market.NoSide, 50, 50)
	r = x.row()
	near(t, "share of auctions", r.AuctionShare, 5000/(before+7500))
	near(t, "share after the close", r.AfterCloseShare, 2500/(before+7500))
}

// TestSilentMoves checks which moves of the mid price count as silent: those by more than the
// spread and three ticks since the newest trade.
func TestSilentMoves(t *testing.T) {
	x := newStream(t, nil)
	steps := []float64{100, 102, 103.5, 104, 104, 107} // the limit is 2 + 3 * 0.5
	old := 0.0
	for i, mid := range steps {
		if i == 4 {
			x.trade(market.Buy, 105, 1)
		}
		x.update([]market.Level{level(old-1, 0), level(mid-1, 9)}, []market.Level{level(old+1, 0), level(mid+1, 9)})
		x.at += second
		old = mid
	}
	x.update([]market.Level{level(old-1, 8)}, nil)
	// From 100 to 104 is too far; from 104 to 107, after the trade, is not.
	if got := x.c.all[0].silence.moves; got != 1 {
		t.Errorf("%v silent moves, want 1", got)
	}
}

// TestTradePrices compares with the autocorrelation of a price that bounces.
func TestTradePrices(t *testing.T) {
	x := newStream(t, nil)
	x.update([]market.Level{level(99, 1000)}, []market.Level{level(101, 1000)})
	for i := range 100 {
		x.at += second
		if i%2 == 0 {
			x.trade(market.Buy, 101, 1)
			x.trade(market.Buy, 103, 1) // another fill of the same order
		} else {
			x.trade(market.Sell, 99, 1)
		}
	}
	near(t, "trade price ACF", x.row().TradePriceACF, -1)
}

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

const halfHour = 30 * minute

// curves follows an instrument through a day.
type curves struct {
	in       market.Instrument
	class    string
	book     market.Book
	phase    market.Phase
	at       int64
	opened   int64                // 0: not yet
	turnover map[string]float64   // by condition of the trade, "" in continuous trading; in pesos
	tickets  []float64            // values of trades in continuous trading, in pesos
	halves   map[int64]*halfCurve // by half hour since the opening
	minutes  []minutePoint
}

// halfCurve holds sums over half an hour, weighted by time.
type halfCurve struct{ volume, time, spread, depth float64 }

// minutePoint is the state at the end of a minute, and the size traded in it.
type minutePoint struct{ price, spread, volume float64 }

// allCurves is a feed.Sink that follows all instruments.
type allCurves []*curves

func (c *allCurves) Define(in market.Instrument) (market.Handle, error) {
	*c = append(*c, &curves{in: in, class: Classes()(in), phase: in.Phase, turnover: map[string]float64{}, halves: map[int64]*halfCurve{}})
	return market.Handle(len(*c) - 1), nil
}

func (c *allCurves) Publish(events []market.Event) error {
	for i := range events {
		if x := (*c)[events[i].Handle]; x.in.ID.Market == venueBYMA && x.in.ID.Symbol != market.Any {
			x.apply(&events[i])
		}
	}
	return nil
}

// both is a feed.Sink that passes everything to two others, which number instruments alike.
type both [2]feed.Sink

func (b both) Define(in market.Instrument) (market.Handle, error) {
	if _, err := b[0].Define(in); err != nil {
		return 0, err
	}
	return b[1].Define(in)
}

func (b both) Publish(events []market.Event) error {
	if err := b[0].Publish(events); err != nil {
		return err
	}
	return b[1].Publish(events)
}

func (c *curves) apply(e *market.Event) {
	if c.phase == market.Open {
		if c.opened == 0 {
			c.opened = e.Time
		}
		c.pass(e.Time)
	}
	c.at = e.Time
	switch e.Kind {
	case market.KindStatus:
		c.phase = e.Phase
	case market.KindTrade:
		c.trade(e)
	case market.KindSnapshot:
		c.book.Reset()
		fallthrough
	case market.KindUpdate:
		for _, l := range e.Bids {
			c.book.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			c.book.Set(market.Sell, l)
		}
	}
}

// pass adds the time since the newest event.
func (c *curves) pass(now int64) {
	bid, hasBid := c.book.Best(market.Buy)
	ask, hasAsk := c.book.Best(market.Sell)
	if !hasBid || !hasAsk {
		return
	}
	mid, weight := float64(bid.Price+ask.Price)/2, float64(now-c.at)
	spread := float64(ask.Price-bid.Price) / mid * 1e4
	h := c.half(now)
	h.time += weight
	h.spread += weight * spread
	h.depth += weight * float64(bid.Size+ask.Size)
	for int64(len(c.minutes)) < (now-c.opened)/minute {
		c.minutes = append(c.minutes, minutePoint{})
	}
	if n := len(c.minutes); n > 0 {
		c.minutes[n-1].price, c.minutes[n-1].spread = mid/market.Scale, spread
	}
}

func (c *curves) half(now int64) *halfCurve {
	i := (now - c.opened) / halfHour
	if c.halves[i] == nil {
		c.halves[i] = &halfCurve{}
	}
	return c.halves[i]
}

func (c *curves) trade(e *market.Event) {
	value := float64(e.Price) / market.Scale * float64(e.Size) / market.Scale
	if m := c.in.Multiplier; m != 0 {
		value *= float64(m) / market.Scale
	}
	if c.in.Currency == "USD" {
		value *= mepRate
	}
	condition := ""
	if len(e.Conditions) > 0 {
		condition = e.Conditions[0]
	}
	c.turnover[condition] += value
	if condition != "" {
		return
	}
	c.tickets = append(c.tickets, value)
	c.half(e.Time).volume += float64(e.Size)
	if n := len(c.minutes); n > 0 {
		c.minutes[n-1].volume += float64(e.Size) / market.Scale
	}
}

// intraday returns, for each half hour after the opening, the means over instruments of volume,
// spread and depth, as shares of the mean of the day of each instrument.
func (c allCurves) intraday() (volume, spread, depth []float64) {
	const n = 12
	volume, spread, depth = make([]float64, n), make([]float64, n), make([]float64, n)
	count := 0.0
	for _, x := range c {
		var day halfCurve
		for i := range int64(n) {
			if h := x.halves[i]; h != nil {
				day.volume += h.volume
				day.time += h.time
				day.spread += h.spread
				day.depth += h.depth
			}
		}
		if len(x.tickets) < 100 {
			continue
		}
		count++
		for i := range int64(n) {
			if h := x.halves[i]; h != nil && h.time > 0 {
				volume[i] += h.volume / day.volume * day.time / h.time
				spread[i] += h.spread / h.time / (day.spread / day.time)
				depth[i] += h.depth / h.time / (day.depth / day.time)
			}
		}
	}
	for i := range n {
		volume[i], spread[i], depth[i] = volume[i]/count, spread[i]/count, depth[i]/count
	}
	return volume, spread, depth
}

// check checks what differs between instruments, hours and phases. whole means that all symbols are
// listed.
func (c allCurves) check(t *testing.T, whole bool) {
	t.Helper()
	volume, spread, depth := c.intraday()
	t.Logf("figure: by half hours, volume %.2f, spread %.2f, depth %.2f", volume, spread, depth)
	if spread[0] < 1.3*spread[6] || depth[10] < 1.2*depth[0] || volume[0] < 1.1*volume[6] || volume[11] < 1.3*volume[6] {
		t.Errorf("the hours of the day do not differ enough")
	}
	auctions := map[string]map[string]float64{}
	tickets, trades := map[string][]float64{}, map[string]float64{}
	for _, x := range c {
		if len(x.turnover) == 0 {
			continue
		}
		if auctions[x.class] == nil {
			auctions[x.class] = map[string]float64{}
		}
		for condition, v := range x.turnover {
			auctions[x.class][condition] += v
			auctions[x.class]["all"] += v
		}
		tickets[x.class] = append(tickets[x.class], x.tickets...)
		trades[x.in.ID.Symbol] += float64(len(x.tickets))
	}
	low, high := 1e12, 0.0
	var figures []string
	for _, name := range classNames() {
		a := auctions[name]
		calls := a[reasonOpening] + a[reasonClosing] + a[reasonVolatility] + a[reasonReopening]
		share := 100 * calls / a["all"]
		slices.Sort(tickets[name])
		median := tickets[name][len(tickets[name])/2]
		low, high = min(low, median), max(high, median)
		figures = append(figures, fmt.Sprintf("%s: %.1f %% in auctions, median trade %.0f pesos", name, share, median))
		if whole && (share < 3 || share > 10) {
			t.Errorf("%s: %.1f %% of the turnover is in auctions, want 3 to 10", name, share)
		}
		if a[reasonAtClose] >= a[reasonClosing] {
			t.Errorf("%s: %.0f at the close, %.0f in the closing auction", name, a[reasonAtClose], a[reasonClosing])
		}
	}
	if high > 4*low {
		t.Errorf("median trades differ by a factor of %.1f", high/low)
	}
	if whole {
		counts := []float64{}
		for _, n := range trades {
			counts = append(counts, n)
		}
		slices.Sort(counts)
		ratio := counts[len(counts)-1] / counts[len(counts)/2]
		figures = append(figures, fmt.Sprintf("the busiest of %d symbols has %.0f times the trades of the median", len(counts), ratio))
		if ratio < 50 || ratio > 200 {
			t.Errorf("the busiest symbol has %.0f times the trades of the median, want about 100", ratio)
		}
	}
	t.Logf("figure: %s", strings.Join(figures, "; "))
}

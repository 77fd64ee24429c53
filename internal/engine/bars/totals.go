package bars

import "github.com/ruedahq/rueda/market"

// Totals holds the figures of a set of trades of an instrument. First and last are determined by
// event time and, if equal, by N.
type Totals struct {
	FirstAt, LastAt        int64 // event times of the first and the last trade
	First, High, Low, Last market.Price
	Volume, Value          market.Sum // sum of sizes, sum of prices times sizes
	Trades                 uint32
}

// Add adds a trade, which comes after those already counted.
func (t *Totals) Add(at int64, p market.Price, z market.Size) {
	t.Volume = t.Volume.Add(z.Sum())
	t.Value = t.Value.Add(p.Times(z))
	t.Trades++
	if t.Trades == 1 {
		t.FirstAt, t.LastAt = at, at
		t.First, t.High, t.Low, t.Last = p, p, p, p
		return
	}
	t.High, t.Low = max(t.High, p), min(t.Low, p)
	if at >= t.LastAt {
		t.Last, t.LastAt = p, at
	}
	if at < t.FirstAt {
		t.First, t.FirstAt = p, at
	}
}

// merge adds trades, which come after those already counted.
func (t *Totals) merge(o *Totals) {
	if o.Trades == 0 {
		return
	}
	if t.Trades == 0 {
		*t = *o
		return
	}
	t.Volume = t.Volume.Add(o.Volume)
	t.Value = t.Value.Add(o.Value)
	t.Trades += o.Trades
	t.High, t.Low = max(t.High, o.High), min(t.Low, o.Low)
	if o.LastAt >= t.LastAt {
		t.Last, t.LastAt = o.Last, o.LastAt
	}
	if o.FirstAt < t.FirstAt {
		t.First, t.FirstAt = o.First, o.FirstAt
	}
}

// Bar is a bar, open or ended.
type Bar struct {
	Totals
	Interval   market.Interval
	Sent       bool // at least once
	Changed    bool // since it was sent last
	Revised    bool // the last message revised an earlier one
	Start, End int64
	Date       market.Date // trading date; set in package recent alone
}

package bars

import "github.com/ruedahq/rueda/market"

// Tally is the figures of some trades of an instrument. First and last go by the
// time at the market, and where that is the same by N.
type Tally struct {
	FirstAt, LastAt        int64 // T of the first and the last trade
	First, High, Low, Last market.Price
	Volume, Value          market.Sum // of sizes, of prices times sizes
	Trades                 uint32
}

// Add puts a trade to those counted, which came before it.
func (t *Tally) Add(at int64, p market.Price, z market.Size) {
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

// merge puts trades to those counted, which came before them.
func (t *Tally) merge(o *Tally) {
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

// Bar is a bar at work, or as it was told.
type Bar struct {
	Tally
	Interval   market.Interval
	Told       bool // at least once
	Changed    bool // since it was told last
	Revised    bool // as it was told last, it revised what was told before
	Start, End int64
}

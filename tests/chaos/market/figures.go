package market

import (
	"math/big"
	"strings"
	"sync"
	"time"
)

// Decimal returns v / 10^decimals in the shortest form.
func Decimal(v int64, decimals int) string { return decimal(big.NewInt(v), decimals) }

func decimal(v *big.Int, decimals int) string {
	text := new(big.Int).Abs(v).String()
	if len(text) <= decimals {
		text = strings.Repeat("0", decimals-len(text)+1) + text
	}
	if decimals > 0 {
		text = strings.TrimRight(text[:len(text)-decimals]+"."+text[len(text)-decimals:], "0")
		text = strings.TrimSuffix(text, ".")
	}
	if v.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// rounded returns n / d, rounded half to even to 15 significant digits and at most limit decimals.
func rounded(n, d *big.Int, limit int) string {
	if n.Sign() == 0 {
		return "0"
	}
	ten := big.NewInt(10)
	whole := new(big.Int).Quo(n, d).String()
	decimals := limit
	if whole != "0" {
		decimals = min(limit, 15-len(whole)) // it may be below 0
	}
	scale := new(big.Int).Exp(ten, big.NewInt(int64(max(decimals, -decimals))), nil)
	num, den := new(big.Int).Set(n), new(big.Int).Set(d)
	if decimals >= 0 {
		num.Mul(num, scale)
	} else {
		den.Mul(den, scale)
	}
	q, r := new(big.Int).QuoRem(num, den, new(big.Int))
	switch r.Lsh(r, 1).Cmp(den) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		q.Add(q, new(big.Int).And(q, big.NewInt(1)))
	}
	if decimals < 0 {
		return decimal(q.Mul(q, scale), 0)
	}
	return decimal(q, decimals)
}

// Figures are those of a bar or a summary, as text; absent ones are empty.
type Figures struct{ OP, HI, LO, Last, TV, EV, VW, TC string }

// sums are the trades of a period. Those that a cancel removed have size 0.
type sums struct {
	first, last, high, low int64 // prices
	volume, turnover       int64
	count                  int64
}

func (s *sums) add(p, z int64) {
	if s.count == 0 {
		s.first, s.high, s.low = p, p, p
	}
	s.last, s.high, s.low = p, max(s.high, p), min(s.low, p)
	s.volume += z
	s.turnover += p * z
	s.count++
}

func (s *sums) figures(in *Instrument) Figures {
	f := Figures{
		TV: Decimal(s.volume, in.SizeDecimals), TC: Decimal(s.count, 0),
		EV: rounded(big.NewInt(s.turnover), power(in.PriceDecimals+in.SizeDecimals), in.PriceDecimals+in.SizeDecimals),
	}
	if s.count > 0 {
		f.OP, f.HI = Decimal(s.first, in.PriceDecimals), Decimal(s.high, in.PriceDecimals)
		f.LO, f.Last = Decimal(s.low, in.PriceDecimals), Decimal(s.last, in.PriceDecimals)
		over := new(big.Int).Mul(big.NewInt(s.volume), power(in.PriceDecimals))
		f.VW = rounded(big.NewInt(s.turnover), over, 8)
	}
	return f
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// trade is a trade that may have been corrected or cancelled.
type trade struct{ e, p, z int64 }

// day has the trades of one day up to an event.
type day struct {
	of    int64 // days since 1970
	list  []trade
	index map[int64]int
	sums  sums
}

// apply changes the trades by an event that happened after all before.
func (d *day) apply(t Trade, e int64) {
	if t.Kind == 'T' {
		d.index[e] = len(d.list)
		d.list = append(d.list, trade{e, t.P, t.Z})
		d.sums.add(t.P, t.Z)
		return
	}
	i, ok := d.index[t.Of]
	if !ok {
		return // of another period
	}
	if t.Kind == 'X' {
		d.list[i].z = 0
	} else if d.list[i].z != 0 {
		d.list[i].p, d.list[i].z = t.P, t.Z
	}
	d.sums = sums{}
	for _, t := range d.list {
		if t.z != 0 {
			d.sums.add(t.p, t.z)
		}
	}
}

func newDay(of int64) day { return day{of: of, index: map[int64]int{}} }

// totals are the summaries after each event, computed once.
type totals struct {
	mu    sync.Mutex
	next  int64 // event that follows those of list
	list  map[int64]Summary
	today day
	ref   struct{ CL, SE, OI string }
}

// Summary has the figures of a day so far, and those that the market states.
type Summary struct {
	Figures
	CL, SE, OI string
}

// Summary returns the summary after event e: a trade, a cancel, a correction or reference figures.
func (in *Instrument) Summary(e int64) Summary {
	t := &in.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list, t.today = map[int64]Summary{}, newDay(in.day(0))
	}
	for ; t.next <= e; t.next++ {
		channel := in.Channel(t.next)
		if channel != ChannelTrades && channel != ChannelFigures {
			continue
		}
		if day := in.day(t.next); day != t.today.of {
			if t.today.sums.count > 0 {
				t.ref.CL = Decimal(t.today.sums.last, in.PriceDecimals)
			}
			t.today = newDay(day)
		}
		if channel == ChannelTrades {
			t.today.apply(in.Trade(t.next), t.next)
		} else {
			r := in.Reference(t.next)
			for to, v := range map[*string]int64{&t.ref.CL: r.CL, &t.ref.SE: r.SE} {
				if v != 0 {
					*to = Decimal(v, in.PriceDecimals)
				}
			}
			if r.OI != 0 {
				t.ref.OI = Decimal(r.OI, 0)
			}
		}
		t.list[t.next] = Summary{t.today.sums.figures(in), t.ref.CL, t.ref.SE, t.ref.OI}
	}
	return t.list[e]
}

func (in *Instrument) day(e int64) int64 { return in.Time(e).Unix() / (24 * 60 * 60) }

// Bar returns the figures of the bar that begins at a time, after each event before until that
// changed it. The first ones are those of the interval while it had not ended. There are none if no
// trade occurred in the interval.
func (in *Instrument) Bar(start time.Time, length time.Duration, until int64) []Figures {
	from, to := in.Until(start), in.Until(start.Add(length))
	if from == to {
		return nil
	}
	d := newDay(0)
	var list []Figures
	// The last correction comes five periods after its trade, and before the sixth ends.
	for e := from; e < min(until, to+6*int64(len(schedule))); e++ {
		if in.Channel(e) != ChannelTrades {
			continue
		}
		t := in.Trade(e)
		if t.Kind == 'T' && e >= to {
			continue
		}
		if _, mine := d.index[t.Of]; t.Kind != 'T' && !mine {
			continue
		}
		d.apply(t, e)
		list = append(list, d.sums.figures(in))
	}
	return list
}

// Length returns the duration of an interval of bars: 1s, 1m, 5m, 15m, 1h or 1d.
func Length(interval string) time.Duration {
	return map[string]time.Duration{
		"1s": time.Second, "1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour,
	}[interval]
}

package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// producer numbers rows of trades, their changes and the bars of these, as a hub does.
type producer struct {
	in     Instrument
	shared Shared
	rows   []journal.Row
}

func newProducer(id market.InstrumentID) *producer {
	p := &producer{in: New(market.Instrument{ID: id}), shared: NewShared(1 << 20)}
	p.in.SetClock(bars.NewClock(time.UTC, false))
	return p
}

func (p *producer) number(c wire.Channel, r journal.Row) {
	p.in.Sequences[c].N++
	r.N, r.Position = p.in.Sequences[c].N, uint64(len(p.rows)+1)
	p.rows = append(p.rows, r)
}

// send numbers the rows of bars.
func (p *producer) send(now int64) bars.SendFunc {
	return func(_ *bars.Series, b *bars.Bar) {
		p.number(wire.BarsOf(b.Interval), journal.Row{Kind: journal.Bar, At: now, Time: b.Start, Bar: journal.BarRow{
			Interval: b.Interval, Revised: b.Revised, First: b.First, High: b.High, Low: b.Low, Last: b.Last,
			Volume: b.Volume, Value: b.Value, Trades: b.Trades,
		}})
	}
}

func (p *producer) trade(id string, at int64, price market.Price, size market.Size, now int64) {
	p.number(wire.Trades, journal.Row{Kind: journal.Trade, At: now, Time: at, ID: id, Price: price, Size: size})
	n := p.in.Sequences[wire.Trades].N
	p.in.CountTrade(bars.Trade{N: n, ID: p.shared.TradeID(id), At: at, Price: price, Size: size}, now, &p.shared, p.send(now))
}

func (p *producer) amend(kind journal.Kind, id string, at int64, price market.Price, size market.Size, now int64) {
	p.number(wire.Trades, journal.Row{Kind: kind, At: now, Time: at, ID: id, Price: price, Size: size})
	if t, _ := p.in.FindTrade(id, &p.shared); t != nil {
		p.in.Amend(t, kind == journal.Cancel, price, size, now, p.send(now))
	}
}

// read reads the rows of a series.
func (p *producer) read(_ context.Context, s journal.Series, r journal.Range, yield func(*journal.Row) bool) error {
	var found []journal.Row
	for _, x := range p.rows {
		c := journal.Trades
		if x.Kind == journal.Bar {
			c = journal.Bars
		}
		if c == s.Channel && x.Bar.Interval == s.Interval && x.N > r.AfterN && (r.ToN == 0 || x.N <= r.ToN) && x.Time >= r.Start && (r.End == 0 || x.Time < r.End) {
			found = append(found, x)
		}
	}
	if r.Reverse {
		slices.Reverse(found)
	}
	for i := range found {
		if !yield(&found[i]) {
			return nil
		}
	}
	return nil
}

// sent returns the newest row of each bar. The first row of a bar is not marked as revised. Each
// later one is, and trades of the instrument have changed since the one before.
func (p *producer) sent(t *testing.T) map[[2]int64]journal.BarRow {
	t.Helper()
	newest, at, changed := map[[2]int64]journal.BarRow{}, map[[2]int64]uint64{}, uint64(0)
	for _, x := range p.rows {
		if x.Kind != journal.Bar {
			changed = x.Position
			continue
		}
		key := [2]int64{int64(x.Bar.Interval), x.Time}
		figures := x.Bar
		figures.Revised = false
		if before, ok := newest[key]; ok != x.Bar.Revised || ok && at[key] > changed {
			t.Fatalf("the bar of %v at %v: row %+v after %+v", x.Bar.Interval, time.Unix(0, x.Time).UTC(), x.Bar, before)
		}
		newest[key], at[key] = figures, x.Position
	}
	return newest
}

// counted is the bars that have ended at a time, counted from the rows of trades alone.
func (p *producer) counted(until int64) map[[2]int64]journal.BarRow {
	trades, order := map[string]journal.Row{}, []string{}
	for _, x := range p.rows {
		switch x.Kind {
		case journal.Trade:
			trades[x.ID] = x
			order = append(order, x.ID)
		case journal.Cancel:
			delete(trades, x.ID)
		case journal.Correct:
			if old, ok := trades[x.ID]; ok {
				old.Price, old.Size = x.Price, x.Size
				trades[x.ID] = old
			}
		}
	}
	all := map[[2]int64]journal.BarRow{}
	slices.SortStableFunc(order, func(a, b string) int { return int(trades[a].Time - trades[b].Time) })
	for _, id := range order {
		x, ok := trades[id]
		if !ok {
			continue
		}
		for i := range market.NumIntervals {
			length := int64(24 * time.Hour)
			if i != market.Day {
				length = int64(i.Length())
			}
			start := x.Time - x.Time%length
			if start+length > until {
				continue
			}
			key := [2]int64{int64(i), start}
			b := all[key]
			if b.Trades == 0 {
				b = journal.BarRow{Interval: i, First: x.Price, High: x.Price, Low: x.Price}
			}
			b.High, b.Low, b.Last = max(b.High, x.Price), min(b.Low, x.Price), x.Price
			b.Volume, b.Value = b.Volume.Add(x.Size.Sum()), b.Value.Add(x.Price.Times(x.Size))
			b.Trades++
			all[key] = b
		}
	}
	return all
}

// TestLoadAfterEveryRow ends a process after each of its rows, as a kill or a takeover does, and
// loads what it has written. Bars that lack a change are sent again, and no others.
func TestLoadAfterEveryRow(t *testing.T) {
	id, _ := market.ParseInstrumentID("GGAL|BYMA|24hs")
	begin := time.Date(2026, 11, 20, 14, 59, 30, 0, time.UTC).UnixNano()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p, now := newProducer(id), begin
		var ids []string
		times := map[string]int64{}
		for len(p.rows) < 150 {
			switch k := rng.IntN(10); {
			case k < 5 || len(ids) == 0:
				name, at := fmt.Sprint("t", len(ids)), now
				if rng.IntN(2) == 0 {
					at -= rng.Int64N(90e9)
				}
				ids, times[name] = append(ids, name), at
				p.trade(name, at, market.Price(1+rng.IntN(9)), market.Size(1+rng.IntN(9)), now)
			case k < 7:
				name, kind := ids[rng.IntN(len(ids))], journal.Cancel
				if times[name] == 0 {
					continue
				}
				if rng.IntN(2) == 0 {
					kind = journal.Correct
				}
				p.amend(kind, name, times[name], market.Price(1+rng.IntN(9)), market.Size(1+rng.IntN(9)), now)
				if kind == journal.Cancel {
					times[name] = 0
				}
			default:
				now += rng.Int64N(3e9)
				p.in.Clock.Close(now, p.send(now))
			}
		}
		for cut := range len(p.rows) + 1 {
			next := newProducer(id)
			next.rows = slices.Clone(p.rows[:cut])
			for i := range next.rows {
				next.in.Restore(&next.rows[i], false)
			}
			l := Loader{Read: next.read, Pause: func() {}, Shared: &next.shared, Kept: 1000, Position: uint64(cut)}
			if err := l.Load(t.Context(), &next.in, 1); err != nil {
				t.Fatal(err)
			}
			until := begin + int64(time.Hour)
			next.in.Clock.Close(until, next.send(until))
			want := next.counted(until)
			got := next.sent(t)
			for key, b := range got {
				if b.Trades == 0 {
					if _, ok := want[key]; ok {
						t.Fatalf("seed %d, cut %d: bar %v has no trades", seed, cut, key)
					}
					continue
				}
				if w := want[key]; b != w {
					t.Fatalf("seed %d, cut %d: bar %v %+v, want %+v", seed, cut, key, b, w)
				}
			}
			for key, w := range want {
				if b, ok := got[key]; !ok {
					t.Fatalf("seed %d, cut %d: bar %v was not sent: %+v %+v", seed, cut, key, w, b)
				}
			}
		}
	}
}

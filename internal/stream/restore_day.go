package stream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// restoreTally counts what grows the numbers of trades and of the summary.
func (in *instrument) restoreTally(j *journal.Row) {
	if j.Kind == journal.Reference {
		in.channels[wire.Summary].restore(j.N, j.At)
		return
	}
	in.channels[wire.Trades].restore(j.N, j.At)
	s := &in.channels[wire.Summary]
	s.restore(s.n+1, j.At)
}

func (in *instrument) restoreBar(j *journal.Row) {
	in.channels[wire.BarsOf(j.Bar.Interval)].restore(j.N, j.At)
}

// restoreDay counts the trading day of an instrument's newest trade again: its bars and its summary come
// out as they were.
func (f *refill) restoreDay(ctx context.Context, in *instrument) error {
	h := f.hub
	day, rows, err := f.dayRows(ctx, in)
	if err != nil {
		return err
	}
	x := h.exchangeOf(in)
	struck := x.ClosedUntil
	x.ClosedUntil = 0 // so that nothing is told while it is counted
	for i := range rows {
		h.recountRow(in, &rows[i])
		h.step()
	}
	x.ClosedUntil = struck
	if in.bars == nil && !in.toldBars() {
		return nil
	}
	h.barsOf(in).Fold()
	if len(rows) > 0 && in.sum.close == 0 && !in.sum.closeTold {
		if err := f.restoreClose(ctx, in, day); err != nil {
			return err
		}
	}
	for i := range market.NumIntervals {
		if err := f.restoreTold(ctx, in, i); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		if err := f.markTold(ctx, in, i, day); err != nil {
			return err
		}
	}
	return nil
}

// toldBars says whether an instrument has told bars, though their trades may not be kept any more.
func (in *instrument) toldBars() bool {
	for i := range market.NumIntervals {
		if in.channels[wire.BarsOf(i)].n > 0 {
			return true
		}
	}
	return false
}

// dayRows is what counts in bars and summary of the trading day of the newest trade, in order, and
// when that day began; in its first hour that of the day before as well.
func (f *refill) dayRows(ctx context.Context, in *instrument) (day int64, rows []journal.Row, err error) {
	newest, other := int64(0), int64(0)
	list := [...]journal.Channel{journal.Trades, journal.Summaries}
	last := [...]uint64{in.channels[wire.Trades].n, in.channels[wire.Summary].n}
	for i, c := range list {
		if last[i] == 0 || newest != 0 {
			continue
		}
		err := f.read(ctx, journal.Series{Instrument: in.id, Channel: c}, journal.Range{ToN: last[i], Reverse: true}, func(j *journal.Row) bool {
			if j.Kind == journal.Trade {
				newest = j.Time
			} else {
				other = max(other, j.Time)
			}
			return newest == 0 && (c == journal.Trades || other == 0)
		})
		if err != nil {
			return 0, nil, err
		}
	}
	if newest == 0 {
		newest = other // nothing was traded: of the figures, or what was cancelled
	}
	if newest == 0 {
		return 0, nil, nil
	}
	x := f.hub.exchangeOf(in)
	if day, _ = x.Bounds(market.Day, newest); newest < day+int64(time.Hour) {
		day, _ = x.Bounds(market.Day, day-1) // it may be revised still; see Counts
	}
	for i, c := range list {
		if last[i] == 0 {
			continue
		}
		err := f.read(ctx, journal.Series{Instrument: in.id, Channel: c}, journal.Range{Start: day, ToN: last[i]}, func(j *journal.Row) bool {
			r := *j
			r.TradeDetails, r.Bids, r.Asks = market.TradeDetails{}, nil, nil // of the reader's memory, and not needed
			rows = append(rows, r)
			return true
		})
		if err != nil {
			return 0, nil, err
		}
	}
	slices.SortFunc(rows, func(a, b journal.Row) int { return cmp.Compare(a.Position, b.Position) })
	return day, rows, nil
}

// recountRow counts one row, as it was when it was published.
func (h *Hub) recountRow(in *instrument, j *journal.Row) {
	send := h.sendBar(in.replica, j.At)
	h.dated(in, j.Time, j.At)
	in.sum.stamp = stamp{j.Time, j.Latency}
	switch j.Kind {
	case journal.Trade:
		h.countTrade(in, bars.Trade{N: j.N, ID: h.hash(j.ID), At: j.Time, Price: j.Price, Size: j.Size}, j.At, send)
	case journal.Reference:
		in.sum.refer(j.Price, j.OldPrice, j.Size)
	default:
		if d, _ := h.dealOf(in, j.ID); d != nil {
			h.amend(in, d, j.Kind == journal.Cancel, j.Price, j.Size, j.At, send)
		}
	}
}

// restoreClose takes the previous close from the bar of the day before.
func (f *refill) restoreClose(ctx context.Context, in *instrument, day int64) error {
	n := in.channels[wire.BarsOf(market.Day)].n
	if n == 0 {
		return nil
	}
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: market.Day}
	return f.read(ctx, s, journal.Range{End: day, ToN: n, Reverse: true}, func(j *journal.Row) bool {
		in.sum.close = j.Bar.Last
		return false
	})
}

// barCost is how many rows of trades a bar takes the space of.
const barCost = 3

// restoreTold fills the recent rows of an interval with the newest bars.
func (f *refill) restoreTold(ctx context.Context, in *instrument, i market.Interval) error {
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: i}
	return f.fill(ctx, &in.bars.tapes[i], s, in.channels[wire.BarsOf(i)].n, min(barRows, f.share(2*barCost)), barCost)
}

// markTold notes which bars of an interval were sent since a day began. Those that are over and
// were not, since the process ended first, are sent when the clock of the bars strikes next.
func (f *refill) markTold(ctx context.Context, in *instrument, i market.Interval, day int64) error {
	s, n := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: i}, in.channels[wire.BarsOf(i)].n
	if n == 0 {
		return nil
	}
	err := f.read(ctx, s, journal.Range{Start: day, ToN: n}, func(j *journal.Row) bool {
		in.bars.MarkSent(i, j.Time)
		return true
	})
	if i == market.Second {
		in.bars.DropSeconds()
	}
	return err
}

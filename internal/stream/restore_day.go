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

// restoreDay counts the trading day of an instrument's newest trade again, with what was published
// until a time: its bars and its summary come out as they were.
func (h *Hub) restoreDay(ctx context.Context, in *instrument, until int64) error {
	day, rows, err := h.dayRows(ctx, in, until)
	if err != nil || len(rows) == 0 {
		return err
	}
	x := h.exchangeOf(in)
	struck := x.Struck
	x.Struck = 0 // so that nothing is told while it is counted
	for i := range rows {
		h.recountRow(in, &rows[i])
	}
	x.Struck = struck
	if in.bars == nil {
		return nil
	}
	in.bars.Fold()
	if in.sum.close == 0 && !in.sum.closeTold {
		if err := h.restoreClose(ctx, in, day); err != nil {
			return err
		}
	}
	for i := range market.NumIntervals {
		if err := h.restoreTold(ctx, in, i, day, until); err != nil {
			return err
		}
	}
	return nil
}

// dayRows is what counts in bars and summary of the trading day of the newest trade, in order, and
// when that day began; in its first hour that of the day before as well.
func (h *Hub) dayRows(ctx context.Context, in *instrument, until int64) (day int64, rows []journal.Row, err error) {
	newest := int64(0)
	trades := journal.Series{Instrument: in.id, Channel: journal.Trades}
	err = h.cfg.Journal.Read(ctx, trades, journal.Range{Epoch: h.epoch, Reverse: true}, func(_ string, j *journal.Row) bool {
		if j.Kind == journal.Trade && j.At <= until {
			newest = j.Time
		}
		return newest == 0
	})
	if err != nil || newest == 0 {
		return 0, nil, err
	}
	x := h.exchangeOf(in)
	if day, _ = x.Bounds(market.Day, newest); newest < day+int64(time.Hour) {
		day, _ = x.Bounds(market.Day, day-1) // it may be revised still; see Counts
	}
	for _, c := range [...]journal.Channel{journal.Trades, journal.Summaries} {
		s := journal.Series{Instrument: in.id, Channel: c}
		err := h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, Start: day}, func(_ string, j *journal.Row) bool {
			if j.At > until {
				return true
			}
			r := *j
			r.Conditions, r.Bids, r.Asks = nil, nil, nil // of the reader's memory, and not needed
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
	e := market.Event{Price: j.Price, Size: j.Size, TradeID: j.ID, OldPrice: j.OldPrice, OldSize: j.OldSize}
	if in.line != nil {
		in.line.now = j.At
	}
	h.dated(in, j.Time, j.At)
	in.sum.stamp = stamp{j.Time, j.Latency}
	switch j.Kind {
	case journal.Trade:
		h.countTrade(in, bars.Deal{N: j.N, ID: h.hash(j.ID), At: j.Time, Price: j.Price, Size: j.Size}, j.At)
	case journal.Reference:
		in.sum.refer(&e)
	default:
		e.Kind = market.KindCancel
		if j.Kind == journal.Correct {
			e.Kind = market.KindCorrect
		}
		if d, _ := h.dealOf(in, j.ID); d != nil {
			h.amend(in, d, &e, j.At)
		}
	}
}

// restoreClose takes the previous close from the bar of the day before.
func (h *Hub) restoreClose(ctx context.Context, in *instrument, day int64) error {
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: market.Day}
	return h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, End: day, Reverse: true}, func(_ string, j *journal.Row) bool {
		in.sum.close = j.Bar.Last
		return false
	})
}

// restoreTold finds which bars of an interval were told. Those that are over and were not, since
// the process ended first, are told when the clock of the bars strikes next.
func (h *Hub) restoreTold(ctx context.Context, in *instrument, i market.Interval, day, until int64) error {
	b := in.bars
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: i}
	const rows = 3 // see tellBar
	t := &b.tapes[i]
	n := in.channels[wire.BarsOf(i)].n
	t.last, t.dropped = n, h.position
	kept := min(n, uint64(min(barRows, h.cfg.TradesKept)))
	err := h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, AfterN: n - kept, ToN: n}, func(_ string, j *journal.Row) bool {
		if j.At > until {
			n = min(n, j.N-1)
			return false
		}
		if t.kept == 0 || j.N != t.last+1 {
			h.rows -= rows * int64(t.kept)
			*t = tape{last: j.N - 1, dropped: j.Position - 1}
		}
		h.rows += rows * int64(t.add(rowOf(j), 1<<30, false))
		return true
	})
	if err != nil {
		return err
	}
	in.channels[wire.BarsOf(i)].n = n
	if t.last != n {
		h.rows -= rows * int64(t.kept)
		*t = tape{last: n, dropped: h.position}
	}
	if in.line != nil {
		t.dropped = h.position
	}
	err = h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, Start: day}, func(_ string, j *journal.Row) bool {
		if j.At > until {
			return true
		}
		b.MarkTold(i, j.Time)
		return true
	})
	if i == market.Second {
		b.DropSeconds()
	}
	return err
}

// barOf is a bar as a row of the journal has it.
func barOf(j *journal.Row) bars.Bar {
	return bars.Bar{
		Interval: j.Bar.Interval, Told: true, Revised: j.Bar.Revised, Start: j.Time, End: j.Time + int64(j.Bar.Interval.Length()),
		Tally: bars.Tally{
			First: j.Bar.First, High: j.Bar.High, Low: j.Bar.Low, Last: j.Bar.Last,
			Volume: j.Bar.Volume, Value: j.Bar.Value, Trades: j.Bar.Trades,
		},
	}
}

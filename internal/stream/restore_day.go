package stream

import (
	"cmp"
	"context"
	"math"
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
	if err != nil {
		return err
	}
	x := h.exchangeOf(in)
	struck := x.ClosedUntil
	x.ClosedUntil = 0 // so that nothing is told while it is counted
	for i := range rows {
		h.recountRow(in, &rows[i])
	}
	x.ClosedUntil = struck
	if in.bars == nil && !in.toldBars() {
		return nil
	}
	h.barsOf(in).Fold()
	if len(rows) > 0 && in.sum.close == 0 && !in.sum.closeTold {
		if err := h.restoreClose(ctx, in, day); err != nil {
			return err
		}
	}
	for i := range market.NumIntervals {
		if err := h.restoreTold(ctx, in, i, until); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		if err := h.markTold(ctx, in, i, day, until); err != nil {
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
func (h *Hub) dayRows(ctx context.Context, in *instrument, until int64) (day int64, rows []journal.Row, err error) {
	newest, other := int64(0), int64(0)
	for _, c := range [...]journal.Channel{journal.Trades, journal.Summaries} {
		s := journal.Series{Instrument: in.id, Channel: c}
		err := h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, Reverse: true}, func(_ string, j *journal.Row) bool {
			switch {
			case j.At > until:
			case j.Kind == journal.Trade:
				newest = j.Time
			default:
				other = max(other, j.Time)
			}
			return newest == 0 && (c == journal.Trades || other == 0)
		})
		if err != nil {
			return 0, nil, err
		}
		if newest != 0 {
			break
		}
	}
	if newest == 0 {
		newest = other // nothing was traded: of the figures, or what was cancelled
	}
	if newest == 0 {
		return 0, nil, nil
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
	send := h.sendBar(j.At)
	if in.line != nil {
		in.line.now = j.At
	}
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
func (h *Hub) restoreClose(ctx context.Context, in *instrument, day int64) error {
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: market.Day}
	return h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, End: day, Reverse: true}, func(_ string, j *journal.Row) bool {
		in.sum.close = j.Bar.Last
		return false
	})
}

// barCost is how many rows of trades a bar takes the room of.
const barCost = 3

// restoreTold fills the tape of an interval with bars that were told until a time.
func (h *Hub) restoreTold(ctx context.Context, in *instrument, i market.Interval, until int64) error {
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: i}
	c := &in.channels[wire.BarsOf(i)]
	if in.line != nil && c.n > 0 && until != math.MaxInt64 {
		w := way{hub: h, until: until, room: -1}
		t, err := w.back(s, c.n)
		if err != nil {
			return err
		}
		c.n, c.at = t.n, t.at
	}
	t := &in.bars.tapes[i]
	if err := h.fill(ctx, t, s, c.n, min(barRows, h.share(2*barCost)), barCost); err != nil {
		return err
	}
	if in.line != nil && c.n > 0 {
		t.Dropped = h.position // positions of before the restart are not those of the rows
	}
	return nil
}

// markTold notes which bars of an interval were told since a day began. Those that are over and
// were not, since the process ended first, are told when the clock of the bars strikes next.
func (h *Hub) markTold(ctx context.Context, in *instrument, i market.Interval, day, until int64) error {
	s := journal.Series{Instrument: in.id, Channel: journal.Bars, Interval: i}
	err := h.cfg.Journal.Read(ctx, s, journal.Range{Epoch: h.epoch, Start: day}, func(_ string, j *journal.Row) bool {
		if j.At <= until {
			in.bars.MarkSent(i, j.Time)
		}
		return true
	})
	if i == market.Second {
		in.bars.DropSeconds()
	}
	return err
}

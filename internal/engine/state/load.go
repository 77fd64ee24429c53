package state

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Loader fills the recent rows, the bars and the figures of the day of instruments from a journal,
// at a restart.
type Loader struct {
	// Read reads rows of the journal. It may release a lock meanwhile that guards the instruments.
	Read     func(ctx context.Context, s journal.Series, r journal.Range, yield func(*journal.Row) bool) error
	Pause    func() // called between rows that are counted; it may release that lock too
	Shared   *Shared
	Kept     int    // most recent rows of a sequence
	Position uint64 // of the newest row

	until int64 // Shared.Rows when this instrument is done; the rest is for the others
}

// Load fills an instrument whose sequences have been restored. among is the number of instruments
// that remain to be loaded, including this one. The instrument may use its share of the memory for
// recent rows.
func (l *Loader) Load(ctx context.Context, in *Instrument, among int) error {
	l.until = l.Shared.Rows + max(0, l.Shared.MaxRows-l.Shared.Rows)/int64(max(1, among))
	if err := l.fill(ctx, in, in.StatusChannel()); err != nil || in.Venue {
		return err
	}
	if err := l.fill(ctx, in, wire.Trades); err != nil {
		return err
	}
	return l.loadDay(ctx, in)
}

// fill reads the newest rows of a sequence. They use at most half of the remaining memory.
func (l *Loader) fill(ctx context.Context, in *Instrument, c wire.Channel) error {
	cost := rowCost(c)
	most := min(MaxRows(c, l.Kept), int(max(0, l.until-l.Shared.Rows)/(2*cost)))
	rows, n, at := in.Recent(c), in.Sequences[c].N, in.Sequences[c].At
	after := n - min(n, uint64(most))
	*rows = recent.Rows{Last: after, LastAt: at}
	if after > 0 {
		rows.Dropped = l.Position // until a row gives a better estimate
	}
	if after == n {
		return nil
	}
	err := l.Read(ctx, in.Series(c), journal.Range{AfterN: after, ToN: n}, func(j *journal.Row) bool {
		if j.N != rows.Last+1 {
			*rows = recent.Rows{Last: j.N - 1} // rows were lost: the stored rows must have no gap
		}
		if rows.Stored == 0 && j.N > 1 {
			rows.Dropped = j.Position - 1
		}
		rows.Add(recent.RowOf(j, in.Clock.Zone()), math.MaxInt, false)
		return true
	})
	if err == nil && rows.Last != n {
		*rows = recent.Rows{Last: n, LastAt: at, Dropped: l.Position}
	}
	l.Shared.Rows += cost * int64(rows.Stored)
	return err
}

// loadDay counts the trading day of an instrument's newest trade again, which restores its bars and
// summary.
func (l *Loader) loadDay(ctx context.Context, in *Instrument) error {
	day, rows, err := l.dayRows(ctx, in)
	if err != nil {
		return err
	}
	closed := in.Clock.ClosedUntil
	in.Clock.ClosedUntil = 0 // so that no bar is sent while it is counted
	counted := make([]int64, len(rows))
	for i := range rows {
		counted[i] = in.recount(&rows[i], l.Shared)
		l.Pause()
	}
	in.Clock.ClosedUntil = closed
	if in.Bars == nil && !in.hasBars() {
		return nil
	}
	in.MakeBars().Fold()
	if len(rows) > 0 && in.Day.close == 0 && !in.Day.reported {
		if err := l.loadClose(ctx, in, day); err != nil {
			return err
		}
	}
	for i := range market.NumIntervals {
		if err := l.fill(ctx, in, wire.BarsOf(i)); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		newest, err := l.markSent(ctx, in, i, day)
		if err != nil {
			return err
		}
		for k := len(rows) - 1; k >= 0 && rows[k].Position > newest; k-- {
			if counted[k] != 0 {
				in.Bars.MarkChanged(i, counted[k])
			}
		}
		if i == market.Second {
			in.Bars.DropSeconds()
		}
	}
	return nil
}

// dayRows returns the rows that count in bars and summary of the trading day of the newest trade,
// in their order, and when that day began. In its first hour, those of the day before count too.
func (l *Loader) dayRows(ctx context.Context, in *Instrument) (day int64, rows []journal.Row, err error) {
	newest, other := int64(0), int64(0)
	list := [...]journal.Channel{journal.Trades, journal.Summaries}
	last := [...]uint64{in.Sequences[wire.Trades].N, in.Sequences[wire.Summary].N}
	for i, c := range list {
		if last[i] == 0 || newest != 0 {
			continue
		}
		err := l.Read(ctx, journal.Series{Instrument: in.Def.ID, Channel: c}, journal.Range{ToN: last[i], Reverse: true}, func(j *journal.Row) bool {
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
		newest = other // nothing was traded: a reference row, or a cancelled trade
	}
	if newest == 0 {
		return 0, nil, nil
	}
	if day, _ = in.Clock.Bounds(market.Day, newest); newest < day+int64(time.Hour) {
		day, _ = in.Clock.Bounds(market.Day, day-1) // it may still be revised; see bars.Clock.Counts
	}
	for i, c := range list {
		if last[i] == 0 {
			continue
		}
		err := l.Read(ctx, journal.Series{Instrument: in.Def.ID, Channel: c}, journal.Range{Start: day, ToN: last[i]}, func(j *journal.Row) bool {
			r := *j
			// These slices are in the reader's memory, and are not needed.
			r.TradeDetails, r.Bids, r.Asks = market.TradeDetails{}, nil, nil
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

// recount counts a row in the same way as when it was published, and sends nothing. It returns the
// time whose bars the row may have changed, 0 if there is none.
func (in *Instrument) recount(j *journal.Row, s *Shared) (at int64) {
	send := func(*bars.Series, *bars.Bar) {}
	in.Dated(j.Time, j.At)
	in.Day.stamp = StampOf(j)
	switch j.Kind {
	case journal.Trade:
		in.CountTrade(bars.Trade{N: j.N, ID: s.TradeID(j.ID), At: j.Time, Price: j.Price, Size: j.Size}, j.At, s, send)
		return j.Time
	case journal.Reference:
		in.Day.Refer(j.Price, j.OldPrice, j.Size)
	default:
		if t, _ := in.FindTrade(j.ID, s); t != nil {
			in.Amend(t, j.Kind == journal.Cancel, j.Price, j.Size, j.At, send)
			return t.At
		}
	}
	return 0
}

// loadClose takes the previous close from the bar of the day before.
func (l *Loader) loadClose(ctx context.Context, in *Instrument, day int64) error {
	n := in.Sequences[wire.BarsOf(market.Day)].N
	if n == 0 {
		return nil
	}
	return l.Read(ctx, in.Series(wire.BarsOf(market.Day)), journal.Range{End: day, ToN: n, Reverse: true}, func(j *journal.Row) bool {
		in.Day.close = j.Bar.Last
		return false
	})
}

// markSent notes which bars of an interval were sent since a day began, and returns the position of
// the newest of their rows. Bars that have ended but were not sent, because the process ended
// first, are sent at the next pass of the clock.
func (l *Loader) markSent(ctx context.Context, in *Instrument, i market.Interval, day int64) (newest uint64, err error) {
	n := in.Sequences[wire.BarsOf(i)].N
	if n == 0 {
		return 0, nil
	}
	err = l.Read(ctx, in.Series(wire.BarsOf(i)), journal.Range{Start: day, ToN: n}, func(j *journal.Row) bool {
		in.Bars.MarkSent(i, j.Time)
		newest = max(newest, j.Position)
		return true
	})
	return newest, err
}

// hasBars reports whether bars were sent, even if their trades are no longer stored.
func (in *Instrument) hasBars() bool {
	for i := range market.NumIntervals {
		if in.Sequences[wire.BarsOf(i)].N > 0 {
			return true
		}
	}
	return false
}

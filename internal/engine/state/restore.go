package state

import (
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Restore applies a row of a checkpoint, or after it, at a restart. Recent rows, bars and figures
// of the day are not restored. Books are restored only on request, by hubs that need no snapshot of
// a feed.
func (in *Instrument) Restore(j *journal.Row, books bool) {
	switch j.Kind {
	case journal.Numbers:
		in.restoreCounts(&j.Counts)
	case journal.Trade, journal.Cancel, journal.Correct:
		in.Sequences[wire.Trades].restore(j.N, j.At)
		q := &in.Sequences[wire.Summary]
		q.restore(q.N+1, j.At)
	case journal.Reference:
		in.Sequences[wire.Summary].restore(j.N, j.At)
	case journal.Status:
		in.Sequences[in.StatusChannel()].restore(j.N, j.At)
		switch {
		case j.Phase == market.Gap:
		case j.Phase.OfFeed():
			in.Down = in.Venue && j.Phase == market.FeedDown
		default:
			in.Phase, in.Reason, in.Until = j.Phase, j.Reason, j.Until
		}
	case journal.Quote:
		in.Sequences[wire.Quotes].restore(j.N, j.At)
		in.Bid, in.Ask, in.Quoted = First(j.Bids), First(j.Asks), StampOf(j)
	case journal.BookUpdate, journal.BookState:
		in.Sequences[wire.OrderBook].restore(j.N, j.At)
		in.Changed = StampOf(j)
		if books {
			in.restoreBook(j)
		}
	case journal.BookLost:
		in.Stale = true
	case journal.Bar:
		in.Sequences[wire.BarsOf(j.Bar.Interval)].restore(j.N, j.At)
	}
}

func (in *Instrument) restoreBook(j *journal.Row) {
	if j.Kind == journal.BookState {
		in.Book.Replace(j.Bids, j.Asks)
		in.Stale = false
	} else if _, err := in.Book.Update(nil, j.Bids, j.Asks); err != nil {
		in.Stale = true
	}
}

func (in *Instrument) restoreCounts(c *journal.Counts) {
	in.Sequences[wire.Trades].N = c.N[journal.Trades]
	in.Sequences[in.StatusChannel()].N = c.N[journal.Statuses]
	in.Sequences[wire.Quotes].N = c.N[journal.Quotes]
	in.Sequences[wire.OrderBook].N = c.N[journal.Books]
	in.Sequences[wire.Summary].N = c.N[journal.Summaries]
	for i, n := range c.Bars {
		in.Sequences[wire.BarsOf(market.Interval(i))].N = n
	}
}

// Counts returns the numbers that the sequences have reached.
func (in *Instrument) Counts() (c journal.Counts) {
	c.N[journal.Trades] = in.Sequences[wire.Trades].N
	c.N[journal.Statuses] = in.Sequences[in.StatusChannel()].N
	c.N[journal.Quotes] = in.Sequences[wire.Quotes].N
	c.N[journal.Books] = in.Sequences[wire.OrderBook].N
	c.N[journal.Summaries] = in.Sequences[wire.Summary].N
	for i := range c.Bars {
		c.Bars[i] = in.Sequences[wire.BarsOf(market.Interval(i))].N
	}
	return c
}

// Recorded reports whether a journal still has rows of the instrument, or earlier days that are to
// be added may have some. The definitions and numbers of instruments whose rows have expired are
// kept forever.
func (in *Instrument) Recorded(j *journal.Journal) bool {
	if len(j.Earlier()) > 0 {
		return true
	}
	days := j.Days()
	for _, q := range in.Sequences {
		if q.At != 0 && len(days) > 0 && q.At >= days[0].From {
			return true
		}
	}
	has := func(n uint64, s journal.Series) bool { return n > 0 && j.Oldest(s) <= n }
	counts := in.Counts()
	for c, n := range counts.N {
		if has(n, journal.Series{Instrument: in.Def.ID, Channel: journal.Channel(c)}) {
			return true
		}
	}
	for i, n := range counts.Bars {
		if has(n, journal.Series{Instrument: in.Def.ID, Channel: journal.Bars, Interval: market.Interval(i)}) {
			return true
		}
	}
	return false
}

// Checkpoint passes the rows of a checkpoint at a position to emit, which must not keep them. An
// instrument without messages in this epoch has no rows.
func (in *Instrument) Checkpoint(position uint64, emit func(*journal.Row)) {
	head := journal.Row{Checkpoint: true, Instrument: in.Number, Position: position, Latency: -1}
	r := head
	if r.Kind, r.Counts = journal.Numbers, in.Counts(); r.Counts == (journal.Counts{}) {
		return
	}
	emit(&r)
	if q := &in.Sequences[in.StatusChannel()]; q.N > 0 {
		r = head
		at := in.Publication(q.At)
		r.Kind, r.N, r.At, r.Time = journal.Status, q.N, at, at
		if in.Down {
			r.Phase = market.FeedDown
			emit(&r)
		}
		if r.Phase, r.Reason, r.Until = in.Phase, in.Reason, in.Until; in.Phase != market.NoPhase || !in.Down {
			emit(&r)
		}
	}
	if in.Venue || in.Def.NoBook && in.Sequences[wire.Quotes].N == 0 {
		return
	}
	if q := &in.Sequences[wire.Quotes]; q.N > 0 {
		r = head
		r.Kind, r.N, r.At, r.Time, r.Latency = journal.Quote, q.N, in.Publication(q.At), in.Quoted.Time, in.Quoted.Latency
		r.Bids, r.Asks = side(in.Bid), side(in.Ask)
		emit(&r)
	}
	if q := &in.Sequences[wire.OrderBook]; q.N > 0 {
		r = head
		r.Kind, r.N, r.At, r.Time, r.Latency = journal.BookState, q.N, in.Publication(q.At), in.Changed.Time, in.Changed.Latency
		if in.Stale {
			r.Kind, r.Reason = journal.BookLost, "not_known"
		} else {
			var l book.Levels
			l.Read(&in.Book, 0)
			r.Bids, r.Asks = l.Bids, l.Asks
		}
		emit(&r)
	}
}

// side returns a side of a quote as levels.
func side(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	return []market.Level{l}
}

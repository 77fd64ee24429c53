// Package state keeps the market state of one instrument, which results from the rows of the log.
//
// An [Instrument] has the book, the quote, the trading status, the figures of the trading day, the
// bars, the newest rows of each sequence, and the numbers that the sequences have reached. The hub
// numbers and sends messages. This package applies rows to the state, reads the state from a
// journal, and writes it to a checkpoint.
//
// This package is pure: no goroutines, no clock, no I/O. Its types are not locked; the caller must
// guard them.
package state

import (
	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// MarketStatus is the channel of statuses of a market as a whole, *|MARKET|*. Clients do not name
// it.
const MarketStatus = wire.NumChannels

// Instrument is the state of one instrument, or of a market as a whole.
type Instrument struct {
	Def    market.Instrument
	Ident  wire.Ident
	Number uint32 // in the journal
	Venue  bool   // it is a market as a whole
	Owner  any    // by which bars name the instrument

	Sequences [MarketStatus + 1]Sequence

	Trades   recent.Rows
	Statuses recent.Rows
	Bars     *Bars       // nil: nothing was traded
	Clock    *bars.Clock // of the bars and the trading day; see SetClock
	Day      Day

	Bid, Ask market.Level // the quote; Size 0: that side is empty
	Quoted   Stamp        // of the quote; zero: there is none

	Book    book.Book
	Changed Stamp // of the book
	Stale   bool  // the book is not known

	Phase  market.Phase
	Reason string // of the phase
	Until  int64  // next expected phase, Unix ns; 0: not known
	Down   bool   // of a market as a whole: its feed is down
}

// Sequence is the numbering of one channel of an instrument.
type Sequence struct {
	N  uint64 // of the newest message; 0: there is none
	At int64  // its publication, Unix ns
}

// restore moves a sequence to an N of the journal.
func (q *Sequence) restore(n uint64, at int64) {
	if n >= q.N {
		q.N, q.At = n, at
	}
}

// New returns an instrument that has only a definition.
func New(def market.Instrument) Instrument {
	return Instrument{Def: def, Ident: wire.MakeIdent(def.ID), Stale: BeginsStale(&def),
		Venue: def.ID.Symbol == market.Any && def.ID.Term == market.Any}
}

// Cleared returns the instrument without any state.
func (in *Instrument) Cleared() Instrument {
	x := New(in.Def)
	x.Ident, x.Number, x.Owner = in.Ident, in.Number, in.Owner
	return x
}

// BeginsStale reports whether an instrument has a book that is not known before its first snapshot.
func BeginsStale(def *market.Instrument) bool { return !def.StartsEmpty && !def.NoBook }

// DerivesQuotes reports whether the quotes come from the book.
func (in *Instrument) DerivesQuotes() bool { return !in.Def.QuotesFromFeed && !in.Def.NoBook }

// Serves reports whether the instrument can have messages of a channel.
func (in *Instrument) Serves(c wire.Channel) bool { return c != wire.OrderBook || !in.Def.NoBook }

// StatusChannel returns the channel of the instrument's statuses.
func (in *Instrument) StatusChannel() wire.Channel {
	if in.Venue {
		return MarketStatus
	}
	return wire.Status
}

// Recent returns the recent rows of trades, statuses or bars. Without bars the result is empty, and
// not part of the instrument.
func (in *Instrument) Recent(c wire.Channel) *recent.Rows {
	if c == wire.Trades {
		return &in.Trades
	}
	if i, ok := c.Interval(); ok {
		if in.Bars == nil {
			return &recent.Rows{}
		}
		return &in.Bars.Recent[i]
	}
	return &in.Statuses
}

// Series returns the journal's name for the rows of trades, statuses or bars.
func (in *Instrument) Series(c wire.Channel) journal.Series {
	s := journal.Series{Instrument: in.Def.ID, Channel: journal.Trades}
	if c == wire.Status || c == MarketStatus {
		s.Channel = journal.Statuses
	}
	if i, ok := c.Interval(); ok {
		s.Channel, s.Interval = journal.Bars, i
	}
	return s
}

// SkipLost advances a sequence if rows before r were lost. Its recent rows are dropped, because
// they must not have gaps. A book is stale until its next state.
func (in *Instrument) SkipLost(r *journal.Row, s *Shared) {
	var c wire.Channel
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct:
		c = wire.Trades
	case journal.Status:
		c = in.StatusChannel()
	case journal.Bar:
		c = wire.BarsOf(r.Bar.Interval)
		in.MakeBars()
	case journal.BookUpdate:
		in.Stale = in.Stale || r.N != in.Sequences[wire.OrderBook].N+1
		return
	default:
		return
	}
	if r.N == in.Sequences[c].N+1 {
		return
	}
	in.Sequences[c].N = r.N - 1
	rows := in.Recent(c)
	s.Rows -= rowCost(c) * int64(rows.Stored)
	*rows = recent.Rows{Last: r.N - 1, Dropped: r.Position - 1}
}

// Stamp is the time of a message's header.
type Stamp struct {
	Time    int64 // T, Unix ns
	Latency int64 // D, ns; below 0: not stated
}

// Stamp returns the time of an event that is published now. Without a market time, it is the
// receive time and has no latency. With a virtual clock, it has no latency either.
func (in *Instrument) Stamp(e *market.Event, now int64) Stamp {
	switch {
	case e.Time == 0 && e.Receive == 0:
		return Stamp{now, -1}
	case e.Time == 0:
		return Stamp{e.Receive, -1}
	case in.Def.VirtualClock:
		return Stamp{e.Time, -1}
	}
	return Stamp{e.Time, max(0, now-e.Time)}
}

// StampOf returns the time of a row's message.
func StampOf(r *journal.Row) Stamp { return Stamp{r.Time, r.Latency} }

// AsOf returns the stamp with the latency of a message that is sent now.
func (s Stamp) AsOf(now int64) Stamp {
	if s.Latency >= 0 {
		s.Latency = max(0, now-s.Time)
	}
	return s
}

// Publication returns the publication time that is stored for a message. With a virtual clock this
// is the newest event time.
func (in *Instrument) Publication(now int64) int64 {
	if in.Def.VirtualClock {
		if at := in.Clock.Now(); at != 0 {
			return at
		}
		if in.Def.Listed != 0 {
			return in.Def.Listed
		}
	}
	return now
}

// Header returns the header of a message.
func (in *Instrument) Header(n uint64, s Stamp) wire.Header {
	return wire.Header{Ident: in.Ident, N: n, Time: s.Time, Latency: s.Latency}
}

// First returns the best level of a side, or none.
func First(levels []market.Level) market.Level {
	if len(levels) == 0 {
		return market.Level{}
	}
	return levels[0]
}

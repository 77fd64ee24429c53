// Package tier has the variants of a channel, and encodes their messages.
//
// A [Tier] is a depth of the book, an interval of conflation and a delay. A [State] is a tier of
// one instrument as of its newest message. An [Encoder] encodes the next message of a tier from the
// state of the instrument. Conflation is in this package alone: a [Schedule] has the tiers that
// have changed, until the end of their interval.
//
// This package is pure: no goroutines, no clock, no I/O. Its types are not locked.
package tier

import (
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Tier is the variant of a channel that a subscription has. Trades and status have one tier for
// each delay.
type Tier struct {
	Depth    int // of order_book: 1, 5, 10, 25, or 0 for all levels
	Conflate int // of quotes and order_book: interval in milliseconds with at most one message; 0: every change
	Delay    int // seconds of delay; 0: real time
}

// State is a tier of a channel of one instrument, as of its newest message.
type State struct {
	Tier
	N     uint64 // of the newest message; an R:true message of this tier has it too
	At    int64  // publication time of the newest message
	Dirty bool   // a conflated tier that has changed since its newest message

	stamp state.Stamp // of the newest message
	due   state.Stamp // of the newest change

	bid, ask market.Level // of a quote tier
	view     book.View    // of a book tier
}

// New returns a tier of a channel of an instrument. Its first message contains the changes from now
// on.
func New(t Tier, c wire.Channel, in *state.Instrument) State {
	s := State{Tier: t, N: in.Sequences[c].N, At: in.Sequences[c].At}
	switch c {
	case wire.Quotes:
		s.bid, s.ask, s.stamp = in.Bid, in.Ask, in.Quoted
	case wire.OrderBook:
		s.stamp = in.Changed
		s.view.Begin(&in.Book, t.Depth, t.Conflate > 0)
	}
	return s
}

// Change notes the time of a change in a conflated tier, and the changes of its book. It reports
// whether this is the first change since the newest message.
func (t *State) Change(changes []book.Change, s state.Stamp) (first bool) {
	t.view.Record(changes)
	first = !t.Dirty
	t.Dirty, t.due = true, s
	return first
}

// Reset notes that the whole book is sent as message n.
func (t *State) Reset(in *state.Instrument, n uint64) {
	t.view.Reset(&in.Book)
	t.Dirty, t.stamp, t.N = false, in.Changed, n
}

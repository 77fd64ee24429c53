package stream

import (
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// instrument is all the hub knows of one instrument, or of a market as a whole.
type instrument struct {
	def     market.Instrument
	id      market.InstrumentID
	ident   wire.Ident
	handle  market.Handle
	index   uint32 // in the catalogue; venues have none
	number  uint32 // in the journal
	venue   bool
	pos     uint64        // of its newest message
	unfed   bool          // of the journal: no feed has defined it since the start
	later   []*instrument // the same in each replica; of a live instrument
	replica *replica      // that it is of; nil: it is live

	channels [wire.NumChannels + 1]channel

	trades   recent.Rows
	statuses recent.Rows
	bars     *traded   // nil: nothing was traded
	sum      summary   // of the trading day
	exchange *exchange // the clock of its bars; see exchangeOf

	bid, ask market.Level // the quote; Size 0: that side is empty
	quoted   stamp        // of the quote; zero: none may be told yet

	book    book.Book
	changed stamp // of the book
	stale   bool  // the book is not known: listed without one, or after a gap

	phase  market.Phase
	reason string
	until  int64
	down   bool // of a venue: its feed is down
}

// channel is the numbering of one channel of an instrument and its tiers in use.
type channel struct {
	n     uint64       // of the newest message; 0: none yet
	at    int64        // its publication, Unix ns
	tiers []*tierState // as of the generation; see Hub.tiers

	generation uint32
}

// beginsStale reports whether an instrument has a book that is not known before its first snapshot.
func beginsStale(def *market.Instrument) bool { return !def.StartsEmpty && !def.NoBook }

// startTier gives a new tier the state that it is in, so that its first message
// says what changed since now.
func (in *instrument) startTier(c wire.Channel, t *tierState) {
	switch c {
	case wire.Quotes:
		t.bid, t.ask, t.stamp = in.bid, in.ask, in.quoted
	case wire.OrderBook:
		t.stamp = in.changed
		t.view.Begin(&in.book, t.tier.Depth, t.tier.Conflate > 0)
	}
}

// derivesQuotes says whether the quotes come from the book.
func (in *instrument) derivesQuotes() bool { return !in.def.QuotesFromFeed && !in.def.NoBook }

// stamp is the time part of a header.
type stamp struct {
	time    int64 // T, Unix ns
	latency int64 // D, ns; under 0: not told
}

// stamp dates an event published now. Without a market time the receive time stands
// in and no latency is told; nor is it where the clock is not of the present.
func (in *instrument) stamp(e *market.Event, now int64) stamp {
	switch {
	case e.Time == 0 && e.Receive == 0:
		return stamp{now, -1}
	case e.Time == 0:
		return stamp{e.Receive, -1}
	case in.def.VirtualClock:
		return stamp{e.Time, -1}
	}
	return stamp{e.Time, max(0, now-e.Time)}
}

func (in *instrument) header(n uint64, s stamp) wire.Header {
	return wire.Header{Ident: in.ident, N: n, Time: s.time, Latency: s.latency}
}

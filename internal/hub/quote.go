package hub

import (
	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// derive numbers the quote at the top of the book, for an instrument that derives its quotes from
// the book. It does nothing while the book is stale, locked or crossed, or in an auction or
// pre-open phase.
func (h *sequencer) derive(in *Instrument, s state.Stamp, now int64) {
	if !in.DerivesQuotes() || in.Stale || in.Phase == market.Auction || in.Phase == market.PreOpen || in.Book.Levels().Crossed() {
		return
	}
	bid, _ := in.Book.Levels().Best(market.Buy)
	ask, _ := in.Book.Levels().Best(market.Sell)
	h.setQuote(in, bid, ask, s, now)
}

// flushQuote sends the newest quote of a conflated tier, unless it equals the quote that was sent
// last.
func (h *applier) flushQuote(in *Instrument, t *tierState, now int64) {
	if t.bid == in.Bid && t.ask == in.Ask && t.n > 0 {
		return
	}
	t.bid, t.ask, t.stamp = in.Bid, in.Ask, in.Quoted
	rec := Record{Position: h.newest(in), N: in.Sequences[wire.Quotes].N, At: now, Of: in}
	hd := in.Header(rec.N, t.stamp.AsOf(now))
	h.scratch.payload = wire.AppendQuote(h.scratch.payload[:0], &hd, t.bid, t.ask, false)
	h.emit(t, h.framed(), rec)
}

// quoteState appends the payload of a quote tier as of its newest message. ok is false if there is
// no such message.
func (in *Instrument) quoteState(b []byte, t *tierState) (_ []byte, ok bool) {
	if in.Sequences[wire.Quotes].N == 0 || t.n == 0 || t.stamp == (state.Stamp{}) {
		return b, false
	}
	hd := in.Header(t.n, t.stamp)
	return wire.AppendQuote(b, &hd, t.bid, t.ask, true), true
}

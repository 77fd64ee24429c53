package stream

import (
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// derive takes the quote from the top of the book, where that is its source. It
// pauses while the book is not known, or locked or crossed as in an auction.
func (h *Hub) derive(in *instrument, s stamp, now int64) {
	if !in.derivesQuotes() || in.stale || in.phase == market.Auction || in.phase == market.PreOpen || in.book.Levels().Crossed() {
		return
	}
	bid, _ := in.book.Levels().Best(market.Buy)
	ask, _ := in.book.Levels().Best(market.Sell)
	h.setQuote(in, bid, ask, s, now)
}

// flushQuote sends a conflated tier's newest quote, unless it is what was sent last.
func (h *Hub) flushQuote(in *instrument, t *tierState, now int64) {
	if t.bid == in.bid && t.ask == in.ask && t.n > 0 {
		return
	}
	t.bid, t.ask, t.stamp = in.bid, in.ask, in.quoted
	rec := record{pos: h.newest(in), n: in.channels[wire.Quotes].n, at: now, in: in}
	hd := in.header(rec.n, t.stamp.asOf(now))
	h.scratch.payload = wire.AppendQuote(h.scratch.payload[:0], &hd, t.bid, t.ask, false)
	h.emit(t, h.framed(), rec)
}

// asOf tells the latency of a message that waited for its tier's clock.
func (s stamp) asOf(now int64) stamp {
	if s.latency >= 0 {
		s.latency = max(0, now-s.time)
	}
	return s
}

// quoteState appends the payload of a quote tier as of its newest message; ok is
// false where there was none.
func (in *instrument) quoteState(b []byte, t *tierState) (_ []byte, ok bool) {
	if in.channels[wire.Quotes].n == 0 || t.n == 0 || t.stamp == (stamp{}) {
		return b, false
	}
	hd := in.header(t.n, t.stamp)
	return wire.AppendQuote(b, &hd, t.bid, t.ask, true), true
}

package stream

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Applying a row changes the state of its instrument, keeps the row for clients that resume, and
// appends its message to the rings of the topics that take it. now is the time of that, in Unix ns;
// the row has the time when it was numbered. The hub's lock is held.

// advance moves a channel on to a row, and returns the record of the row's message.
func (h *Hub) advance(in *instrument, c wire.Channel, r *journal.Row, now int64) record {
	ch := &in.channels[c]
	ch.n, ch.at = r.N, now
	return record{pos: r.Position, n: r.N, at: now, in: in}
}

// framed frames the payload in the hub's scratch memory.
func (h *Hub) framed() []byte {
	h.scratch.frame = wire.AppendText(h.scratch.frame[:0], h.scratch.payload)
	return h.scratch.frame
}

// applyTrade applies a trade, a cancellation or a correction. The bars and the summary that it
// changes follow.
func (h *Hub) applyTrade(in *instrument, r *journal.Row, now int64) {
	h.dated(in, r.Time, r.At)
	rec, row, s := h.advance(in, wire.Trades, r, now), recent.RowOf(r), stamp{r.Time, r.Latency}
	var meant *bars.Trade
	if r.Kind != journal.Trade {
		meant, _ = h.dealOf(in, r.ID)
	}
	keep, full := h.room(&in.trades, h.cfg.TradesKept)
	h.rows += int64(in.trades.Add(row, keep, full))
	for _, t := range h.tiers(in, wire.Trades) {
		h.scratch.payload = row.Message(h.scratch.payload[:0], in.ident, rec.n)
		h.emit(t, h.framed(), rec)
	}
	switch at := r.At; { // the bars that follow reuse the row's memory
	case row.Kind == market.KindTrade:
		h.countTrade(in, bars.Trade{N: rec.n, ID: h.hash(row.ID), At: s.time, Price: row.Price, Size: row.Size}, at, h.sendBar(in.replica, now))
	case meant != nil:
		h.amend(in, meant, row.Kind == market.KindCancel, row.Price, row.Size, at, h.sendBar(in.replica, now))
	}
	h.tellSummary(in, rec.pos, s, now)
}

// noticeOf returns the flags of a status that concerns more than the channel of statuses.
func noticeOf(p market.Phase) flag {
	switch p {
	case market.FeedDown, market.FeedUp:
		return notice
	case market.Gap:
		return notice | lost
	}
	return 0
}

// applyStatus applies a status. A notice goes to the readers of the book and of quotes made from it
// as well, and a gap to those of every channel.
func (h *Hub) applyStatus(in *instrument, r *journal.Row, now int64) {
	c := in.statusKey()
	switch r.Phase {
	case market.Gap:
	case market.FeedDown, market.FeedUp:
		if in.venue {
			in.down = r.Phase == market.FeedDown
		}
	default:
		in.phase, in.reason, in.until = r.Phase, r.Reason, r.Until
	}
	rec, row := h.advance(in, c, r, now), recent.RowOf(r)
	rec.flag = noticeOf(r.Phase)
	keep, full := h.room(&in.statuses, h.cfg.TradesKept)
	h.rows += int64(in.statuses.Add(row, keep, full))
	h.scratch.payload = row.Message(h.scratch.payload[:0], in.ident, rec.n)
	frame := h.framed()
	for _, t := range h.tiers(in, c) {
		h.emit(t, frame, rec)
	}
	if rec.flag != 0 && !in.venue {
		h.echo(in, frame, rec)
	}
}

// echo appends the message of a notice to the rings of the other channels that it concerns.
func (h *Hub) echo(in *instrument, frame []byte, rec record) {
	rec.flag |= echo
	for c := range wire.NumChannels {
		switch {
		case c == wire.Status:
			continue
		case rec.flag&lost != 0, c == wire.OrderBook, c == wire.Quotes && in.derivesQuotes():
		default:
			continue
		}
		for _, t := range h.tiers(in, c) {
			for _, tp := range t.topics {
				h.append(tp, frame, rec)
			}
		}
	}
}

// applyQuote applies a quote.
func (h *Hub) applyQuote(in *instrument, r *journal.Row, now int64) {
	tiers := h.tiers(in, wire.Quotes) // as they are before the change
	in.bid, in.ask, in.quoted = first(r.Bids), first(r.Asks), stamp{r.Time, r.Latency}
	rec := h.advance(in, wire.Quotes, r, now)
	encoded := false
	for _, t := range tiers {
		if t.tier.Conflate > 0 {
			h.soil(in, wire.Quotes, t, in.quoted)
			continue
		}
		if !encoded {
			hd := in.header(rec.n, in.quoted)
			h.scratch.payload = wire.AppendQuote(h.scratch.payload[:0], &hd, in.bid, in.ask, false)
			h.framed()
			encoded = true
		}
		t.bid, t.ask, t.stamp = in.bid, in.ask, in.quoted
		h.emit(t, h.scratch.frame, rec)
	}
}

// applyChanges applies changes of a book, which has them already.
func (h *Hub) applyChanges(in *instrument, r *journal.Row, changes []book.Change, now int64) {
	s := stamp{r.Time, r.Latency}
	in.changed = s
	rec := h.advance(in, wire.OrderBook, r, now)
	for _, t := range h.tiers(in, wire.OrderBook) {
		switch {
		case t.tier.Conflate > 0:
			t.view.Record(changes)
			h.soil(in, wire.OrderBook, t, s)
		case t.tier.Depth == 0:
			h.scratch.levels.Split(changes)
			h.sendUpdate(in, t, s, rec)
		case t.view.Sees(changes):
			h.sendChanges(in, t, s, rec)
		}
	}
}

// applyBook applies a whole book, which the instrument has already.
func (h *Hub) applyBook(in *instrument, r *journal.Row, now int64) {
	s := stamp{r.Time, r.Latency}
	in.changed = s
	rec := h.advance(in, wire.OrderBook, r, now)
	for _, t := range h.tiers(in, wire.OrderBook) {
		t.dirty = false
		t.view.Reset(&in.book)
		t.stamp, t.n = s, rec.n
		h.scratch.payload, _ = h.appendBook(h.scratch.payload[:0], in, t)
		h.emit(t, h.framed(), rec)
	}
}

// applyBar applies a bar.
func (h *Hub) applyBar(in *instrument, r *journal.Row, now int64) {
	i := r.Bar.Interval
	rec, row := h.advance(in, wire.BarsOf(i), r, now), recent.RowOf(r)
	rows := &h.barsOf(in).tapes[i]
	keep, full := h.room(rows, min(barRows, h.cfg.TradesKept))
	h.rows += barCost * int64(rows.Add(row, keep, full))
	for _, t := range h.tiers(in, wire.BarsOf(i)) {
		h.scratch.payload = row.Message(h.scratch.payload[:0], in.ident, rec.n)
		h.emit(t, h.framed(), rec)
	}
	if i == market.Day {
		_, end := h.exchangeOf(in).Bounds(i, row.Time)
		h.roll(in, end)
	}
}

// applyReference applies reference figures.
func (h *Hub) applyReference(in *instrument, r *journal.Row, now int64) {
	h.dated(in, r.Time, r.At)
	in.sum.refer(r.Price, r.OldPrice, r.Size)
	h.tellSummary(in, r.Position, stamp{r.Time, r.Latency}, now)
}

package hub

import (
	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The functions of this file apply a row. They change the state of its instrument, keep the row for
// clients that resume, and append its message to the rings of the topics that take it. now is the
// present time in Unix ns. The row has the time when it was numbered. The hub's lock is held.

// advance sets the N of a channel to that of a row, and returns the record of the row's message.
func (h *applier) advance(in *Instrument, c wire.Channel, r *journal.Row, now int64) Record {
	in.Sequences[c] = state.Sequence{N: r.N, At: now}
	if h.cfg.Following {
		in.Sequences[c].At = r.At // which all nodes have
	}
	return Record{Position: r.Position, N: r.N, At: now, Of: in}
}

// applyTrade applies a trade, a cancellation or a correction. It then sends the bars and the
// summary that change. send numbers the bars. For rows of another hub it is noBars, because the
// bars of that hub are rows too.
func (h *applier) applyTrade(in *Instrument, r *journal.Row, now int64, send bars.SendFunc) {
	in.Dated(r.Time, r.At)
	rec, row, s := h.advance(in, wire.Trades, r, now), recent.RowOf(r, in.zone), state.StampOf(r)
	var meant *bars.Trade
	if r.Kind != journal.Trade {
		meant, _ = in.FindTrade(r.ID, &h.shared)
	}
	h.keep(in, wire.Trades, row)
	for _, t := range h.tiers(in, wire.Trades) {
		h.emit(t, h.encoder.Row(&row, in.Ident, rec.N), rec)
	}
	switch at := r.At; { // the bars that follow reuse the row's memory
	case row.Kind == market.KindTrade:
		in.CountTrade(bars.Trade{N: rec.N, ID: h.shared.TradeID(row.ID), At: s.Time, Price: row.Price, Size: row.Size}, at, &h.shared, send)
	case meant != nil:
		in.Amend(meant, row.Kind == market.KindCancel, row.Price, row.Size, at, send)
	}
	h.awaitBars(in.Clock)
	h.sendSummary(in, rec.Position, s, now)
}

// applyStatus applies a status. A notice also goes to the readers of the book, and of quotes that
// are derived from the book. A gap goes to the readers of every channel.
func (h *applier) applyStatus(in *Instrument, r *journal.Row, now int64) {
	c := in.StatusChannel()
	switch r.Phase {
	case market.Gap:
	case market.FeedDown, market.FeedUp:
		if in.Venue {
			in.Down = r.Phase == market.FeedDown
		}
	default:
		in.Phase, in.Reason, in.Until = r.Phase, r.Reason, r.Until
	}
	rec, row := h.advance(in, c, r, now), recent.RowOf(r, in.zone)
	rec.Flag = noticeOf(r.Phase)
	h.keep(in, c, row)
	frame := h.encoder.Row(&row, in.Ident, rec.N)
	for _, t := range h.tiers(in, c) {
		h.emit(t, frame, rec)
	}
	if rec.Flag != 0 && !in.Venue {
		h.echo(in, frame, rec)
	}
}

// echo appends the message of a notice to the rings of the other channels that it concerns.
func (h *applier) echo(in *Instrument, frame []byte, rec Record) {
	rec.Flag |= ring.Echo
	for c := range wire.NumChannels {
		switch {
		case c == wire.Status:
			continue
		case rec.Flag&ring.Lost != 0, c == wire.OrderBook, c == wire.Quotes && in.DerivesQuotes():
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
func (h *applier) applyQuote(in *Instrument, r *journal.Row, now int64) {
	tiers := h.tiers(in, wire.Quotes) // as they are before the change
	in.Bid, in.Ask, in.Quoted = state.First(r.Bids), state.First(r.Asks), state.StampOf(r)
	rec := h.advance(in, wire.Quotes, r, now)
	var frame []byte
	for _, t := range tiers {
		if t.Conflate > 0 {
			h.conflate(dirtyTier{in, wire.Quotes, t}, nil, in.Quoted)
			continue
		}
		if frame == nil {
			frame = h.encoder.Quote(&in.Instrument, rec.N)
		}
		t.SetQuote(&in.Instrument)
		h.emit(t, frame, rec)
	}
}

// dirtyTier is a conflated tier that has changed.
type dirtyTier struct {
	in      *Instrument
	channel wire.Channel
	tier    *tierState
}

// conflate schedules a conflated tier for the end of its interval. s is the time of the change, and
// changes are those of its book.
func (h *applier) conflate(d dirtyTier, changes []book.Change, s state.Stamp) {
	if d.tier.Change(changes, s) && h.conflated.Add(d.tier.Conflate, d, h.clock()) {
		h.kickClock()
	}
}

// applyChanges publishes changes that the book of the instrument already has.
func (h *applier) applyChanges(in *Instrument, r *journal.Row, changes []book.Change, now int64) {
	in.Changed = state.StampOf(r)
	rec := h.advance(in, wire.OrderBook, r, now)
	for _, t := range h.tiers(in, wire.OrderBook) {
		if t.Conflate > 0 {
			h.conflate(dirtyTier{in, wire.OrderBook, t}, changes, in.Changed)
		} else if frame := h.encoder.Changes(&in.Instrument, &t.State, changes, rec.N); frame != nil {
			h.emit(t, frame, rec)
		}
	}
}

// applyBook publishes a whole book that the instrument already has.
func (h *applier) applyBook(in *Instrument, r *journal.Row, now int64) {
	in.Changed = state.StampOf(r)
	rec := h.advance(in, wire.OrderBook, r, now)
	for _, t := range h.tiers(in, wire.OrderBook) {
		t.Reset(&in.Instrument, rec.N)
		h.emit(t, h.encoder.Book(&in.Instrument, &t.State), rec)
	}
}

// applyBar applies a bar.
func (h *applier) applyBar(in *Instrument, r *journal.Row, now int64) {
	i := r.Bar.Interval
	rec, row := h.advance(in, wire.BarsOf(i), r, now), recent.RowOf(r, in.zone)
	in.MakeBars()
	h.keep(in, wire.BarsOf(i), row)
	for _, t := range h.tiers(in, wire.BarsOf(i)) {
		h.emit(t, h.encoder.Row(&row, in.Ident, rec.N), rec)
	}
	if i == market.Day {
		_, end := in.Clock.Bounds(i, row.Time)
		in.Roll(end)
	}
}

// applyReference applies reference figures.
func (h *applier) applyReference(in *Instrument, r *journal.Row, now int64) {
	in.Dated(r.Time, r.At)
	in.Day.Refer(r.Price, r.OldPrice, r.Size)
	h.sendSummary(in, r.Position, state.StampOf(r), now)
}

// sendSummary numbers and sends the summary. It has the position of the row that changed it.
func (h *applier) sendSummary(in *Instrument, pos uint64, s state.Stamp, now int64) {
	tiers := h.tiers(in, wire.Summary)
	n := in.NextSummary(s, now)
	for _, t := range tiers {
		h.emit(t, h.encoder.Summary(&in.Instrument, n, s), Record{Position: pos, N: n, At: now, Of: in})
	}
}

// noBars sends no bar.
func noBars(*bars.Series, *bars.Bar) {}

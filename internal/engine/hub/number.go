package hub

import (
	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The functions of this file turn events into rows. They assign N and position, and append the row
// to the journal. apply.go applies the rows of this hub, and of a hub that it follows.

// newRow begins the next row of a channel. The row is in scratch memory, which the next one reuses.
func (h *sequencer) newRow(in *Instrument, k journal.Kind, c wire.Channel, s state.Stamp, now int64) *journal.Row {
	r := &h.scratch.row
	*r = journal.Row{Kind: k, Instrument: in.Number, Position: h.nextPosition(in), N: in.Sequences[c].N + 1,
		Time: s.Time, Latency: s.Latency, At: in.Publication(now), Source: h.takeSource(in, c)}
	return r
}

// appendRow appends a row to the journal or the log, if there is one.
func (h *sequencer) appendRow(r *journal.Row) {
	switch {
	case h.cfg.Journal != nil:
		h.cfg.Journal.Append(r)
		h.kept = true
	case h.cfg.Log != nil:
		h.cfg.Log.Append(r)
	}
}

// keepsRows reports whether there is a journal or a log.
func (h *sequencer) keepsRows() bool { return h.cfg.Journal != nil || h.cfg.Log != nil }

// enlist assigns the instrument its number in the journal or the log, or stores its changed
// definition there.
func (h *sequencer) enlist(in *Instrument) {
	switch {
	case h.cfg.Journal != nil:
		in.Number = h.cfg.Journal.Define(in.Def)
	case h.cfg.Log != nil:
		in.Number = h.cfg.Log.Define(in.Def)
	default:
		return
	}
	h.number(in)
}

// trade numbers a trade, its cancellation or its correction.
func (h *sequencer) trade(in *Instrument, e *market.Event, now int64) {
	r := h.newRow(in, journal.Trade, wire.Trades, in.Stamp(e, now), now)
	r.Price, r.Size, r.Side, r.ID, r.TradeDetails = e.Price, e.Size, e.Side, e.TradeID, e.TradeDetails
	if e.Kind != market.KindTrade {
		r.Kind = journal.Cancel
		if e.Kind == market.KindCorrect {
			r.Kind = journal.Correct
		}
		r.OldPrice, r.OldSize = e.OldPrice, e.OldSize
		_, r.RefN = in.FindTrade(e.TradeID, &h.shared)
	}
	h.appendRow(r)
	h.applyTrade(in, r, now, h.sendBar(now))
}

// status numbers a status of an instrument or of a market as a whole. A status without a time gets
// the time of its publication.
func (h *sequencer) status(in *Instrument, e *market.Event, now int64) {
	s := in.Stamp(e, now)
	if e.Time == 0 && e.Receive == 0 {
		s.Time = in.Publication(now)
	}
	r := h.newRow(in, journal.Status, in.StatusChannel(), s, now)
	r.Phase, r.Reason, r.Until = e.Phase, e.Reason, e.Until
	h.appendRow(r)
	h.applyStatus(in, r, now)
}

// setQuote numbers a quote, unless it equals the quote that was published last. A Size of 0 means
// an empty side.
func (h *sequencer) setQuote(in *Instrument, bid, ask market.Level, s state.Stamp, now int64) {
	if bid.Size == 0 {
		bid = market.Level{}
	}
	if ask.Size == 0 {
		ask = market.Level{}
	}
	if in.Sequences[wire.Quotes].N > 0 && bid == in.Bid && ask == in.Ask {
		return
	}
	r := h.newRow(in, journal.Quote, wire.Quotes, s, now)
	h.scratch.quote = [2]market.Level{bid, ask}
	if bid.Size > 0 {
		r.Bids = h.scratch.quote[0:1]
	}
	if ask.Size > 0 {
		r.Asks = h.scratch.quote[1:2]
	}
	h.appendRow(r)
	h.applyQuote(in, r, now)
}

// bookChanges numbers changes that the book already has.
func (h *sequencer) bookChanges(in *Instrument, changes []book.Change, s state.Stamp, now int64) {
	r := h.newRow(in, journal.BookUpdate, wire.OrderBook, s, now)
	l := &h.scratch.levels
	l.Split(changes)
	r.Bids, r.Asks = l.Bids, l.Asks
	h.appendRow(r)
	h.applyChanges(in, r, changes, now)
}

// bookState numbers the whole book as it is.
func (h *sequencer) bookState(in *Instrument, s state.Stamp, now int64) {
	r := h.newRow(in, journal.BookState, wire.OrderBook, s, now)
	if h.keepsRows() {
		l := &h.scratch.levels
		l.Read(&in.Book, 0)
		r.Bids, r.Asks = l.Bids, l.Asks
		h.appendRow(r)
	}
	h.applyBook(in, r, now)
}

// bookLost makes a book stale until its next snapshot, and numbers a row for it. The row is not a
// message, so it has the N of the newest message.
func (h *sequencer) bookLost(in *Instrument, reason string, now int64) {
	if in.Def.NoBook {
		return
	}
	in.Stale = true
	if !h.keepsRows() {
		return
	}
	r := h.newRow(in, journal.BookLost, wire.OrderBook, state.Stamp{Latency: -1}, now)
	r.N, r.Time, r.Reason = r.N-1, r.At, reason
	h.appendRow(r)
}

// bar numbers a bar that has ended, or that changed after it was sent.
func (h *sequencer) bar(s *bars.Series, b *bars.Bar, now int64) {
	in := s.Owner.(*Instrument)
	st := state.Stamp{Time: b.Start, Latency: -1}
	if !s.Clock().Virtual() {
		st.Latency = max(0, now-b.Start)
	}
	r := h.newRow(in, journal.Bar, wire.BarsOf(b.Interval), st, now)
	r.Bar = journal.BarRow{
		Interval: b.Interval, Revised: b.Revised,
		First: b.First, High: b.High, Low: b.Low, Last: b.Last,
		Volume: b.Volume, Value: b.Value, Trades: b.Trades,
	}
	h.appendRow(r)
	h.applyBar(in, r, now)
}

// sendBar returns the function that numbers bars.
func (h *sequencer) sendBar(now int64) bars.SendFunc {
	return func(s *bars.Series, b *bars.Bar) { h.bar(s, b, now) }
}

// reference numbers reference figures, with the N of the summary that contains them.
func (h *sequencer) reference(in *Instrument, e *market.Event, now int64) {
	r := h.newRow(in, journal.Reference, wire.Summary, in.Stamp(e, now), now)
	r.Price, r.OldPrice, r.Size = e.PreviousClose, e.Settlement, e.OpenInterest
	h.appendRow(r)
	h.applyReference(in, r, now)
}

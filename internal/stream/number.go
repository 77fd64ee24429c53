package stream

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Numbering turns events into rows: it assigns N and position, and appends the row to the journal.
// apply.go applies rows, those of this hub and those that it follows.

// newRow begins the next row of a channel. The row is in scratch memory, which the next one reuses.
func (h *Hub) newRow(in *instrument, k journal.Kind, c wire.Channel, s stamp, now int64) *journal.Row {
	r := &h.scratch.row
	*r = journal.Row{Kind: k, Instrument: in.number, Position: h.nextPosition(in), N: in.channels[c].n + 1,
		Time: s.time, Latency: s.latency, At: h.publication(in, now)}
	return r
}

// appendRow appends a row to the journal, if there is one.
func (h *Hub) appendRow(r *journal.Row) {
	if h.cfg.Journal != nil {
		h.cfg.Journal.Append(r)
		h.kept = true
	}
}

// enlist assigns the instrument its number in the journal, or stores its changed definition there.
func (h *Hub) enlist(in *instrument) {
	if h.cfg.Journal != nil {
		in.number = h.cfg.Journal.Define(in.def)
		h.number(in)
	}
}

// number makes an instrument known by its number in the journal.
func (h *Hub) number(in *instrument) {
	for int(in.number) >= len(h.numbered) {
		h.numbered = append(h.numbered, nil)
	}
	h.numbered[in.number] = in
}

// trade numbers a trade, its cancellation or its correction.
func (h *Hub) trade(in *instrument, e *market.Event, now int64) {
	r := h.newRow(in, journal.Trade, wire.Trades, in.stamp(e, now), now)
	r.Price, r.Size, r.Side, r.ID, r.TradeDetails = e.Price, e.Size, e.Side, e.TradeID, e.TradeDetails
	if e.Kind != market.KindTrade {
		r.Kind = journal.Cancel
		if e.Kind == market.KindCorrect {
			r.Kind = journal.Correct
		}
		r.OldPrice, r.OldSize = e.OldPrice, e.OldSize
		_, r.RefN = h.dealOf(in, e.TradeID)
	}
	h.appendRow(r)
	h.applyTrade(in, r, now)
}

// status numbers a status of an instrument or of a market as a whole. Without a time of its own it
// has that of its publication.
func (h *Hub) status(in *instrument, e *market.Event, now int64) {
	s := in.stamp(e, now)
	if e.Time == 0 && e.Receive == 0 {
		s.time = h.publication(in, now)
	}
	r := h.newRow(in, journal.Status, in.statusKey(), s, now)
	r.Phase, r.Reason, r.Until = e.Phase, e.Reason, e.Until
	h.appendRow(r)
	h.applyStatus(in, r, now)
}

// setQuote numbers a quote, unless it is the one that was published last. A Size of 0 is an empty
// side.
func (h *Hub) setQuote(in *instrument, bid, ask market.Level, s stamp, now int64) {
	if bid.Size == 0 {
		bid = market.Level{}
	}
	if ask.Size == 0 {
		ask = market.Level{}
	}
	if in.channels[wire.Quotes].n > 0 && bid == in.bid && ask == in.ask {
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

// bookChanges numbers changes of a book, which has them already.
func (h *Hub) bookChanges(in *instrument, changes []book.Change, s stamp, now int64) {
	r := h.newRow(in, journal.BookUpdate, wire.OrderBook, s, now)
	l := &h.scratch.levels
	l.Split(changes)
	r.Bids, r.Asks = l.Bids, l.Asks
	h.appendRow(r)
	h.applyChanges(in, r, changes, now)
}

// bookState numbers the whole book as it is.
func (h *Hub) bookState(in *instrument, s stamp, now int64) {
	r := h.newRow(in, journal.BookState, wire.OrderBook, s, now)
	if h.cfg.Journal != nil {
		l := &h.scratch.levels
		l.Read(&in.book, 0)
		r.Bids, r.Asks = l.Bids, l.Asks
		h.appendRow(r)
	}
	h.applyBook(in, r, now)
}

// bookLost makes a book stale until its next snapshot, and numbers that. It is no message: N is
// that of the newest one.
func (h *Hub) bookLost(in *instrument, reason string, now int64) {
	if in.def.NoBook {
		return
	}
	in.stale = true
	if h.cfg.Journal == nil {
		return
	}
	r := h.newRow(in, journal.BookLost, wire.OrderBook, stamp{latency: -1}, now)
	r.N, r.Time, r.Reason = r.N-1, r.At, reason
	h.appendRow(r)
}

// bar numbers a bar that has ended, or that changed after it was sent.
func (h *Hub) bar(s *bars.Series, b *bars.Bar, now int64) {
	in := s.Owner.(*instrument)
	st := stamp{b.Start, -1}
	if !s.Clock().Virtual() {
		st.latency = max(0, now-b.Start)
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

// sendBar returns the function by which the bars of a series are numbered. A hub that follows
// another one, and a replica, send none: they get the other's bars as rows.
func (h *Hub) sendBar(c *replica, now int64) bars.SendFunc {
	if h.cfg.Following || c != nil {
		return func(*bars.Series, *bars.Bar) {}
	}
	return func(s *bars.Series, b *bars.Bar) { h.bar(s, b, now) }
}

// reference numbers reference figures, with the N of the summary that contains them.
func (h *Hub) reference(in *instrument, e *market.Event, now int64) {
	r := h.newRow(in, journal.Reference, wire.Summary, in.stamp(e, now), now)
	r.Price, r.OldPrice, r.Size = e.PreviousClose, e.Settlement, e.OpenInterest
	h.appendRow(r)
	h.applyReference(in, r, now)
}

package stream

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// What is numbered goes to the journal before anybody reads it: rows are appended where a
// message gets its N, and committed, which is one write(2), before a shard takes note of
// them (commit.go). Messages of delayed and of conflated tiers are made from
// the same events, and are not kept.

// row is the head of a row, in the hub's scratch memory; nil where none is kept.
func (h *Hub) row(in *instrument, k journal.Kind, rec record, s stamp) *journal.Row {
	if h.cfg.Journal == nil || in.line != nil {
		return nil
	}
	r := &h.scratch.row
	*r = journal.Row{Kind: k, Instrument: in.number, Position: rec.pos, N: rec.n, Time: s.time,
		At: h.publication(in, rec.at), Latency: s.latency}
	return r
}

// keep appends a row that row gave.
func (h *Hub) keep(r *journal.Row) {
	h.cfg.Journal.Append(r)
	h.kept = true
}

// enlist gives an instrument its number in the journal, or tells it a changed definition.
func (h *Hub) enlist(in *instrument) {
	if h.cfg.Journal != nil && in.line == nil {
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

func (h *Hub) keepTradeRow(in *instrument, rec record, s stamp, r *recent.Row) {
	if j := h.row(in, journal.Trade, rec, s); j != nil {
		r.Put(j)
		h.keep(j)
	}
}

func (h *Hub) keepStatusRow(in *instrument, rec record, s stamp, e *market.Event) {
	if j := h.row(in, journal.Status, rec, s); j != nil {
		j.Phase, j.Reason, j.Until = e.Phase, e.Reason, e.Until
		h.keep(j)
	}
}

func (h *Hub) keepQuoteRow(in *instrument, rec record, s stamp, bid, ask market.Level) {
	j := h.row(in, journal.Quote, rec, s)
	if j == nil {
		return
	}
	h.scratch.quote = [2]market.Level{bid, ask}
	if bid.Size > 0 {
		j.Bids = h.scratch.quote[0:1]
	}
	if ask.Size > 0 {
		j.Asks = h.scratch.quote[1:2]
	}
	h.keep(j)
}

func (h *Hub) keepBarRow(in *instrument, rec record, s stamp, b *bars.Bar) {
	if j := h.row(in, journal.Bar, rec, s); j != nil {
		j.Bar = journal.BarRow{
			Interval: b.Interval, Revised: b.Revised,
			First: b.First, High: b.High, Low: b.Low, Last: b.Last,
			Volume: b.Volume, Value: b.Value, Trades: b.Trades,
		}
		h.keep(j)
	}
}

// keepReferenceRow keeps reference figures, with the N of the summary that tells them.
func (h *Hub) keepReferenceRow(in *instrument, rec record, s stamp, e *market.Event) {
	if j := h.row(in, journal.Reference, rec, s); j != nil {
		j.Price, j.OldPrice, j.Size = e.PreviousClose, e.Settlement, e.OpenInterest
		h.keep(j)
	}
}

// keepChangesRow keeps changes of a book, which are best first.
func (h *Hub) keepChangesRow(in *instrument, rec record, s stamp, changes []book.Change) {
	if j := h.row(in, journal.BookUpdate, rec, s); j != nil {
		l := &h.scratch.levels
		l.Split(changes)
		j.Bids, j.Asks = l.Bids, l.Asks
		h.keep(j)
	}
}

// keepBookRow keeps the whole book as it is.
func (h *Hub) keepBookRow(in *instrument, rec record, s stamp) {
	if j := h.row(in, journal.BookState, rec, s); j != nil {
		l := &h.scratch.levels
		l.Read(&in.book, 0)
		j.Bids, j.Asks = l.Bids, l.Asks
		h.keep(j)
	}
}

// keepLossRow notes that a book is not known from now on. It is no message of its own.
func (h *Hub) keepLossRow(in *instrument, now int64, reason string) {
	n := in.channels[wire.OrderBook].n
	if j := h.row(in, journal.BookLost, record{pos: h.position, n: n, at: now}, stamp{latency: -1}); j != nil {
		j.Time = j.At
		j.Reason = reason
		h.keep(j)
	}
}

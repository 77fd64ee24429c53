package stream

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// traded is the bars of an instrument, and those told that are kept for resume.
type traded struct {
	bars.Series
	tapes [market.NumIntervals]recent.Rows
	slab  []bars.Bar // room for the tapes
}

// barRows bounds the told bars kept for resume, of each interval.
const barRows = 2048

func (h *Hub) barsOf(in *instrument) *traded {
	if in.bars == nil {
		x := h.exchangeOf(in)
		in.bars = &traded{}
		in.bars.Owner = in
		in.bars.Enter(x.Clock)
	}
	return in.bars
}

// barTape is the told bars of an interval that are kept for resume.
func (in *instrument) barTape(i market.Interval) *recent.Rows {
	if in.bars == nil {
		return &recent.Rows{}
	}
	return &in.bars.tapes[i]
}

// countTrade counts a trade in the bars of its instrument.
func (h *Hub) countTrade(in *instrument, d bars.Trade, now int64) {
	b, x := h.barsOf(in), h.exchangeOf(in)
	if !x.Counts(d.At, x.clock(now)) {
		return
	}
	h.deals += int64(b.Trade(d, h.deals >= h.maxDeals, func(s *bars.Series, k *bars.Bar) { h.tellBar(s, k, now) }))
	h.awaitBars(x)
	h.reclose(in, d.At)
}

// amend cancels or corrects a deal of an instrument.
func (h *Hub) amend(in *instrument, d *bars.Trade, e *market.Event, now int64) {
	x := h.exchangeOf(in)
	if !x.Counts(d.At, x.clock(now)) {
		return
	}
	size := e.Size
	if e.Kind == market.KindCancel {
		size = 0
	}
	if in.bars.Amend(d, e.Price, size, func(s *bars.Series, k *bars.Bar) { h.tellBar(s, k, now) }) {
		h.awaitBars(x)
		h.reclose(in, d.At)
	}
}

// dealOf is the trade of an id, nil where it is not kept, and its N, 0 where that is not known.
func (h *Hub) dealOf(in *instrument, id string) (d *bars.Trade, n uint64) {
	if id == "" {
		return nil, 0
	}
	if in.bars != nil {
		if d := in.bars.Find(h.hash(id)); d != nil {
			return d, d.N
		}
	}
	return nil, in.trades.Find(id)
}

// tellBar numbers, keeps and sends a bar.
func (h *Hub) tellBar(s *bars.Series, b *bars.Bar, now int64) {
	in := s.Owner.(*instrument)
	c := wire.BarsOf(b.Interval)
	rec := h.next(in, c, now)
	st := stamp{b.Start, -1}
	if !s.Clock().Virtual() {
		st.latency = max(0, now-b.Start)
	}
	all := in.bars
	if len(all.slab) == 0 {
		all.slab = make([]bars.Bar, 16)
	}
	r := recent.Row{Pos: rec.pos, At: now, Time: st.time, Latency: st.latency, Bar: &all.slab[0]}
	all.slab = all.slab[1:]
	*r.Bar = *b
	keep, full := h.room(&all.tapes[b.Interval], min(barRows, h.cfg.TradesKept))
	h.rows += barCost * int64(all.tapes[b.Interval].Add(r, keep, full))
	h.keepBarRow(in, rec, st, r.Bar)
	for _, t := range h.tiers(in, c) {
		h.scratch.payload = r.Message(h.scratch.payload[:0], in.ident, rec.n)
		h.emit(t, h.framed(), rec)
	}
	if b.Interval == market.Day {
		h.roll(in, b.End)
	}
}

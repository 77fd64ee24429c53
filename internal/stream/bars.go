package stream

import (
	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
)

// traded is the bars of an instrument, and those told that are kept for resume.
type traded struct {
	bars.Series
	tapes [market.NumIntervals]recent.Rows
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
func (h *Hub) countTrade(in *instrument, d bars.Trade, now int64, send bars.SendFunc) {
	b, x := h.barsOf(in), h.exchangeOf(in)
	if !x.Counts(d.At, x.clock(now)) {
		return
	}
	h.deals += int64(b.Trade(d, h.deals >= h.maxDeals, send))
	h.awaitBars(x)
	h.reclose(in, d.At)
}

// amend cancels or corrects a deal of an instrument.
func (h *Hub) amend(in *instrument, d *bars.Trade, cancel bool, price market.Price, size market.Size, now int64, send bars.SendFunc) {
	x := h.exchangeOf(in)
	if !x.Counts(d.At, x.clock(now)) {
		return
	}
	if cancel {
		size = 0
	}
	if in.bars.Amend(d, price, size, send) {
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

package stream

import (
	"time"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// summary is what an instrument's trading day comes to, besides the figures of its
// trades, which are those of the day's bar. Its N grows by one with each trade, cancel,
// correction and reference, whether they change a figure or not, and with nothing
// else: a new day alone says nothing, and the next message is of the new day.
type summary struct {
	start, end int64        // of the trading day; 0: none was yet
	close      market.Price // of the day before, as it was told or else the last price; 0: not known
	closeTold  bool
	settlement market.Price // 0: not known
	interest   market.Size  // open interest; 0: not known
	stamp      stamp        // of the newest message
}

// roll begins a new trading day where t is past the present one, or before it, since the clock
// had been ahead.
func (h *Hub) roll(in *instrument, t int64) {
	s := &in.sum
	switch {
	case t < s.start-int64(time.Minute):
		s.start, s.end = h.exchangeOf(in).Bounds(market.Day, t)
		if in.bars != nil {
			h.reclose(in, s.start-1)
		}
		return
	case t < s.end:
		return
	}
	if day := in.today(); day.Trades > 0 {
		s.close = day.Last
	}
	s.closeTold = false
	s.start, s.end = h.exchangeOf(in).Bounds(market.Day, t)
}

// reclose looks at the previous close again after a bar of the day before changed.
func (h *Hub) reclose(in *instrument, at int64) {
	s := &in.sum
	if at >= s.start || s.closeTold {
		return
	}
	if p, ok := in.bars.LastBefore(s.start); ok {
		s.close = p
	}
}

// today is the figures of the trading day.
func (in *instrument) today() (t bars.Totals) {
	if in.bars != nil {
		t = in.bars.Day(in.sum.start, in.sum.end)
	}
	return t
}

// refer sets the reference figures that are not 0.
func (s *summary) refer(previousClose, settlement market.Price, openInterest market.Size) {
	if previousClose != 0 {
		s.close, s.closeTold = previousClose, true
	}
	if settlement != 0 {
		s.settlement = settlement
	}
	if openInterest != 0 {
		s.interest = openInterest
	}
}

// dated begins a new trading day where an event is of one, or the clock has come to one.
func (h *Hub) dated(in *instrument, t, now int64) {
	x := h.exchangeOf(in)
	if clock := x.clock(now); t < clock || !x.Counts(t, clock) {
		t = clock
	}
	h.roll(in, t)
}

// tellSummary numbers and sends the summary. It has the position of what changed it.
func (h *Hub) tellSummary(in *instrument, pos uint64, st stamp, now int64) {
	c, tiers := &in.channels[wire.Summary], h.tiers(in, wire.Summary)
	c.n++
	c.at = now
	in.sum.stamp = st
	for _, t := range tiers {
		hd := in.header(c.n, st)
		m := in.summary()
		h.scratch.payload = wire.AppendSummary(h.scratch.payload[:0], &hd, &m, false)
		h.emit(t, h.framed(), record{pos: pos, n: c.n, at: now, in: in})
	}
}

// summary is the summary as it goes over the wire.
func (in *instrument) summary() wire.Figures {
	t, s := in.today(), &in.sum
	return wire.Figures{
		Open: t.First, High: t.High, Low: t.Low, Last: t.Last,
		Volume: t.Volume, Value: t.Value, Trades: t.Trades,
		PreviousClose: s.close, Settlement: s.settlement, OpenInterest: s.interest,
	}
}

// summaryState appends the payload of the summary as it is, with the N of its newest
// message; ok is false where there was none. In a new trading day it is as of the day's start.
func (in *instrument) summaryState(b []byte) (_ []byte, ok bool) {
	n := in.channels[wire.Summary].n
	if n == 0 {
		return b, false
	}
	st := in.sum.stamp
	if in.sum.start > st.time {
		st = stamp{in.sum.start, -1}
	}
	hd := in.header(n, st)
	m := in.summary()
	return wire.AppendSummary(b, &hd, &m, true), true
}

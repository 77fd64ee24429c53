package state

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Day has the figures of an instrument's trading day that do not come from the bar of the day. The
// N of the summary grows by one with each trade, cancellation, correction and reference, whether
// they change a figure or not, and with nothing else. The beginning of a new day sends no summary.
type Day struct {
	start, end int64        // 0: there was no day yet
	close      market.Price // of the previous day: the reported one, or else the last price; 0: not known
	reported   bool         // close was reported by the market
	settlement market.Price // 0: not known
	interest   market.Size  // open interest; 0: not known
	stamp      Stamp        // of the newest summary
}

// Roll begins a new trading day if t is after the present day, or before it because the clock was
// ahead.
func (in *Instrument) Roll(t int64) {
	d := &in.Day
	switch {
	case t < d.start-int64(time.Minute):
		d.start, d.end = in.Clock.Bounds(market.Day, t)
		if in.Bars != nil {
			in.updateClose(d.start - 1)
		}
		return
	case t < d.end:
		return
	}
	if today := in.today(); today.Trades > 0 {
		d.close = today.Last
	}
	d.reported = false
	d.start, d.end = in.Clock.Bounds(market.Day, t)
}

// Dated begins a new trading day if t or the time of the clock is in one.
func (in *Instrument) Dated(t, now int64) {
	if clock := in.now(now); t < clock || !in.Clock.Counts(t, clock) {
		t = clock
	}
	in.Roll(t)
}

// updateClose finds the previous close again after a bar of the day before has changed.
func (in *Instrument) updateClose(at int64) {
	d := &in.Day
	if at >= d.start || d.reported {
		return
	}
	if p, ok := in.Bars.LastBefore(d.start); ok {
		d.close = p
	}
}

// today returns the figures of the trading day that come from trades.
func (in *Instrument) today() (t bars.Totals) {
	if in.Bars != nil {
		t = in.Bars.Day(in.Day.start, in.Day.end)
	}
	return t
}

// Refer sets the reference figures that are not 0.
func (d *Day) Refer(previousClose, settlement market.Price, openInterest market.Size) {
	if previousClose != 0 {
		d.close, d.reported = previousClose, true
	}
	if settlement != 0 {
		d.settlement = settlement
	}
	if openInterest != 0 {
		d.interest = openInterest
	}
}

// NextSummary numbers the next summary, and returns its N.
func (in *Instrument) NextSummary(s Stamp, now int64) uint64 {
	q := &in.Sequences[wire.Summary]
	q.N++
	q.At = now
	in.Day.stamp = s
	return q.N
}

// Summary returns the figures of the trading day.
func (in *Instrument) Summary() wire.Figures {
	t, d := in.today(), &in.Day
	return wire.Figures{
		Open: t.First, High: t.High, Low: t.Low, Last: t.Last,
		Volume: t.Volume, Value: t.Value, Trades: t.Trades,
		PreviousClose: d.close, Settlement: d.settlement, OpenInterest: d.interest,
	}
}

// AppendSummary appends the payload of the summary with R:true and the N of the newest summary; ok
// is false if there is none. In a new trading day its time is the start of the day.
func (in *Instrument) AppendSummary(b []byte) (_ []byte, ok bool) {
	n := in.Sequences[wire.Summary].N
	if n == 0 {
		return b, false
	}
	s := in.Day.stamp
	if in.Day.start > s.Time {
		s = Stamp{in.Day.start, -1}
	}
	hd, m := in.Header(n, s), in.Summary()
	return wire.AppendSummary(b, &hd, &m, true), true
}

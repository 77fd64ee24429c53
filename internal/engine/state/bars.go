package state

import (
	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/market"
)

// Bars has the bars of an instrument, and the rows of those that were sent.
type Bars struct {
	bars.Series
	Recent [market.NumIntervals]recent.Rows
}

// MakeBars returns the bars of an instrument, which it makes if there are none.
func (in *Instrument) MakeBars() *Bars {
	if in.Bars == nil {
		in.Bars = &Bars{}
		in.Bars.Owner = in.Owner
		in.Bars.Enter(in.Clock)
	}
	return in.Bars
}

// SetClock sets the clock of the bars and the trading day.
func (in *Instrument) SetClock(c *bars.Clock) {
	in.Clock = c
	if in.Bars != nil {
		in.Bars.Enter(c)
	}
}

// now returns the time of the instrument's clock. The argument is the time of this machine.
func (in *Instrument) now(now int64) int64 {
	if in.Clock.Virtual() {
		return in.Clock.Now()
	}
	return now
}

// CountTrade counts a trade in the bars.
func (in *Instrument) CountTrade(t bars.Trade, now int64, s *Shared, send bars.SendFunc) {
	in.MakeBars()
	if in.Clock.Counts(t.At, in.now(now)) {
		s.Trades += int64(in.Bars.Trade(t, s.Trades >= s.maxTrades, send))
		in.updateClose(t.At)
	}
}

// Amend cancels or corrects a trade that FindTrade has returned.
func (in *Instrument) Amend(t *bars.Trade, cancel bool, price market.Price, size market.Size, now int64, send bars.SendFunc) {
	if cancel {
		size = 0
	}
	if in.Clock.Counts(t.At, in.now(now)) && in.Bars.Amend(t, price, size, send) {
		in.updateClose(t.At)
	}
}

// FindTrade returns the trade with an id and its N. The trade is nil if it is not kept, and N is 0
// if it is not known.
func (in *Instrument) FindTrade(id string, s *Shared) (t *bars.Trade, n uint64) {
	if id == "" {
		return nil, 0
	}
	if in.Bars != nil {
		if t := in.Bars.Find(s.TradeID(id)); t != nil {
			return t, t.N
		}
	}
	return nil, in.Trades.Find(id)
}

package state

import (
	"hash/maphash"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/wire"
)

// Shared is what the instruments of a hub share: the memory of their recent rows and of the trades
// from which bars are counted, and the bars' names for trade ids. Use NewShared to create one.
type Shared struct {
	Rows, MaxRows int64 // recent rows that are kept; a bar counts as barCost rows
	Trades        int64 // that are kept

	maxTrades int64
	seed      maphash.Seed
}

const (
	barRows = 2048 // recent rows of bars, of each interval
	barCost = 3    // rows of trades that take the memory of a bar
)

// NewShared returns limits of so many bytes for recent rows, and as many for trades.
func NewShared(bytes int64) Shared {
	return Shared{MaxRows: bytes / recent.RowBytes, maxTrades: bytes / bars.TradeBytes, seed: maphash.MakeSeed()}
}

// Bytes returns the memory of all that is kept.
func (s *Shared) Bytes() int64 { return s.Rows*recent.RowBytes + s.Trades*bars.TradeBytes }

// TradeID returns the bars' name for a trade id; 0 for none.
func (s *Shared) TradeID(id string) uint64 {
	if id == "" {
		return 0
	}
	return max(1, maphash.String(s.seed, id))
}

// Full reports whether there is no memory for more recent rows.
func (s *Shared) Full() bool { return s.Rows >= s.MaxRows }

// MaxRows returns the maximum number of recent rows of a channel, given the setting for trades.
func MaxRows(c wire.Channel, kept int) int {
	if _, bar := c.Interval(); bar {
		return min(barRows, kept)
	}
	return kept
}

// rowCost returns how many rows of trades take the memory of a row of a channel.
func rowCost(c wire.Channel) int64 {
	if _, bar := c.Interval(); bar {
		return barCost
	}
	return 1
}

// Add adds a row to the recent rows of a channel; see recent.Rows.Add.
func (s *Shared) Add(c wire.Channel, rows *recent.Rows, row recent.Row, keep int, full bool) {
	s.Rows += rowCost(c) * int64(rows.Add(row, keep, full))
}

// Rows returns the memory of the recent rows of an instrument, in rows of trades.
func (in *Instrument) Rows() int64 {
	n := int64(in.Trades.Stored + in.Statuses.Stored)
	if in.Bars != nil {
		for i := range in.Bars.Recent {
			n += barCost * int64(in.Bars.Recent[i].Stored)
		}
	}
	return n
}

// Forget drops the recent rows and the bars.
func (in *Instrument) Forget(s *Shared) {
	s.Rows -= in.Rows()
	if b := in.Bars; b != nil {
		s.Trades -= int64(b.Restart(in.Clock.Like(), func(*bars.Series, *bars.Bar) {}))
	}
	in.Trades, in.Statuses, in.Bars = recent.Rows{}, recent.Rows{}, nil
}

// RestartBars begins the bars and the day again, with another clock.
func (in *Instrument) RestartBars(c *bars.Clock, s *Shared, send bars.SendFunc) {
	in.Clock = c
	if in.Bars != nil {
		s.Trades -= int64(in.Bars.Restart(c, send))
	}
	in.Day.start, in.Day.end = 0, 0
}

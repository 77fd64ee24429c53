package wire

import "github.com/ruedahq/rueda/market"

// Channel is a kind of data a client subscribes to. Each interval of bars is a channel of its
// own, since each has its own sequence; on the wire all of them are called bars.
type Channel uint8

// Channels. A client ignores what it does not know.
const (
	Trades Channel = iota
	Quotes
	OrderBook
	Status
	Summary
	Bars        // of the shortest interval; see BarsOf
	NumChannels = Bars + Channel(market.NumIntervals)
)

var channelNames = [Bars + 1]string{"trades", "quotes", "order_book", "status", "summary", "bars"}

// String is the channel's key on the wire.
func (c Channel) String() string {
	if c < NumChannels {
		return channelNames[min(c, Bars)]
	}
	return "unknown"
}

// BarsOf is the channel of the bars of an interval.
func BarsOf(i market.Interval) Channel { return Bars + Channel(i) }

// Interval is the interval of a channel of bars; ok is false for other channels.
func (c Channel) Interval() (i market.Interval, ok bool) {
	if c < Bars || c >= NumChannels {
		return 0, false
	}
	return market.Interval(c - Bars), true
}

// Replays says whether each message of a channel counts: its N has no holes, and what was
// missed is sent again. Of the other channels a state replaces what was missed.
func (c Channel) Replays() bool { return c == Trades || c == Status || c >= Bars }

// Append appends an identifier as messages write it that hold several intervals: one of
// bars has its interval as a fourth part.
func (c Channel) Append(b []byte, id market.InstrumentID) []byte {
	b = id.Append(b)
	if i, ok := c.Interval(); ok {
		b = append(b, '|')
		b = append(b, i.String()...)
	}
	return b
}

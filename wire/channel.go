package wire

import "github.com/ruedahq/rueda/market"

// Channel is a kind of data that a client subscribes to. Each interval of bars is a Channel of its
// own, because each has its own sequence. On the wire all of them are called "bars".
type Channel uint8

// Channels. Clients ignore channels they do not know.
const (
	Trades Channel = iota
	Quotes
	OrderBook
	Status
	Summary
	Bars        // the shortest interval; see BarsOf
	NumChannels = Bars + Channel(market.NumIntervals)
)

var channelNames = [Bars + 1]string{"trades", "quotes", "order_book", "status", "summary", "bars"}

// String returns the channel's key on the wire.
func (c Channel) String() string {
	if c < NumChannels {
		return channelNames[min(c, Bars)]
	}
	return "unknown"
}

// BarsOf returns the channel of the bars of an interval.
func BarsOf(i market.Interval) Channel { return Bars + Channel(i) }

// Interval returns the interval of a channel of bars. ok is false for other channels.
func (c Channel) Interval() (i market.Interval, ok bool) {
	if c < Bars || c >= NumChannels {
		return 0, false
	}
	return market.Interval(c - Bars), true
}

// Replays reports whether every message of the channel matters: its N has no gaps, and missed
// messages are sent again. On other channels, a new state replaces missed messages.
func (c Channel) Replays() bool { return c == Trades || c == Status || c >= Bars }

// Append appends an identifier as it appears in messages that hold several intervals: an identifier
// of bars has its interval as a fourth part.
func (c Channel) Append(b []byte, id market.InstrumentID) []byte {
	b = id.Append(b)
	if i, ok := c.Interval(); ok {
		b = append(b, '|')
		b = append(b, i.String()...)
	}
	return b
}

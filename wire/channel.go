package wire

// Channel is a kind of data a client subscribes to: a key of the subscribe message.
type Channel uint8

// Channels in service. More may follow (summary, bars): a client ignores what it does not know.
const (
	Trades Channel = iota
	Quotes
	OrderBook
	Status
	NumChannels
)

var channelNames = [NumChannels]string{"trades", "quotes", "order_book", "status"}

// String is the channel's key on the wire.
func (c Channel) String() string {
	if c < NumChannels {
		return channelNames[c]
	}
	return "unknown"
}

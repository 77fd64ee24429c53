package stream

import (
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Kind is the kind of a message.
type Kind uint8

// Kinds of messages. Each comment lists the fields of Message that the kind uses.
const (
	Unknown      Kind = iota // of a newer server
	Trade                    // T, X or C: the header and Trade
	Quote                    // Q: the header, Bids and Asks with at most one level each
	Book                     // O: the header, Bids, Asks, Depth, Previous and Checksum
	Status                   // H: the header, Phase, Reason and Until
	Summary                  // D: the header and Figures
	Bar                      // K: the header and Bar
	Success                  // Control
	Subscription             // Control
	CaughtUp                 // Control
	Alive                    // Control
	Warning                  // Control
	Error                    // Control
	Ping                     // none
	Pong                     // Control
	Sim                      // Control
)

// IsData reports whether messages of the kind are market data, with a header.
func (k Kind) IsData() bool { return k >= Trade && k <= Bar }

// Message is a decoded message. Its Kind determines which fields are set. A Decoder counts the
// identifiers that it has seen for Index. It forgets them after 65,536 and counts again, so a
// program must compare the ID of what it finds.
type Message struct {
	Kind Kind

	// The header of data messages.
	ID       market.InstrumentID // exact, or *|MARKET|* in a Status
	Index    int                 // of ID, small: programs find what they know of it in a slice
	N        uint64
	Time     int64 // Unix ns
	Latency  int64 // ns from Time to publication; negative: unknown
	Delay    int   // seconds; 0: real time
	Snapshot bool  // R: the current state, not a new event

	Trade wire.Trade

	// Levels are valid until the next call of Decode.
	Bids, Asks []market.Level
	Depth      int    // of a book with Snapshot; 0: all levels
	Previous   uint64 // of a book without Snapshot: N of the message that it follows
	Checksum   uint32

	Phase  market.Phase // NoPhase: a word of a newer server
	Reason string
	Until  int64 // Unix ns; 0: unknown

	Figures wire.Figures // of a Summary
	Bar     wire.Bar     // its Revised is true for a bar that replaces one sent before
	Average market.Price // VW of a Summary or Bar; 0: none

	// Control has the members of a control message. It is nil for data.
	Control *Control

	set uint64 // bit set of members that were present
}

// reset makes m as new, except what every message of market data sets. Most messages are trades,
// quotes and books, which do not use the rest of its fields.
func (m *Message) reset() {
	if m.set&memberRare != 0 || m.Control != nil {
		*m = Message{}
	}
	m.Kind, m.Time, m.Latency, m.Delay, m.Snapshot, m.Previous, m.Checksum, m.set = Unknown, 0, -1, 0, false, 0, 0, 0
	t := &m.Trade
	t.Kind, t.Side, t.Price, t.Size, t.OldPrice, t.OldSize, t.RefN, t.ID = 0, 0, 0, 0, 0, 0, 0, ""
	if t.Conditions != nil {
		t.TradeDetails = market.TradeDetails{}
	}
}

// HasChecksum reports whether a book has its Checksum. Only a Lenient Decoder accepts others.
func (m *Message) HasChecksum() bool { return m.set&memberK != 0 }

// Series is a sequence of numbers N: a channel of an instrument. In control messages the instrument
// may be a pattern.
type Series struct {
	Channel    wire.Channel
	Instrument market.InstrumentID
}

// String returns the name of the channel and the identifier.
func (s Series) String() string {
	return string(s.Channel.Append(append([]byte(s.Channel.String()), ' '), s.Instrument))
}

// Series returns the sequence to which the N of a data message belongs.
func (m *Message) Series() Series {
	s := Series{Instrument: m.ID}
	switch m.Kind {
	case Quote:
		s.Channel = wire.Quotes
	case Book:
		s.Channel = wire.OrderBook
	case Status:
		s.Channel = wire.Status
	case Summary:
		s.Channel = wire.Summary
	case Bar:
		s.Channel = wire.BarsOf(m.Bar.Interval)
	}
	return s
}

// Control has the members of a control message. Absent members are zero.
type Control struct {
	Code   int
	Msg    string // for people
	ID     string // of the request, as JSON: 7 or "seven"; "": none
	Reason wire.Reason
	Hint   string

	Retry      bool          // of an Error: the same request may succeed later
	RetryAfter time.Duration // wait that long
	Reconnect  time.Duration // of a Warning shutting_down: reconnect after that long
	ExpiresIn  time.Duration // of a Success or a Warning token_expiring
	Behind     time.Duration // of a Warning slow_client
	Queued     int

	Session   string // of a Success, as the following fields
	Version   string
	Time      int64 // Unix ns; also of a pong
	Heartbeat struct{ Interval, Timeout time.Duration }
	Limits    Limits
	Reauth    bool

	Epoch    string // of a Subscription, CaughtUp or Alive
	Position string

	// Accepted has the identifiers of a Subscription by channel, without the interval of bars.
	// Given has the channels that it describes.
	Accepted []Series
	Given    [wire.Bars + 1]bool
	Rejected []Rejection
	Removed  []Rejection
	Moved    []Moved
	Resumed  map[Series]uint64     // the N at which a replay ends
	Lost     map[Series]wire.Range // messages that cannot be replayed
	Last     map[Series]uint64     // newest N, of an Alive or an Error slow_client
}

// Limits has the limits of a user that Success states.
type Limits struct {
	Subscriptions     int // of a connection
	MessagesPerSecond int
	WorkPerSecond     int // units of work that recover in a second; 0: not stated
	Work              int // units that the user's messages may cost at once; 0: not stated
	MessageBytes      int // of a message of the client
	MaxMessageBytes   int // of a message of the server; 0: not stated
	Connections       int
	MaxDepth          int // of books; 0: all levels, -1: no books
}

// Rejection is an identifier that was rejected or removed.
type Rejection struct {
	Channel    string
	Instrument string // as written
	Code       int
	Reason     wire.Reason
	Msg        string
	Hint       string
}

// Moved is an identifier whose data has a new delay.
type Moved struct {
	Channel    string
	Instrument string // as written
	Delay      time.Duration
}

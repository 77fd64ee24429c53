package client

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Event is an element of the stream: *Trade, *Quote, *BookUpdate, *Status, *Summary or *Bar, which
// are market data, or StateChange, Recovered, Lost, BookInvalid, Rejected, Delayed or Notice.
// Options.Messages adds Message. The program may keep and change what it gets. Trades and quotes
// are parts of blocks of 32: copy one to keep it without its block.
type Event interface{ event() }

// Header is what all market data has.
type Header struct {
	Instrument market.InstrumentID // of a Status perhaps *|MARKET|*, the market as a whole
	N          uint64              // number in the channel of the instrument, within an epoch
	Time       time.Time           // at the market, in UTC
	Latency    time.Duration       // from Time to publication; negative: unknown
	Delay      time.Duration       // of delayed data; 0: real time
	Received   time.Time           // by this program
	Replayed   bool                // missed before, and sent again after a reconnect or a gap
	Ended      bool                // of an epoch that has ended: N begins again after it
	raw        []byte
}

// Raw returns the message as it was received, as JSON also in other formats. It is a part of a
// block of 16 KiB, or of a longer frame: clone it to keep it without them. The caller must not
// change it.
func (h Header) Raw() []byte { return h.raw }

// Trade is a trade, a cancel or a correction, as Kind says.
type Trade struct {
	Header
	wire.Trade
}

// Quote is the best bid and offer. A side without orders has the Size 0.
type Quote struct {
	Header
	Snapshot bool // the current state, not a new event
	Bid, Ask market.Level
}

// BookUpdate is an order book or changes to it. Book applies it.
type BookUpdate struct {
	Header
	Snapshot   bool           // the whole book, otherwise changed levels; a level of Size 0 is removed
	Depth      int            // of a Snapshot: number of levels of each side; 0: all
	Previous   uint64         // of a change: N of the update before
	Bids, Asks []market.Level // best first
	Checksum   uint32
}

// Status is a phase of trading, or the state of the feed.
type Status struct {
	Header
	Snapshot bool
	Phase    market.Phase // NoPhase: a word that this version does not know
	Reason   string
	Until    time.Time // next expected change; zero: unknown
}

// Summary has the figures of the trading day.
type Summary struct {
	Header
	Snapshot bool
	wire.Figures
	Average market.Price // by volume; 0: no trades
}

// Bar has the trades of an interval, which began at Time.
type Bar struct {
	Header
	wire.Bar
	Average market.Price // by volume; 0: no trades
}

// State is the state of the stream.
type State uint8

// States of the stream, in their usual order.
const (
	Idle           State = iota // Events is not in use
	Connecting                  // logging in, resolving the name, handshake
	Authenticating              // the token was sent
	Syncing                     // missed messages are replayed
	Live
	Waiting // until the next attempt to connect
	Closed  // for good
)

// String returns the name of the state.
func (s State) String() string {
	names := [...]string{"idle", "connecting", "authenticating", "syncing", "live", "waiting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "state " + strconv.Itoa(int(s))
}

// StateChange reports a state of the stream.
type StateChange struct {
	State State
	URL   string
	Err   error         // what ended the connection, in Waiting and Closed
	Wait  time.Duration // until the next attempt, in Waiting
	// Silent is how long nothing had come when the connection ended, in Waiting and Closed; 0: there
	// was no connection.
	Silent time.Duration
}

// Recovered reports that missed messages have been delivered, in order. From and To are inclusive.
type Recovered struct {
	stream.Series
	From, To uint64
	History  bool // they came from history over REST
}

// Lost reports messages that cannot be delivered, or rows that history does not have. From and To
// are inclusive; 0: unknown.
type Lost struct {
	stream.Series
	From, To uint64
	Reason   string // as in the protocol, or missing, or overflow

	// Start and End are the event times of the rows before and after the range. Only history has
	// them; zero: unknown.
	Start, End time.Time
}

// String returns the series, the range and the reason.
func (l Lost) String() string {
	text := "lost " + l.Series.String()
	if l.From > 0 {
		text += fmt.Sprintf(" from %d", l.From)
	}
	if l.To > 0 {
		text += fmt.Sprintf(" to %d", l.To)
	}
	if !l.Start.IsZero() {
		text += " after " + l.Start.UTC().Format(time.RFC3339Nano)
	}
	if !l.End.IsZero() {
		text += " before " + l.End.UTC().Format(time.RFC3339Nano)
	}
	return text + ": " + l.Reason
}

// String returns the series and the range.
func (r Recovered) String() string {
	return fmt.Sprintf("recovered %s from %d to %d", r.Series, r.From, r.To)
}

// BookInvalid reports that a book is not known until its next snapshot.
type BookInvalid struct {
	Instrument market.InstrumentID
	Reason     string // chain, checksum, feed_down or disconnected
}

// Rejected reports an identifier that the gateway refused or, if Removed, no longer sends.
type Rejected struct {
	Channel    string
	Instrument string
	Reason     wire.Reason
	Msg, Hint  string
	Removed    bool
}

// Delayed reports that data has another delay from now on; 0: real time.
type Delayed struct {
	Channel    string
	Instrument string
	Delay      time.Duration
}

// Notice is a warning of the gateway, such as slow_client, or an error that changes nothing.
type Notice struct {
	Reason wire.Reason
	Msg    string
	Hint   string
}

// Message is a message of the stream as it was received, before the client acts on it. Unlike
// market data, it may be repeated, out of order, or wrong.
type Message struct {
	Kind     stream.Kind // Unknown also for a message that cannot be decoded
	Received time.Time
	raw      []byte
}

// Raw returns the message as it was received. The caller must not change it.
func (m Message) Raw() []byte { return m.raw }

func (*Trade) event()      {}
func (*Quote) event()      {}
func (*BookUpdate) event() {}
func (*Status) event()     {}
func (*Summary) event()    {}
func (*Bar) event()        {}
func (StateChange) event() {}
func (Recovered) event()   {}
func (Lost) event()        {}
func (BookInvalid) event() {}
func (Rejected) event()    {}
func (Delayed) event()     {}
func (Notice) event()      {}
func (Message) event()     {}

// Float64 converts an exact price or size to floating point, which may round it. Use it for
// statistics, not for orders or comparisons.
func Float64[T market.Price | market.Size](v T) float64 { return float64(v) / market.Scale }

func (h *Header) set(m *stream.Message, raw []byte, received time.Time) {
	h.Instrument, h.N, h.Time, h.Latency = m.ID, m.N, time.Unix(0, m.Time).UTC(), time.Duration(m.Latency)
	h.Delay, h.Received, h.raw = time.Duration(m.Delay)*time.Second, received, raw
}

// blocks has events that are allocated together, because most messages are trades and quotes.
type blocks struct {
	trades []Trade
	quotes []Quote
}

const blockEvents = 32

func next[E any](block *[]E) *E {
	if len(*block) == 0 {
		*block = make([]E, blockEvents)
	}
	e := &(*block)[0]
	*block = (*block)[1:]
	return e
}

// newEvent is the function newEvent with blocks.
func (b *blocks) newEvent(m *stream.Message, raw []byte, received time.Time) Event {
	switch m.Kind {
	case stream.Trade:
		t := next(&b.trades)
		t.set(m, raw, received)
		t.Trade = m.Trade
		return t
	case stream.Quote:
		q := next(&b.quotes)
		q.set(m, raw, received)
		q.fill(m)
		return q
	}
	return newEvent(m, raw, received)
}

func (q *Quote) fill(m *stream.Message) {
	q.Snapshot = m.Snapshot
	if len(m.Bids) > 0 {
		q.Bid = m.Bids[0]
	}
	if len(m.Asks) > 0 {
		q.Ask = m.Asks[0]
	}
}

// newEvent converts a data message. It copies the levels, which m does not own.
func newEvent(m *stream.Message, raw []byte, received time.Time) Event {
	var h Header
	h.set(m, raw, received)
	switch m.Kind {
	case stream.Trade:
		return &Trade{Header: h, Trade: m.Trade}
	case stream.Quote:
		q := &Quote{Header: h}
		q.fill(m)
		return q
	case stream.Book:
		return &BookUpdate{
			Header: h, Snapshot: m.Snapshot, Depth: m.Depth, Previous: m.Previous, Checksum: m.Checksum,
			Bids: slices.Clone(m.Bids), Asks: slices.Clone(m.Asks),
		}
	case stream.Status:
		s := &Status{Header: h, Snapshot: m.Snapshot, Phase: m.Phase, Reason: m.Reason}
		if m.Until != 0 {
			s.Until = time.Unix(0, m.Until).UTC()
		}
		return s
	case stream.Summary:
		return &Summary{Header: h, Snapshot: m.Snapshot, Figures: m.Figures, Average: m.Average}
	case stream.Bar:
		return &Bar{Header: h, Bar: m.Bar, Average: m.Average}
	}
	return nil
}

// numberedHeader returns the header of an event of a series without gaps.
func numberedHeader(ev Event) *Header {
	switch e := ev.(type) {
	case *Trade:
		return &e.Header
	case *Status:
		return &e.Header
	case *Bar:
		return &e.Header
	}
	return &Header{} // of nothing
}

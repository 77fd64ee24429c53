package market

// Handle is a sink's short name for an instrument, given out by Define and
// carried by every event. It is valid for that sink and its lifetime alone.
type Handle uint32

// Side is the side of an order or book level, and of a trade the aggressor's.
type Side uint8

// Sides. The bid side of a book holds buy orders.
const (
	NoSide Side = iota // unknown
	Buy
	Sell
)

// Level is a price of one side of a book with all that waits there.
type Level struct {
	Price  Price
	Size   Size   // total at the price; 0 in an update deletes the level
	Orders uint32 // number of orders; 0 means not known
}

// Kind tells what an Event is.
type Kind uint8

// Kinds of events and the fields of Event each uses besides Kind, Handle, Time,
// Receive and Sequence.
const (
	KindTrade       Kind = iota + 1 // Price, Size, Side (aggressor), TradeID, Conditions
	KindCancel                      // a trade is cancelled: TradeID, Price, Size (of the trade)
	KindCorrect                     // a trade is corrected: TradeID, Price, Size (new), OldPrice, OldSize
	KindQuote                       // whole best bid and offer: Bids and Asks of at most one level each
	KindUpdate                      // changed levels of the book, absolute sizes: Bids, Asks
	KindSnapshot                    // the whole book, best first: Bids, Asks; ends a Gap
	KindOrderAdd                    // order by order: OrderID, Side, Price, Size
	KindOrderModify                 // OrderID, Price, Size (new, absolute)
	KindOrderDelete                 // OrderID
	KindOrderFill                   // OrderID, Size (executed; the order leaves the book at 0)
	KindStatus                      // Phase, Reason, Until
	KindGap                         // the source lost something: the book is stale until its next KindSnapshot; Reason
	KindReference                   // reference figures: Price previous close, OldPrice settlement price, Size open interest; 0: not told
)

// Event is one normalised market event. It is one flat struct for all kinds, so
// that a batch is one slice without boxing. Times are Unix nanoseconds, UTC.
type Event struct {
	Kind       Kind
	Side       Side
	Phase      Phase
	Handle     Handle
	Time       int64  // event time at the market; 0: not known, the receive time stands in
	Receive    int64  // receive time; 0: the sink's own clock
	Sequence   uint64 // the source's own sequence; 0: it has none
	Price      Price
	Size       Size
	OldPrice   Price
	OldSize    Size
	OrderID    uint64
	Until      int64 // next expected status change; 0: not known
	TradeID    string
	Reason     string // lower_snake_case word
	Conditions []string
	Bids       []Level // best first
	Asks       []Level // best first
}

// Phase is the trading status of an instrument or a market.
type Phase uint8

// Phases, in the words of the wire (field E of a status message).
const (
	NoPhase Phase = iota
	PreOpen
	Auction
	Open
	Quoting
	Halt
	Pause
	Suspended
	PreClose
	Closed
	PostClose
	FeedDown
	FeedUp
	Gap // the source lost events; the book, if it is not KindGap that says so, is as it was
)

var phaseWords = [...]string{
	"", "pre_open", "auction", "open", "quoting", "halt", "pause", "suspended",
	"pre_close", "closed", "post_close", "feed_down", "feed_up", "gap",
}

// OfFeed says whether p is about the feed and not about trading: feed_down, feed_up and gap. The
// phase before it goes on.
func (p Phase) OfFeed() bool { return p >= FeedDown }

// String is the phase's word on the wire; "" for NoPhase.
func (p Phase) String() string {
	if int(p) < len(phaseWords) {
		return phaseWords[p]
	}
	return ""
}

// ParsePhase reads a phase's word; ok is false for any other.
func ParsePhase(s string) (p Phase, ok bool) {
	for i, w := range phaseWords {
		if i > 0 && w == s {
			return Phase(i), true
		}
	}
	return NoPhase, false
}

package market

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Handle identifies an instrument in events. The Define method of a sink returns it, and it is
// valid only for that sink, as long as the sink lives.
type Handle uint32

// Side is the side of an order or a book level, or the aggressor side of a trade.
type Side uint8

// Sides. The bid side of a book holds buy orders.
const (
	NoSide Side = iota // unknown
	Buy
	Sell
)

// Level is the total size of all orders at one price of one side of a book.
type Level struct {
	Price  Price
	Size   Size   // total at the price; 0 in an update deletes the level
	Orders uint32 // number of orders; 0 if unknown
}

// Kind is the kind of an Event.
type Kind uint8

// Kinds of events. Each comment lists the fields of Event that the kind uses, besides Kind, Handle,
// Time, Receive and Sequence.
const (
	KindTrade  Kind = iota + 1 // Price, Size, Side (aggressor), TradeID, TradeDetails
	KindCancel                 // cancels a trade: TradeID, Price, Size (of the trade)
	// corrects a trade: TradeID, Price, Size (new), OldPrice, OldSize
	KindCorrect
	// the complete best bid and offer: Bids and Asks, at most one level each
	KindQuote
	KindUpdate      // changed levels of the book, absolute sizes: Bids, Asks
	KindSnapshot    // the complete book, best first: Bids, Asks; ends a gap
	KindOrderAdd    // order by order: OrderID, Side, Price, Size
	KindOrderModify // OrderID, Price, Size (new, absolute)
	KindOrderDelete // OrderID
	KindOrderFill   // OrderID, Size (executed; the order leaves the book at 0)
	KindStatus      // Phase, Reason, Until
	// the source lost events, so the book is stale until its next KindSnapshot: Reason
	KindGap
	// reference figures: PreviousClose, Settlement, OpenInterest; 0: not known
	KindReference
	// an order takes the place of another one of its side: OrderID (old), NewID, Price, Size (new)
	KindOrderReplace
)

// Event is one normalised market event. It is one flat struct for all kinds, so that a batch is a
// slice without boxing. Times are Unix nanoseconds in UTC.
type Event struct {
	Kind          Kind
	Side          Side
	Phase         Phase
	Handle        Handle
	Time          int64  // event time at the market; 0: unknown, the receive time is used instead
	Receive       int64  // receive time; 0: set by the sink
	Sequence      uint64 // the source's own sequence number; 0: none
	Price         Price
	Size          Size
	OldPrice      Price
	OldSize       Size
	PreviousClose Price
	Settlement    Price
	OpenInterest  Size
	OrderID       uint64
	NewID         uint64 // of the order that replaces OrderID
	Until         int64  // next expected status change; 0: unknown
	TradeID       string
	Reason        string // a lower_snake_case word
	TradeDetails
	Bids []Level // best first
	Asks []Level // best first
}

// Phase is the trading status of an instrument or a market.
type Phase uint8

// Phases. Their words are those of the wire protocol (field E of a status message). Journals store
// the numbers, which must not change.
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
	Gap     // the source lost events; the book is stale only after a KindGap
	Unknown // the source has not stated a status yet, or no longer knows it
)

var phaseWords = [...]string{
	"", "pre_open", "auction", "open", "quoting", "halt", "pause", "suspended",
	"pre_close", "closed", "post_close", "feed_down", "feed_up", "gap", "unknown",
}

// OfFeed reports whether p describes the feed and not trading: feed_down, feed_up or gap. The
// trading phase before it stays in force.
func (p Phase) OfFeed() bool { return p >= FeedDown && p <= Gap }

// String returns the phase's word on the wire, "" for NoPhase.
func (p Phase) String() string {
	if int(p) < len(phaseWords) {
		return phaseWords[p]
	}
	return ""
}

// ParsePhase parses a phase's word. ok is false for any other text.
func ParsePhase(s string) (p Phase, ok bool) {
	for i, w := range phaseWords {
		if i > 0 && w == s {
			return Phase(i), true
		}
	}
	return NoPhase, false
}

// Printable reports whether s is UTF-8 without control or invisible characters, on which terminals
// and logs of clients could act.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

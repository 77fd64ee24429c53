package journal

import "github.com/ruedahq/rueda/market"

// Kind tells what a Row is.
type Kind uint8

// Kinds of rows and the fields of Row each uses besides Kind, Instrument, Position, N,
// Time, At and Latency.
const (
	Trade      Kind = iota + 1 // Price, Size, Side (aggressor), ID, Conditions
	Cancel                     // a trade is cancelled: ID, Price, Size, RefN
	Correct                    // a trade is corrected: ID, Price, Size (new), OldPrice, OldSize, RefN
	Status                     // Phase, Reason, Until
	Quote                      // the whole best bid and offer: Bids and Asks of at most one level each
	Bar                        // Bar
	BookUpdate                 // changed levels of the whole book, absolute sizes, 0 deletes: Bids, Asks, best first
	BookState                  // the whole book, best first: Bids, Asks
	BookLost                   // the book is not known until the next BookState; Reason
	Reference                  // Price previous close, OldPrice settlement price, Size open interest; 0: not told
	Numbers                    // of a checkpoint: where the sequences of an instrument stand: Counts
	Hole                       // rows were lost, up to Position: the disk was full; Reason
)

// KindSet is a set of kinds, a bit each.
type KindSet uint32

// Kinds makes a set.
func Kinds(list ...Kind) (s KindSet) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

// Has says whether k is in the set.
func (s KindSet) Has(k Kind) bool { return s>>k&1 == 1 }

// Channel is a sequence of rows of an instrument: what shares one N.
type Channel uint8

// Channels.
const (
	Trades Channel = iota // Trade, Cancel, Correct
	Statuses
	Quotes
	Bars // one sequence an Interval
	Books
	Summaries // has no rows of its own: one N for each of Trades and each Reference
	NumChannels
)

// Interval is the length of a bar.
type Interval = market.Interval

// NumIntervals is how many there are.
const NumIntervals = market.NumIntervals

// Row is one numbered message of the stream, or what a restart needs besides. Times are
// Unix nanoseconds, UTC.
type Row struct {
	Kind       Kind
	Side       market.Side
	Phase      market.Phase
	Checkpoint bool   // it tells how things stood at its place in the stream, and is no message
	Instrument uint32 // by Define
	Position   uint64 // in the whole stream
	N          uint64 // in the sequence
	Time       int64  // T of the message
	At         int64  // publication; on a virtual clock the event time
	Latency    int64  // D of the message, ns; under 0: not told. It is max(0, At-Time) where it is told
	Price      market.Price
	Size       market.Size
	OldPrice   market.Price
	OldSize    market.Size
	RefN       uint64 // N of the trade that is meant; 0: not known
	ID         string // the market's trade id
	Conditions []string
	Reason     string
	Until      int64
	Bids, Asks []market.Level
	Bar        BarRow
	Counts     Counts

	CheckpointBehind bool // of a Hole: the checkpoint that ends it comes behind it, and not in front as in older files
}

// BarRow is the figures of a bar. Time of the row is its start.
type BarRow struct {
	Interval               Interval
	Revised                bool // revises one that was told already
	Open                   bool // of a checkpoint: not told yet
	First, High, Low, Last market.Price
	Volume                 market.Sum
	Value                  market.Sum // of prices times sizes
	Trades                 uint32
}

// Counts is where an instrument's sequences stand: the newest N of each, 0 for none.
type Counts struct {
	N    [NumChannels]uint64 // that of Bars is not used
	Bars [NumIntervals]uint64
}

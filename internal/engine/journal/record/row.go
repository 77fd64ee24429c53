// Package record has the rows of the journal and their encoding: records, blocks and frames. A file
// of the journal consists of frames. A [Cursor] reads the records of frames and verifies them, and
// a [Decoder] turns records into rows. Errors about the content of a file are of type *[Damage].
package record

import "github.com/ruedahq/rueda/market"

// Kind is the kind of a Row.
type Kind uint8

// Kinds of rows, and the fields that each uses besides Kind, Instrument, Position, N, Time, At and
// Latency.
const (
	Trade      Kind = iota + 1 // Price, Size, Side (aggressor), ID, TradeDetails
	Cancel                     // a trade is cancelled: ID, Price, Size, RefN
	Correct                    // a trade is corrected: ID, Price, Size (new), OldPrice, OldSize, RefN
	Status                     // Phase, Reason, Until
	Quote                      // complete best bid and offer: Bids and Asks with at most one level each
	Bar                        // Bar
	BookUpdate                 // changed levels, absolute sizes, 0 deletes: Bids, Asks, best first
	BookState                  // complete book: Bids, Asks, best first
	BookLost                   // the book is unknown until the next BookState; Reason
	Reference                  // Price previous close, OldPrice settlement price, Size open interest; 0: unknown
	Numbers                    // in a checkpoint: counters of an instrument: Counts
	Gap                        // rows up to Position are missing: the disk was full, or a file lacks them; Reason
)

// KindSet is a bit set of kinds.
type KindSet uint32

// Kinds returns a set.
func Kinds(list ...Kind) (s KindSet) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s KindSet) Has(k Kind) bool { return s>>k&1 == 1 }

// Channel is a sequence of rows of an instrument that share N.
type Channel uint8

// Channels.
const (
	Trades Channel = iota // Trade, Cancel, Correct
	Statuses
	Quotes
	Bars // one sequence for each Interval
	Books
	Summaries // no rows of its own: one N for each of Trades and each Reference
	NumChannels
)

// Interval is the length of a bar.
type Interval = market.Interval

// NumIntervals is the number of intervals.
const NumIntervals = market.NumIntervals

// Row is a numbered message of the stream, or part of a checkpoint. Times are Unix nanoseconds,
// UTC.
type Row struct {
	Kind       Kind
	Side       market.Side
	Phase      market.Phase
	Checkpoint bool   // part of a checkpoint: the state at its place in the stream
	Instrument uint32 // from Define
	Position   uint64 // in the whole stream
	N          uint64 // in the sequence
	Time       int64  // T of the message
	At         int64  // publication; of a virtual clock the event time
	Latency    int64  // D of the message in ns, which is max(0, At-Time); negative: none
	Price      market.Price
	Size       market.Size
	OldPrice   market.Price
	OldSize    market.Size
	RefN       uint64 // N of the affected trade; 0: unknown
	ID         string // the market's trade id
	market.TradeDetails
	Reason     string
	Until      int64
	Bids, Asks []market.Level
	Bar        BarRow
	Counts     Counts

	CheckpointFollows bool // of a Gap: its checkpoint comes after it, not before as in older files

	Source *Source // of the event of a new row; nil: its source keeps no numbers. Read rows have none
}

// BarRow has the figures of a bar. Time of the row is its start.
type BarRow struct {
	Interval               Interval
	Revised                bool // revises a published bar
	Open                   bool // in a checkpoint: not published yet
	First, High, Low, Last market.Price
	Volume                 market.Sum
	Value                  market.Sum // of prices times sizes
	Trades                 uint32
}

// Counts has the newest N of each sequence of an instrument, 0 if there is none.
type Counts struct {
	N    [NumChannels]uint64 // the entry of Bars is unused
	Bars [NumIntervals]uint64
}

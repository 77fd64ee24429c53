package decode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/market"
)

// Batch gathers the events of records. The zero Batch is ready. It must not be
// copied, and is not safe for concurrent use.
type Batch struct {
	// Events are those since the last Reset.
	Events []market.Event

	// Cuts are where Events may be parted: the number of events up to the end of a
	// record, or of several that belong together and are to be seen at once.
	Cuts []int

	// Listed are the instruments so far, in the order of their appearance.
	Listed []market.Instrument

	// Notes are what was left out and why, the first of each reason.
	Notes []Note

	Stats Stats

	levels []market.Level
	text   strings.Builder
	places map[market.InstrumentID]market.Handle
}

// Note tells of something in a file that was not played. How often it was is in Stats.
type Note struct {
	Reason string // a lower_snake_case word
	Detail string
}

// Stats counts what was played.
type Stats struct {
	Lines     int // lines, or records of a binary file
	Trades    int
	Quotes    int
	Orders    int // events of single orders
	Depth     int // depth messages, also those that were not applied
	Levels    int // that depth messages held
	Statuses  int
	Snapshots int // that a book was built on
	Gaps      int // where something is missing and a book is lost
	Unused    int // depth or order records of a book that is stale
	Filtered  int // records of instruments that were not asked for
	Inexact   int // records with a price or size that cannot be held exactly
	Other     int // records that mean nothing to a market: other streams, snapshots without use, trades of size 0
	Refused   int // events that the sink did not take
	Passes    int // how often the recording was begun
}

// full is when a batch takes no further record. A record adds but a few events, and
// so many still lie in the processor's cache when they are published.
const full = 256

// Full says that the batch is to be published.
func (b *Batch) Full() bool { return len(b.Events) >= full }

// Add appends an event, all else zero: Reset has cleared those it took out. The pointer is valid
// until the next Add.
func (b *Batch) Add(kind market.Kind, h market.Handle) *market.Event {
	n := len(b.Events)
	if n == cap(b.Events) {
		b.grow()
	}
	b.Events = b.Events[:n+1]
	e := &b.Events[n]
	e.Kind, e.Handle = kind, h
	return e
}

func (b *Batch) grow() {
	events := make([]market.Event, len(b.Events), max(2*full, 2*cap(b.Events)))
	copy(events, b.Events)
	b.Events = events
}

// Cut says that what was added so far may be published without what comes next.
func (b *Batch) Cut() {
	if n := len(b.Events); n > 0 && (len(b.Cuts) == 0 || b.Cuts[len(b.Cuts)-1] < n) {
		b.Cuts = append(b.Cuts, n)
	}
}

// One keeps a level and returns it as a side of a book; none where its size is 0.
func (b *Batch) One(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	b.levels = append(b.levels, l)
	n := len(b.levels)
	return b.levels[n-1 : n : n]
}

// Keep keeps a copy of levels and returns it.
func (b *Batch) Keep(levels []market.Level) []market.Level {
	b.levels = append(b.levels, levels...)
	return b.Last(len(levels), 0)
}

// Put keeps a level, for Last.
func (b *Batch) Put(l market.Level) { b.levels = append(b.levels, l) }

// Last is the n levels that were put before the newest skip ones.
func (b *Batch) Last(n, skip int) []market.Level {
	if n == 0 {
		return nil
	}
	to := len(b.levels) - skip
	return b.levels[to-n : to : to]
}

// textBlock is the memory that texts share. Whoever keeps one text keeps its block,
// which is why it is small.
const textBlock = 2 << 10

// Number is the decimal text of n, which stays valid after a Reset.
func (b *Batch) Number(n uint64) string {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], n, 10)
	if b.text.Cap()-b.text.Len() < len(d) {
		b.text = strings.Builder{}
		b.text.Grow(textBlock)
	}
	from := b.text.Len()
	b.text.Write(d)
	return b.text.String()[from:]
}

// List is the handle of an instrument, which is listed where it is not yet.
func (b *Batch) List(in market.Instrument) market.Handle {
	if h, ok := b.places[in.ID]; ok {
		return h
	}
	if b.places == nil {
		b.places = make(map[market.InstrumentID]market.Handle)
	}
	h := market.Handle(len(b.Listed))
	b.Listed = append(b.Listed, in)
	b.places[in.ID] = h
	return h
}

// Tell notes something once for each reason.
func (b *Batch) Tell(reason, format string, args ...any) {
	for i := range b.Notes {
		if b.Notes[i].Reason == reason {
			return
		}
	}
	b.Notes = append(b.Notes, Note{reason, fmt.Sprintf(format, args...)})
}

// Gap says of a book that something is missing.
func (b *Batch) Gap(h market.Handle, time, receive int64, reason string) {
	b.Stats.Gaps++
	e := b.Add(market.KindGap, h)
	e.Time, e.Receive, e.Reason = time, receive, reason
}

// Reset empties the batch of the events up to the last cut. Those behind it stay, and
// so does what is listed and counted, and the memory.
func (b *Batch) Reset() {
	n := 0
	if len(b.Cuts) > 0 {
		n = b.Cuts[len(b.Cuts)-1]
		b.Cuts = b.Cuts[:0]
	}
	left := copy(b.Events, b.Events[n:])
	clear(b.Events[left:])
	b.Events = b.Events[:left]
	if left == 0 {
		b.levels = b.levels[:0]
	} else if n > 0 {
		b.levels = nil // those who stay keep theirs
	}
}

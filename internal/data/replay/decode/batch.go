package decode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/market"
)

// Batch collects the events of records. The zero Batch is ready to use. It must not be copied and
// is not safe for concurrent use.
type Batch struct {
	// Events holds the events since the last Reset.
	Events []market.Event

	// Cuts holds the positions at which Events may be split: the number of events up to the end of
	// a record, or of several records that must be seen together.
	Cuts []int

	// Listed holds all instruments so far, in order of appearance.
	Listed []market.Instrument

	// Notes holds what was skipped and why, the first of each reason.
	Notes []Note

	Stats Stats

	skipped Reason // of the current record
	levels  []market.Level
	text    strings.Builder
	handles map[market.InstrumentID]market.Handle
}

// Note describes something in a file that was not played. Stats has its frequency.
type Note struct {
	Reason string // a lower_snake_case word
	Detail string
}

// Stats counts what was played.
type Stats struct {
	Lines     int // lines, or records of a binary file
	Trades    int
	Quotes    int
	Orders    int // order-by-order events
	Depth     int // depth messages, including those not applied
	Levels    int // levels of depth messages
	Statuses  int
	Snapshots int // used to build a book
	Gaps      int // losses that make a book stale
	Rejected  int // events that the sink rejected
	Passes    int // how often the recording was started
	Damaged   int // recordings that were not played to their end

	// Used counts the records that were played, and Skipped the others by reason. Together they are
	// Lines.
	Used    int
	Skipped Skipped
}

// full is the number of events at which a batch accepts no further record. One record adds only a
// few events, and this many still fit the processor's cache when they are published.
const full = 256

// Full reports whether the batch should be published.
func (b *Batch) Full() bool { return len(b.Events) >= full }

// Add appends an event whose other fields are zero. The pointer is valid until the next Add.
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

// Cut marks that the events so far may be published without the next ones.
func (b *Batch) Cut() {
	if n := len(b.Events); n > 0 && (len(b.Cuts) == 0 || b.Cuts[len(b.Cuts)-1] < n) {
		b.Cuts = append(b.Cuts, n)
	}
}

// Level stores a level and returns it as a side of a book, empty if its size is 0.
func (b *Batch) Level(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	b.levels = append(b.levels, l)
	n := len(b.levels)
	return b.levels[n-1 : n : n]
}

// CopyLevels stores a copy of levels and returns it.
func (b *Batch) CopyLevels(levels []market.Level) []market.Level {
	b.levels = append(b.levels, levels...)
	return b.LastLevels(len(levels), 0)
}

// AppendLevel stores a level, for LastLevels.
func (b *Batch) AppendLevel(l market.Level) { b.levels = append(b.levels, l) }

// LastLevels returns the n levels that were stored before the newest skip ones.
func (b *Batch) LastLevels(n, skip int) []market.Level {
	if n == 0 {
		return nil
	}
	to := len(b.levels) - skip
	return b.levels[to-n : to : to]
}

// textBlock is the size of the memory blocks that texts share. It is small because a text that is
// kept keeps its whole block.
const textBlock = 2 << 10

// Decimal returns the decimal text of n, which stays valid after a Reset.
func (b *Batch) Decimal(n uint64) string {
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

// List returns the handle of an instrument. It lists the instrument if it is new.
func (b *Batch) List(in market.Instrument) market.Handle {
	if h, ok := b.handles[in.ID]; ok {
		return h
	}
	if b.handles == nil {
		b.handles = make(map[market.InstrumentID]market.Handle)
	}
	h := market.Handle(len(b.Listed))
	b.Listed = append(b.Listed, in)
	b.handles[in.ID] = h
	return h
}

// Note adds a note, once per reason.
func (b *Batch) Note(reason, format string, args ...any) {
	for i := range b.Notes {
		if b.Notes[i].Reason == reason {
			return
		}
	}
	b.Notes = append(b.Notes, Note{reason, fmt.Sprintf(format, args...)})
}

// Skip marks that the current record is not played. The first reason counts.
func (b *Batch) Skip(r Reason) {
	if b.skipped == Played {
		b.skipped = r
	}
}

// EndRecord counts the current record, and reports whether it was played.
func (b *Batch) EndRecord() (played bool) {
	r := b.skipped
	b.Stats.Count(r)
	b.skipped = Played
	return r == Played
}

// Gap appends a gap of a book.
func (b *Batch) Gap(h market.Handle, time, receive int64, reason string) {
	b.Stats.Gaps++
	e := b.Add(market.KindGap, h)
	e.Time, e.Receive, e.Reason = time, receive, reason
}

// Reset removes the events up to the last cut. Later events, listed instruments, counters and
// memory are kept.
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
		b.levels = nil // the remaining events keep their levels
	}
}

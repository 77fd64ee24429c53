package journal

import (
	"math"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// sequence has the offsets of the rows of one series in a segment of a day that is not closed. N
// has no gap within a chunk, so that it is the index of a row.
type sequence struct {
	chunks []chunk // only the last one changes
}

// chunk is a range of consecutive rows.
type chunk struct {
	first    uint64   // N of the first row
	from, to int64    // least and greatest Time
	places   []uint32 // offsets in the segment, in words of 8 bytes
}

// last returns the N of the last row.
func (c *chunk) last() uint64 { return c.first + uint64(len(c.places)) - 1 }

// chunkRows bounds a chunk, so that a read of a range of times reads few extra rows.
const chunkRows = 512

func (s *sequence) add(n uint64, time int64, place uint32) {
	k := len(s.chunks) - 1
	if k < 0 || n != s.chunks[k].first+uint64(len(s.chunks[k].places)) || len(s.chunks[k].places) == chunkRows {
		s.chunks = append(s.chunks, chunk{first: n, from: time, to: time, places: make([]uint32, 0, 4)})
		k++
	}
	c := &s.chunks[k]
	c.places = append(c.places, place)
	c.from, c.to = min(c.from, time), max(c.to, time)
}

// entry is an index entry of a row.
type entry struct {
	key   record.SeriesKey
	place uint32
	n     uint64
	time  int64
}

// block is a part of a segment with its own base.
type block struct {
	offset int64
	bytes  int64 // up to the next block, or to the end of valid data
	base   record.Base
	high   int64 // greatest At of the segment up to its end
}

// summary describes the rows of a segment, or of a part of one.
type summary struct {
	rows     uint64 // messages, without checkpoints
	first    uint64 // positions
	last     uint64
	from, to int64 // least and greatest At
	least    int64 // least and greatest Time
	most     int64
}

func newSummary() summary {
	return summary{first: math.MaxUint64, from: math.MaxInt64, to: math.MinInt64, least: math.MaxInt64, most: math.MinInt64}
}

func (s *summary) add(position uint64, at, time int64) {
	s.rows++
	s.first, s.last = min(s.first, position), max(s.last, position)
	s.from, s.to = min(s.from, at), max(s.to, at)
	s.least, s.most = min(s.least, time), max(s.most, time)
}

func (s *summary) join(o summary) {
	s.rows += o.rows
	s.first, s.last = min(s.first, o.first), max(s.last, o.last)
	s.from, s.to = min(s.from, o.from), max(s.to, o.to)
	s.least, s.most = min(s.least, o.least), max(s.most, o.most)
}

// segment is a file of the journal.
type segment struct {
	header
	folder string
	name   string // of the file, without extension
	whole  bool   // name has an extension: the file was opened directly
	packed bool
	end    int64 // of valid, committed data

	summary
	gaps     []dayfile.Gap
	damage   []Damage
	torn     bool   // the file ends inside a frame
	verified bool   // written or verified by this process: readers need not check sums
	resumed  int64  // At from which it is complete again, after damage
	excluded string // why it is not part of the journal
	low      bool   // last, to and most may be too low: from an old index
	missing  uint64 // position of the last row that is missing before this segment; 0: none is

	// Only if its day is not closed.
	blocks     []block
	series     map[record.SeriesKey]*sequence
	checkpoint int64 // offset of the block that begins the last complete checkpoint; 0: none

	recorded record.Set // instruments with rows other than BookLost, as of the inspection
}

// note adds a row to the segment's summary and index.
func (s *segment) note(h *record.Head, rec []byte, offset int64) {
	if h.Kind == Gap {
		s.gaps = append(s.gaps, dayfile.Gap{Position: h.Position, At: h.At})
		s.last, s.to = max(s.last, h.Position), max(s.to, h.At)
		return
	}
	if h.Flags&record.FlagCheckpoint != 0 {
		return
	}
	s.summary.add(h.Position, h.At, h.Time)
	if slot := h.Slot(rec); slot != record.NoSlot {
		s.index(entry{record.SeriesKey{Instrument: h.Instrument, Slot: uint8(slot)}, uint32(offset / 8), h.N, h.Time})
	}
}

func (s *segment) index(e entry) {
	q := s.series[e.key]
	if q == nil {
		if s.series == nil {
			s.series = map[record.SeriesKey]*sequence{}
		}
		q = &sequence{}
		s.series[e.key] = q
	}
	q.add(e.n, e.time, e.place)
}

// spansOf combines adjacent blocks into spans.
func spansOf(blocks []block) []record.Span {
	var list []record.Span
	for _, b := range blocks {
		k := len(list) - 1
		if k >= 0 && list[k].Offset+list[k].Bytes == b.offset && list[k].Bytes+b.bytes <= record.SpanBytes+record.SpanBytes/2 {
			list[k].Bytes += b.bytes
			list[k].High = max(list[k].High, b.high)
			continue
		}
		list = append(list, record.Span{Offset: b.offset, Bytes: b.bytes, Position: b.base.Position, High: b.high})
	}
	return list
}

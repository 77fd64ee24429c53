package journal

import "math"

// sequence finds the rows of one series in one segment that is not closed yet. N runs
// without a gap within a chunk, so that a row's place in the list is its N.
type sequence struct {
	chunks []chunk // only the last one changes
}

// chunk is a run of rows.
type chunk struct {
	first    uint64   // N of the first row
	from, to int64    // least and greatest Time
	places   []uint32 // in the segment, in words of 8 bytes
}

// chunkRows bounds a chunk, so that a range of times need not read many rows for nothing.
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

// seriesKey names a series within a segment.
type seriesKey struct {
	instrument uint32
	slot       uint8
}

// entry is a row on its way into the index.
type entry struct {
	key   seriesKey
	place uint32
	n     uint64
	time  int64
}

// block is where records count from another base.
type block struct {
	offset int64
	bytes  int64 // up to the next block, or to where the segment's good part ends
	base   base
	high   int64 // greatest At up to its end, of the whole segment
}

// summary is what a segment holds, or a part of one.
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

// hole is a place where rows were lost.
type hole struct {
	Position uint64
	At       int64
}

// segment is one file of the journal.
type segment struct {
	header
	folder string
	name   string // of the file, without its ending
	whole  bool   // name is all of it: the file was opened by itself
	packed bool
	end    int64 // of what is good and committed

	summary
	holes   []hole
	damage  []Damage
	torn    bool   // the file ends inside of a frame
	proved  bool   // this process has written it, or checked every sum in it: readers need not again
	resumed int64  // At from which on it is whole again, behind damage
	foreign string // why it is left out

	// Of a segment whose day is not closed.
	blocks     []block
	series     map[seriesKey]*sequence
	checkpoint int64 // where the block begins that begins the last whole checkpoint; 0: none

}

// span is a piece of a segment that is read at once: blocks up to about 64 KiB.
type span struct {
	offset, bytes int64
	position      uint64
	high          int64
}

// note takes a row into the segment's summary and index.
func (s *segment) note(h *head, rec []byte, offset int64) {
	if h.kind == Hole {
		s.holes = append(s.holes, hole{h.position, h.at})
		s.last, s.to = max(s.last, h.position), max(s.to, h.at)
		return
	}
	if h.flags&flagCheckpoint != 0 {
		return
	}
	s.summary.add(h.position, h.at, h.time)
	if slot := h.slotOf(rec); slot != noSlot {
		s.index(entry{seriesKey{h.instrument, uint8(slot)}, uint32(offset / 8), h.n, h.time})
	}
}

func (s *segment) index(e entry) {
	q := s.series[e.key]
	if q == nil {
		if s.series == nil {
			s.series = map[seriesKey]*sequence{}
		}
		q = &sequence{}
		s.series[e.key] = q
	}
	q.add(e.n, e.time, e.place)
}

// spanBytes is the size from which on a block or a span is full.
const spanBytes = 64 << 10

// spansOf puts blocks that stand together into spans.
func spansOf(blocks []block) []span {
	var list []span
	for _, b := range blocks {
		k := len(list) - 1
		if k >= 0 && list[k].offset+list[k].bytes == b.offset && list[k].bytes+b.bytes <= spanBytes+spanBytes/2 {
			list[k].bytes += b.bytes
			list[k].high = max(list[k].high, b.high)
			continue
		}
		list = append(list, span{offset: b.offset, bytes: b.bytes, position: b.base.position, high: b.high})
	}
	return list
}

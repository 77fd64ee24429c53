package journal

import (
	"math"
	"path/filepath"
)

// writer is the appending end. It does no I/O. It belongs to whoever calls Append, Define, Take and
// Done, one at a time.
type writer struct {
	checkpoint func(instrument uint32, emit func(*Row))
	emit       func(*Row) // emitRow
	closed     bool
	sus        *suspension // rows are being lost
	over       bool        // of those: what came before them still waits to be written
	day        int32       // that rows are filed under
	hasDay     bool
	calendar   calendar
	position   uint64 // greatest so far
	newest     int64  // At of the last row

	point   checkpointing
	defined bitset // instruments whose definition the segment has
	frame   int    // where the open frame begins in buf; -1 for none
	base    base   // of the block
	start   int64  // where the block begins in the segment; 0: none is begun
	piece          // that rows are appended to; its seg is nil where none is begun

	pending []*piece // whole ones, in order, that no Batch has taken
	rows    int64    // bytes of appended rows that no Batch has taken
	batch   Batch    // the one that was taken; reused
	spare   []*piece // for reuse
}

// piece is a piece of a segment that is written at once, and what it brings for the index.
type piece struct {
	seg    *segment
	begins bool  // it is the first: the segment has no file yet
	at     int64 // where buf stands in the segment
	high   int64 // greatest At of a message in the segment up to the end of buf
	before int64 // what high was where the first of blocks begins
	buf    []byte

	entries []entry
	blocks  []block
	news    summary
	gaps    []hole
	marked  int64 // where a checkpoint begins that ends in buf
}

// bufferBytes is the size from which on a piece is whole.
const bufferBytes = 64 << 10

func (w *writer) reset() {
	w.buf, w.frame = w.buf[:0], -1
	w.entries, w.blocks, w.gaps = w.entries[:0], w.blocks[:0], nil
	w.news, w.marked = newSummary(), 0
}

// cut ends the piece that rows are appended to, if anything is in it, and begins the next.
func (w *writer) cut() {
	if len(w.buf) == 0 {
		return
	}
	w.closeFrame()
	if n := len(w.blocks); n > 0 {
		w.blocks[n-1].bytes, w.blocks[n-1].high = w.offset()-w.blocks[n-1].offset, w.high
	}
	c := &piece{}
	if n := len(w.spare); n > 0 {
		c, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	next := piece{seg: w.seg, at: w.offset(), high: w.high, buf: c.buf, entries: c.entries, blocks: c.blocks}
	*c, w.piece = w.piece, next
	w.reset()
	w.pending = append(w.pending, c)
}

// Append takes a row into what the next Commit writes, and keeps nothing of it. It makes no system
// call and never fails: while the disk is full, or too much waits for it, the row is lost, which
// Suspended tells.
func (j *Journal) Append(r *Row) {
	if !j.ready(r) {
		j.lose(r)
		return
	}
	from := j.offset()
	j.put(r)
	j.rows += j.offset() - from
	if len(j.buf) >= bufferBytes {
		j.cut()
	}
}

// ready sees to it that there is a segment for a row.
func (j *Journal) ready(r *Row) bool {
	if j.closed || j.sus != nil {
		return false
	}
	if j.rows+j.batch.rows >= j.cfg.Pending {
		j.overflow()
		return false
	}
	day := j.fileUnder(r)
	if j.seg != nil && day == j.seg.day && j.at < j.limit(2) {
		return true
	}
	// The state of the hub has this row in it already, perhaps by halves. So the new segment begins
	// with rows, and its checkpoint begins with the next Commit.
	j.rotate(day)
	return true
}

// put encodes a row.
func (j *Journal) put(r *Row) {
	if !j.defined.has(r.Instrument) {
		j.putDefinition(r.Instrument, base{r.Position, r.At})
	}
	if j.start == 0 || !j.base.fits(r) || j.offset()-j.start >= spanBytes {
		j.beginBlock(base{r.Position, r.At})
	} else if j.frame < 0 {
		j.openFrame()
	}
	at := len(j.buf)
	j.buf = appendRow(j.buf, j.base, r)
	if r.Checkpoint {
		return
	}
	if j.point.floors != nil {
		j.point.floors.begin(r)
	}
	if r.Kind == Hole {
		j.gaps = append(j.gaps, hole{r.Position, r.At})
		j.news.last, j.news.to = max(j.news.last, r.Position), max(j.news.to, r.At)
	} else {
		j.news.add(r.Position, r.At, r.Time)
	}
	j.position, j.newest, j.high = max(j.position, r.Position), r.At, max(j.high, r.At)
	if slot := r.slot(); slot != noSlot {
		place := (j.at + int64(at)) / 8
		j.entries = append(j.entries, entry{seriesKey{r.Instrument, uint8(slot)}, uint32(place), r.N, r.Time})
	}
}

// slot is the slot of a row.
func (r *Row) slot() int {
	switch r.Kind {
	case Trade, Cancel, Correct:
		return int(Trades)
	case Status:
		return int(Statuses)
	case Quote:
		return int(Quotes)
	case Bar:
		return slot(Bars, r.Bar.Interval)
	case Reference:
		return slotSummaries
	}
	return noSlot
}

// offset is where the next record will stand in the segment.
func (w *writer) offset() int64 { return w.at + int64(len(w.buf)) }

// frameFor sees to it that a frame is open in a block that is not full.
func (j *Journal) frameFor(b base) {
	if j.start == 0 || j.offset()-j.start >= spanBytes {
		j.beginBlock(b)
		return
	}
	if j.frame < 0 {
		j.openFrame()
	}
}

func (w *writer) openFrame() {
	w.frame = len(w.buf)
	w.buf = append(w.buf, make([]byte, frameHead)...)
}

func (w *writer) closeFrame() {
	if w.frame >= 0 {
		seal(w.buf[w.frame:], w.seg.salt, w.at+int64(w.frame))
		w.frame = -1
	}
}

// beginBlock begins a block in a new frame.
func (w *writer) beginBlock(b base) {
	w.closeFrame()
	w.base, w.start = b, w.offset()
	if n := len(w.blocks); n > 0 {
		w.blocks[n-1].bytes, w.blocks[n-1].high = w.start-w.blocks[n-1].offset, w.high
	} else {
		w.before = w.high
	}
	w.blocks = append(w.blocks, block{offset: w.start, base: b})
	w.openFrame()
	w.buf = appendBlock(w.buf, b, w.start)
}

// rotate ends the segment and begins the next one, with its header in the buffer. Its checkpoint
// is owed.
func (j *Journal) rotate(day int32) {
	j.cut()
	j.highest++
	s := &segment{folder: filepath.Join(j.cfg.Folder, dateOf(day)), name: segmentName(j.highest), proved: true}
	s.header = header{number: j.highest, journal: j.journal, epoch: j.epoch, day: day}
	s.summary = newSummary()
	j.seg, j.begins, j.at = s, true, 0
	j.point = checkpointing{owed: true, floors: j.point.floors, hole: j.point.hole}
	clear(j.defined)
	j.day, j.hasDay, j.calendar.begun[day] = day, true, true
	j.start, j.high = 0, math.MinInt64
	j.reset()
	j.buf = s.header.append(j.buf, segmentMagic)
	_, _ = s.header.parse(j.buf) // for the salt
}

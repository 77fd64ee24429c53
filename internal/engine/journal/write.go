package journal

import (
	"math"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// writer appends rows. It does no I/O. It belongs to the caller of Append, Define, Take and Done,
// one at a time.
type writer struct {
	checkpoint func(instrument uint32, emit func(*Row))
	emit       func(*Row) // emitRow
	closed     bool
	sus        *suspension // rows are being lost
	overflowed bool        // rows are being lost, and earlier ones still wait to be written
	day        int32       // current day
	hasDay     bool
	calendar   calendar
	position   uint64 // greatest position
	newest     int64  // At of the last row

	point   checkpointing
	sources sources
	defined record.Set  // instruments with a definition in the segment
	frame   int         // start of the open frame in buf; -1: none
	base    record.Base // of the block
	start   int64       // offset of the block in the segment; 0: none
	piece               // current piece; its seg is nil if there is none

	pending     []*piece // complete pieces, in order, that no Batch has
	rows        int64    // bytes of appended rows that no Batch has
	batch       Batch    // the current one; reused
	sparePieces []*piece // for reuse
}

// piece is a part of a segment that is written at once, with its index entries.
type piece struct {
	seg    *segment
	begins bool  // first of its segment, which has no file yet
	at     int64 // offset of buf in the segment
	high   int64 // greatest At of a message in the segment up to the end of buf
	before int64 // high at the first of blocks
	buf    []byte

	entries []entry
	blocks  []block
	added   summary
	gaps    []dayfile.Gap
	marked  int64 // offset of the checkpoint that ends in buf
}

// bufferBytes is the size of a complete piece.
const bufferBytes = 64 << 10

func (w *writer) reset() {
	w.buf, w.frame = w.buf[:0], -1
	w.entries, w.blocks, w.gaps = w.entries[:0], w.blocks[:0], nil
	w.added, w.marked = newSummary(), 0
}

// endPiece completes the current piece, if it has data, and begins the next.
func (w *writer) endPiece() {
	if len(w.buf) == 0 {
		return
	}
	w.closeFrame()
	if n := len(w.blocks); n > 0 {
		w.blocks[n-1].bytes, w.blocks[n-1].high = w.offset()-w.blocks[n-1].offset, w.high
	}
	c := &piece{}
	if n := len(w.sparePieces); n > 0 {
		c, w.sparePieces = w.sparePieces[n-1], w.sparePieces[:n-1]
	} else { // the next one is probably as long
		c.buf, c.entries = make([]byte, 0, len(w.buf)+256), make([]entry, 0, len(w.entries))
	}
	next := piece{seg: w.seg, at: w.offset(), high: w.high, buf: c.buf, entries: c.entries, blocks: c.blocks}
	*c, w.piece = w.piece, next
	w.reset()
	w.pending = append(w.pending, c)
}

// Append adds a row to the next Commit and does not retain it. It makes no system call and never
// fails. While the disk is full, or too many rows are pending, the row is lost, which Suspended
// reports.
func (j *Journal) Append(r *Row) {
	if !j.ready(r) {
		j.loseRow(r)
		return
	}
	from := j.offset()
	j.put(r)
	j.rows += j.offset() - from
	if len(j.buf) >= bufferBytes {
		j.endPiece()
	}
}

// ready ensures that there is a segment for a row. It returns false if the row is lost.
func (j *Journal) ready(r *Row) bool {
	if j.closed || j.sus != nil {
		return false
	}
	if j.rows+j.batch.rows >= j.cfg.Pending {
		j.overflow()
		return false
	}
	day := j.dayOfRow(r)
	if j.seg != nil && day == j.seg.day && j.at < j.limit(2) {
		return true
	}
	// The hub's state already contains this row, perhaps partly. So the new segment begins with
	// rows, and its checkpoint with the next Commit.
	j.beginSegment(day)
	return true
}

// put encodes a row.
func (j *Journal) put(r *Row) {
	if !j.defined.Has(r.Instrument) {
		j.putDefinition(r.Instrument, record.Base{Position: r.Position, At: r.At})
	}
	if j.start == 0 || !j.base.Fits(r) || j.offset()-j.start >= record.SpanBytes {
		j.beginBlock(record.Base{Position: r.Position, At: r.At})
	} else if j.frame < 0 {
		j.openFrame()
	}
	at := len(j.buf)
	j.buf = record.Append(j.buf, j.base, r)
	if r.Checkpoint {
		return
	}
	if r.Source != nil {
		j.NoteSource(r.Source)
	}
	if j.point.minSeqs != nil {
		j.point.minSeqs.begin(r)
	}
	if r.Kind == Gap {
		j.gaps = append(j.gaps, dayfile.Gap{Position: r.Position, At: r.At})
		j.added.last, j.added.to = max(j.added.last, r.Position), max(j.added.to, r.At)
	} else {
		j.added.add(r.Position, r.At, r.Time)
	}
	j.position, j.newest, j.high = max(j.position, r.Position), r.At, max(j.high, r.At)
	if slot := r.Slot(); slot != record.NoSlot {
		place := (j.at + int64(at)) / 8
		j.entries = append(j.entries, entry{record.SeriesKey{Instrument: r.Instrument, Slot: uint8(slot)}, uint32(place), r.N, r.Time})
	}
}

// offset returns the offset of the next record in the segment.
func (w *writer) offset() int64 { return w.at + int64(len(w.buf)) }

// frameFor ensures that a frame is open in a block that is not full. The caller must append a
// record to the frame.
func (j *Journal) frameFor(b record.Base) {
	if j.start == 0 || j.offset()-j.start >= record.SpanBytes {
		j.beginBlock(b)
		return
	}
	if j.frame < 0 {
		j.openFrame()
	}
}

func (w *writer) openFrame() {
	w.frame = len(w.buf)
	w.buf = append(w.buf, make([]byte, record.FrameHead)...)
}

func (w *writer) closeFrame() {
	if w.frame >= 0 {
		w.putSources()
		record.FinishFrame(w.buf[w.frame:], w.seg.salt, w.at+int64(w.frame))
		w.frame = -1
	}
}

// beginBlock begins a block in a new frame.
func (w *writer) beginBlock(b record.Base) {
	w.closeFrame()
	w.base, w.start = b, w.offset()
	if n := len(w.blocks); n > 0 {
		w.blocks[n-1].bytes, w.blocks[n-1].high = w.start-w.blocks[n-1].offset, w.high
	} else {
		w.before = w.high
	}
	w.blocks = append(w.blocks, block{offset: w.start, base: b})
	w.openFrame()
	w.buf = record.AppendBlock(w.buf, b, w.start)
}

// beginSegment ends the segment and begins the next, with its header in the buffer and a pending
// checkpoint.
func (j *Journal) beginSegment(day int32) {
	j.endPiece()
	j.highest++
	s := &segment{folder: filepath.Join(j.cfg.Folder, dateOf(day)), name: segmentName(j.highest), verified: true}
	s.header = header{number: j.highest, journal: j.journal, epoch: j.epoch, day: day}
	s.summary = newSummary()
	j.seg, j.begins, j.at = s, true, 0
	j.point = checkpointing{pending: true, minSeqs: j.point.minSeqs, gap: j.point.gap}
	clear(j.defined)
	j.day, j.hasDay, j.calendar.begun[day] = day, true, true
	j.start, j.high = 0, math.MinInt64
	j.reset()
	j.buf = s.header.append(j.buf, segmentMagic)
	_, _ = s.header.parse(j.buf) // for the salt
}

package journal

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// writer is the writing end. It belongs to whoever calls Append and Commit, one at a time.
type writer struct {
	checkpoint func(emit func(*Row))
	closed     bool
	sus        *suspension // rows are being lost
	day        int32       // that rows are filed under
	hasDay     bool
	position   uint64 // greatest so far
	newest     int64  // At of the last row

	seg    *segment // nil: none is begun
	file   *os.File
	listed bool  // readers know of the segment
	owed   bool  // its checkpoint is still to be written
	at     int64 // where buf will stand in it: all before is committed

	buf    []byte
	frame  int // where the open frame begins in buf; -1 for none
	base   base
	start  int64 // where the block begins in the segment; 0: none is begun
	high   int64 // greatest At of a message in the segment
	before int64 // what high was where the first of blocks begins

	// What buf brings, for the index.
	entries []entry
	blocks  []block
	news    summary
	gaps    []hole
	marked  int64 // where a checkpoint begins that ends in buf
}

// bufferBytes is written at once, whether it was committed or not.
const bufferBytes = 64 << 10

func (w *writer) reset() {
	w.buf, w.frame = w.buf[:0], -1
	w.entries, w.blocks, w.gaps = w.entries[:0], w.blocks[:0], nil
	w.news, w.marked = newSummary(), 0
}

// Append takes a row into what the next Commit writes, and keeps nothing of it. It never fails: on
// a full disk the row is lost, which Suspended tells. Append and Commit are called by
// one goroutine at a time.
func (j *Journal) Append(r *Row) {
	if !j.ready(r.At) {
		j.lose(r)
		return
	}
	j.put(r)
	if len(j.buf) >= bufferBytes {
		j.flush()
	}
}

// ready sees to it that there is a segment for a row of that time.
func (j *Journal) ready(at int64) bool {
	if j.closed || j.sus != nil {
		return false
	}
	day := dayOf(at)
	if j.hasDay && day < j.day {
		day = j.day // the clock went back
	}
	if j.seg != nil && day == j.seg.day && j.at < 2*j.cfg.Segment {
		return true
	}
	// The state of the hub has this row in it already, perhaps by halves. So the new segment begins
	// with rows, and its checkpoint comes with the next Commit.
	return j.rotate(day)
}

// put encodes a row.
func (j *Journal) put(r *Row) {
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

// Commit writes what was appended to the kernel: from then on a kill of the process loses none of
// it. It costs next to nothing where nothing was appended. It is called when the state of the hub
// agrees with the rows appended, since it is also where a checkpoint is made.
func (j *Journal) Commit() {
	if j.closed {
		return
	}
	if e := j.fault.Load(); e != nil && j.sus == nil {
		j.suspend(*e)
	}
	if j.sus != nil {
		if j.space.Load() {
			j.resume()
		}
		return
	}
	if j.seg == nil || len(j.buf) == 0 && !j.owed {
		return
	}
	if j.owed {
		j.writeCheckpoint(nil)
	}
	if j.flush() && j.at >= j.cfg.Segment && j.rotate(j.day) {
		j.writeCheckpoint(nil)
		j.flush()
	}
}

// flush writes the buffer. It is false where rows are being lost now.
func (j *Journal) flush() bool {
	if j.sus != nil {
		return false
	}
	if len(j.buf) == 0 {
		return true
	}
	if j.frame >= 0 {
		j.closeFrame()
	}
	if _, err := j.cfg.write(j.file, j.buf); err != nil {
		j.suspend(fmt.Errorf("write journal: %w", err))
		return false
	}
	fresh := !j.listed
	j.publish()
	j.dirty.Store(true)
	if fresh {
		j.state.segment = j.seg.number
		j.saveState()
	}
	return true
}

// publish lets readers see what the buffer brought.
func (j *Journal) publish() {
	s := j.seg
	j.mu.Lock()
	if !j.listed {
		j.list(s)
	}
	if n := len(s.blocks); n > 0 {
		if len(j.blocks) > 0 {
			s.blocks[n-1].bytes, s.blocks[n-1].high = j.blocks[0].offset-s.blocks[n-1].offset, j.before
		} else {
			s.blocks[n-1].bytes, s.blocks[n-1].high = j.offset()-s.blocks[n-1].offset, j.high
		}
	}
	if n := len(j.blocks); n > 0 {
		j.blocks[n-1].bytes, j.blocks[n-1].high = j.offset()-j.blocks[n-1].offset, j.high
		s.blocks = append(s.blocks, j.blocks...)
	}
	for _, e := range j.entries {
		s.index(e)
	}
	s.summary.join(j.news)
	s.holes = append(s.holes, j.gaps...)
	if j.marked != 0 {
		s.checkpoint = j.marked
	}
	s.end = j.offset()
	j.mu.Unlock()
	j.at = s.end
	j.reset()
}

// list puts the segment that is written into its day.
func (j *Journal) list(s *segment) {
	j.listed = true
	if n := len(j.days); n == 0 || j.days[n-1].date != s.day {
		j.days = append(j.days, &day{date: s.day, folder: s.folder})
	}
	d := j.days[len(j.days)-1]
	d.segments = append(d.segments, s)
}

// rotate ends the segment and begins the next one, with its head in the buffer. Its checkpoint
// is owed.
func (j *Journal) rotate(day int32) bool {
	if !j.flush() {
		return false
	}
	j.retire()
	s := &segment{folder: filepath.Join(j.cfg.Folder, dateOf(day)), name: segmentName(j.highest + 1), proved: true}
	s.header = header{number: j.highest + 1, journal: j.journal, epoch: j.epoch, day: day}
	s.summary = newSummary()
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		j.suspend(fmt.Errorf("make folder of a day: %w", err))
		return false
	}
	f, err := os.OpenFile(s.path(false), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		j.suspend(fmt.Errorf("begin segment: %w", err))
		return false
	}
	j.seg, j.file, j.listed, j.owed, j.at = s, f, false, true, 0
	j.day, j.hasDay = day, true
	j.start, j.high = 0, math.MinInt64
	j.reset()
	j.buf = s.header.append(j.buf, segmentMagic)
	_, _ = s.header.parse(j.buf) // for the salt
	j.duty.Lock()
	j.live = f
	j.fresh = append(j.fresh, s.folder, j.cfg.Folder)
	j.duty.Unlock()
	j.table.each(func(number uint32, text []byte) {
		j.frameFor(base{j.position, j.newest})
		j.buf = appendDefinition(j.buf, number, text)
	})
	return true
}

// retire hands the file that was written to Run, which syncs and closes it. A segment of which nothing
// was written is removed.
func (j *Journal) retire() {
	if j.seg == nil {
		return
	}
	j.duty.Lock()
	j.seals = append(j.seals, j.file)
	j.live = nil
	j.duty.Unlock()
	if j.listed {
		j.highest = j.seg.number
	} else if err := os.Remove(j.seg.path(false)); err != nil {
		j.cfg.Logger.Warn("an empty segment could not be removed", "error", err)
		j.highest = j.seg.number
	}
	j.seg, j.file = nil, nil
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// writeCheckpoint writes the state of the hub, and tells floors where the sequences stand.
func (j *Journal) writeCheckpoint(f floors) {
	j.owed = false
	if j.checkpoint == nil {
		return
	}
	j.beginBlock(base{j.position, j.newest})
	begin, from := j.start, j.offset()
	j.buf = appendMark(j.buf, recCheckpoint)
	j.checkpoint(func(r *Row) {
		if j.seg == nil {
			return // the disk is full
		}
		r.Checkpoint = true
		if r.Position == 0 {
			r.Position = j.position
		}
		if r.At == 0 {
			r.At = j.newest
		}
		if f != nil && r.Kind == Numbers {
			f.count(r.Instrument, &r.Counts)
		}
		j.put(r)
		if len(j.buf) >= bufferBytes {
			j.flush()
		}
	})
	if j.seg == nil {
		return
	}
	j.frameFor(base{j.position, j.newest})
	j.buf = appendMark(j.buf, recCheckpointEnd)
	j.marked = begin
	j.need.Store(j.offset() - from)
}

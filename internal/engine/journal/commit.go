package journal

import (
	"fmt"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// A commit has three steps. The goroutine that appends calls Take and Done, which touch only
// memory. Write does the file I/O and may wait for the disk, while rows are appended.

// Batch is the data of one commit.
type Batch struct {
	pieces   []*piece
	rows     int64       // bytes of its appended rows
	syncErr  error       // a failed sync: nothing can be written
	overflow error       // rows are lost after it
	resumed  *suspension // the suspension that ends with it
	minSeqs  minSeqs     // of the checkpoint after a gap, which ends in it; nil: none does
	gap      uint64      // position of that gap
	taken    bool

	err  error  // result of Write
	lost uint64 // number of its rows that were not written
}

// files is the state of the goroutine that does file I/O. It belongs to the caller of Write, one at
// a time.
type files struct {
	file      *os.File
	active    *segment // of file
	published bool     // visible to readers
	written   int64    // end of its rows; everything before is committed
}

// Commit writes the appended rows to the kernel, so that a kill of the process does not lose them.
// It costs almost nothing without rows. It does Take, Write and Done, for callers that may wait for
// the disk.
func (j *Journal) Commit() {
	if b := j.Take(); b != nil {
		j.Write(b)
		j.Done(b)
	}
}

// Pending reports whether rows are waiting to be written or are being written.
func (j *Journal) Pending() bool {
	return j.batch.taken || len(j.pending) > 0 || len(j.buf) > 0 || len(j.sources.changed) > 0 && j.seg != nil || j.overflowed
}

// Full reports whether so many rows wait to be written that rows will soon be lost.
func (j *Journal) Full() bool { return j.rows+j.batch.rows >= j.cfg.Pending/4*3 }

// Take returns all appended rows, for Write; nil if there are none or the last Batch is not done.
// The hub's state must include all appended rows, because Take also continues the checkpoint.
func (j *Journal) Take() *Batch { return j.take(true) }

// TakeRows returns all appended rows, as Take does, but does not continue the checkpoint.
func (j *Journal) TakeRows() *Batch { return j.take(false) }

func (j *Journal) take(checkpoint bool) *Batch {
	b := &j.batch
	if j.closed || b.taken {
		return nil
	}
	fault := j.syncErr.Load()
	switch {
	case j.overflowed:
		b.overflow, j.overflowed = errDiskSlow, false
	case j.sus != nil && !j.space.Load():
		return nil
	case j.sus != nil:
		j.resume(b)
	case fault != nil:
		b.syncErr = *fault
	case j.seg == nil || !j.Pending() && !(j.point.pending && checkpoint):
		return nil
	default:
		if j.offset() >= j.limit(1) {
			j.beginSegment(j.day)
		}
		if j.point.pending && checkpoint {
			j.continueCheckpoint(b)
		}
	}
	if len(j.sources.changed) > 0 && j.seg != nil && j.frame < 0 { // an open frame takes them at its end
		j.frameFor(record.Base{Position: j.position, At: j.newest})
	}
	j.endPiece()
	b.pieces, j.pending = j.pending, b.pieces[:0]
	b.rows, j.rows, b.taken = j.rows, 0, true
	return b
}

// Write writes a Batch. An error suspends the journal.
func (j *Journal) Write(b *Batch) {
	defer j.timed(time.Now())
	err := b.syncErr
	for _, c := range b.pieces {
		if err == nil {
			err = j.writePiece(c)
		}
		if err != nil {
			b.lost += c.added.rows
			j.lost.pieces(c)
		}
	}
	switch {
	case err == nil && b.resumed != nil:
		j.reportResumed(b)
	case err == nil:
		err = b.overflow
	}
	if err == nil && b.minSeqs != nil {
		j.recovered(b)
	}
	if b.err = err; err != nil {
		j.stop()
		j.reportSuspended(err)
	}
}

// Done ends a commit after Write. If Write has failed, rows are lost from now on.
func (j *Journal) Done(b *Batch) {
	if b.err != nil {
		j.suspend(b)
	}
	j.recycle(b.pieces)
	*b = Batch{pieces: b.pieces[:0]}
}

// maxSparePieces is the number of pieces that are kept for reuse.
const maxSparePieces = 4

// recycle keeps the memory of pieces for reuse.
func (w *writer) recycle(list []*piece) {
	for i, c := range list {
		list[i] = nil
		if len(w.sparePieces) < maxSparePieces && cap(c.buf) <= 2*bufferBytes {
			*c = piece{buf: c.buf[:0], entries: c.entries[:0], blocks: c.blocks[:0]}
			w.sparePieces = append(w.sparePieces, c)
		}
	}
}

// writePiece writes a piece and publishes it to readers.
func (j *Journal) writePiece(c *piece) error {
	if c.begins {
		if err := j.createSegment(c.seg); err != nil {
			return err
		}
	}
	if _, err := j.sys.Write(j.file, c.buf); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	fresh := !j.published
	j.publish(c)
	j.dirty.Store(true)
	if fresh {
		j.state.Segment = c.seg.number
		j.saveState()
	}
	return nil
}

// createSegment closes the file of the active segment and creates the next one.
func (j *Journal) createSegment(s *segment) error {
	j.closeSegment()
	if err := j.sys.Mkdir(s.folder); err != nil {
		return fmt.Errorf("create folder of a day: %w", err)
	}
	f, err := j.sys.Open(s.path(false), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	j.file, j.active, j.published, j.written = f, s, false, 0
	j.syncMu.Lock()
	j.activeFile = f
	j.newFolders = append(j.newFolders, s.folder, j.cfg.Folder)
	j.syncMu.Unlock()
	return nil
}

// publish makes a piece visible to readers.
func (j *Journal) publish(c *piece) {
	s, end := c.seg, c.at+int64(len(c.buf))
	j.mu.Lock()
	if !j.published {
		j.addToDay(s)
	}
	if n := len(s.blocks); n > 0 {
		if len(c.blocks) > 0 {
			s.blocks[n-1].bytes, s.blocks[n-1].high = c.blocks[0].offset-s.blocks[n-1].offset, c.before
		} else {
			s.blocks[n-1].bytes, s.blocks[n-1].high = end-s.blocks[n-1].offset, c.high
		}
	}
	s.blocks = append(s.blocks, c.blocks...)
	for _, e := range c.entries {
		s.index(e)
	}
	s.summary.join(c.added)
	s.gaps = append(s.gaps, c.gaps...)
	if c.marked != 0 {
		s.checkpoint = c.marked
	}
	s.end = end
	j.mu.Unlock()
	j.highWater.Raise(c.added.last)
	j.written = end
}

// addToDay adds the active segment to its day.
func (j *Journal) addToDay(s *segment) {
	j.published = true
	if n := len(j.days); n == 0 || j.days[n-1].date != s.day {
		j.days = append(j.days, &day{date: s.day, folder: s.folder})
	}
	d := j.days[len(j.days)-1]
	d.segments = append(d.segments, s)
}

// stop ends the segment at its last commit, and records that rows are lost from now on.
func (j *Journal) stop() {
	j.space.Store(false)
	j.syncErr.Store(nil)
	if j.active != nil && j.published {
		// An incomplete frame would be a torn end, which readers handle too.
		_ = j.sys.Truncate(j.active.path(false), j.written)
	}
	j.closeSegment()
	j.state.Suspended = true
	j.saveState()
}

// closeSegment passes the file of the active segment to Run, which syncs and closes it. It removes
// a segment without rows.
func (j *Journal) closeSegment() {
	if j.active == nil {
		return
	}
	j.syncMu.Lock()
	j.sealedFiles = append(j.sealedFiles, j.file)
	j.activeFile = nil
	j.syncMu.Unlock()
	if !j.published {
		if err := j.sys.Remove(j.active.path(false)); err != nil {
			j.cfg.Logger.Warn("removing an empty segment failed", "error", err)
		}
	}
	j.active, j.file = nil, nil
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

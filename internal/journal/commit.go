package journal

import (
	"fmt"
	"os"
)

// A commit has three steps. The goroutine that appends calls Take and Done, which only touch memory. Write
// does the work with files and may wait for the disk; rows may be appended meanwhile.

// Batch is what one commit writes.
type Batch struct {
	pieces  []*piece
	rows    int64       // bytes of appended rows in it
	fault   error       // of a sync: nothing of it can be written
	behind  error       // rows are being lost behind it
	resumed *suspension // that ends with it
	floors  floors      // of the checkpoint behind a hole, which ends with it; nil: none does
	hole    uint64      // position of that hole
	taken   bool

	err  error  // what went wrong when it was written
	lost uint64 // rows of it that were not
}

// files is the end of the writer that works with files. It belongs to whoever calls Write, one at a
// time.
type files struct {
	file    *os.File
	active  *segment // of file
	listed  bool     // readers know of it
	written int64    // where its rows end: all before is committed
}

// Commit writes what was appended to the kernel: from then on a kill of the process loses none of
// it. It costs next to nothing where nothing was appended. It is Take, Write and Done in one, for a
// caller who can wait for the disk.
func (j *Journal) Commit() {
	if b := j.Take(); b != nil {
		j.Write(b)
		j.Done(b)
	}
}

// Pending says whether rows wait to be written, or are being written now.
func (j *Journal) Pending() bool {
	return j.batch.taken || len(j.pending) > 0 || len(j.buf) > 0 || j.over
}

// Full says whether so much waits to be written that rows are going to be lost.
func (j *Journal) Full() bool { return j.rows+j.batch.rows >= j.cfg.Pending/4*3 }

// Take takes all that was appended, for Write; nil: there is nothing, or the last Batch is not
// done. It is called when the state of the hub agrees with the rows appended, since it is also
// where a checkpoint goes on.
func (j *Journal) Take() *Batch { return j.take(true) }

// TakeRows is Take without a piece of the checkpoint that is being written.
func (j *Journal) TakeRows() *Batch { return j.take(false) }

func (j *Journal) take(checkpoint bool) *Batch {
	b := &j.batch
	if j.closed || b.taken {
		return nil
	}
	fault := j.fault.Load()
	switch {
	case j.over:
		b.behind, j.over = errBehind, false
	case j.sus != nil && !j.space.Load():
		return nil
	case j.sus != nil:
		j.resume(b)
	case fault != nil:
		b.fault = *fault
	case j.seg == nil || len(j.pending) == 0 && len(j.buf) == 0 && !(j.point.owed && checkpoint):
		return nil
	default:
		if j.offset() >= j.limit(1) {
			j.rotate(j.day)
		}
		if j.point.owed && checkpoint {
			j.continueCheckpoint(b)
		}
	}
	j.cut()
	b.pieces, j.pending = j.pending, b.pieces[:0]
	b.rows, j.rows, b.taken = j.rows, 0, true
	return b
}

// Write writes a Batch. What goes wrong suspends the journal.
func (j *Journal) Write(b *Batch) {
	err := b.fault
	for _, c := range b.pieces {
		if err == nil {
			err = j.writePiece(c)
		}
		if err != nil {
			b.lost += c.news.rows
			j.lost.pieces(c)
		}
	}
	switch {
	case err == nil && b.resumed != nil:
		j.tellResumed(b)
	case err == nil:
		err = b.behind
	}
	if err == nil && b.floors != nil {
		j.recovered(b)
	}
	if b.err = err; err != nil {
		j.stop()
		j.tellSuspended(err)
	}
}

// Done ends a commit, after Write. Where that failed rows are lost from now on.
func (j *Journal) Done(b *Batch) {
	if b.err != nil {
		j.suspend(b)
	}
	j.recycle(b.pieces)
	*b = Batch{pieces: b.pieces[:0]}
}

// maxSpare is how many pieces are kept for reuse.
const maxSpare = 4

// recycle keeps the memory of pieces for the next ones.
func (w *writer) recycle(list []*piece) {
	for i, c := range list {
		list[i] = nil
		if len(w.spare) < maxSpare && cap(c.buf) <= 2*bufferBytes {
			*c = piece{buf: c.buf[:0], entries: c.entries[:0], blocks: c.blocks[:0]}
			w.spare = append(w.spare, c)
		}
	}
}

// writePiece writes a piece and lets readers see it.
func (j *Journal) writePiece(c *piece) error {
	if c.begins {
		if err := j.begin(c.seg); err != nil {
			return err
		}
	}
	if _, err := j.cfg.write(j.file, c.buf); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	fresh := !j.listed
	j.publish(c)
	j.dirty.Store(true)
	if fresh {
		j.state.segment = c.seg.number
		j.saveState()
	}
	return nil
}

// begin ends the file of the last segment and makes that of the next.
func (j *Journal) begin(s *segment) error {
	j.retire()
	if err := j.sys.mkdir(s.folder); err != nil {
		return fmt.Errorf("make folder of a day: %w", err)
	}
	f, err := j.sys.open(s.path(false), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	j.file, j.active, j.listed, j.written = f, s, false, 0
	j.duty.Lock()
	j.live = f
	j.fresh = append(j.fresh, s.folder, j.cfg.Folder)
	j.duty.Unlock()
	return nil
}

// publish lets readers see what a piece brought.
func (j *Journal) publish(c *piece) {
	s, end := c.seg, c.at+int64(len(c.buf))
	j.mu.Lock()
	if !j.listed {
		j.list(s)
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
	s.summary.join(c.news)
	s.holes = append(s.holes, c.gaps...)
	if c.marked != 0 {
		s.checkpoint = c.marked
	}
	s.end = end
	j.mu.Unlock()
	j.given.raise(c.news.last)
	j.written = end
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

// stop ends the segment with what was committed, and notes that rows are lost from now on.
func (j *Journal) stop() {
	j.space.Store(false)
	j.fault.Store(nil)
	if j.active != nil && j.listed {
		// What of a frame is there already would be a torn end, which reading copes with too.
		_ = j.sys.truncate(j.active.path(false), j.written)
	}
	j.retire()
	j.state.suspended = true
	j.saveState()
}

// retire hands the file that was written to Run, which syncs and closes it. A segment of which
// nothing was written is removed.
func (j *Journal) retire() {
	if j.active == nil {
		return
	}
	j.duty.Lock()
	j.seals = append(j.seals, j.file)
	j.live = nil
	j.duty.Unlock()
	if !j.listed {
		if err := j.sys.remove(j.active.path(false)); err != nil {
			j.cfg.Logger.Warn("an empty segment could not be removed", "error", err)
		}
	}
	j.active, j.file = nil, nil
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

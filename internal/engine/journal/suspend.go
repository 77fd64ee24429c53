package journal

import (
	"errors"
	"time"
)

// suspension counts the rows lost in one suspension.
type suspension struct {
	rows     uint64
	position uint64
	at       int64
}

// loseRow counts a row that is not written.
func (j *Journal) loseRow(r *Row) {
	if s := j.sus; s != nil {
		s.rows++
		s.position, s.at = max(s.position, r.Position), max(s.at, r.At)
		j.highWater.Raise(s.position)
		j.lost.row(r)
	}
}

// errDiskSlow is the cause if rows are lost although the disk has space.
var errDiskSlow = errors.New("the disk is slower than the stream")

// overflow begins to lose rows because too many wait for the disk. Waiting rows are still written.
func (j *Journal) overflow() {
	j.endPiece()
	j.sus = &suspension{position: j.position, at: j.newest}
	j.seg, j.overflowed = nil, true
}

// suspend begins to lose rows: those that a Batch could not write, and those appended since.
func (j *Journal) suspend(b *Batch) {
	if j.sus == nil {
		j.sus = &suspension{}
	}
	s := j.sus
	s.position, s.at = max(s.position, j.position), max(s.at, j.newest)
	s.rows += b.lost + j.added.rows
	for _, c := range j.pending {
		s.rows += c.added.rows
	}
	if was := b.resumed; was != nil {
		s.rows += was.rows
		s.position, s.at = max(s.position, was.position), max(s.at, was.at)
	}
	j.highWater.Raise(s.position)
	j.lost.pieces(j.pending...)
	j.lost.pieces(&j.piece)
	j.recycle(j.pending)
	j.pending = j.pending[:0]
	j.seg, j.rows, j.overflowed = nil, 0, false
	j.reset()
}

// saveState writes the state without sync: it must survive only the end of this process.
func (j *Journal) saveState() {
	if err := j.state.Save(); err != nil {
		j.cfg.Logger.Warn("writing the state of the journal failed", "error", err)
	}
}

// reportSuspended sets the result of Suspended and logs it.
func (j *Journal) reportSuspended(cause error) {
	j.suspendMu.Lock()
	again := j.cause != nil
	j.cause = cause
	if !again {
		j.since = time.Now()
	}
	j.suspendMu.Unlock()
	if !again {
		j.cfg.Logger.Warn("the journal is suspended: rows are streamed but not stored; free space on its disk or repair it",
			"path", j.cfg.Folder, "error", cause)
	}
}

// resume appends the header of a segment, the gap, and the beginning of a checkpoint.
func (j *Journal) resume(b *Batch) {
	b.resumed = j.sus
	j.sus = nil
	j.beginSegment(j.day)
	if lost := b.resumed; lost.rows > 0 {
		j.put(&Row{Kind: Gap, CheckpointFollows: true, Position: lost.position, N: lost.rows, Time: lost.at, At: lost.at, Latency: -1, Reason: "disk_full"})
	}
	j.point.minSeqs, j.point.gap = minSeqs{}, b.resumed.position
	j.continueCheckpoint(b)
}

// reportResumed ends Suspended: the beginning of the new segment was written.
func (j *Journal) reportResumed(b *Batch) {
	j.suspendMu.Lock()
	j.cause, j.since = nil, time.Time{}
	j.suspendMu.Unlock()
	j.cfg.Logger.Info("the journal stores rows again", "count", b.resumed.rows)
}

// recovered ends the effects of a suspension: the checkpoint after the gap is complete. Before, a
// restart would not know the N of lost rows, and the epoch would end.
func (j *Journal) recovered(b *Batch) {
	j.setMinSeqs(b.minSeqs)
	j.lost.clear(b.gap)
	j.state.Suspended = false
	j.saveState()
}

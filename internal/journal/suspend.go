package journal

import (
	"errors"
	"time"
)

// suspension is a time in which rows are lost.
type suspension struct {
	rows     uint64
	position uint64
	at       int64
}

// lose counts a row that is not written.
func (j *Journal) lose(r *Row) {
	if s := j.sus; s != nil {
		s.rows++
		s.position, s.at = max(s.position, r.Position), max(s.at, r.At)
		j.given.raise(s.position)
		j.lost.row(r)
	}
}

// errBehind says why rows are lost that the disk had room for.
var errBehind = errors.New("the disk takes rows more slowly than they come")

// overflow begins to lose rows since too many wait for the disk. Those that wait are still written.
func (j *Journal) overflow() {
	j.cut()
	j.sus = &suspension{position: j.position, at: j.newest}
	j.seg, j.over = nil, true
}

// suspend begins to lose rows: those that a Batch could not write, and those that were appended
// since.
func (j *Journal) suspend(b *Batch) {
	if j.sus == nil {
		j.sus = &suspension{}
	}
	s := j.sus
	s.position, s.at = max(s.position, j.position), max(s.at, j.newest)
	s.rows += b.lost + j.news.rows
	for _, c := range j.pending {
		s.rows += c.news.rows
	}
	if was := b.resumed; was != nil {
		s.rows += was.rows
		s.position, s.at = max(s.position, was.position), max(s.at, was.at)
	}
	j.given.raise(s.position)
	j.lost.pieces(j.pending...)
	j.lost.pieces(&j.piece)
	j.recycle(j.pending)
	j.pending = j.pending[:0]
	j.seg, j.rows, j.over = nil, 0, false
	j.reset()
}

// saveState writes the state where only the end of this process has to be outlived.
func (j *Journal) saveState() {
	if err := j.state.save(); err != nil {
		j.cfg.Logger.Warn("the state of the journal could not be written", "error", err)
	}
}

// tellSuspended has Suspended tell that rows are lost, and why.
func (j *Journal) tellSuspended(cause error) {
	j.suspendMu.Lock()
	again := j.cause != nil
	j.cause = cause
	if !again {
		j.since = time.Now()
	}
	j.suspendMu.Unlock()
	if !again {
		j.cfg.Logger.Warn("the journal is suspended: rows are streamed and not kept; free space on its disk, or see to the disk",
			"path", j.cfg.Folder, "error", cause)
	}
}

// resume appends the header of a segment, the hole of what was lost, and the beginning of a checkpoint.
func (j *Journal) resume(b *Batch) {
	b.resumed = j.sus
	j.sus = nil
	j.rotate(j.day)
	if lost := b.resumed; lost.rows > 0 {
		j.put(&Row{Kind: Hole, CheckpointBehind: true, Position: lost.position, N: lost.rows, Time: lost.at, At: lost.at, Latency: -1, Reason: "disk_full"})
	}
	j.point.floors, j.point.hole = floors{}, b.resumed.position
	j.continueCheckpoint(b)
}

// tellResumed has Suspended tell that rows are kept again: the head of the new segment was written.
func (j *Journal) tellResumed(b *Batch) {
	j.suspendMu.Lock()
	j.cause, j.since = nil, time.Time{}
	j.suspendMu.Unlock()
	j.cfg.Logger.Info("the journal goes on", "count", b.resumed.rows)
}

// recovered ends what a suspension has left: the checkpoint behind the hole is whole. Before, a restart would not
// know the N of rows that were lost, and the epoch would end.
func (j *Journal) recovered(b *Batch) {
	j.raise(b.floors)
	j.lost.clear(b.hole)
	j.state.suspended = false
	j.saveState()
}

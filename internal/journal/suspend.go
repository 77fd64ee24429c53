package journal

import (
	"os"
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
	}
}

// suspend begins to lose rows, those in the buffer first. The segment ends with what was committed.
func (j *Journal) suspend(cause error) {
	j.space.Store(false)
	j.fault.Store(nil)
	j.sus = &suspension{rows: j.news.rows, position: j.position, at: j.newest}
	if j.seg != nil && j.listed {
		// What of a frame is there already would be a torn end, which reading copes with too.
		_ = os.Truncate(j.seg.path(false), j.at)
	}
	j.retire()
	j.reset()
	j.state.suspended = true
	j.saveState()
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

// saveState writes the state where only the end of this process has to be outlived.
func (j *Journal) saveState() {
	if err := j.state.save(); err != nil {
		j.cfg.Logger.Warn("the state of the journal could not be written", "error", err)
	}
}

// resume begins a segment with a checkpoint and tells the hole, if there is room.
func (j *Journal) resume() {
	lost, f := j.sus, floors{}
	j.sus = nil
	ok := j.rotate(j.day)
	if ok {
		j.writeCheckpoint(f)
	}
	if ok && j.sus == nil {
		if lost.rows > 0 {
			j.put(&Row{Kind: Hole, Position: lost.position, N: lost.rows, Time: lost.at, At: lost.at, Latency: -1, Reason: "disk_full"})
		}
		ok = j.flush()
	}
	if !ok || j.sus != nil {
		j.sus = lost
		return
	}
	j.raise(f)
	j.state.suspended = false
	j.saveState()
	j.suspendMu.Lock()
	j.cause, j.since = nil, time.Time{}
	j.suspendMu.Unlock()
	j.cfg.Logger.Info("the journal goes on", "count", lost.rows)
}

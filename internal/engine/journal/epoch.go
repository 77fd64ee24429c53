package journal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/state"
)

// errPending means that rows of the present epoch are not written.
var errPending = errors.New("rows of the epoch before are not written")

// BeginEpoch begins an epoch after the present one, whose rows stay readable. position is that of
// the newest row before it. Call it as Append, when all rows are committed. The error says that
// they are not, or that the state cannot be stored. The epoch is then the former one.
func (j *Journal) BeginEpoch(epoch string, position uint64) error {
	switch {
	case epoch == j.state.Epoch:
		return nil
	case epoch == "" || len(epoch) > state.MaxEpoch:
		return fmt.Errorf("begin epoch %q: the name must have 1 to %d bytes", epoch, state.MaxEpoch)
	case j.Pending() || j.sus != nil || j.closed:
		return fmt.Errorf("begin epoch %s: %w", epoch, errPending)
	}
	was := j.state.Epoch
	j.state.Epoch = epoch
	if err := j.state.SaveSync(); err != nil {
		j.state.Epoch = was
		return fmt.Errorf("begin epoch %s: %w", epoch, err)
	}
	j.mu.Lock()
	j.epoch = epoch
	j.mu.Unlock()
	j.seg, j.point, j.position = nil, checkpointing{}, position // the next row begins a segment
	j.sources = sources{}
	j.minSeqs.Store(&minSeqs{})
	j.lost.clear(j.lost.last())
	j.highWater.Begin(j.journal, epoch, 0)
	return nil
}

// noteMissingEnd writes a segment with a Gap at the end of the epoch of the state, whose newest
// rows are missing. After the next epoch has begun, nothing else would say so. It logs an error.
func (j *Journal) noteMissingEnd() {
	views := j.views(j.state.Epoch)
	last := lastPosition(views)
	if last == 0 {
		return // all of it is missing
	}
	to := int64(math.MinInt64)
	for i := range views {
		to = max(to, views[i].sum.to)
	}
	r, day := gapRow(last+1, to), j.day
	if p, ok := j.highWater.Previous(j.state.Epoch); ok && p != math.MaxUint64 {
		r.Position = max(r.Position, p)
	}
	if j.table.hasRealClock() { // otherwise only the market says which days are over
		r.At = max(to, time.Now().UnixNano())
		r.Time, day = r.At, j.dayOfRow(r)
	}
	j.epoch = j.state.Epoch
	j.state.Clean = false // the segment is not yet the last one of a clean end
	j.beginSegment(day)
	j.put(r)
	j.endPiece()
	err := j.writePiece(j.pending[0])
	if err == nil {
		err = j.sys.Sync(j.file)
	}
	j.closeSegment()
	j.recycle(j.pending)
	j.seg, j.pending, j.point, j.position = nil, j.pending[:0], checkpointing{}, 0
	if err != nil {
		j.cfg.Logger.Warn("the journal cannot store that rows are missing at the end of the former epoch", "error", err)
	}
}

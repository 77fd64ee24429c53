package journal

import (
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/journal/state"
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
	j.highWater.Begin(j.journal, epoch, position)
	return nil
}

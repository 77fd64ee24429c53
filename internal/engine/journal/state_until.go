package journal

import (
	"context"
	"math"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// StateUntil yields the state of the newest epoch as of a row in its past. These are the rows of a
// checkpoint, which have Checkpoint set, and the messages and checkpoints from its beginning, in
// order, as far as due accepts them. begin is called before the first row, and again if a
// checkpoint was not complete by then and an earlier one is needed. The error is ErrNotKept if
// there is none. Do not change or keep a row, whose memory is reused; its strings may be kept.
func (a *Archive) StateUntil(ctx context.Context, due func(*Row) bool, begin func(), yield func(*Row)) error {
	views := a.views("")
	from := len(views) - 1
	for from > 0 && (views[from].sum.rows == 0 || !due(&Row{Position: views[from].sum.first, At: views[from].sum.from})) {
		from--
	}
	for ; from >= 0; from-- {
		begin()
		u, passed := stateUntil{due: due, yield: yield}, false
		// Before the first row of an epoch nothing was numbered.
		first := from == 0 && (views[0].sum.first <= 1 || views[0].sum.first == math.MaxUint64 || a.follows(&views[0]))
		u.begun, u.complete = first, first
		for i := from; i < len(views) && !u.ended; i++ {
			if views[i].missing > 0 && i > from && u.due(views[i].missingRow()) {
				u.begun, u.complete, passed = false, false, true // the rows before say nothing about the state
				begin()
			}
			if err := a.walk(ctx, &views[i], walkAll, u.record); err != nil {
				return err
			}
		}
		if u.complete {
			return nil
		}
		if passed {
			break
		}
	}
	begin()
	if len(views) == 0 {
		return nil
	}
	return ErrNotKept
}

// follows reports whether a segment is the first of its epoch, because the one before it is of
// another epoch.
func (a *Archive) follows(v *segmentView) bool {
	before := a.selectViews(func(_ *day, s *segment) bool { return s.number+1 == v.number })
	return len(before) == 1 && before[0].epoch != v.epoch
}

// stateUntil is one attempt of StateUntil.
type stateUntil struct {
	due      func(*Row) bool
	yield    func(*Row)
	dec      record.Decoder
	begun    bool // the checkpoint
	complete bool // the checkpoint
	ended    bool // a row is not due
}

func (u *stateUntil) record(c *record.Cursor, rec []byte) (more bool, err error) {
	kind := Kind(rec[0])
	switch {
	case kind == record.CheckpointBegin:
		u.begun = true
	case kind == record.CheckpointEnd:
		u.complete = u.complete || u.begun
	}
	if kind >= record.NumKinds || !u.begun && rec[1]&record.FlagCheckpoint != 0 {
		return true, nil
	}
	r, err := c.Row(&u.dec, rec)
	if err != nil {
		return false, err
	}
	if !r.Checkpoint && !u.due(r) {
		u.ended = true
		return false, nil
	}
	if u.begun {
		u.yield(r)
	}
	return true, nil
}

package journal

import (
	"errors"

	"github.com/ruedahq/rueda/internal/journal/dayfile"
)

// The index of a closed day is derived from the segments of the day. If it is damaged, it is built
// again in memory, as that of a day that is not closed. Run then closes the day again, which
// replaces the file.

// rebuild builds the index of a day again from its segments, if err says that it is damaged. It
// reports whether the caller should look for the rows again.
func (a *Archive) rebuild(index *dayfile.File, err error) bool {
	var damage *Damage
	if index == nil || !errors.As(err, &damage) || damage.File != index.Name {
		return false
	}
	a.rebuilding.Lock() // several readers may find the damage
	defer a.rebuilding.Unlock()
	d := a.dayOf(index)
	if d == nil {
		return true
	}
	a.reportIndex(damage)
	segments := make([]*segment, 0, len(d.segments))
	for _, old := range d.segments {
		s := &segment{folder: old.folder, name: old.name, packed: old.packed}
		if err := a.inspect(s); err != nil || s.number != old.number {
			return false // the segment cannot be read either, or was removed
		}
		segments = append(segments, s)
	}
	a.mu.Lock()
	d.index, d.segments, d.bytes = nil, segments, 0
	a.mu.Unlock()
	_ = index.Close() // was only read from
	return true
}

// dayOf returns the closed day with an index, or nil.
func (a *Archive) dayOf(index *dayfile.File) *day {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, d := range a.days {
		if d.index == index {
			return d
		}
	}
	return nil
}

// reportIndex logs that the index of a day is damaged.
func (a *Archive) reportIndex(err error) {
	a.log.Warn("the index of a day of the journal is damaged; it is built again from the segments", "error", err)
}

// current returns the present view of a segment.
func (a *Archive) current(number uint32) (segmentView, error) {
	for _, v := range a.allViews() {
		if v.number == number {
			return v, nil
		}
	}
	return segmentView{}, ErrNotKept
}

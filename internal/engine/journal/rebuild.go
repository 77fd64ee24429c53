package journal

import (
	"context"
	"errors"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// The index of a closed day is derived from the segments of the day. If it is damaged, it is built
// again in memory, as that of a day that is not closed. Run then closes the day again, which
// replaces the file.

// renew replaces an old index by one in memory, built from the segments. If they have damage that
// the index does not list, or cannot be read, it keeps the index, which may have more rows.
func (a *Archive) renew(d *day) {
	a.rebuilding.Lock()
	defer a.rebuilding.Unlock()
	segments, err := a.inspectAgain(d)
	if err != nil {
		a.keepIndex(d, err)
		return
	}
	index := a.indexOf(d)
	if index == nil || !index.Old() { // a reader has found it damaged
		return
	}
	for i, s := range segments {
		if len(s.damage) > len(d.segments[i].damage) {
			a.keepIndex(d, &s.damage[0])
			return
		}
	}
	a.replaceIndex(d, segments)
}

// keepIndex keeps the old index of a day until the next start.
func (a *Archive) keepIndex(d *day, err error) {
	d.kept = true
	a.log.Warn("the segments of a day are damaged: its old index is kept", "day", dateOf(d.date), "error", err)
}

// inspectAgain reads the segments of a closed day. The table has their definitions, or later ones.
func (a *Archive) inspectAgain(d *day) ([]*segment, error) {
	segments := make([]*segment, 0, len(d.segments))
	for _, old := range d.segments {
		s := &segment{folder: old.folder, name: old.name, packed: old.packed}
		s.missing = old.missing
		if err := a.inspect(context.Background(), s, newTable()); err != nil {
			return nil, err
		}
		if s.number != old.number {
			return nil, ErrNotKept
		}
		segments = append(segments, s)
	}
	return segments, nil
}

// replaceIndex replaces the segments of a day, and closes its index.
func (a *Archive) replaceIndex(d *day, segments []*segment) {
	a.mu.Lock()
	index := d.index
	d.index, d.segments, d.bytes = nil, segments, 0
	a.mu.Unlock()
	_ = index.Close() // was only read from
}

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
	segments, e := a.inspectAgain(d)
	if e != nil {
		return false // a segment cannot be read either, or was removed
	}
	a.replaceIndex(d, segments)
	return true
}

// indexOf returns the index of a day; nil if the day is not closed.
func (a *Archive) indexOf(d *day) *dayfile.File {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return d.index
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

// EmptyBlocks returns how many blocks of a day (2006-01-02) begin with a frame that has no other
// record. Some builds of 0.2.0-dev read the rows after such a block wrongly. It does not count
// those after damage of a segment.
func (a *Archive) EmptyBlocks(ctx context.Context, date string) (n int, err error) {
	views := a.selectViews(func(d *day, _ *segment) bool { return dateOf(d.date) == date })
	for i := range views {
		err := a.walkFrames(ctx, &views[i], walkAll, nil, func(c *record.Cursor) (bool, error) {
			if c.Begins && c.Pos == c.End {
				n++
			}
			return true, nil
		})
		if _, damaged := errors.AsType[*Damage](err); err != nil && !damaged {
			return n, err
		}
	}
	return n, nil
}

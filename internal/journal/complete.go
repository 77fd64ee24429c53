package journal

import "math"

// Complete is the least position of the newest epoch behind which no row is missing: of what came
// before, something was lost or is no longer kept. Like Oldest it takes no lock that is held for longer
// than a lookup.
func (a *Archive) Complete() uint64 {
	at, begun := a.lost.last(), false
	views := a.views("")
	for i := range views {
		v := &views[i]
		if !begun && v.sum.first != math.MaxUint64 {
			at, begun = max(at, v.sum.first-1), true
		}
		for _, h := range v.gaps {
			at = max(at, h.Position)
		}
		if v.lossy() && v.sum.rows > 0 {
			at = max(at, v.sum.last)
		}
	}
	return at
}

// Begins is the position behind which the rows of the newest epoch begin that are kept. It rises
// when a day is removed.
func (a *Archive) Begins() uint64 {
	views := a.views("")
	for i := range views {
		if first := views[i].sum.first; first != math.MaxUint64 {
			return first - 1
		}
	}
	return 0
}

package journal

import "math"

// Complete returns the least position of the newest epoch after which no row is missing; earlier
// rows were lost or removed. Like Oldest it may be called under the hub's lock.
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
		at = max(at, v.missing)
		if v.lossy() && v.sum.rows > 0 {
			at = max(at, v.sum.last)
		}
	}
	return at
}

// Begins returns the position before the first stored row of the newest epoch. It rises when a day
// is removed.
func (a *Archive) Begins() uint64 {
	views := a.views("")
	for i := range views {
		if first := views[i].sum.first; first != math.MaxUint64 {
			return first - 1
		}
	}
	return 0
}

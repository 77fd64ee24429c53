package journal

import (
	"sync"
	"sync/atomic"
)

// losses are the rows lost since the journal was suspended: where each series is complete again at
// the earliest, until the head of the next segment says it of all of them. Of books it has the rows
// that were lost as they were appended, not those that waited to be written before.
type losses struct {
	any      atomic.Bool
	mu       sync.Mutex // guards what follows
	floors   floors
	position uint64
}

// row notes that a row is lost.
func (l *losses) row(r *Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := r.slot()
	if bookKinds.Has(r.Kind) {
		slot = floorBooks
	}
	l.note(r.Instrument, slot, r.N)
	l.position = max(l.position, r.Position)
}

// pieces notes that pieces are lost which were to be written.
func (l *losses) pieces(list ...*piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range list {
		for _, e := range c.entries {
			l.note(e.key.instrument, int(e.key.slot), e.n)
		}
		l.position = max(l.position, c.news.last)
	}
}

// note is called with the lock held.
func (l *losses) note(instrument uint32, slot int, n uint64) {
	if l.floors == nil {
		l.floors = floors{}
		l.any.Store(true)
	}
	if slot != noSlot {
		l.floors.pass(instrument, slot, n)
	}
}

// floor is the least N from which on a series may be complete; 0 where nothing of it is lost.
func (l *losses) floor(instrument uint32, slot int) uint64 {
	if !l.any.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.floors[instrument]; f != nil {
		return f[slot]
	}
	return 0
}

// last is the greatest position that is lost; 0 for none.
func (l *losses) last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position
}

// clear forgets the rows: the journal goes on, and its files tell of those up to a position. Where
// more were lost since, all of them are kept.
func (l *losses) clear(position uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.position > position {
		return
	}
	l.floors, l.position = nil, 0
	l.any.Store(false)
}

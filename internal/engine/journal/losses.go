package journal

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// losses has the rows lost since the journal was suspended: the N after which each series may be
// complete again, until the next segment has that. For books it has only rows that were lost when
// they were appended, not those that were waiting to be written.
type losses struct {
	any      atomic.Bool
	mu       sync.Mutex // guards what follows
	minSeqs  minSeqs
	position uint64
	from, to int64 // least and greatest At of the lost rows
}

// row records that a row is lost.
func (l *losses) row(r *Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := r.Slot()
	if bookKinds.Has(r.Kind) {
		slot = slotBooks
	}
	l.note(r.Instrument, slot, r.N)
	l.extend(r.Position, r.At, r.At)
}

// pieces records that the rows of pieces are lost.
func (l *losses) pieces(list ...*piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range list {
		for _, e := range c.entries {
			l.note(e.key.Instrument, int(e.key.Slot), e.n)
		}
		l.extend(c.added.last, c.added.from, c.added.to)
	}
}

// extend records up to which position and in which time rows are lost. The caller holds mu.
func (l *losses) extend(position uint64, from, to int64) {
	if l.position == 0 {
		l.from, l.to = math.MaxInt64, math.MinInt64
	}
	l.position, l.from, l.to = max(l.position, position), min(l.from, from), max(l.to, to)
}

// note records a lost row. The caller holds mu.
func (l *losses) note(instrument uint32, slot int, n uint64) {
	if l.minSeqs == nil {
		l.minSeqs = minSeqs{}
		l.any.Store(true)
	}
	if slot != record.NoSlot {
		l.minSeqs.pass(instrument, slot, n)
	}
}

// minSeq returns the least N from which a series may be complete; 0 if nothing of it is lost.
func (l *losses) minSeq(instrument uint32, slot int) uint64 {
	if !l.any.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.minSeqs[instrument]; f != nil {
		return f[slot]
	}
	return 0
}

// last returns the greatest position of a lost row, or 0 if no row is lost.
func (l *losses) last() uint64 {
	position, _, _ := l.span()
	return position
}

// span returns the greatest position of a lost row, and the time in which the lost rows were
// published. The position is 0 if no row is lost.
func (l *losses) span() (position uint64, from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position, l.from, l.to
}

// clear removes the rows up to a position, which the files of the journal now describe. If more
// rows were lost since, it keeps all of them.
func (l *losses) clear(position uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.position > position {
		return
	}
	l.minSeqs, l.position = nil, 0
	l.any.Store(false)
}

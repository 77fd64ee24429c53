package host

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

const (
	fullGroup  = 63 << 10 // bytes of a group before it is compressed
	maxWaiting = 4 << 20  // bytes of rows that wait for the log; with more, feeds wait
)

// pendingRows takes the rows of the numbering hub, until the node offers them to the log. It
// implements hub.RowLog.
type pendingRows struct {
	wake chan struct{} // has an element when there are rows

	mu      sync.Mutex
	taken   sync.Cond                      // rows were taken by the log
	journal *journal.Journal               // of the following hub: numbers of known instruments
	numbers map[market.InstrumentID]uint32 // of instruments that were defined here
	next    uint32                         // number of the next one
	enc     cluster.Encoder
	prev    uint64 // position before the rows of enc
	last    uint64
	groups  []cluster.Group
	bytes   int // of groups
	queued  int // bytes of the groups that the node has and the log does not
	closed  bool
	numberings
}

func newPendingRows(j *journal.Journal, position uint64) *pendingRows {
	l := &pendingRows{wake: make(chan struct{}, 1), journal: j, numbers: map[market.InstrumentID]uint32{}, next: j.Numbers() + 1, enc: cluster.Encoder{Compress: true}, prev: position, last: position, numberings: newNumberings()}
	l.taken.L = &l.mu
	return l
}

// Define implements hub.RowLog. It appends the first definition of an instrument, and changed ones.
// A node that begins with this term, or in an epoch, then knows all of them.
func (l *pendingRows) Define(def market.Instrument) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, defined := l.numbers[def.ID]
	known, isKnown := l.journal.Lookup(def.ID)
	switch {
	case defined:
	case isKnown:
		number = known
	default:
		number = l.next
		l.next++
	}
	l.numbers[def.ID] = number
	text, err := json.Marshal(def)
	if err != nil {
		return number // a struct of numbers and strings always encodes
	}
	if was, ok := l.journal.Instrument(number); ok && isKnown && defined {
		if same, err := json.Marshal(was); err == nil && bytes.Equal(same, text) {
			return number
		}
	}
	if !l.closed {
		l.enc.Define(number, text)
		l.notify()
	}
	return number
}

// Append implements hub.RowLog.
func (l *pendingRows) Append(r *journal.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if !l.enc.Fits(r) || l.enc.Len() >= fullGroup {
		l.cut()
	}
	l.enc.Append(r)
	if r.Source != nil {
		l.note(r.Source)
	}
	l.last = r.Position
	l.notify()
}

// notify wakes the node. l.mu is held.
func (l *pendingRows) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// cut makes a group of what was collected. l.mu is held.
func (l *pendingRows) cut() {
	if l.enc.Empty() {
		return
	}
	g := l.enc.Group(l.prev)
	l.prev = l.last
	l.groups, l.bytes = append(l.groups, g), l.bytes+len(g.Data)
}

// take returns the groups that wait.
func (l *pendingRows) take() (list []cluster.Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
	list, l.groups, l.bytes = l.groups, nil, 0
	return list
}

// setQueued notes how many bytes wait in the node. It returns how many wait in all.
func (l *pendingRows) setQueued(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued = n; n <= maxWaiting {
		l.taken.Broadcast()
	}
	return l.waiting()
}

// waiting returns how many bytes wait for the log. l.mu is held.
func (l *pendingRows) waiting() int { return l.queued + l.bytes + l.enc.Len() }

// await waits while too many rows wait for the log.
func (l *pendingRows) await() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.waiting() > maxWaiting {
		l.taken.Wait()
	}
}

// close drops the rows, and those to come.
func (l *pendingRows) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.groups, l.enc = true, nil, cluster.Encoder{}
	l.taken.Broadcast()
}

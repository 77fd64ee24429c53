package pattern

import (
	"sync"
	"time"

	"github.com/ruedahq/rueda/bench/proc"
)

// Pacer keeps a rate.
type Pacer struct {
	start time.Time
	every float64 // ns
	k     int64
	times *Times
}

// NewPacer returns a Pacer of a rate per second, with its first tick at start. Pacers with the same
// rate and events share times; it is nil for a single one.
func NewPacer(start time.Time, ticks float64, times *Times) *Pacer {
	return &Pacer{start: start, every: 1e9 / ticks, times: times}
}

// Next sleeps until the next tick and returns the time of its event in Unix ns. If the caller is
// late, it is the time when the tick was due, so that waiting counts as latency. If the caller
// slept, it is the time of waking, because the precision of sleep is not the server's. Pacers with
// shared times all return that of the first.
func (p *Pacer) Next() int64 {
	k := p.k
	due := p.start.Add(time.Duration(float64(k) * p.every))
	p.k++
	at := due.UnixNano()
	if wait := time.Until(due); wait > 0 {
		for ; wait > 0; wait = time.Until(due) {
			proc.Nap(min(int64(wait), int64(100*time.Millisecond)))
		}
		at = time.Now().UnixNano()
	}
	if p.times != nil {
		at = p.times.agree(k, at)
	}
	return at
}

// Times has the times of the newest events of several pacers. All pacers use the
// same time of an event, so that a late thread counts as late.
type Times struct {
	mu   sync.Mutex
	tick [1024]int64 // number of the event at each index
	at   [1024]int64
}

// agree returns the time of event k, which the first caller determines.
func (t *Times) agree(k, at int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := k % int64(len(t.tick))
	switch known := t.tick[i] - 1; {
	case known == k:
		return t.at[i]
	case known < k:
		t.tick[i], t.at[i] = k+1, at
	}
	return at // a thousand events behind: when the event was due
}

package pattern

import (
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/bench/proc"
)

// Pacer keeps a rate.
type Pacer struct {
	start time.Time
	every float64 // ns
	k     int64
	times *Times
}

// NewPacer makes one of so many ticks a second, the first of them at start. Several who each keep the same rate, of
// the same events, share times; it is nil for one alone.
func NewPacer(start time.Time, ticks float64, times *Times) *Pacer {
	return &Pacer{start: start, every: 1e9 / ticks, times: times}
}

// Next sleeps until the next tick and returns the time of its event, in Unix ns. Whoever comes late is told
// the time when the tick was due: what an event waited behind others is part of its latency.
// Whoever slept is told when it woke, for how precisely a kernel sleeps is no
// matter of a server's. Of those who share times all are told what the first was.
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

// Times are those of the newest events of several pacers. An event has one time, whoever passes it on: the thread
// that comes to it last is late by what the others were before it.
type Times struct {
	mu   sync.Mutex
	tick [1024]int64 // of the event in each place
	at   [1024]int64
}

// agree returns the time of event k, which is that of who comes first.
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
	return at // of one who is a thousand events behind, it is when the event was due
}

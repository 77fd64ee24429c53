// Package ratelimit limits how often something may happen, by the generic cell rate algorithm. The
// state of a key is one time: when its whole burst is available again.
//
// # Concurrency
//
// A Limiter is safe for concurrent use. It has one lock, held for map operations.
package ratelimit

import (
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/cache"
)

// Rate allows one event every Interval, and several at once while they take at most Burst.
type Rate struct {
	Interval time.Duration
	Burst    time.Duration
}

// MaxPer returns the highest number of events in a window that Per distinguishes.
func MaxPer(window time.Duration) int { return int(window / time.Microsecond) }

// Per returns the rate of n events in a window and burst of them at once. It raises n and
// burst to 1 and lowers n to one event a microsecond.
func Per(n int, window time.Duration, burst int) Rate {
	interval := window / time.Duration(min(max(n, 1), MaxPer(window)))
	return Rate{interval, time.Duration(max(burst, 1)) * interval}
}

// Halve returns a rate that allows half as many events, also at once. Its Interval is doubled.
// Burst is a time, so it stays, unless it is shorter than the new Interval.
func (r Rate) Halve() Rate { return Rate{2 * r.Interval, max(r.Burst, 2*r.Interval)} }

// Wait returns how long to wait until one more event fits, or 0. ahead is the time until
// the whole burst is available.
func (r Rate) Wait(ahead time.Duration) time.Duration {
	return max(0, ahead+r.Interval-r.Burst)
}

// Ahead returns the time from now until full, at least 0. A full that is impossibly far
// away, because the clock was set back, counts as a spent burst, so that it drains.
func (r Rate) Ahead(full, now time.Time) time.Duration {
	most := max(r.Burst, 2*r.Interval) // a burst may be smaller than the interval of half the rate
	return min(max(0, full.Sub(now)), most)
}

// Limiter applies rates to keys. It holds a bounded number of keys and forgets those unused for
// longest: a flood of keys may reset the state of a key, but does not fill the memory.
type Limiter[K comparable] struct {
	mu   sync.Mutex
	full cache.Map[K, time.Time]
}

// NewLimiter returns a limiter of at most bound keys, of about 100 bytes each.
func NewLimiter[K comparable](bound int) *Limiter[K] {
	return &Limiter[K]{full: cache.New[K, time.Time](bound)}
}

// Take charges key for one event. If that exceeds the rate, it charges nothing and wait is
// how long to wait for the next event. ahead is the time until the whole burst is available.
func (l *Limiter[K]) Take(key K, r Rate, now time.Time) (ahead, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, _ := l.full.Get(key)
	ahead = r.Ahead(full, now)
	wait = r.Wait(ahead)
	if wait == 0 {
		ahead += r.Interval
	}
	if wait == 0 || now.Add(ahead).Before(full) {
		l.full.Put(key, now.Add(ahead))
	}
	return ahead, wait
}

// Check returns the state of key as Take does and charges nothing.
func (l *Limiter[K]) Check(key K, r Rate, now time.Time) (ahead, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, _ := l.full.Get(key)
	ahead = r.Ahead(full, now)
	return ahead, r.Wait(ahead)
}

// Charge charges key for an event that happened in any case, up to a spent burst, and
// returns how long to wait for the next one.
func (l *Limiter[K]) Charge(key K, r Rate, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, _ := l.full.Get(key)
	full = now.Add(r.Ahead(full, now) + r.Interval)
	ahead := r.Ahead(full, now)
	l.full.Put(key, now.Add(ahead))
	return r.Wait(ahead)
}

// Refund reverts one charge of key.
func (l *Limiter[K]) Refund(key K, r Rate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if full, ok := l.full.Get(key); ok {
		l.full.Put(key, full.Add(-r.Interval))
	}
}

// Len returns the number of keys held.
func (l *Limiter[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full.Len()
}

package auth

import (
	"time"

	"github.com/ruedahq/rueda/internal/ratelimit"
)

// maxRate is the highest rate a minute, and maxBurst keeps multiples of a burst within a Duration.
const (
	maxRate  = int(time.Minute / time.Microsecond)
	maxBurst = 1_000_000
)

// perMinute returns the rate of n attempts a minute, and burst of them at once.
func perMinute(n, burst int) ratelimit.Rate {
	return ratelimit.Per(n, time.Minute, min(burst, maxBurst))
}

// gate is where attempts wait for the outcome of those before them.
type gate struct {
	queued int
	done   chan struct{} // closed when one of those has ended; nil: nobody waits
}

// open lets those that wait look again.
func (g *gate) open() {
	if g.done != nil {
		close(g.done)
		g.done = nil
	}
}

// bucket holds failures at a rate. What is being checked counts as failed, but
// apart from what has: time drains failures, not attempts, and what turns out to be
// none leaves no trace.
type bucket struct {
	gate
	even   time.Time
	seen   time.Time     // when even was looked at last
	flying time.Duration // charges of the attempts being checked
}

// now brings the bucket to the present. Where the clock was set back it is as far ahead as it was.
func (b *bucket) now(r ratelimit.Rate, now time.Time) {
	if now.Before(b.seen) {
		b.even = now.Add(b.even.Sub(b.seen))
	}
	b.even, b.seen = now.Add(r.Ahead(b.even, now)), now
}

// room says how long to wait until one attempt more may fail; 0: now. hope says that it may be
// sooner, should those being checked turn out to be no failures.
func (b *bucket) room(r ratelimit.Rate, now time.Time) (wait time.Duration, hope bool) {
	b.now(r, now)
	ahead := b.even.Sub(now) + r.Interval - r.Burst
	wait = max(0, ahead+b.flying)
	return wait, wait > 0 && ahead <= 0
}

// charge notes a failure.
func (b *bucket) charge(r ratelimit.Rate, now time.Time) {
	b.now(r, now)
	b.even = now.Add(r.Ahead(b.even.Add(r.Interval), now))
}

// idle says that the bucket is as good as none.
func (b *bucket) idle(now time.Time) bool {
	return b.flying == 0 && b.queued == 0 && !b.even.After(now)
}

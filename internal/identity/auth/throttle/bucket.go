package throttle

import (
	"time"

	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

// maxRate is the highest rate per minute. maxBurst keeps multiples of a burst within a Duration.
const (
	maxRate  = int(time.Minute / time.Microsecond)
	maxBurst = 1_000_000
)

// perMinute returns the rate of n attempts per minute, with a burst.
func perMinute(n, burst int) ratelimit.Rate {
	return ratelimit.Per(n, time.Minute, min(burst, maxBurst))
}

// gate lets attempts wait for the outcome of earlier ones.
type gate struct {
	queued int
	done   chan struct{} // closed when one of the earlier attempts has ended; nil: nobody waits
}

// open wakes the waiting attempts.
func (g *gate) open() {
	if g.done != nil {
		close(g.done)
		g.done = nil
	}
}

// bucket limits failures to a rate. Attempts whose password is still being checked count as
// failures, but in a separate sum: it does not drain with time, and an attempt that succeeds is
// taken out of it again.
type bucket struct {
	gate
	even    time.Time
	seen    time.Time     // when the bucket was last updated
	pending time.Duration // charges of the attempts being checked
}

// now updates the bucket to the current time. If the clock was set back, the bucket stays as full
// as it was.
func (b *bucket) now(r ratelimit.Rate, now time.Time) {
	if now.Before(b.seen) {
		b.even = now.Add(b.even.Sub(b.seen))
	}
	b.even, b.seen = now.Add(r.Ahead(b.even, now)), now
}

// wait returns the time until one more attempt may fail; 0: now. hope reports whether that time may
// be shorter, because attempts that are being checked may succeed.
func (b *bucket) wait(r ratelimit.Rate, now time.Time) (wait time.Duration, hope bool) {
	b.now(r, now)
	ahead := b.even.Sub(now) + r.Interval - r.Burst
	wait = max(0, ahead+b.pending)
	return wait, wait > 0 && ahead <= 0
}

// charge adds a failure.
func (b *bucket) charge(r ratelimit.Rate, now time.Time) {
	b.now(r, now)
	b.even = now.Add(r.Ahead(b.even.Add(r.Interval), now))
}

// idle reports whether the bucket equals a new one.
func (b *bucket) idle(now time.Time) bool {
	return b.pending == 0 && b.queued == 0 && !b.even.After(now)
}

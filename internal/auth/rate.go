package auth

import "time"

// rate is the generic cell rate algorithm: one attempt every interval, and ahead
// of that by burst at most. A key's state is one time: when it would be even.
type rate struct {
	interval time.Duration
	burst    time.Duration
}

// maxRate and maxBurst keep an interval above zero and a burst within a Duration.
const (
	maxRate  = int(time.Minute / time.Microsecond)
	maxBurst = 1_000_000
)

func perMinute(n, burst int) rate {
	interval := time.Minute / time.Duration(min(max(n, 1), maxRate))
	return rate{interval, time.Duration(min(max(burst, 1), maxBurst)) * interval}
}

// halved is half the rate and half the burst: the same time ahead holds half as many.
func (r rate) halved() rate { return rate{2 * r.interval, max(r.burst, 2*r.interval)} }

// since is a state as it counts now. One from before the clock was set back may lie
// ever so far ahead; a full bucket is the most that is believed, and kept, so that it drains.
func (r rate) since(even, now time.Time) time.Time {
	if even.Before(now) {
		return now
	}
	if most := now.Add(max(r.burst, 2*r.interval)); even.After(most) { // one at half the rate may fill twice
		return most
	}
	return even
}

// take charges key once, or returns how long to wait until that would be possible.
func take[K comparable](t *table[K, time.Time], r rate, key K, now time.Time) time.Duration {
	was, _ := t.get(key)
	even := r.since(was, now)
	if wait := even.Add(r.interval).Sub(now) - r.burst; wait > 0 {
		if even.Before(was) {
			t.put(key, even)
		}
		return wait
	}
	t.put(key, even.Add(r.interval))
	return 0
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
func (b *bucket) now(r rate, now time.Time) {
	if now.Before(b.seen) {
		b.even = now.Add(b.even.Sub(b.seen))
	}
	b.even, b.seen = r.since(b.even, now), now
}

// room says how long to wait until one attempt more may fail; 0: now. hope says that it may be
// sooner, should those being checked turn out to be no failures.
func (b *bucket) room(r rate, now time.Time) (wait time.Duration, hope bool) {
	b.now(r, now)
	ahead := b.even.Sub(now) + r.interval - r.burst
	wait = max(0, ahead+b.flying)
	return wait, wait > 0 && ahead <= 0
}

// charge notes a failure.
func (b *bucket) charge(r rate, now time.Time) {
	b.now(r, now)
	b.even = r.since(b.even.Add(r.interval), now)
}

// idle says that the bucket is as good as none.
func (b *bucket) idle(now time.Time) bool {
	return b.flying == 0 && b.queued == 0 && !b.even.After(now)
}

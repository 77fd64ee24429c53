package password

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// fairSemaphore limits concurrent hashes, and the number and time of waiting calls.
//
// Without it 200 concurrent logins used 3.9 GB and computed 11 hashes a second on two cores; with
// two slots 82 MB and 60 hashes a second. The default is one slot less than cores, because a slot
// for each core delays the stream by 55 ms at p99.
type fairSemaphore struct {
	total int
	queue int // maximum of waiting calls
	share int // maximum of waiting calls from one network
	wait  time.Duration

	mu      sync.Mutex
	free    int
	waiting int
	refused uint64
	queues  map[netip.Prefix]*clientQueue // networks with waiting calls
	order   []*clientQueue                // the same networks, in the order of their next slot
}

// clientQueue is the waiting calls of one network, oldest first.
type clientQueue struct {
	network netip.Prefix
	waiters []*waiter
}

// waiter is a waiting call. ready is closed when it has a slot.
type waiter struct {
	ready   chan struct{}
	granted bool // guarded by fairSemaphore.mu
}

func newFairSemaphore(n, queue int, wait time.Duration) *fairSemaphore {
	return &fairSemaphore{total: n, queue: queue, share: max(1, queue/4), wait: wait, free: n, queues: map[netip.Prefix]*clientQueue{}}
}

func (s *fairSemaphore) stats() (running, waiting int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free, s.waiting, s.refused
}

// acquire waits for a slot. Release it with release.
func (s *fairSemaphore) acquire(ctx context.Context, from netip.Prefix) error {
	w, err := s.enter(from)
	if w == nil {
		return err
	}
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
		err = fmt.Errorf("%w: login waited %v for its turn", broker.ErrUnavailable, s.wait)
	case <-ctx.Done():
		err = fmt.Errorf("%w: login given up while waiting: %w", broker.ErrUnavailable, ctx.Err())
	}
	return s.leaveQueue(from, w, err)
}

// enter takes a free slot and returns nil, or joins the queue.
func (s *fairSemaphore) enter(from netip.Prefix) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 { // nobody is waiting
		s.free--
		return nil, nil
	}
	l := s.queues[from]
	switch {
	case s.waiting >= s.queue:
		s.refused++
		return nil, fmt.Errorf("%w: %d logins wait already", broker.ErrUnavailable, s.waiting)
	case l != nil && from.IsValid() && len(l.waiters) >= s.share:
		s.refused++
		return nil, fmt.Errorf("%w: %d logins wait already from %v", broker.ErrUnavailable, len(l.waiters), from)
	case l == nil:
		l = &clientQueue{network: from}
		s.queues[from] = l
		s.order = append(s.order, l)
	}
	w := &waiter{ready: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	s.waiting++
	return w, nil
}

// leave leaves the queue and returns why, or nil if the caller has got a slot meanwhile.
func (s *fairSemaphore) leaveQueue(from netip.Prefix, w *waiter, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted {
		return nil
	}
	l := s.queues[from]
	l.waiters = slices.DeleteFunc(l.waiters, func(x *waiter) bool { return x == w })
	s.waiting--
	if len(l.waiters) == 0 {
		delete(s.queues, from)
		s.order = slices.DeleteFunc(s.order, func(x *clientQueue) bool { return x == l })
	}
	s.refused++
	return why
}

// release passes the slot to the next network, which then moves to the end.
func (s *fairSemaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		s.free++
		return
	}
	l := s.order[0]
	s.order = slices.Delete(s.order, 0, 1)
	w := l.waiters[0]
	l.waiters = slices.Delete(l.waiters, 0, 1)
	if len(l.waiters) > 0 {
		s.order = append(s.order, l)
	} else {
		delete(s.queues, l.network)
	}
	s.waiting--
	w.granted = true
	close(w.ready)
}

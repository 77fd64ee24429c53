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

// slots bounds how many hashes are computed at once, how many wait for that, and how long.
//
// Without it 200 logins at once took 3.9 GB and got 11 hashes a second out of two
// cores; with two slots they took 82 MB and got 60. The default is one fewer than
// cores because as many as cores delays the stream by 55 ms at its 99th percentile.
type slots struct {
	total int
	queue int // places to wait
	share int // of them for one network
	wait  time.Duration

	mu      sync.Mutex
	free    int
	waiting int
	refused uint64
	lines   map[netip.Prefix]*line // networks that wait
	turns   []*line                // the same, in the order of their turns
}

// line is who waits from one network, first come first.
type line struct {
	network netip.Prefix
	waiters []*waiter
}

// waiter is one that waits. ready is closed when a slot is its own.
type waiter struct {
	ready chan struct{}
	given bool // under the lock of slots
}

func newSlots(n, queue int, wait time.Duration) *slots {
	return &slots{total: n, queue: queue, share: max(1, queue/4), wait: wait, free: n, lines: map[netip.Prefix]*line{}}
}

func (s *slots) stats() (running, waiting int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free, s.waiting, s.refused
}

// acquire takes a slot, to be given back by release.
func (s *slots) acquire(ctx context.Context, from netip.Prefix) error {
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
	return s.leave(from, w, err)
}

// enter takes a free slot, or a place in the queue, which is then returned.
func (s *slots) enter(from netip.Prefix) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 { // nobody waits then
		s.free--
		return nil, nil
	}
	l := s.lines[from]
	switch {
	case s.waiting >= s.queue:
		s.refused++
		return nil, fmt.Errorf("%w: %d logins wait already", broker.ErrUnavailable, s.waiting)
	case l != nil && from.IsValid() && len(l.waiters) >= s.share:
		s.refused++
		return nil, fmt.Errorf("%w: %d logins wait already from %v", broker.ErrUnavailable, len(l.waiters), from)
	case l == nil:
		l = &line{network: from}
		s.lines[from] = l
		s.turns = append(s.turns, l)
	}
	w := &waiter{ready: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	s.waiting++
	return w, nil
}

// leave gives up a place in the queue, for the reason why. Who was given a slot at this very moment keeps it.
func (s *slots) leave(from netip.Prefix, w *waiter, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.given {
		return nil
	}
	l := s.lines[from]
	l.waiters = slices.DeleteFunc(l.waiters, func(x *waiter) bool { return x == w })
	s.waiting--
	if len(l.waiters) == 0 {
		delete(s.lines, from)
		s.turns = slices.DeleteFunc(s.turns, func(x *line) bool { return x == l })
	}
	s.refused++
	return why
}

// release gives a slot to the network whose turn it is, which goes to the end of the turns.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		s.free++
		return
	}
	l := s.turns[0]
	s.turns = slices.Delete(s.turns, 0, 1)
	w := l.waiters[0]
	l.waiters = slices.Delete(l.waiters, 0, 1)
	if len(l.waiters) > 0 {
		s.turns = append(s.turns, l)
	} else {
		delete(s.lines, l.network)
	}
	s.waiting--
	w.given = true
	close(w.ready)
}

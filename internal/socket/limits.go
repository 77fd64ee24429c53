package socket

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
)

// maxTracked bounds the addresses whose handshakes are counted. Beyond it the ones quiet for
// longest are forgotten: the limits on open connections still hold.
const maxTracked = 1 << 16

// A gate limits handshakes by address: burst of them at once, and one more every interval.
type gate struct {
	rate    ratelimit.Rate
	burst   int
	limiter *ratelimit.Limiter[netip.Prefix]
}

func newGate(perSecond float64, burst int) *gate {
	interval := time.Duration(float64(time.Second) / perSecond)
	return &gate{
		rate:    ratelimit.Rate{Interval: interval, Burst: time.Duration(burst) * interval},
		burst:   burst,
		limiter: ratelimit.NewLimiter[netip.Prefix](maxTracked),
	}
}

// pass charges an address for one handshake. If that exceeds the limit, wait is how long to
// wait for the next one.
func (g *gate) pass(a netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	_, wait = g.limiter.Take(clientaddr.Client(a), g.rate, now)
	return wait, wait == 0
}

// refusal is the answer to a handshake that has to wait so long.
func (g *gate) refusal(wait time.Duration) *refusal {
	f := tooMany("Too many handshakes", wait)
	f.rate = &rate{burst: g.burst, window: g.rate.Burst, reset: g.rate.Burst - g.rate.Interval + wait}
	return f
}

// seats counts the open connections, and keeps the unauthenticated ones in the
// order in which they came.
type seats struct {
	maxOpen       int           // in all
	maxWaiting    int           // unauthenticated, in all
	maxPerAddress int           // unauthenticated, of one address
	empty         chan struct{} // closed when no more seats are given and all are free

	mu        sync.Mutex
	open      int
	waiting   *list.List // of *opening, oldest first
	byAddress map[netip.Prefix]int
	shut      bool // no more seats
}

func newSeats(c *Config) *seats {
	return &seats{
		maxOpen:       c.MaxOpen,
		maxWaiting:    c.MaxUnauthenticated,
		maxPerAddress: c.MaxUnauthenticatedPerAddress,
		empty:         make(chan struct{}),
		waiting:       list.New(),
		byAddress:     make(map[netip.Prefix]int),
	}
}

// take gives a connection a seat. Where the unauthenticated ones are at their
// bound, the oldest of them is to make room and is returned: somebody who only
// holds sockets open must not keep others out.
func (s *seats) take(o *opening, authenticated bool) (evict *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
		return nil, ErrClosed
	case s.open >= s.maxOpen:
		return nil, ErrFull
	case !authenticated && s.byAddress[o.key] >= s.maxPerAddress:
		return nil, ErrAddressFull
	}
	s.open++
	if authenticated {
		return nil, nil
	}
	if s.waiting.Len() >= s.maxWaiting {
		oldest := s.waiting.Front().Value.(*opening)
		s.stand(oldest)
		evict = oldest.conn
	}
	s.byAddress[o.key]++
	o.seat = s.waiting.PushBack(o)
	return evict, nil
}

// authenticated takes a connection off the unauthenticated ones.
func (s *seats) authenticated(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stand(o)
}

// stand takes o off the waiting list; mu is held. A nil one is not there.
func (s *seats) stand(o *opening) {
	if o == nil || o.seat == nil {
		return
	}
	s.waiting.Remove(o.seat)
	o.seat = nil
	if s.byAddress[o.key]--; s.byAddress[o.key] == 0 {
		delete(s.byAddress, o.key)
	}
}

// leave gives a seat back; once for each take. o is nil once authenticated.
func (s *seats) leave(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stand(o)
	s.open--
	if s.shut && s.open == 0 {
		close(s.empty)
	}
}

// shutOut refuses seats from now on.
func (s *seats) shutOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut && s.open == 0 {
		close(s.empty)
	}
	s.shut = true
}

func (s *seats) count() (open, waiting int, shut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.waiting.Len(), s.shut
}

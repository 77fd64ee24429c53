package socket

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
	"github.com/ruedahq/rueda/internal/web"
)

// maxTracked bounds the addresses whose handshakes are counted. Beyond it the ones quiet for
// longest are forgotten: the limits on open connections still hold.
const maxTracked = 1 << 16

// handshakeLimiter limits handshakes by address: burst of them at once, and one more every
// interval.
type handshakeLimiter struct {
	rate    atomic.Pointer[ratelimit.Rate]
	limiter *ratelimit.Limiter[netip.Prefix]
	refused atomic.Uint64
}

func newHandshakeLimiter(perSecond float64, burst int) *handshakeLimiter {
	l := &handshakeLimiter{limiter: ratelimit.NewLimiter[netip.Prefix](maxTracked)}
	l.setRate(perSecond, burst)
	return l
}

func (l *handshakeLimiter) setRate(perSecond float64, burst int) {
	interval := time.Duration(float64(time.Second) / perSecond)
	l.rate.Store(&ratelimit.Rate{Interval: interval, Burst: time.Duration(burst) * interval})
}

// Allow charges an address for one handshake. If that exceeds the limit, wait is how long to wait
// for the next one.
func (l *handshakeLimiter) Allow(a netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	_, wait = l.limiter.Take(clientaddr.Client(a), *l.rate.Load(), now)
	if wait > 0 {
		l.refused.Add(1)
	}
	return wait, wait == 0
}

// refusal returns the response to a handshake that must wait.
func (l *handshakeLimiter) refusal(wait time.Duration) *refusal {
	f := tooMany("Too many handshakes", wait)
	rate := l.rate.Load()
	q := web.Quota{Limit: int(rate.Burst / rate.Interval), Window: rate.Burst, Reset: rate.Burst - rate.Interval + wait}
	q.SetHeader(f.Header, "handshakes")
	return f
}

// connSlots limits open connections and lists the unauthenticated ones by age.
type connSlots struct {
	empty chan struct{} // closed when slots are closed and all are released

	mu                 sync.Mutex
	maxOpen            int // in total
	maxUnauthenticated int // in total
	maxPerAddress      int // unauthenticated
	open               int
	unauthenticated    *list.List // of *handshakeState, oldest first
	byAddress          map[netip.Prefix]int
	closed             bool // grants no more slots
}

func newConnSlots(c *Config) *connSlots {
	return &connSlots{
		maxOpen:            c.MaxOpen,
		maxUnauthenticated: c.MaxUnauthenticated,
		maxPerAddress:      c.MaxUnauthenticatedPerAddress,
		empty:              make(chan struct{}),
		unauthenticated:    list.New(),
		byAddress:          make(map[netip.Prefix]int),
	}
}

// acquire grants a slot. At the limit of unauthenticated connections it returns the oldest of them
// to be closed, so that idle sockets cannot keep others out.
func (s *connSlots) acquire(o *handshakeState, authenticated bool) (evict *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
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
	if s.unauthenticated.Len() >= s.maxUnauthenticated {
		oldest := s.unauthenticated.Front().Value.(*handshakeState)
		s.dequeue(oldest)
		evict = oldest.conn
	}
	s.byAddress[o.key]++
	o.slot = s.unauthenticated.PushBack(o)
	return evict, nil
}

// markAuthenticated removes o from the unauthenticated connections.
func (s *connSlots) markAuthenticated(o *handshakeState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dequeue(o)
}

// dequeue removes o from the unauthenticated connections, if it is one of them. The caller holds
// mu.
func (s *connSlots) dequeue(o *handshakeState) {
	if o == nil || o.slot == nil {
		return
	}
	s.unauthenticated.Remove(o.slot)
	o.slot = nil
	if s.byAddress[o.key]--; s.byAddress[o.key] == 0 {
		delete(s.byAddress, o.key)
	}
}

// release returns a slot; o is nil once authenticated.
func (s *connSlots) release(o *handshakeState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dequeue(o)
	s.open--
	if s.closed && s.open == 0 {
		close(s.empty)
	}
}

// close grants no more slots.
func (s *connSlots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.open == 0 {
		close(s.empty)
	}
	s.closed = true
}

// count returns the number of open and of unauthenticated connections.
func (s *connSlots) count() (open, waiting int, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.unauthenticated.Len(), s.closed
}

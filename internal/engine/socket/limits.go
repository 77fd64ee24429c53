package socket

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/internal/engine/web"
)

// maxTracked bounds the keys whose handshakes are counted. Beyond it the ones quiet for longest are
// forgotten: the limits on open connections still hold.
const maxTracked = 1 << 16

// handshakeKey is what a handshake counts by: the login of its token, or else the client address.
// Clients without a token therefore do not use up the handshakes of those with one, nor do invalid
// handshakes use up those of pages, which cannot send a token.
type handshakeKey struct {
	client  netip.Prefix
	login   string
	invalid bool
}

func addressKey(a netip.Addr) handshakeKey { return handshakeKey{client: clientaddr.Client(a)} }

// handshakeKey returns what a handshake counts by. known is the result for a token that needs no
// check, or nil.
func (s *Server) handshakeKey(token string, known *verifier.Result, address netip.Addr) handshakeKey {
	switch {
	case known != nil && known.Fault == nil:
		return handshakeKey{login: known.Identity.Family}
	case known == nil && token != "" && s.cfg.Env.Minted != nil:
		if login, ok := s.cfg.Env.Minted(token); ok {
			return handshakeKey{login: login}
		}
	}
	return addressKey(address)
}

// hasMintedToken reports whether the first bytes of a request have a token that was minted here.
func (s *Server) hasMintedToken(b []byte) bool {
	token := bearerOf(b)
	if token == "" || s.cfg.Env.Minted == nil {
		return false
	}
	_, ok := s.cfg.Env.Minted(token)
	return ok
}

// handshakeLimiter limits handshakes by key: burst of them at once, and one more every interval.
type handshakeLimiter struct {
	rate    atomic.Pointer[ratelimit.Rate]
	limiter *ratelimit.Limiter[handshakeKey]
	refused atomic.Uint64
}

func newHandshakeLimiter(perSecond float64, burst int) *handshakeLimiter {
	l := &handshakeLimiter{limiter: ratelimit.NewLimiter[handshakeKey](maxTracked)}
	l.setRate(perSecond, burst)
	return l
}

func (l *handshakeLimiter) setRate(perSecond float64, burst int) {
	interval := time.Duration(float64(time.Second) / perSecond)
	l.rate.Store(&ratelimit.Rate{Interval: interval, Burst: time.Duration(burst) * interval})
}

// Allow charges a key for one handshake. If that exceeds the limit, wait is how long to wait for
// the next one.
func (l *handshakeLimiter) Allow(key handshakeKey, now time.Time) (wait time.Duration, ok bool) {
	_, wait = l.limiter.Take(key, *l.rate.Load(), now)
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
	unauthenticated    *list.List                  // of *handshakeState, oldest first
	byAddress          map[netip.Prefix]*list.List // the same, of each address
	closed             bool                        // grants no more slots
}

func newConnSlots(c *Config) *connSlots {
	return &connSlots{
		maxOpen:            c.MaxOpen,
		maxUnauthenticated: c.MaxUnauthenticated,
		maxPerAddress:      c.MaxUnauthenticatedPerAddress,
		empty:              make(chan struct{}),
		unauthenticated:    list.New(),
		byAddress:          make(map[netip.Prefix]*list.List),
	}
}

// acquire grants a slot. At a limit of unauthenticated connections, of the address or in total, it
// returns the oldest of them to be closed, so that idle sockets cannot keep others out.
func (s *connSlots) acquire(o *handshakeState, authenticated bool) (evict *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.open >= s.maxOpen:
		return nil, ErrFull
	}
	s.open++
	if authenticated {
		return nil, nil
	}
	full := s.byAddress[o.key]
	if full == nil || full.Len() < s.maxPerAddress {
		full = s.unauthenticated
	}
	if full != s.unauthenticated || full.Len() >= s.maxUnauthenticated {
		oldest := full.Front().Value.(*handshakeState)
		s.dequeue(oldest)
		evict = oldest.conn
	}
	if s.byAddress[o.key] == nil {
		s.byAddress[o.key] = list.New()
	}
	o.slot, o.addressSlot = s.unauthenticated.PushBack(o), s.byAddress[o.key].PushBack(o)
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
	s.byAddress[o.key].Remove(o.addressSlot)
	o.slot, o.addressSlot = nil, nil
	if s.byAddress[o.key].Len() == 0 {
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

package history

import (
	"context"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// limiter bounds how many requests read the journal at a time, and how many more wait for a reader
// slot, for each user and in total. Each reader keeps a processor busy, and the stream has
// priority.
type limiter struct {
	slots   chan struct{} // has an element for each slot in use
	max     int           // requests of all users
	timeout time.Duration // for a slot

	mu         sync.Mutex
	maxPerUser int // requests of one user, reading or waiting
	all        int
	users      map[string]int
}

func newLimiter(slots, perUser, waiting int, timeout time.Duration) *limiter {
	return &limiter{slots: make(chan struct{}, slots), maxPerUser: perUser, max: slots + waiting, timeout: timeout, users: make(map[string]int)}
}

// SetPerUser replaces Config.PerUser for later requests. Any goroutine may call it.
func (h *Routes) SetPerUser(n int) {
	h.readers.mu.Lock()
	defer h.readers.mu.Unlock()
	h.readers.maxPerUser = n
}

// slot permits a user's request to read. Its holder must call release after reading and later
// releaseUser, once each.
type slot struct {
	limiter *limiter
	user    string
}

// acquire waits for a slot, at most for the timeout of the limiter. The reason of its fault is
// RateLimited if the user has too many requests. It is Unavailable if all users together have too
// many, or after the timeout.
func (l *limiter) acquire(ctx context.Context, user string) (slot, error) {
	s := slot{l, user}
	if f := l.add(user); f != nil {
		return s, f
	}
	timeout, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	err := l.enter(timeout)
	if err == nil {
		return s, nil
	}
	s.remove()
	s.releaseUser()
	if ctx.Err() != nil {
		return s, err
	}
	return s, &wire.Fault{Reason: wire.Unavailable, Msg: "Too many history requests at once", RetryAfter: 1}
}

// Acquire waits for a reader slot, for a long computation of another route. The caller must call
// release once at the end.
func (h *Routes) Acquire(ctx context.Context, user string) (release func(), err error) {
	s, err := h.readers.acquire(ctx, user)
	if err != nil {
		return nil, err
	}
	return func() { s.release(); s.releaseUser() }, nil
}

// tryAcquire returns a slot without waiting. ok is false if no slot is free.
func (l *limiter) tryAcquire(user string) (s slot, ok bool) {
	s = slot{l, user}
	if l.add(user) != nil {
		return s, false
	}
	select {
	case l.slots <- struct{}{}:
		return s, true
	default:
	}
	s.remove()
	s.releaseUser()
	return s, false
}

// add counts a request of a user, or returns a fault if the user or all users together have too
// many.
func (l *limiter) add(user string) *wire.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.users[user] >= l.maxPerUser:
		return &wire.Fault{Reason: wire.RateLimited, Msg: "Too many history requests at once", RetryAfter: 1}
	case l.all >= l.max:
		return &wire.Fault{Reason: wire.Unavailable, Msg: "Too many history requests at once", RetryAfter: 1}
	}
	l.users[user]++
	l.all++
	return nil
}

// enter waits for a slot until ctx ends. The caller limits the requests of users itself, and must
// call exit.
func (l *limiter) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return api.ErrGone
	}
}

func (l *limiter) exit() { <-l.slots }

// release gives the slot to other requests. The request still counts for its user until
// releaseUser.
func (s slot) release() {
	s.limiter.exit()
	s.remove()
}

// remove subtracts the request from the total of all users.
func (s slot) remove() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.all--
}

// releaseUser subtracts the request from the count of its user.
func (s slot) releaseUser() {
	l := s.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[s.user]--; l.users[s.user] == 0 {
		delete(l.users, s.user)
	}
}

package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/wire"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 2, 2, 5*time.Second)
		reason := func(err error) wire.Reason {
			var f *wire.Fault
			if errors.As(err, &f) && f.RetryAfter == 1 {
				return f.Reason
			}
			return ""
		}
		s, err := l.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 2)
		wait := func(user string) {
			s, err := l.acquire(t.Context(), user)
			second <- err
			if err == nil {
				s.release()
				s.releaseUser()
			}
		}
		go wait("a")
		synctest.Wait()
		if _, err := l.acquire(t.Context(), "a"); reason(err) != wire.RateLimited {
			t.Errorf("third of a user: %v", err)
		}
		go wait("b")
		synctest.Wait()
		if _, err := l.acquire(t.Context(), "c"); reason(err) != wire.Unavailable {
			t.Errorf("fourth of all: %v", err)
		}
		s.release() // lets both in, one after the other
		if err := errors.Join(<-second, <-second); err != nil {
			t.Error(err)
		}

		// A request counts for its user until releaseUser.
		s2, err := l.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		s2.release()
		if _, err := l.acquire(t.Context(), "a"); reason(err) != wire.RateLimited {
			t.Errorf("third of a user before releaseUser: %v", err)
		}
		s2.releaseUser()
		s.releaseUser()
		s, err = l.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := l.acquire(t.Context(), "b"); reason(err) != wire.Unavailable || time.Since(start) != 5*time.Second {
			t.Errorf("waited for %v: %v", time.Since(start), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.acquire(gone, "b"); !errors.Is(err, api.ErrGone) {
			t.Errorf("of a client that is gone: %v", err)
		}
		s.release()
		s.releaseUser()
		if l.all != 0 || len(l.users) != 0 || len(l.slots) != 0 {
			t.Errorf("left behind: %d, %v, %d", l.all, l.users, len(l.slots))
		}
	})
}

package rest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/wire"
)

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(1, 2, 2, 5*time.Second)
		reason := func(err error) wire.Reason {
			var f *wire.Fault
			if errors.As(err, &f) && f.RetryAfter == 1 {
				return f.Reason
			}
			return ""
		}
		free, leave, err := l.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 2)
		wait := func(user string) {
			free, leave, err := l.take(t.Context(), user)
			second <- err
			if err == nil {
				free()
				leave()
			}
		}
		go wait("a")
		synctest.Wait()
		if _, _, err := l.take(t.Context(), "a"); reason(err) != wire.RateLimited {
			t.Errorf("third of a user: %v", err)
		}
		go wait("b")
		synctest.Wait()
		if _, _, err := l.take(t.Context(), "c"); reason(err) != wire.Unavailable {
			t.Errorf("fourth of all: %v", err)
		}
		free() // lets both in, one after the other
		if err := errors.Join(<-second, <-second); err != nil {
			t.Error(err)
		}

		// The place of a user is his until he leaves it.
		free2, leave2, err := l.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		free2()
		if _, _, err := l.take(t.Context(), "a"); reason(err) != wire.RateLimited {
			t.Errorf("third of a user who has not left: %v", err)
		}
		leave2()
		leave()
		free, leave, err = l.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, _, err := l.take(t.Context(), "b"); reason(err) != wire.Unavailable || time.Since(start) != 5*time.Second {
			t.Errorf("waited for %v: %v", time.Since(start), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := l.take(gone, "b"); !errors.Is(err, errGone) {
			t.Errorf("of a client that is gone: %v", err)
		}
		free()
		leave()
		if l.all != 0 || len(l.users) != 0 || len(l.free) != 0 {
			t.Errorf("left behind: %d, %v, %d", l.all, l.users, len(l.free))
		}
	})
}

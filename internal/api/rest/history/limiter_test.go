package history

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

// reason returns the reason of a refusal; "": it is none.
func reason(err error) wire.Reason {
	var f *wire.Fault
	if errors.As(err, &f) && f.RetryAfter == 1 {
		return f.Reason
	}
	return ""
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 2, 2, 5*time.Second)
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

// TestExportsOfFewUsers checks that a user without exports gets a slot while others start a new
// export whenever one of theirs ends.
func TestExportsOfFewUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Readers: 1, PerUser: 4})
		var held []slot
		hold := func(user string) {
			if s, err := h.acquireExport(t.Context(), user); err == nil {
				held = append(held, s)
			}
		}
		for _, user := range []string{"a", "b", "a", "b", "a", "b"} {
			hold(user) // b's first waits for a slot of the others, and gets it
		}
		if len(held) != 3 {
			t.Fatalf("%d exports", len(held))
		}
		held[0].release()
		held[0].releaseUser()
		if _, err := h.acquireExport(t.Context(), "a"); err == nil {
			t.Error("a has a third export, in the slot for others")
		}
		first, err := h.acquireExport(t.Context(), "c")
		if err != nil {
			t.Fatalf("another user: %v", err)
		}
		first.release()
		first.releaseUser()
		time.Sleep(exportMemory)
		if _, err := h.acquireExport(t.Context(), "c"); err != nil {
			t.Errorf("on another day: %v", err)
		}
		if n := len(h.exportTimes.users); n != 1 {
			t.Errorf("%d users are remembered", n)
		}
	})
}

// TestExportTime checks that a client cannot take longer than exportTime for a file, however fast
// it reads meanwhile.
func TestExportTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &recordedDeadline{}
		out := newDeadlineWriter(t.Context(), w, newLimiter(1, 1, 1, time.Second))
		out.allowed = exportTime // the rate is not the limit here
		time.Sleep(exportTime - time.Second)
		began := time.Now()
		if _, err := out.writeChunk(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if got := w.at.Sub(began); got != time.Second {
			t.Errorf("a second before the end, a chunk may take %v", got)
		}
	})
}

// recordedDeadline is a client whose newest deadline is at.
type recordedDeadline struct {
	http.ResponseWriter
	at time.Time
}

func (w *recordedDeadline) Write(b []byte) (int, error) { return len(b), nil }

func (w *recordedDeadline) SetWriteDeadline(t time.Time) error {
	w.at = t
	return nil
}

// TestSetPerUser changes the limit of a user while one request runs.
func TestSetPerUser(t *testing.T) {
	h := New(Config{Readers: 4, PerUser: 1})
	release, err := h.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Acquire(t.Context(), "a"); reason(err) != wire.RateLimited {
		t.Errorf("the second of one: %v", err)
	}
	h.SetPerUser(2)
	second, err := h.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatalf("the second of two: %v", err)
	}
	h.SetPerUser(1)
	second()
	if _, err := h.Acquire(t.Context(), "a"); reason(err) != wire.RateLimited {
		t.Errorf("the second of one again: %v", err)
	}
	release()
}

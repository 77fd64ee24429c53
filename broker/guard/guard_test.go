package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
)

// base is a user base that answers with do.
type base struct {
	asked atomic.Int64
	do    func(context.Context) error
}

func (b *base) Authenticate(ctx context.Context, l broker.Login) (broker.User, error) {
	return b.User(ctx, l.Username)
}

func (b *base) User(ctx context.Context, id string) (broker.User, error) {
	b.asked.Add(1)
	if err := b.do(ctx); err != nil {
		return broker.User{}, err
	}
	return broker.User{ID: id}, nil
}

func (b *base) ListAccounts(ctx context.Context, id string) ([]broker.Account, error) {
	b.asked.Add(1)
	return []broker.Account{{ID: id}}, b.do(ctx)
}

var errBroken = errors.New("broken")

func ask(t *testing.T, u broker.Users, want error) {
	t.Helper()
	got, err := u.User(t.Context(), "u")
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if (err == nil) != (got.ID == "u") {
		t.Errorf("user %+v with error %v", got, err)
	}
}

// TestAnswersAreNoFailures returns each answer of a working base more often than any breaker
// tolerates.
func TestAnswersAreNoFailures(t *testing.T) {
	for _, answer := range []error{
		broker.ErrInvalidCredentials, broker.ErrNotFound, broker.ErrDisabled, broker.ErrSecondFactor, broker.ErrBadUser,
		fmt.Errorf("a row: %w", broker.ErrInvalidCredentials), nil,
	} {
		b := &base{do: func(context.Context) error { return answer }}
		g := guard.New(guard.Config{})
		for range 100 {
			ask(t, guard.Users(g, b), answer)
			if _, err := guard.Users(g, b).Authenticate(t.Context(), broker.Login{}); !errors.Is(err, answer) || errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("login: %v, want %v", err, answer)
			}
			if _, err := guard.Accounts(g, b).ListAccounts(t.Context(), "u"); !errors.Is(err, answer) {
				t.Errorf("accounts: %v, want %v", err, answer)
			}
		}
		if g.State() != guard.Closed || b.asked.Load() != 300 {
			t.Errorf("%v: %v after %d calls", answer, g.State(), b.asked.Load())
		}
	}
}

// TestBreaker takes a base down and up again in a bubble, and checks the log.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		broken := true
		b := &base{do: func(context.Context) error {
			if broken {
				return errBroken
			}
			return nil
		}}
		g := guard.New(guard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		u := guard.Users(g, b)
		for range 5 {
			if g.State() != guard.Closed {
				t.Error("open too soon")
			}
			ask(t, u, broker.ErrUnavailable)
		}
		if g.State() != guard.Open {
			t.Fatalf("%v after 5 failures", g.State())
		}
		for range 100 {
			ask(t, u, broker.ErrUnavailable)
		}
		if n := b.asked.Load(); n != 5 {
			t.Errorf("%d calls reached a base that is left alone", n)
		}
		for i := range 3 { // three failures with a pause between
			opened := time.Now()
			for b.asked.Load() == int64(5+i) {
				time.Sleep(50 * time.Millisecond)
				ask(t, u, broker.ErrUnavailable)
			}
			if d := time.Since(opened); d < 4*time.Second || d > 6*time.Second+50*time.Millisecond {
				t.Errorf("tried again after %v", d)
			}
		}
		broken = false
		time.Sleep(6 * time.Second)
		ask(t, u, nil)
		if g.State() != guard.Closed {
			t.Errorf("%v after an answer", g.State())
		}
		for _, want := range []string{"user base down", "user base answers again"} {
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("the log says %d times %q:\n%s", n, want, log.String())
			}
		}
	})
}

// TestFailureRate makes every second call fail: never two in a row.
func TestFailureRate(t *testing.T) {
	n := 0
	b := &base{do: func(context.Context) error {
		if n++; n%2 == 0 {
			return errBroken
		}
		return nil
	}}
	g := guard.New(guard.Config{})
	u := guard.Users(g, b)
	for range 200 {
		_, _ = u.User(t.Context(), "u")
	}
	if g.State() != guard.Open || b.asked.Load() != 32 {
		t.Errorf("%v after %d calls", g.State(), b.asked.Load())
	}
}

// TestHalfOpenLetsOneThrough makes many calls when the base may be tested.
func TestHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &base{do: func(context.Context) error { return errBroken }}
		g := guard.New(guard.Config{Failures: 1})
		u := guard.Users(g, b)
		ask(t, u, broker.ErrUnavailable)
		time.Sleep(6 * time.Second)
		answer := make(chan error)
		b.do = func(context.Context) error { return <-answer }
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _, _ = u.User(t.Context(), "u") })
		}
		synctest.Wait()
		if b.asked.Load() != 2 || g.State() != guard.HalfOpen {
			t.Errorf("%d calls reached the base, %v", b.asked.Load(), g.State())
		}
		answer <- nil
		wg.Wait()
		if g.State() != guard.Closed {
			t.Errorf("%v after an answer", g.State())
		}
	})
}

// TestCallersOwnCancellation checks that canceled calls are neither failures nor answers, even for
// the call that tests the base.
func TestCallersOwnCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &base{do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		g := guard.New(guard.Config{Failures: 2})
		u := guard.Users(g, b)
		hurried := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := u.User(ctx, "u"); !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
		}
		gone := func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(1900*time.Millisecond, cancel)
			if _, err := u.User(ctx, "u"); !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
		}
		for range 20 {
			hurried(100 * time.Millisecond)
			gone()
		}
		if g.State() != guard.Closed {
			t.Fatalf("%v: callers who give up opened it", g.State())
		}
		hurried(1500 * time.Millisecond) // long enough to count
		ask(t, u, broker.ErrUnavailable)
		if g.State() != guard.Open {
			t.Fatalf("%v after two that were not answered in time", g.State())
		}
		time.Sleep(6 * time.Second)
		gone()
		if g.State() != guard.Open {
			t.Errorf("%v: the try said nothing", g.State())
		}
		synctest.Wait()
		b.do = func(context.Context) error { return nil }
		ask(t, u, nil) // the next call is the test
	})
}

// TestHungCallKeepsItsPlace has a base that ignores its context: callers get a result in time, and
// no more calls than allowed are in flight.
func TestHungCallKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		b := &base{do: func(context.Context) error { <-hang; return nil }}
		g := guard.New(guard.Config{InFlight: 3, Queue: 2, Failures: 1000})
		u := guard.Users(g, b)
		var wg sync.WaitGroup
		begun := time.Now()
		for range 10 {
			wg.Go(func() { ask(t, u, broker.ErrUnavailable) })
		}
		wg.Wait()
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("the last caller had its answer after %v", d)
		}
		if b.asked.Load() != 3 || g.InFlight() != 3 {
			t.Errorf("%d calls reached the base, %d are on their way", b.asked.Load(), g.InFlight())
		}
		begun = time.Now()
		ask(t, u, broker.ErrUnavailable)
		if d := time.Since(begun); d != 250*time.Millisecond {
			t.Errorf("without a place a caller waits %v", d)
		}
		close(hang)
		synctest.Wait()
		if g.InFlight() != 0 {
			t.Errorf("%d places are lost", g.InFlight())
		}
		ask(t, u, nil)
	})
}

// TestQueueIsServed checks that a waiting call gets a slot that becomes free.
func TestQueueIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &base{do: func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }}
		u := guard.Users(guard.New(guard.Config{InFlight: 2, Queue: 4}), b)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { ask(t, u, nil) })
		}
		wg.Wait()
	})
}

// TestClose waits for a call that outlives its caller, and refuses later calls.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		b := &base{do: func(context.Context) error { <-hang; return nil }}
		g := guard.New(guard.Config{})
		ask(t, guard.Users(g, b), broker.ErrUnavailable)
		closed := make(chan struct{})
		go func() { _ = g.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a call was on its way")
		default:
		}
		ask(t, guard.Users(g, b), broker.ErrUnavailable)
		close(hang)
		<-closed
		if b.asked.Load() != 1 || g.InFlight() != 0 {
			t.Errorf("%d calls, %d on their way", b.asked.Load(), g.InFlight())
		}
	})
}

// TestPanic checks that a panic of the base is a failure whose value is not reported.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	b := &base{do: func(context.Context) error { panic("canary-secret") }}
	g := guard.New(guard.Config{Failures: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := guard.Users(g, b).User(t.Context(), "u")
	if !errors.Is(err, broker.ErrUnavailable) || g.State() != guard.Open {
		t.Errorf("error %v, %v", err, g.State())
	}
	if strings.Contains(err.Error()+log.String(), "canary") || !strings.Contains(log.String(), "guard_test.go") {
		t.Errorf("error %v, log %s", err, log.String())
	}
}

// TestManyAtOnce is for the race detector: a base that fails sometimes, with more callers than
// slots.
func TestManyAtOnce(t *testing.T) {
	var n atomic.Int64
	b := &base{do: func(context.Context) error {
		if n.Add(1)%5 == 0 {
			return errBroken
		}
		return nil
	}}
	g := guard.New(guard.Config{InFlight: 4, Queue: 100, Pause: time.Microsecond, Failures: 2})
	u := guard.Users(g, b)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 200 {
				if _, err := u.User(t.Context(), "u"); err != nil && !errors.Is(err, broker.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := g.Close(); err != nil || g.InFlight() != 0 {
		t.Errorf("%v, %d on their way", err, g.InFlight())
	}
}

//go:build unix

package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestThreat37ReconnectStormE2E restarts a gateway with 10,000 clients (a twentieth unless in
// full), each with its own token. All are disconnected within a second and reconnect to the next
// process after random pauses. They receive every trade once and in order, also those of the
// restart.
func TestThreat37ReconnectStormE2E(t *testing.T) {
	parallelUnlessFull(t)
	n := count(10_000)
	set := settings{Folder: t.TempDir(), Refreshes: 1_000_000}
	old := &attacker{T: t, server: start(t, set), network: 24, next: new(atomic.Int32)}
	crowd := old.followers(n)
	concurrently(100, n, func(i int) {
		err := crowd[i].connect(old)
		if err == nil {
			err = crowd[i].trade() // it has a position now
		}
		if err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	})
	if t.Failed() {
		return
	}
	var gate atomic.Pointer[attacker] // the current gateway
	gate.Store(old)
	var last atomic.Uint64 // the trade to read up to, once it is known
	in, took, attempts := make(chan struct{}, n), make([]time.Duration, n), new(atomic.Int64)
	var all sync.WaitGroup
	var back time.Time
	for i, f := range crowd {
		all.Go(func() {
			err := f.readUntilClosed()
			f.close()
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				in <- struct{}{}
				return
			}
			err = f.reconnect(&gate, attempts)
			took[i] = time.Since(back)
			in <- struct{}{}
			for err == nil && (last.Load() == 0 || f.seen < last.Load()) {
				err = f.trade()
			}
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			f.close()
		})
	}
	old.stop(t)
	fresh := &attacker{T: t, server: start(t, set), network: 25, next: new(atomic.Int32)}
	back = time.Now()
	gate.Store(fresh)
	for range n {
		<-in
	}
	everybody := time.Since(back)
	witness := &follower{token: crowd[0].token, from: fresh.from()}
	if err := errors.Join(witness.connect(fresh), witness.trade(), witness.trade()); err != nil {
		t.Fatal(err)
	}
	last.Store(witness.seen)
	all.Wait()
	t.Logf("figure: %d clients reconnect after a restart: %d attempts, p99 of being subscribed again %v after the gateway was back, the last %v; every trade once and in order",
		n, attempts.Load(), p99(took).Round(time.Millisecond), everybody.Round(time.Millisecond))
	most := time.Minute
	if !full() {
		most *= 3
	}
	if everybody > most {
		t.Errorf("the last client was subscribed after %v, want at most %v", everybody, most)
	}
}

// followers returns n clients of 24 users, each with its own access token.
func (a *attacker) followers(n int) []*follower {
	a.Helper()
	logins := make([]tokens, 24)
	for i := range logins {
		logins[i] = a.login(fmt.Sprintf("user%d", i))
	}
	crowd := make([]*follower, n)
	hosts := make([]string, n/20+1)
	for i := range hosts {
		hosts[i] = a.from()
	}
	concurrently(16, n, func(i int) {
		r := a.refresh(logins[i%len(logins)].refresh)
		a.want("refresh", r, 200, "")
		crowd[i] = &follower{token: tokensOf(r).access, from: hosts[i/20]}
	})
	return crowd
}

// readUntilClosed reads trades until the gateway closes with 4503.
func (f *follower) readUntilClosed() error {
	for {
		switch err := f.trade(); {
		case err == nil:
		case errors.Is(err, closedError(4503)):
			return nil
		default:
			return err
		}
	}
}

// reconnect reconnects after random pauses below a limit that doubles, as clients should.
func (f *follower) reconnect(gate *atomic.Pointer[attacker], attempts *atomic.Int64) error {
	var err error
	for bound, tries := 250*time.Millisecond, 0; tries < 30; bound, tries = min(2*bound, 8*time.Second), tries+1 {
		<-time.After(rand.N(bound))
		attempts.Add(1)
		if err = f.connect(gate.Load()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("did not get in: %w", err)
}

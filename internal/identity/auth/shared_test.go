package auth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// together is a simple model of shared limits that records every charge.
type together struct {
	mu      sync.Mutex
	down    error
	asked   int
	slow    time.Duration // duration of a reservation
	lost    bool          // charges succeed, but their answers are lost
	ids     map[[16]byte]bool
	open    map[auth.Hash]int
	fails   map[auth.Hash][]time.Time
	charges map[string][]time.Time
}

func newTogether() *together {
	return &together{ids: map[[16]byte]bool{}, open: map[auth.Hash]int{}, fails: map[auth.Hash][]time.Time{}, charges: map[string][]time.Time{}}
}

func (x *together) setDown(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.down = err
}

func (x *together) Reserve(ctx context.Context, r throttle.Reservation) (*throttle.Refusal, error) {
	if x.slow > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(x.slow):
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked++
	if x.down != nil {
		return nil, x.down
	}
	fails := x.fails[r.Account]
	if over := len(fails) - r.Free; over >= 0 {
		wait := min(time.Second<<min(over, 20), throttle.MaxBackoff)
		if left := fails[len(fails)-1].Add(wait).Sub(r.Now); left > 0 {
			return &throttle.Refusal{Account: true, Wait: left}, nil
		}
	}
	for i, b := range r.Buckets {
		even := r.Now.Add(-time.Hour)
		for _, at := range x.charges[b.Key] {
			if even.Before(at) {
				even = at
			}
			even = even.Add(b.Interval)
		}
		if left := max(0, even.Sub(r.Now)) + b.Interval - b.Burst; left > 0 {
			return &throttle.Refusal{Bucket: i, Wait: left}, nil
		}
	}
	for _, b := range r.Buckets {
		x.charges[b.Key] = append(x.charges[b.Key], r.Now)
	}
	x.fails[r.Account] = append(x.fails[r.Account], r.Now)
	x.open[r.Account]++
	x.ids[r.ID] = true
	if x.lost {
		return nil, errors.New("the answer is lost")
	}
	return nil, nil
}

func (x *together) Settle(ctx context.Context, r throttle.Reservation, s throttle.Settlement) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down != nil {
		return x.down
	}
	charged := x.ids[r.ID]
	x.ids[r.ID] = false
	if !charged {
		return nil
	}
	x.open[r.Account]--
	if s == throttle.Failed {
		return nil
	}
	for _, b := range r.Buckets {
		x.charges[b.Key] = without(x.charges[b.Key], r.Now)
	}
	x.fails[r.Account] = without(x.fails[r.Account], r.Now)
	if s == throttle.Succeeded {
		x.fails[r.Account] = nil
	}
	return nil
}

func without(list []time.Time, at time.Time) []time.Time {
	for i := range list {
		if list[i].Equal(at) {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// nodes returns n Services with one user base and one set of limits.
func nodes(t *testing.T, n int, x *together, change ...func(*auth.Config)) []*world {
	list := make([]*world, n)
	for i := range list {
		list[i] = newWorld(t, append([]func(*auth.Config){defaultThrottle, func(c *auth.Config) {
			c.Shared = x
			c.AuditKey = []byte("of the installation")
			if i > 0 {
				c.Users, c.Store, c.Keys = list[0].people, list[0].store.Store, list[0].cfg.Keys
			}
		}}, change...)...)
		list[i].people = list[0].people
	}
	return list
}

// TestSharedLimits checks that three nodes together check as many passwords as one. While the
// shared limits fail, each node checks half of that. Afterwards the total applies again.
func TestSharedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTogether()
		all := nodes(t, 3, x)
		hammer := func() int {
			before, _ := all[0].people.counts()
			for i := range 300 {
				try(t, all[i%3], fmt.Sprint("user", i), "wrong", origin)
			}
			after, _ := all[0].people.counts()
			return after - before
		}
		if n := hammer(); n != 20 {
			t.Errorf("three nodes looked at %d passwords of one address, want 20", n)
		}
		for i, w := range all {
			if reason, _ := try(t, w, "maria", "maria's password", scattered(i)); reason != "" {
				t.Errorf("from elsewhere: %s", reason)
			}
		}
		time.Sleep(time.Hour)
		x.setDown(errors.New("connection refused"))
		if n := hammer(); n != 3*10 {
			t.Errorf("three nodes on their own looked at %d, want half of 20 each", n)
		}
		asked := x.asked
		hammer()
		if x.asked != asked {
			t.Error("asked again at once")
		}
		time.Sleep(5 * time.Second)
		hammer()
		if n := x.asked - asked; n > 3 {
			t.Errorf("asked %d times, want once a node", n)
		}
		x.setDown(nil)
		time.Sleep(time.Hour)
		if n := hammer(); n != 20 {
			t.Errorf("when it works again: %d, want 20", n)
		}
	})
}

// TestSharedBackoff checks that failures at one node make the account wait at another. A success
// forgets them, except at nodes that counted failures themselves. Attempts that the user base could
// not check are not charged.
func TestSharedBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTogether()
		all := nodes(t, 2, x)
		a, b := all[0], all[1]
		for i := range 5 {
			try(t, all[i%2], "maria", "wrong", neighbour(i))
		}
		for _, w := range all {
			if got, wait := try(t, w, "maria", "maria's password", neighbour(9)); got != auth.TooManyFailures || wait != time.Second {
				t.Errorf("after 5 failures at two nodes: %s, %v", got, wait)
			}
		}
		time.Sleep(time.Second)
		if got, _ := try(t, b, "maria", "maria's password", neighbour(10)); got != "" {
			t.Errorf("after the wait: %s", got)
		}
		for i := range 4 {
			if got, _ := try(t, b, "maria", "wrong", neighbour(20+i)); got != auth.InvalidCredentials {
				t.Errorf("failure %d after the success: %s", i, got)
			}
		}
		a.people.setDown(errors.New("down"))
		for i := range 50 {
			try(t, all[i%2], "otto", "otto's password", scattered(i))
		}
		a.people.setDown(nil)
		if got, _ := try(t, a, "otto", "otto's password", scattered(99)); got != "" {
			t.Errorf("after the user base was down: %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			_, _ = a.Password(ctx, "otto", "wrong", "", scattered(98))
		}
		for account, n := range x.open {
			if n != 0 {
				t.Errorf("%d attempts at %x were never settled", n, account[:4])
			}
		}
	})
}

// neighbour returns the n-th address of one network.
func neighbour(n int) auth.Origin { return at(fmt.Sprint("203.0.113.", n)) }

// TestSharedHangUps checks that clients that disconnect during a shared charge do not change what
// other clients are charged.
func TestSharedHangUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTogether()
		w := nodes(t, 1, x)[0]
		for i := range 5 {
			try(t, w, "maria", "wrong", neighbour(i))
		}
		time.Sleep(time.Second)
		x.slow = 500 * time.Millisecond
		for i := range 50 { // allowed attempts whose client disconnects before the answer of the shared limits
			ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
			_, _ = w.Password(ctx, fmt.Sprint("otto", i), "wrong", "", neighbour(i))
			cancel()
		}
		x.slow = 0
		if asked := x.asked; asked != 5+50 {
			t.Errorf("asked %d times", asked)
		}
		for account, n := range x.open {
			if fails := len(x.fails[account]); n != fails && n != 0 {
				t.Errorf("%x: %d open, %d failed", account[:4], n, fails)
			}
		}
		fails := 0
		for _, list := range x.fails {
			fails += len(list)
		}
		if fails != 5 {
			t.Errorf("%d failures are kept, want maria's 5", fails)
		}
	})
}

// TestSharedLostAnswer checks that an attempt with an unknown charge is settled when the shared
// limits work again.
func TestSharedLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTogether()
		w := nodes(t, 1, x)[0]
		x.lost = true
		if reason, _ := try(t, w, "maria", "maria's password", neighbour(1)); reason != "" {
			t.Errorf("while the answers are lost: %s", reason)
		}
		x.lost = false
		time.Sleep(5 * time.Second)
		if reason, _ := try(t, w, "otto", "otto's password", neighbour(2)); reason != "" {
			t.Errorf("afterwards: %s", reason)
		}
		for account, list := range x.fails {
			if len(list) > 0 {
				t.Errorf("%x has %d failures, want none", account[:4], len(list))
			}
		}
	})
}

// TestSharedLimitsModel sends random attempts to random nodes while the shared limits fail at
// random times. The checked passwords of an account or address never exceed the limit plus half a
// limit for each node.
func TestSharedLimitsModel(t *testing.T) {
	for range soak(20) {
		rapid.Check(t, func(rt *rapid.T) {
			type move struct {
				What, Node, Who int
			}
			moves := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) move {
				return move{rapid.IntRange(0, 20).Draw(rt, "what"), rapid.IntRange(0, 1).Draw(rt, "node"), rapid.IntRange(0, 9).Draw(rt, "who")}
			}), 1, 100).Draw(rt, "moves")
			checked, most := 0, 0
			synctest.Test(t, func(t *testing.T) {
				x := newTogether()
				all := nodes(t, 2, x, func(c *auth.Config) { c.Throttle = throttle.Config{AddressPerMinute: 1, AddressBurst: 8} })
				failed := false
				for _, m := range moves {
					switch {
					case m.What == 0:
						x.setDown(errors.New("down"))
						failed = true
					case m.What == 1:
						x.setDown(nil)
					case m.What == 2:
						time.Sleep(5 * time.Second)
					default:
						try(t, all[m.Node], fmt.Sprint("user", m.Who), "wrong", origin)
					}
				}
				checked, _ = all[0].people.counts()
				minutes := int(5 * time.Second * 100 / time.Minute)
				most = 8 + minutes
				if failed { // its own bucket bounds each node
					most = 2 * (8 + minutes)
				}
			})
			if checked > most {
				rt.Fatalf("%d were looked at, want at most %d", checked, most)
			}
		})
	}
}

package throttle

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/cache"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

func reserve(t *testing.T, th *Limiter, username, from string) (*Attempt, *Error) {
	t.Helper()
	return th.password(t.Context(), username, netip.MustParseAddr(from), false)
}

func reserved(t *testing.T, th *Limiter, username, from string) *Attempt {
	t.Helper()
	a, refused := reserve(t, th, username, from)
	if refused != nil {
		t.Fatalf("%s from %s: %v", username, from, refused)
	}
	return a
}

// newSmallThrottle returns a throttle that keeps four accounts and allows one failure of an
// address.
func newSmallThrottle() *Limiter {
	th := newLimiter(Config{
		AddressPerMinute: 1, AddressBurst: 1, NetworkPerMinute: 1e6, NetworkBurst: 1e6, GlobalPerMinute: 1e6, GlobalBurst: 1e6,
		AccountFree: 1, FamilyPerMinute: 1, FamilyBurst: 1,
	})
	th.accounts = cache.New[account, *failures](4)
	rates := &th.limits.Load().rates
	rates[levelFirstTry], rates[levelRetry] = rates[levelGlobal], rates[levelGlobal]
	return th
}

// TestRefusedAttemptsPushOutNothing checks that an address at its limit cannot evict the failures
// of other accounts by naming many accounts.
func TestRefusedAttemptsPushOutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newSmallThrottle()
		reserved(t, th, "maria", "192.0.2.1").complete(Failed)
		reserved(t, th, "nobody", "192.0.2.66").complete(Failed)
		for i := range 100 {
			if _, refused := reserve(t, th, fmt.Sprint("user", i), "192.0.2.66"); refused == nil || refused.Reason != RateLimited {
				t.Fatalf("attempt %d: %v", i, refused)
			}
		}
		if _, refused := reserve(t, th, "maria", "192.0.2.2"); refused == nil || refused.Reason != TooManyFailures {
			t.Errorf("maria's failure is forgotten: %v", refused)
		}
		reserved(t, th, "otto", "192.0.2.3").complete(Refunded)
		if n := th.accounts.Len(); n != 2 {
			t.Errorf("%d accounts are kept, want the two with failures", n)
		}
	})
}

// TestDroppedEntry checks that the failure of an attempt counts whose entry was evicted before it
// ended.
func TestDroppedEntry(t *testing.T) {
	th := newSmallThrottle()
	first := reserved(t, th, "maria", "192.0.2.1")
	for i := range 8 {
		reserved(t, th, fmt.Sprint("user", i), fmt.Sprint("192.0.2.", 100+i)).complete(Failed)
	}
	maria := account{"maria", clientaddr.Network(netip.MustParseAddr("192.0.2.1"))}
	if _, ok := th.accounts.Get(maria); ok {
		t.Fatal("the entry was not evicted")
	}
	first.complete(Failed)
	if f, ok := th.accounts.Get(maria); !ok || f.count != 1 {
		t.Error("the failure does not count")
	}
}

func TestAbsurdRates(t *testing.T) {
	for _, n := range []int{math.MinInt, 0, 1, maxRate + 1, math.MaxInt} {
		for _, burst := range []int{math.MinInt, 0, 1, math.MaxInt} {
			r := perMinute(n, burst)
			if r.Interval <= 0 || r.Burst < r.Interval {
				t.Errorf("%d a minute, %d at once: %+v", n, burst, r)
			}
			if wait := r.Wait(0); wait != 0 {
				t.Errorf("%d a minute, %d at once: wait %v", n, burst, wait)
			}
		}
	}
}

// TestKnownPlacesOfAnAccountE2E checks that an account that logs in from many places does not evict
// the places of another account.
func TestKnownPlacesOfAnAccountE2E(t *testing.T) {
	var cfg Config
	cfg.setDefaults()
	th := newLimiter(cfg)
	far := func(n int) string { return fmt.Sprintf("10.%d.%d.1", n>>8, n&255) }
	reserved(t, th, "otto", "192.0.2.1").complete(Succeeded)
	for i := range maxKeys {
		reserved(t, th, "maria", far(i)).complete(Succeeded)
	}
	for _, c := range []struct {
		username, from string
		want           bool
	}{{"otto", "192.0.2.1", true}, {"maria", far(0), false}, {"maria", far(maxKeys - MaxLocations), true}, {"maria", far(maxKeys - 1), true}} {
		if got := th.trusted.has(c.username, clientaddr.Client(netip.MustParseAddr(c.from))); got != c.want {
			t.Errorf("%s is known at %s: %v", c.username, c.from, got)
		}
	}
}

// TestSetLimits checks that new limits equal those of a new Limiter, and that they apply to what
// was charged before.
func TestSetLimits(t *testing.T) {
	for _, c := range []Config{{}, {AddressPerMinute: 3, AddressBurst: 4, AccountFree: 7}, {FamilyPerMinute: 1, FamilyBurst: 2, UserPerMinute: 3, UserBurst: 4, LoginsPerMinute: 5, LoginsBurst: 6, GlobalBurst: 9}} {
		th := newSmallThrottle()
		th.SetLimits(c)
		if fresh := New(c, nil, nil, nil, nil); *th.limits.Load() != *fresh.limits.Load() {
			t.Errorf("%+v: %+v", c, *th.limits.Load())
		}
	}
	th, now := newLimiter(Config{FamilyPerMinute: 1, FamilyBurst: 1, UserPerMinute: 1000, UserBurst: 1000}), time.Now()
	if err := th.Refresh("family", "user", now); err != nil {
		t.Fatal(err)
	}
	if err := th.Refresh("family", "user", now); err == nil {
		t.Error("a second refresh of one")
	}
	th.SetLimits(Config{FamilyPerMinute: 600, FamilyBurst: 700, UserPerMinute: 1000, UserBurst: 1000})
	if err := th.Refresh("family", "user", now); err != nil {
		t.Errorf("with a higher limit: %v", err)
	}
}

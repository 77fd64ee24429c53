package throttle

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

// TestThreat31ClockJump checks that a wall clock that is set an hour back or forward locks nobody
// out, and allows no more than one burst. The running process does not notice the change, because
// it uses its monotonic clock.
func TestThreat31ClockJump(t *testing.T) {
	here := netip.MustParseAddr("192.0.2.1")
	cfg := Config{}
	cfg.setDefaults()
	for what, jump := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(what, func(t *testing.T) {
			th := newLimiter(cfg)
			now := time.Unix(1_000_000_000, 0) // a wall clock without a monotonic reading
			guess := func(username string) bool {
				a := &Attempt{t: th, place: clientaddr.Client(here), network: clientaddr.Network(here)}
				if wait, refused := th.reserve(a, username, false, now); wait != nil || refused != nil {
					return false
				}
				a.completeAt(Failed, now)
				return true
			}
			flood := func() (passed int) {
				for i := range 1000 {
					if guess(fmt.Sprint("user", i)) {
						passed++
					}
				}
				return passed
			}
			for range 50 {
				guess("maria")
			}
			flood()
			now = now.Add(jump)
			if passed := flood(); passed > cfg.AddressBurst {
				t.Errorf("%d passed after the jump, want at most a burst", passed)
			}
			// The remaining wait stays the same.
			a := &Attempt{t: th, place: clientaddr.Client(here), network: clientaddr.Network(here)}
			_, refused := th.reserve(a, "otto", false, now)
			if refused == nil || refused.RetryAfter > time.Minute/time.Duration(cfg.AddressPerMinute) {
				t.Errorf("the address: %+v", refused)
			}
			if wait := th.backoff(th.failuresOf(account{"maria", clientaddr.Network(here)}, now), now); wait > time.Second<<0 {
				t.Errorf("the account waits %v", wait)
			}
			if limit, left, reset, window := th.Limit(here, now); limit != 20 || left != 0 || reset > window {
				t.Errorf("limit %d, remaining %d, reset in %v of %v", limit, left, reset, window)
			}
			now = now.Add(window(cfg))
			if passed := flood(); passed != cfg.AddressBurst {
				t.Errorf("%d passed when all was over, want %d", passed, cfg.AddressBurst)
			}
			if _, wait := th.families.Take("family", th.limits.Load().rates[levelFamily], now); wait != 0 {
				t.Errorf("a family waits %v", wait)
			}
			if _, wait := th.families.Take("family", th.limits.Load().rates[levelFamily], now.Add(-time.Hour)); wait > time.Minute/time.Duration(cfg.FamilyPerMinute) {
				t.Errorf("a family waits %v after the jump", wait)
			}
		})
	}
	t.Run("monotonic", func(t *testing.T) {
		th := newLimiter(cfg)
		a, refused := th.password(t.Context(), "maria", here, false)
		if refused != nil {
			t.Fatal(refused)
		}
		a.complete(Failed)
		f, _ := th.accounts.Get(account{"maria", clientaddr.Network(here)})
		b, _ := th.buckets.Get(bucketKey{level: levelAddress, place: clientaddr.Client(here)})
		for what, at := range map[string]time.Time{"of the account": f.last, "of the address": b.even, "in all": th.global.even} {
			if at == at.Round(0) {
				t.Errorf("the time %s has no monotonic reading", what)
			}
		}
	})
}

// window returns the time after which an address may fail a whole burst again.
func window(c Config) time.Duration {
	return time.Duration(c.AddressBurst) * time.Minute / time.Duration(c.AddressPerMinute)
}

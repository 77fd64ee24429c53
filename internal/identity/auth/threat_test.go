package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// scattered returns the n-th of many addresses, each in a network of its own.
func scattered(n int) auth.Origin {
	return auth.Origin{Address: netip.AddrFrom4([4]byte{byte(20 + n>>16), byte(n >> 8), byte(n), 9})}
}

// TestThreat01PasswordGuessing sends 500 wrong passwords and the correct one at once, each from a
// network of its own. No more of them are checked than the free failures. Meanwhile the owner logs
// in at home.
func TestThreat01PasswordGuessing(t *testing.T) {
	most := 0
	for range soak(200) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, defaultThrottle)
			w.login("maria") // at home, from a known location
			before, _ := w.people.counts()
			w.people.checking = make(chan struct{})
			var all sync.WaitGroup
			for i := range 500 {
				all.Go(func() { try(t, w, "maria", "wrong", scattered(i)) })
			}
			all.Go(func() {
				if reason, _ := try(t, w, "maria", "maria's password", origin); reason != "" {
					t.Errorf("the owner: %s", reason)
				}
			})
			synctest.Wait()
			close(w.people.checking)
			all.Wait()
			logins, _ := w.people.counts()
			most = max(most, logins-before-1)
			if logins-before != 5+1 {
				t.Errorf("%d passwords were checked, want the right one and 5 wrong ones", logins-before)
			}
		})
	}
	t.Logf("figure: 500 wrong passwords at once: at most %d looked at", most)
}

// TestThreat01RightOneAmongThem checks that the correct password from an unknown place forgets the
// failures only once.
func TestThreat01RightOneAmongThem(t *testing.T) {
	for range soak(200) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, defaultThrottle)
			var in atomic.Bool
			var all sync.WaitGroup
			for i := range 500 {
				all.Go(func() { try(t, w, "maria", "wrong", scattered(i)) })
			}
			all.Go(func() {
				reason, _ := try(t, w, "maria", "maria's password", scattered(501))
				in.Store(reason == "")
			})
			all.Wait()
			logins, _ := w.people.counts()
			if most := 5; !in.Load() && logins > most || logins > 4+1+5 {
				t.Errorf("%d passwords were checked, the right one got in: %v", logins, in.Load())
			}
		})
	}
}

// TestThreat02CredentialStuffing sends logins from 10,000 addresses with a username each, within a
// minute. No more are checked than the global limit allows, and users at known places are not
// affected.
func TestThreat02CredentialStuffing(t *testing.T) {
	for name, c := range map[string]struct {
		from func(int) auth.Origin
		most int
	}{
		"everywhere":      {scattered, 1200 + 600},
		"one IPv4 /24":    {func(n int) auth.Origin { return at(fmt.Sprintf("203.0.113.%d", n%256)) }, 200 + 100},
		"one IPv6 /48":    {func(n int) auth.Origin { return at(fmt.Sprintf("2001:db8:7:%x::1", n)) }, 200 + 100},
		"one IPv6 /64":    {func(n int) auth.Origin { return at(fmt.Sprintf("2001:db8:7:7::%x", n)) }, 20 + 10},
		"without address": {func(n int) auth.Origin { return auth.Origin{} }, 20 + 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, defaultThrottle)
				w.login("maria")
				before, _ := w.people.counts()
				const addresses = 10_000
				owner := 0
				for i := range addresses {
					time.Sleep(time.Minute / addresses)
					try(t, w, fmt.Sprint("user", i), "their password elsewhere", c.from(i))
					if i%1000 == 999 {
						w.login("maria")
						owner++
					}
				}
				logins, _ := w.people.counts()
				if got := logins - before - owner; got > c.most+1 {
					t.Errorf("%d passwords were tried, want at most %d", got, c.most)
				}
				// A flood does not fill the disk: the log has few rows in addition to those of
				// checked attempts.
				if n := len(w.audited(audit.LoginThrottled)); n == 0 || n > 2*120 {
					t.Errorf("%d throttled attempts were written down", n)
				}
			})
		})
	}
}

func at(text string) auth.Origin { return auth.Origin{Address: netip.MustParseAddr(text)} }

// TestThreat03LockingOutAnOwner attacks an account for an hour from many networks, including the
// victim's. The victim does not have to wait at a place where they logged in before.
func TestThreat03LockingOutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.login("maria")
		for i := range 3600 {
			time.Sleep(time.Second)
			try(t, w, "maria", "wrong", scattered(i))
			try(t, w, "maria", "wrong", at(fmt.Sprintf("192.0.2.%d", 2+i%250)))
			if i%600 == 0 {
				w.login("maria")
			}
		}
		if reason, wait := try(t, w, "maria", "wrong", scattered(9998)); reason != auth.TooManyFailures || wait > throttle.MaxBackoff {
			t.Errorf("the attacker: %s, wait %v", reason, wait)
		}
		w.login("maria")
		// At other places she waits at most 15 minutes after the end of the attack. The account is
		// never locked.
		time.Sleep(throttle.MaxBackoff)
		if reason, _ := try(t, w, "maria", "maria's password", scattered(9999)); reason != "" {
			t.Errorf("from elsewhere, after the wait: %s", reason)
		}
	})
}

// TestThreat06ParallelChecks checks that parallel attempts from any places and with any limits
// never exceed the allowed failures (GHSA-7h8m-vrxx-vr4m).
func TestThreat06ParallelChecks(t *testing.T) {
	for range soak(20) {
		rapid.Check(t, func(rt *rapid.T) {
			free, burst := rapid.IntRange(1, 10).Draw(rt, "free"), rapid.IntRange(1, 30).Draw(rt, "address burst")
			network, global := rapid.IntRange(1, 40).Draw(rt, "network burst"), rapid.IntRange(1, 60).Draw(rt, "global burst")
			accounts, places := rapid.IntRange(1, 4).Draw(rt, "accounts"), rapid.IntRange(1, 5).Draw(rt, "places")
			attempts := rapid.IntRange(1, 120).Draw(rt, "attempts")
			checked := 0
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *auth.Config) {
					c.Throttle = throttle.Config{
						AddressPerMinute: 1, AddressBurst: burst, NetworkPerMinute: 1, NetworkBurst: network,
						GlobalPerMinute: 1, GlobalBurst: global, AccountFree: free,
					}
				})
				var all sync.WaitGroup
				for i := range attempts {
					all.Go(func() {
						try(t, w, fmt.Sprint("user", i%accounts), "wrong", at(fmt.Sprintf("192.0.2.%d", 1+i%places)))
					})
				}
				all.Wait()
				checked, _ = w.people.counts()
			})
			if most := min(free*accounts, burst*places, network, global); checked > most {
				rt.Fatalf("%d were looked at, want at most %d", checked, most)
			}
		})
	}
}

// TestThreat07StolenRefreshToken plays every order in which a thief and the victim, who both have
// the first token, may refresh 8 times, a minute apart. As soon as one presents a token that was
// replaced by the other's, both are out.
func TestThreat07StolenRefreshToken(t *testing.T) {
	for _, rotation := range []string{auth.RotationActivation, auth.RotationStrict} {
		found := 0
		const turns = 8
		for order := range 1 << turns {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *auth.Config) { c.Rotation = rotation })
				first := w.login("maria")
				f := &modelFamily{
					strict: rotation == auth.RotationStrict, last: origin,
					tokens: []*modelToken{{text: first.Refresh.Reveal(), issued: time.Now()}},
				}
				who := [2]*modelToken{f.tokens[0], f.tokens[0]}
				newest := first
				for turn := range turns {
					time.Sleep(time.Minute)
					i := order >> turn & 1
					now := time.Now()
					must := f.present(who[i], now, origin)
					got, err := w.Refresh(t.Context(), auth.NewSecret(who[i].text), origin)
					if (err == nil) != must {
						t.Fatalf("%s, order %b, turn %d: error %v, theft found: %v", rotation, order, turn, err, f.revoked)
					}
					if err == nil {
						if err := f.answer(who[i], got, now, origin); err != nil {
							t.Fatal(err)
						}
						who[i], newest = f.tokens[len(f.tokens)-1], got
					}
				}
				if !f.revoked {
					w.verify(newest.Access)
					return
				}
				found++
				w.refuses(auth.NewSecret(who[0].text), auth.InvalidRefreshToken)
				w.refuses(auth.NewSecret(who[1].text), auth.InvalidRefreshToken)
				w.rejects(newest.Access, auth.TokenRevoked)
				if got := w.hooks.revokedFamilies(); len(got) != 1 {
					t.Errorf("OnRevoke for %v, want once", got)
				}
				if n := len(w.audited(audit.Reuse)); n != 1 {
					t.Errorf("%d reuses in the audit log, want 1", n)
				}
			})
		}
		t.Logf("figure: %s: thief found in %d of %d orders", rotation, found, 1<<turns)
		if want := 1<<turns - 4; found < want/2 {
			t.Errorf("%s: found in %d orders", rotation, found)
		}
	}
}

// answerless is a Store whose answer to Rotate is lost after the commit.
type answerless struct {
	auth.Store
	lose atomic.Bool
}

func (a *answerless) Rotate(ctx context.Context, r auth.Rotation) (auth.Outcome, error) {
	o, err := a.Store.Rotate(ctx, r)
	if a.lose.Load() && err == nil {
		return auth.Refused, errors.New("connection reset")
	}
	return o, err
}

// TestThreat08RefreshRace checks that 64 processes which refresh with one token at once all get
// a successor, also after an answer that was lost after it had been stored. A client that keeps
// any of them is never logged out.
func TestThreat08RefreshRace(t *testing.T) {
	for _, rotation := range []string{auth.RotationActivation, auth.RotationStrict} {
		t.Run(rotation, func(t *testing.T) {
			sqlite, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "rueda.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sqlite.Close() })
			lossy := &answerless{Store: sqlite}
			w := newWorld(t, func(c *auth.Config) { c.Rotation, c.Store = rotation, lossy })
			token := w.login("maria").Refresh
			for range soak(40) {
				lossy.lose.Store(true)
				w.refuses(token, auth.Unavailable)
				lossy.lose.Store(false)
				var mu sync.Mutex
				children := map[string]int{}
				var all sync.WaitGroup
				for range 64 {
					all.Go(func() {
						got, err := w.Refresh(t.Context(), token, origin)
						if err != nil {
							t.Errorf("refresh: %v", err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						children[got.Refresh.Reveal()]++
					})
				}
				all.Wait()
				if len(children) != 64 {
					t.Fatalf("%d successors for 64 refreshes", len(children))
				}
				for child := range children {
					token = auth.NewSecret(child)
					break
				}
			}
			if got := w.hooks.revokedFamilies(); len(got) != 0 {
				t.Errorf("the family was taken as stolen: %v", got)
			}
		})
	}
}

// TestThreat09DisabledUser checks that the refresh tokens of a disabled user, or after a change of
// the password, are refused, and that the sockets are closed (CVE-2023-22492).
func TestThreat09DisabledUser(t *testing.T) {
	for what, change := range map[string]func(*person){
		"disabled":             func(p *person) { p.disabled = true },
		"password changed":     func(p *person) { p.password, p.user.Version = "another", 2 },
		"disabled for a while": func(p *person) { p.user.Version = 3 },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			tokens, other := w.login("maria"), w.login("otto")
			id := w.verify(tokens.Access)
			w.people.change("us_maria", change)
			w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
			if got := w.hooks.revokedUsers(); len(got) != 1 || got[0] != "us_maria" {
				t.Errorf("sockets closed of %v, want of us_maria", got)
			}
			w.rejects(tokens.Access, auth.TokenRevoked)
			w.refresh(other.Refresh)
			id.User.Version++
			if list, err := w.SessionsOf(t.Context(), "us_maria"); err != nil || len(list) != 0 {
				t.Errorf("sessions %v, error %v", list, err)
			}
			if n := len(w.audited(audit.RefreshRefused)); n != 1 {
				t.Errorf("%d refused refreshes in the audit log, want 1", n)
			}
		})
	}
}

// TestThreat13ReplayAfterLogout checks that a logout takes effect at its process at once and at
// another process of the same database within a second, for tokens and, once, for sockets.
func TestThreat13ReplayAfterLogout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rueda.db")
	open := func(c *auth.Config) {
		s, err := store.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c.Store = s
	}
	here := newWorld(t, open)
	closed := make(chan string, 100)
	elsewhere := newWorld(t, open, func(c *auth.Config) {
		c.Keys = here.cfg.Keys
		c.OnRevoke = func(family string) { closed <- family }
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = elsewhere.Run(ctx) })
	longest := time.Duration(0)
	const rounds = 5
	for range rounds {
		tokens := here.login("maria")
		id := elsewhere.verify(tokens.Access)
		began := time.Now()
		if err := here.Revoke(t.Context(), tokens.Refresh, origin); err != nil {
			t.Fatal(err)
		}
		here.rejects(tokens.Access, auth.TokenRevoked)
		select {
		case family := <-closed:
			if family != id.Family {
				t.Fatalf("sockets of %s were closed, want of %s", family, id.Family)
			}
		case <-time.After(time.Minute):
			t.Fatal("never heard of")
		}
		longest = max(longest, time.Since(began))
		_, known, err := elsewhere.Known(tokens.Access.Reveal())
		if wantReason(t, err, auth.TokenRevoked); !known {
			t.Error("the token was forgotten, not refused")
		}
	}
	cancel()
	running.Wait()
	if n := len(closed); n != 0 {
		t.Errorf("sockets were closed %d times more", n)
	}
	t.Logf("figure: a logout at another process is known after %v at most", longest.Round(time.Millisecond))
}

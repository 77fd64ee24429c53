package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// TestThreat03NewPlace checks that an attacker who tries an account continuously from some networks
// does not keep its owner from logging in at a new place, also after a first failure of the owner
// there.
func TestThreat03NewPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		tried := 0
		for i := range 2 * 3600 {
			time.Sleep(500 * time.Millisecond)
			if reason, _ := try(t, w, "maria", "wrong", scattered(i%4)); reason == auth.InvalidCredentials {
				tried++
			}
			if i%900 == 899 {
				if reason, _ := try(t, w, "maria", "maria's password", scattered(1000+i)); reason != "" {
					t.Fatalf("the owner at a new place, after %d polls: %s", i, reason)
				}
			}
		}
		// 25 at once, and those that become free within an hour
		if tried > 5+20+2*12 {
			t.Errorf("%d passwords were looked at in an hour", tried)
		}
	})
}

// TestThreat03ManyPlaces checks that guesses for one account from ever new networks stay within the
// account's total limit.
func TestThreat03ManyPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		tried := 0
		for i := range 6 * 3600 {
			time.Sleep(time.Second)
			if reason, wait := try(t, w, "maria", "wrong", scattered(i%20_000)); reason == auth.InvalidCredentials {
				tried++
			} else if wait > throttle.MaxBackoff {
				t.Fatalf("a wait of %v", wait)
			}
		}
		if most := 5 + 20 + 6*2*12; tried > most || tried < 5+6*12 {
			t.Errorf("%d passwords were looked at in 6 hours, want at most %d", tried, most)
		}
	})
}

// TestHangUp checks that an attempt is charged and recorded as usual if its client disconnects
// during the check.
func TestHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.cfg.Users = slow{w.people, time.Second}
		w.restart()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			_, _ = w.Password(ctx, "maria", "wrong", "", origin)
			cancel()
		}
		if logins, _ := w.people.counts(); logins == 0 || logins > 5+6 {
			t.Errorf("%d passwords were looked at, want 5, and some as time went by", logins)
		}
		if logins, _ := w.people.counts(); len(w.audited(audit.LoginRefused)) != logins {
			t.Errorf("%d are written down of %d", len(w.audited(audit.LoginRefused)), logins)
		}
	})
}

// slow is a user base that answers slowly and stops when its caller does.
type slow struct {
	*people
	takes time.Duration
}

func (s slow) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	select {
	case <-ctx.Done():
		return broker.User{}, fmt.Errorf("%w: %w", broker.ErrUnavailable, ctx.Err())
	case <-time.After(s.takes):
		return s.people.Authenticate(ctx, login)
	}
}

// TestUnansweredAttempts checks that a network whose attempts the user base does not answer may
// make only few of them. They are then not enough to open the circuit breaker, and other networks
// are not affected.
func TestUnansweredAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.people.setDown(errors.New("no such collation"))
		for i := range 1000 {
			if reason, retry := try(t, w, fmt.Sprint("user", i), "x", origin); reason != auth.Unavailable || retry <= 0 {
				t.Fatalf("%s, %v", reason, retry)
			}
		}
		if logins, _ := w.people.counts(); logins != 4 {
			t.Errorf("%d attempts reached the base, want 4", logins)
		}
		w.people.setDown(nil)
		if reason, _ := try(t, w, "maria", "maria's password", scattered(1)); reason != "" {
			t.Errorf("elsewhere: %s", reason)
		}
		time.Sleep(6 * time.Second)
		for range 10 {
			w.login("maria")
		}
	})
}

// TestThreat02KnownAccounts guesses at two hundred accounts from an address at which all of them
// log in: a hundred guesses are checked, and fifty a minute after that.
func TestThreat02KnownAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		name := func(i int) string { return fmt.Sprint("clerk", i%200) }
		for i := range 200 {
			w.people.byID["us_"+name(i)] = &person{user: broker.User{ID: "us_" + name(i), Username: name(i)}, password: "secret"}
			if reason, _ := try(t, w, name(i), "secret", origin); reason != "" {
				t.Fatalf("%s: %s", name(i), reason)
			}
		}
		before, _ := w.people.counts()
		for i := range 600 { // a minute
			try(t, w, name(i), "wrong", origin)
			time.Sleep(time.Minute / 600)
		}
		if after, _ := w.people.counts(); after-before < 100+49 || after-before > 100+50 {
			t.Errorf("%d passwords were checked, want 150", after-before)
		}
	})
}

// TestNewDevice checks that a login with a new device is an event, also after a restart and on
// another node. The first device of an account is none, and neither is a new version of one.
func TestNewDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		node := &world{t: t, cfg: w.cfg, people: w.people, store: w.store, hooks: w.hooks}
		events := 0
		login := func(n *world, name, client string, address int, want bool) {
			t.Helper()
			o := from(address)
			o.Client = client
			if reason, _ := try(t, n, name, name+"'s password", o); reason != "" {
				t.Fatal(reason)
			}
			rows := w.audited(audit.LoginNewDevice)
			if got := len(rows) > events; got != want {
				t.Errorf("%s with %q: event %v, want %v", name, client, got, want)
			} else if want && (rows[events].User != "us_"+name || rows[events].Client != client || rows[events].Address != o.Address.String()) {
				t.Errorf("event %+v", rows[events])
			}
			events = len(rows)
		}
		login(w, "maria", "Browser/1.0 (X11)", 1, false)
		login(w, "maria", "Browser/1.0 (X11)", 2, false)
		login(w, "maria", "Browser/2.5 (X11)", 2, false)
		login(w, "maria", "Browser/2.5 (Phone)", 2, true)
		login(w, "maria", "Browser/2.5 (Phone)", 3, false)
		login(w, "otto", "bot/1", 1, false)
		node.restart()
		w.restart()
		login(node, "maria", "Browser/3 (Phone)", 1, false)
		login(node, "maria", "", 1, true)
		login(w, "otto", "bot/2", 1, false)
		if reason, _ := try(t, w, "otto", "wrong", from(1)); reason != auth.InvalidCredentials {
			t.Error(reason)
		}
		login(w, "otto", "curl/8", 1, true)
		for i := range throttle.MaxLocations {
			login(w, "otto", "program of "+strings.Repeat("x", i), 1, true)
		}
		login(w, "otto", "bot/2", 1, true) // it was forgotten
	})
}

// joining is a user base for which all spellings are one user.
type joining struct{ *people }

func (j joining) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	login.Username = strings.TrimSpace(login.Username)
	return j.people.Authenticate(ctx, login)
}

// TestSpellingsAreOneUser checks a user base that treats several spellings as one user. While the
// user has to wait, the correct password with any spelling is refused like a wrong one.
func TestSpellingsAreOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.cfg.Users = joining{w.people}
		w.restart()
		spelling := func(i int) string { return "maria" + strings.Repeat(" ", i) }
		for i := range 5 {
			if reason, _ := try(t, w, spelling(i), "wrong", neighbour(i)); reason != auth.InvalidCredentials {
				t.Errorf("spelling %d: %s", i, reason)
			}
		}
		for i, password := range []string{"wrong", "maria's password"} {
			if reason, wait := try(t, w, spelling(6+i), password, neighbour(6+i)); reason != auth.TooManyFailures || wait != time.Second {
				t.Errorf("%s: %s, %v", password, reason, wait)
			}
		}
		if n := len(w.audited(audit.LoginRefused)); n != 7 {
			t.Errorf("%d rows in the audit log", n)
		}
		time.Sleep(time.Second)
		if reason, _ := try(t, w, spelling(8), "maria's password", neighbour(8)); reason != "" {
			t.Errorf("after the wait: %s", reason)
		}
	})
}

// TestThreat02TrustedAfterRestart floods a gateway that has just started, and one on another node,
// with failures: users at places where they have logged in before get in.
func TestThreat02TrustedAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle = throttle.Config{AddressBurst: 2} })
		w.login("maria")
		node := &world{t: t, cfg: w.cfg, people: w.people, store: w.store, hooks: w.hooks}
		node.restart()
		w.restart()
		for name, n := range map[string]*world{"after a restart": w, "on another node": node} {
			for i := range 2000 {
				try(t, n, fmt.Sprint("user", i), "wrong", scattered(i))
			}
			if reason, _ := try(t, n, "maria", "maria's password", scattered(7777)); reason != auth.RateLimited {
				t.Errorf("%s, elsewhere: %s", name, reason)
			}
			if reason, _ := try(t, n, "maria", "maria's password", origin); reason != "" {
				t.Errorf("%s, at the usual place: %s", name, reason)
			}
		}

		// A running node learns of places within a minute or so.
		ctx, cancel := contextOf(t)
		defer cancel()
		go node.Run(ctx)
		time.Sleep(time.Hour)
		if reason, _ := try(t, w, "otto", "otto's password", from(9)); reason != "" {
			t.Fatal(reason)
		}
		time.Sleep(2 * time.Minute)
		for i := range 2000 {
			try(t, node, fmt.Sprint("user", i), "wrong", scattered(i))
		}
		if reason, _ := try(t, node, "otto", "otto's password", from(9)); reason != "" {
			t.Errorf("otto on another node: %s", reason)
		}
		cancel()
		synctest.Wait()
	})
}

// TestThreat04RightPasswords logs in with the right password again and again, from one address and
// from many networks. An account gets a burst and then 30 logins a minute. It holds few slots for
// passwords, so that others get in at once.
func TestThreat04RightPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		w.cfg.Users = slow{w.people, 100 * time.Millisecond}
		w.restart()
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[string]int{}
		began := time.Now()
		for i := range 600 {
			all.Go(func() {
				reason, _ := try(t, w, "maria", "maria's password", scattered(i/5))
				mu.Lock()
				defer mu.Unlock()
				got[reason]++
			})
		}
		all.Wait()
		most := 100 + int(time.Since(began)/(2*time.Second)) + 2
		if got[""] > most || got[""] < 50 {
			t.Errorf("%v, want at most %d logins", got, most)
		}
		time.Sleep(time.Minute)
		in := 0
		for range 200 {
			if reason, _ := try(t, w, "maria", "maria's password", origin); reason == "" {
				in++
			}
		}
		if in > 100 {
			t.Errorf("%d logins from one address", in)
		}
		if reason, _ := try(t, w, "otto", "otto's password", from(3)); reason != "" {
			t.Errorf("another user: %s", reason)
		}
	})
}

// TestThreat04RefreshesOfAUser refreshes many logins of a user: the user has a limit of its own.
func TestThreat04RefreshesOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		var logins []auth.Tokens
		for range 60 {
			logins = append(logins, w.login("maria"))
		}
		otto := w.login("otto")
		granted := 0
		for range 20 {
			for i := range logins {
				if _, err := w.Refresh(t.Context(), logins[i].Refresh, origin); err == nil {
					granted++
				}
			}
		}
		if granted != 400 {
			t.Errorf("%d refreshes of a user at once, want 400", granted)
		}
		w.refresh(otto.Refresh)
		time.Sleep(time.Minute)
		for i := range logins {
			w.refresh(logins[i].Refresh)
		}
	})
}

// TestUnknownTokensAskNothing checks that an address with many unknown refresh tokens costs no
// queries.
func TestUnknownTokensAskNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		foreign := newWorld(t).login("maria").Refresh
		counted := &countingStore{Store: w.cfg.Store}
		w.cfg.Store = counted
		w.restart()
		tokens := w.login("maria")
		for range 2000 {
			_, _ = w.Refresh(t.Context(), foreign, origin)
		}
		if n := counted.lookups.Load(); n > 201 {
			t.Errorf("%d look-ups for 2000 unknown tokens", n)
		}
		if _, err := w.Refresh(t.Context(), tokens.Refresh, from(2)); err != nil {
			t.Errorf("from another address: %v", err)
		}
	})
}

// countingStore counts look-ups.
type countingStore struct {
	auth.Store
	lookups atomic.Int64
}

func (c *countingStore) Lookup(ctx context.Context, h auth.Hash) (auth.RefreshToken, auth.Family, error) {
	c.lookups.Add(1)
	return c.Store.Lookup(ctx, h)
}

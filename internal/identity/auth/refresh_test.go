package auth_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/store"
)

func TestGrantAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		for _, tokens := range []auth.Tokens{tokens, w.refresh(tokens.Refresh)} {
			if tokens.ExpiresIn != day || tokens.RefreshExpiresIn != month || tokens.Scope != "accounts:read marketdata:read" {
				t.Errorf("answer %+v", tokens)
			}
			id := w.verify(tokens.Access)
			if id.User.ID != "us_maria" || id.User.Username != "maria" || len(id.User.Entitlements) != 1 || id.Family == "" || id.TokenID == "" {
				t.Errorf("identity %+v", id)
			}
			if !id.Issued.Equal(time.Now()) || !id.Expires.Equal(time.Now().Add(day)) {
				t.Errorf("issued %v, expires %v", id.Issued, id.Expires)
			}
		}
	})
}

// TestParallelRefresh checks that an honest client which uses one token 64 times at the same time,
// and keeps any of the answers, stays logged in.
func TestParallelRefresh(t *testing.T) {
	for _, mode := range []func(*auth.Config){defaultThrottle, strict} {
		for name, open := range map[string]func(t *testing.T) auth.Store{
			"memory": func(*testing.T) auth.Store { return store.NewMemory() },
			"sqlite": openSQLite,
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, mode, func(c *auth.Config) { c.Store = open(t) })
				first := w.login("maria")
				var mu sync.Mutex
				successors := make(map[string]int)
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						tokens, err := w.Refresh(t.Context(), first.Refresh, origin)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						successors[tokens.Refresh.Reveal()]++
					})
				}
				wg.Wait()
				if len(successors) != 64 || successors[first.Refresh.Reveal()] != 0 {
					t.Errorf("%d successors: %v", len(successors), successors)
				}
				for token := range successors {
					w.refresh(w.refresh(auth.NewSecret(token)).Refresh)
					break
				}
			})
		}
	}
}

func openSQLite(t *testing.T) auth.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLostAnswer checks that a refresh whose answer was lost can be repeated at any time and by any
// process, and that both answers can be used until one of them is.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		lost := w.refresh(first.Refresh)
		time.Sleep(20 * day)
		w.restart()
		again := w.refresh(first.Refresh)
		if again.Refresh.Reveal() == lost.Refresh.Reveal() || again.Access.Reveal() == lost.Access.Reveal() {
			t.Error("the same tokens")
		}
		// Each is valid for 30 days from its own answer.
		time.Sleep(month - time.Nanosecond)
		w.refuses(first.Refresh, auth.InvalidRefreshToken)
		w.refuses(lost.Refresh, auth.InvalidRefreshToken)
		w.refresh(again.Refresh)
		if got := w.hooks.revokedFamilies(); len(got) != 0 {
			t.Errorf("expired tokens revoked %v", got)
		}
	})
}

// TestFirstTokenForever checks a client that keeps its first refresh token, ignores successors and
// refreshes daily, as the specification allows. This works for 30 days.
func TestFirstTokenForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		start := time.Now()
		for time.Since(start) < month-day {
			time.Sleep(23 * time.Hour)
			w.verify(w.refresh(first.Refresh).Access)
		}
		time.Sleep(month - time.Since(start) - time.Second)
		w.refresh(first.Refresh)
		time.Sleep(2 * time.Second)
		w.refuses(first.Refresh, auth.InvalidRefreshToken)
		if got := w.hooks.revokedFamilies(); len(got) != 0 {
			t.Errorf("an expired token was taken for a stolen one: %v", got)
		}
	})
}

// TestDeadToken checks that a token is late within 30 s of its death and counts as stolen after
// that.
func TestDeadToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		bystander := w.login("maria")
		second := w.refresh(first.Refresh)
		time.Sleep(time.Hour)
		third := w.refresh(second.Refresh) // first dies
		time.Sleep(grace)
		w.refuses(first.Refresh, auth.InvalidRefreshToken)
		w.verify(third.Access)
		w.refresh(second.Refresh) // the family lives on
		family := w.verify(third.Access).Family

		time.Sleep(time.Nanosecond)
		w.refuses(first.Refresh, auth.InvalidRefreshToken)
		if got := w.hooks.revokedFamilies(); !slices.Equal(got, []string{family}) {
			t.Errorf("OnRevoke for %v, want %s", got, family)
		}
		w.refuses(third.Refresh, auth.InvalidRefreshToken)
		for _, tokens := range []auth.Tokens{first, second, third} {
			w.rejects(tokens.Access, auth.TokenRevoked)
		}
		w.restart()
		w.rejects(third.Access, auth.TokenRevoked)
		w.verify(w.refresh(bystander.Refresh).Access)
		if got := w.hooks.revokedFamilies(); len(got) != 1 {
			t.Errorf("OnRevoke again: %v", got)
		}
	})
}

// TestStrictWindow checks that in strict rotation a refresh can be repeated for 30 s.
func TestStrictWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, strict)
		first := w.login("maria")
		second := w.refresh(first.Refresh)
		time.Sleep(grace)
		w.refresh(first.Refresh)
		time.Sleep(time.Second)
		w.refuses(first.Refresh, auth.InvalidRefreshToken)
		w.rejects(second.Access, auth.TokenRevoked)
		if got := w.hooks.revokedFamilies(); len(got) != 1 {
			t.Errorf("OnRevoke for %v", got)
		}
	})
}

// TestThief checks that the later one of thief and victim ends the family, and that the other one
// has to log in again.
func TestThief(t *testing.T) {
	for _, mode := range []func(*auth.Config){defaultThrottle, strict} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mode)
			stolen := w.login("maria").Refresh
			thief := w.refresh(stolen)
			thief = w.refresh(thief.Refresh) // uses the successor: the stolen token dies
			time.Sleep(day / 2)
			w.refuses(stolen, auth.InvalidRefreshToken) // the victim's own token, late
			w.rejects(thief.Access, auth.TokenRevoked)
			w.refuses(thief.Refresh, auth.InvalidRefreshToken)
		})
	}
}

func TestFamilyMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.FamilyMaxAge = 40 * day })
		tokens := w.login("maria")
		time.Sleep(29 * day)
		tokens = w.refresh(tokens.Refresh)
		if tokens.RefreshExpiresIn != 11*day {
			t.Errorf("expires in %v, the family ends in 11 days", tokens.RefreshExpiresIn)
		}
		time.Sleep(11*day - 1)
		tokens = w.refresh(tokens.Refresh)
		time.Sleep(time.Nanosecond)
		w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
	})
}

// TestShorterMaxAge checks that a maximum age that is configured later applies to older logins too.
func TestShorterMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		time.Sleep(20 * day)
		w.cfg.FamilyMaxAge = 10 * day
		w.restart()
		w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
	})
}

func TestRefreshChecksTheUser(t *testing.T) {
	for name, change := range map[string]func(*person){
		"disabled":         func(p *person) { p.disabled = true },
		"password changed": func(p *person) { p.user.Version++ },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tokens := w.login("maria")
			other := w.login("otto")
			w.people.change("us_maria", change)
			w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
			w.rejects(tokens.Access, auth.TokenRevoked)
			if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_maria"}) {
				t.Errorf("OnRevokeUser for %v", got)
			}
			w.refresh(other.Refresh)
		})
	}
}

// TestStoreDown checks that a failing database loses nothing and logs nobody out.
// TestRevokeWhileStoreIsDown checks explicit logouts.
func TestStoreDown(t *testing.T) {
	w := newWorld(t)
	tokens := w.login("maria")
	w.store.setDown(errors.New("no database"))
	_, err := w.Password(t.Context(), "maria", "maria's password", "", origin)
	wantReason(t, err, auth.Unavailable)
	if e, _ := errors.AsType[*auth.Error](err); e.RetryAfter <= 0 {
		t.Error("no hint when to come back")
	}
	w.refuses(tokens.Refresh, auth.Unavailable)
	wantReason(t, w.Revoke(t.Context(), tokens.Refresh, origin), auth.Unavailable)
	w.verify(tokens.Access)
	w.store.setDown(nil)
	w.refresh(tokens.Refresh)
}

func TestUserBaseDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		w.people.setDown(errors.New("no user base"))
		w.refuses(tokens.Refresh, auth.Unavailable)
		_, before := w.people.counts()
		for range 100 {
			time.Sleep(time.Minute) // the stored state is old each time
			w.verify(tokens.Access)
			w.verify(tokens.Access) // and a failed user base is not queried for a while
		}
		if _, after := w.people.counts(); after-before != 100 {
			t.Errorf("the base was asked %d times", after-before)
		}
		w.people.setDown(nil)
		w.refuses(tokens.Refresh, auth.Unavailable) // nor about this user
		time.Sleep(5 * time.Second)
		w.refresh(tokens.Refresh)

		w.people.setDown(errors.New("no user base"))
		w.restart() // remembers no users
		w.rejects(tokens.Access, auth.Unavailable)
	})
}

// TestKeyFileLost checks that with new secrets all old tokens are invalid, and that they cause no
// other error.
func TestKeyFileLost(t *testing.T) {
	w := newWorld(t)
	tokens := w.login("maria")
	keys, err := keyset.New()
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Keys = keys
	w.restart()
	w.rejects(tokens.Access, auth.InvalidToken)
	w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
	if err := w.Revoke(t.Context(), tokens.Access, origin); err != nil {
		t.Error(err)
	}
}

func TestBadRefreshTokens(t *testing.T) {
	w := newWorld(t)
	tokens := w.login("maria")
	good := tokens.Refresh.Reveal()
	if len(good) != 52 || !strings.HasPrefix(good, "rt1_") {
		t.Errorf("token %q", good)
	}
	w.store.setDown(errors.New("asked about a token that is visibly wrong"))
	for what, text := range map[string]string{
		"empty":               "",
		"access token":        tokens.Access.Reveal(),
		"space before":        " " + good,
		"space after":         good + " ",
		"line end":            good + "\n",
		"line end inside":     good[:20] + "\n" + good[21:],
		"padded":              good + "====",
		"prefix alone":        "rt1_",
		"successor's prefix":  "rt2_" + good[4:],
		"other prefix":        "rt3_" + good[4:],
		"prefix in capitals":  "RT1_" + good[4:],
		"standard alphabet":   good[:10] + "+/" + good[12:],
		"one character less":  good[:51],
		"no checksum":         good[:46],
		"swapped characters":  good[:20] + good[21:22] + good[20:21] + good[22:],
		"just under the size": strings.Repeat("x", 1024),
	} {
		if text == good { // two equal characters were swapped
			continue
		}
		if _, err := w.Refresh(t.Context(), auth.NewSecret(text), origin); reasonOf(err) != auth.InvalidRefreshToken {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := 4; i < len(good); i++ { // each character changed
		b := []byte(good)
		b[i] = 'A'
		if good[i] == 'A' {
			b[i] = 'B'
		}
		w.refuses(auth.NewSecret(string(b)), auth.InvalidRefreshToken)
	}
	w.refuses(auth.NewSecret(strings.Repeat("x", 10_000)), auth.InvalidRequest)
	w.store.setDown(nil)

	foreign := newWorld(t).login("maria") // well-formed, of another installation
	w.refuses(foreign.Refresh, auth.InvalidRefreshToken)
	w.rejects(tokens.Refresh, auth.InvalidToken)
	w.refresh(tokens.Refresh)
}

func TestRefreshExtendsTheFamilysSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		time.Sleep(time.Hour + time.Millisecond)
		id := w.verify(w.refresh(tokens.Refresh).Access)
		if got := w.hooks.extended[id.Family]; !got.Equal(id.Expires) {
			t.Errorf("OnRefresh said %v, the token says %v", got, id.Expires)
		}
	})
}

// TestHousekeepingE2E checks what is removed when a token, a login and a family have expired.
func TestHousekeepingE2E(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		w := newWorld(t, func(c *auth.Config) { c.Store = memory })
		done := make(chan error)
		ctx, cancel := contextOf(t)
		go func() { done <- w.Run(ctx) }()
		w.login("maria")
		revoked := w.login("maria")
		if err := w.Revoke(ctx, revoked.Refresh, origin); err != nil {
			t.Fatal(err)
		}
		time.Sleep(day - time.Second)
		w.rejects(revoked.Access, auth.TokenRevoked)
		time.Sleep(time.Hour)
		w.rejects(revoked.Access, auth.TokenExpired)
		if list, err := memory.Revoked(ctx, time.Time{}); err != nil || len(list) != 0 {
			t.Errorf("still kept: %v, %v", list, err)
		}
		time.Sleep(month)
		if n, err := memory.Expire(ctx, time.Now(), time.Now()); err != nil || n != 0 {
			t.Errorf("%d families were left over, %v", n, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package auth_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestRevoke(t *testing.T) {
	for name, pick := range map[string]func(auth.Tokens) auth.Secret{
		"by access token":  func(x auth.Tokens) auth.Secret { return x.Access },
		"by refresh token": func(x auth.Tokens) auth.Secret { return x.Refresh },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tokens := w.login("maria")
			successor := w.refresh(tokens.Refresh)
			other := w.login("maria")
			family := w.verify(tokens.Access).Family
			for range 2 { // a second time has the same result
				if err := w.Revoke(t.Context(), pick(tokens), origin); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				w.rejects(tokens.Access, auth.TokenRevoked)
				w.rejects(successor.Access, auth.TokenRevoked)
				w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
				w.refuses(successor.Refresh, auth.InvalidRefreshToken)
				w.verify(other.Access)
				w.restart()
			}
			if got := w.hooks.revokedFamilies(); !slices.Contains(got, family) {
				t.Errorf("OnRevoke for %v, want %s", got, family)
			}
		})
	}
}

func TestRevokeOfNothing(t *testing.T) {
	w := newWorld(t)
	tokens := w.login("maria")
	for _, text := range []string{"", "x", "rt1_", strings.Repeat("x", 100_000), newWorld(t).login("maria").Refresh.Reveal(), newWorld(t).login("maria").Access.Reveal()} {
		if err := w.Revoke(t.Context(), auth.NewSecret(text), origin); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if got := w.hooks.revokedFamilies(); len(got) != 0 {
		t.Errorf("OnRevoke for %v", got)
	}
	w.verify(tokens.Access)
}

// TestRevokeWithOldToken checks that an old token of a login still logs it out.
func TestRevokeWithOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		second := w.refresh(first.Refresh)
		w.refresh(second.Refresh)
		time.Sleep(2 * day)
		second = w.refresh(second.Refresh)
		if err := w.Revoke(t.Context(), first.Access, origin); err != nil { // expired
			t.Fatal(err)
		}
		w.rejects(second.Access, auth.TokenRevoked)

		first = w.login("maria")
		second = w.refresh(first.Refresh)
		third := w.refresh(second.Refresh)
		if err := w.Revoke(t.Context(), first.Refresh, origin); err != nil { // dead
			t.Fatal(err)
		}
		w.rejects(third.Access, auth.TokenRevoked)
	})
}

func TestEndUser(t *testing.T) {
	w := newWorld(t)
	a, b, other := w.login("maria"), w.login("maria"), w.login("otto")
	if n, err := w.EndUser(t.Context(), "us_maria", origin); err != nil || n != 2 {
		t.Fatalf("ended %d, %v", n, err)
	}
	for _, tokens := range []auth.Tokens{a, b} {
		w.rejects(tokens.Access, auth.TokenRevoked)
		w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
	}
	if got := w.hooks.revokedFamilies(); len(got) != 2 {
		t.Errorf("OnRevoke for %v", got)
	}
	rows := w.audited(audit.UserEnded)
	if len(rows) != 1 || rows[0].Actor != "administrator" || rows[0].User != "us_maria" || rows[0].Address != origin.Address.String() || rows[0].Client != origin.Client {
		t.Errorf("written down: %+v", rows)
	}
	w.verify(other.Access)
	w.verify(w.login("maria").Access)
}

// A user who was deleted from the user base may still have logins to end. An id that never existed
// is NotFound.
func TestEndUserUnknown(t *testing.T) {
	w := newWorld(t)
	if n, err := w.EndUser(t.Context(), "maria", origin); n != 0 || !auth.IsReason(err, auth.NotFound) {
		t.Errorf("a name for the id: ended %d, %v", n, err)
	}
	if rows := w.audited(audit.UserEnded); len(rows) != 0 {
		t.Errorf("nobody's logins ended, and it was written down: %+v", rows)
	}
	tokens := w.login("maria")
	if n, err := w.EndUser(t.Context(), "us_otto", origin); n != 0 || err != nil {
		t.Errorf("a user without logins: ended %d, %v", n, err)
	}
	w.people.remove("us_maria")
	if n, err := w.EndUser(t.Context(), "us_maria", origin); n != 1 || err != nil {
		t.Errorf("a user who is gone: ended %d, %v", n, err)
	}
	w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
	if n, err := w.EndUser(t.Context(), "us_maria", origin); n != 0 || !auth.IsReason(err, auth.NotFound) {
		t.Errorf("once more: ended %d, %v", n, err)
	}
}

// TestUsersChanged checks that changes by another process reach users whose tokens are in use.
func TestUsersChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maria, otto := w.login("maria"), w.login("otto")
		w.UsersChanged(t.Context())
		if len(w.hooks.users) != 0 || len(w.hooks.rights) != 0 {
			t.Fatalf("nothing changed, reported %+v", w.hooks)
		}
		w.people.change("us_maria", func(p *person) { p.disabled = true })
		w.people.change("us_otto", func(p *person) { p.user.Entitlements = []broker.Entitlement{{Market: "*"}} })
		w.verify(maria.Access) // the change is not reported yet
		w.UsersChanged(t.Context())
		if !slices.Equal(w.hooks.users, []string{"us_maria"}) || len(w.hooks.rights) != 1 || w.hooks.rights[0].ID != "us_otto" {
			t.Errorf("reported %+v", w.hooks)
		}
		w.rejects(maria.Access, auth.TokenRevoked)
		if id := w.verify(otto.Access); id.User.Entitlements[0].Market != "*" {
			t.Errorf("rights of before: %+v", id.User)
		}

		w.people.change("us_maria", func(p *person) { p.disabled, p.user.Version = false, 2 })
		w.UsersChanged(t.Context())
		w.rejects(maria.Access, auth.TokenRevoked) // it has version 1
		w.verify(w.login("maria").Access)
	})
}

func TestUsersChangedWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login("maria")
		ctx, cancel := contextOf(t)
		defer cancel()
		go w.Run(ctx)
		w.people.change("us_maria", func(p *person) { p.disabled = true })
		w.people.setDown(errors.New("down"))
		w.UsersChanged(ctx)
		w.people.setDown(nil)
		time.Sleep(time.Minute + time.Second)
		if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_maria"}) {
			t.Errorf("OnRevokeUser for %v", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestUserIsReadAgain checks that a user base that does not report changes is queried again after
// UserTTL.
func TestUserIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		w.people.change("us_maria", func(p *person) { p.user.Version++ })
		time.Sleep(time.Minute - 1)
		w.verify(tokens.Access)
		time.Sleep(time.Nanosecond)
		w.rejects(tokens.Access, auth.TokenRevoked)
	})
}

// TestNewerTokenIsNotRefused checks that a token that another node issued after a change of the
// user is not refused because of older stored state.
func TestNewerTokenIsNotRefused(t *testing.T) {
	w := newWorld(t)
	w.login("maria")
	other := newWorld(t, func(c *auth.Config) { c.Keys, c.Users, c.Store = w.cfg.Keys, w.people, w.store.Store })
	w.people.change("us_maria", func(p *person) { p.user.Version++ })
	id := w.verify(other.login("maria").Access)
	if id.User.Version != 2 {
		t.Errorf("identity of version %d", id.User.Version)
	}
}

// TestRevokeWhileStoreIsDown checks that a logout takes effect at once and answers Unavailable, and
// that it holds when the store is up again.
func TestRevokeWhileStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		family := w.verify(tokens.Access).Family
		ctx, cancel := contextOf(t)
		defer cancel()
		go w.Run(ctx)

		w.store.setDown(errors.New("down"))
		wantReason(t, w.Revoke(ctx, tokens.Access, origin), auth.Unavailable)
		w.rejects(tokens.Access, auth.TokenRevoked)
		if got := w.hooks.revokedFamilies(); !slices.Equal(got, []string{family}) {
			t.Errorf("OnRevoke for %v, want %s", got, family)
		}
		time.Sleep(2 * day) // long after the access token has expired
		w.store.setDown(nil)
		w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
		time.Sleep(2 * time.Minute) // the next housekeeping round stores it
		w.restart()
		w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
		cancel()
		synctest.Wait()
	})
}

// TestFractionalLifetime checks that a new token verifies with any fraction of a second in the
// clock and the lifetime.
func TestFractionalLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.AccessTTL = 1900 * time.Millisecond })
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			tokens := w.login("maria")
			if id := w.verify(tokens.Access); id.Expires.Sub(id.Issued) != tokens.ExpiresIn || tokens.ExpiresIn != time.Second {
				t.Errorf("from %v to %v, answered %v", id.Issued, id.Expires, tokens.ExpiresIn)
			}
		}
	})
}

// TestThreat09RetryKeepsNewLogins disables a user while the Store is down. The user comes back and
// logs in before the gateway can revoke the earlier login: only that one ends.
func TestThreat09RetryKeepsNewLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.login("maria")
		time.Sleep(time.Second)
		w.store.setDown(errors.New("down"))
		w.people.change("us_maria", func(p *person) { p.disabled = true })
		w.UsersChanged(t.Context())
		w.rejects(before.Access, auth.TokenRevoked)
		time.Sleep(time.Second)
		w.people.change("us_maria", func(p *person) { p.disabled = false })
		w.store.setDown(nil)
		w.UsersChanged(t.Context())
		after := w.login("maria")
		ctx, cancel := contextOf(t)
		go w.Run(ctx)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		cancel()
		synctest.Wait()
		w.refuses(before.Refresh, auth.InvalidRefreshToken)
		w.rejects(before.Access, auth.TokenRevoked)
		w.verify(after.Access)
		w.verify(w.refresh(after.Refresh).Access)
		if rows := w.audited(audit.UserEnded); len(rows) != 1 {
			t.Errorf("audit rows %+v", rows)
		}
	})
}

// TestThreat09DisabledThenEnabled disables a user, has the gateway notice it in each of its ways,
// and enables the user again without a new version, as SQL, HTTP and LDAP bases do. The logins of
// before stay ended, also if the Store was down at that time, and after a restart.
func TestThreat09DisabledThenEnabled(t *testing.T) {
	notices := map[string]func(w *world, tokens auth.Tokens){
		"at a refresh": func(w *world, tokens auth.Tokens) { w.refuses(tokens.Refresh, auth.InvalidRefreshToken) },
		"at a request": func(w *world, tokens auth.Tokens) {
			time.Sleep(2 * time.Minute)
			w.rejects(tokens.Access, auth.TokenRevoked)
		},
		"by a report": func(w *world, _ auth.Tokens) { w.UsersChanged(w.t.Context()) },
		"after a restart": func(w *world, tokens auth.Tokens) {
			w.restart()
			w.refuses(tokens.Refresh, auth.InvalidRefreshToken)
		},
	}
	for how, notice := range notices {
		for _, away := range []bool{false, true} {
			if away && how != "at a request" && how != "by a report" {
				continue // these need the Store themselves
			}
			t.Run(fmt.Sprint(how, ", store down ", away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					tokens, other := w.login("maria"), w.login("otto")
					successor := w.refresh(tokens.Refresh)
					if away {
						w.store.setDown(errors.New("down"))
					}
					w.people.change("us_maria", func(p *person) { p.disabled = true })
					notice(w, tokens)
					ctx, cancel := contextOf(t)
					go w.Run(ctx)
					w.store.setDown(nil)
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					w.people.change("us_maria", func(p *person) { p.disabled = false })
					cancel()
					synctest.Wait()
					for range 2 {
						time.Sleep(2 * time.Minute)
						for _, old := range []auth.Tokens{tokens, successor} {
							w.refuses(old.Refresh, auth.InvalidRefreshToken)
							w.rejects(old.Access, auth.TokenRevoked)
						}
						w.verify(other.Access)
						w.restart()
					}
					w.verify(w.login("maria").Access)
					if rows := w.audited(audit.UserEnded); len(rows) != 1 || rows[0].User != "us_maria" || rows[0].Actor != "gateway" {
						t.Errorf("audit rows %+v", rows)
					}
				})
			})
		}
	}
}

package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		time.Sleep(time.Hour)
		second, foreign := w.login("maria"), w.login("otto")
		time.Sleep(time.Hour)
		w.refresh(first.Refresh)
		me, other, otto := w.verify(first.Access), w.verify(second.Access), w.verify(foreign.Access)
		list, err := w.Sessions(t.Context(), me)
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		now := time.Now()
		for i, want := range []auth.Session{
			{ID: me.Family, Created: now.Add(-2 * time.Hour), Used: now, Address: "192.0.2.1", Client: "test/1", Current: true},
			{ID: other.Family, Created: now.Add(-time.Hour), Used: now.Add(-time.Hour), Address: "192.0.2.1", Client: "test/1"},
		} {
			got := list[i]
			if !got.Created.Equal(want.Created) || !got.Used.Equal(want.Used) {
				t.Errorf("session %d: %+v", i, got)
			}
			got.Created, got.Used = want.Created, want.Used
			if got != want {
				t.Errorf("session %d: %+v, want %+v", i, got, want)
			}
		}

		for what, sid := range map[string]string{"another user's": otto.Family, "unknown": "nothing", "empty": "", "absurd": strings.Repeat("x", 10_000)} {
			if err := w.EndSession(t.Context(), me, sid, origin); reasonOf(err) != auth.NotFound {
				t.Errorf("%s session: %v", what, err)
			}
		}
		right := broker.Login{Username: "maria", Password: "maria's password"}
		wantReason(t, w.EndSession(t.Context(), me, other.Family, origin), auth.Forbidden)
		for _, keep := range []bool{false, true} {
			_, err := w.EndSessions(t.Context(), me, keep, origin)
			wantReason(t, err, auth.Forbidden)
		}
		for what, c := range map[string]struct{ password, session, reason string }{
			"wrong password": {"wrong", other.Family, auth.InvalidCredentials}, "another user's": {right.Password, otto.Family, auth.NotFound},
		} {
			if _, err := auth.EndLogins(t.Context(), w.Service, broker.Login{Username: "maria", Password: c.password}, c.session, "", origin); reasonOf(err) != c.reason {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.verify(second.Access)
		if n, err := auth.EndLogins(t.Context(), w.Service, right, other.Family, "", origin); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		wantReason(t, w.EndSession(t.Context(), me, other.Family, origin), auth.NotFound)
		w.rejects(second.Access, auth.TokenRevoked)
		w.refuses(second.Refresh, auth.InvalidRefreshToken)
		w.verify(foreign.Access)
		if got := w.hooks.revokedFamilies(); !slices.Equal(got, []string{other.Family}) {
			t.Errorf("OnRevoke for %v", got)
		}
		rows := w.audited(audit.SessionEnded)
		if len(rows) != 1 || rows[0].User != "us_maria" || rows[0].Family != other.Family || rows[0].Actor != "user" || rows[0].Address != "192.0.2.1" {
			t.Errorf("audit log: %+v", rows)
		}
		if list, err := w.SessionsOf(t.Context(), "us_maria"); err != nil || len(list) != 1 || list[0].Current {
			t.Errorf("%+v, %v", list, err)
		}
		for sid, want := range map[string]string{"nothing": auth.NotFound, other.Family: auth.NotFound, otto.Family: ""} {
			from := origin
			from.Actor = "administrator (eva)"
			wantReason(t, w.EndAnySession(t.Context(), sid, from), want)
		}
		w.rejects(foreign.Access, auth.TokenRevoked)
		w.verify(first.Access)
		if rows := w.audited(audit.SessionEnded); len(rows) != 2 || rows[1].User != "us_otto" || rows[1].Family != otto.Family || rows[1].Actor != "administrator (eva)" {
			t.Errorf("audit log: %+v", rows)
		}
		_, err = w.SessionsOf(t.Context(), "us_nobody")
		wantReason(t, err, auth.NotFound)
		time.Sleep(31 * day) // the last refresh token has expired
		if list, err := w.SessionsOf(t.Context(), "us_maria"); err != nil || list == nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestHoardingLogins checks that a user with the correct password has at most MaxSessions logins at
// a time. The least recently used ones end with their tokens and sockets, and the audit log records
// it.
func TestHoardingLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, logins = 10, 60
		w := newWorld(t, func(c *auth.Config) { c.MaxSessions = most })
		other := w.login("otto")
		first := w.login("maria")
		var second auth.Tokens
		for i := range logins {
			time.Sleep(time.Second)
			second = w.login("maria")
			if i%5 == 0 { // some are in use and stay
				first = w.refresh(first.Refresh)
			}
		}
		w.verify(first.Access)
		w.verify(second.Access)
		w.verify(other.Access)
		list, err := w.SessionsOf(t.Context(), "us_maria")
		if err != nil || len(list) != most {
			t.Errorf("%d logins go on, %v; want %d", len(list), err, most)
		}
		rows := w.audited(audit.SessionEnded)
		if len(rows) != logins+1-most || rows[0].Actor != "gateway" || rows[0].User != "us_maria" || rows[0].Family == "" || rows[0].Detail == "" {
			t.Errorf("%d ends in the audit log, want %d: %+v", len(rows), logins+1-most, rows[:1])
		}
		if got := w.hooks.revokedFamilies(); len(got) != logins+1-most {
			t.Errorf("sockets closed of %d logins", len(got))
		}
		var all sync.WaitGroup
		for range 50 { // all in parallel
			all.Go(func() { w.login("maria") })
		}
		all.Wait()
		// Only the least recently used logins end, and no more than necessary, even if all arrive
		// at the same time.
		if list, err := w.SessionsOf(t.Context(), "us_maria"); err != nil || len(list) > most || len(list) < most-1 {
			t.Errorf("%d logins go on, %v; want %d", len(list), err, most)
		}
		w.cfg.MaxSessions = 3
		w.restart()
		w.login("maria")
		if list, _ := w.SessionsOf(t.Context(), "us_maria"); len(list) != 3 {
			t.Errorf("%d logins go on; want 3", len(list))
		}
	})
}

func TestIntrospect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tokens := w.login("maria")
		id := w.verify(tokens.Access)
		for _, c := range []struct {
			kind    string
			token   auth.Secret
			expires time.Time
		}{
			{auth.TypeAccess, tokens.Access, id.Expires},
			{auth.TypeRefresh, tokens.Refresh, time.Now().Add(month)},
		} {
			got, err := w.Introspect(t.Context(), c.token)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Expires.Equal(c.expires) || got.Issued.After(time.Now()) {
				t.Errorf("%s: from %v to %v", c.kind, got.Issued, got.Expires)
			}
			got.Issued, got.Expires = time.Time{}, time.Time{}
			want := auth.Introspection{
				Active: true, Subject: "us_maria", Username: "maria", Scope: "accounts:read marketdata:read",
				ClientID: "rueda", TokenType: c.kind, Session: id.Family,
			}
			if c.kind == auth.TypeAccess {
				want.Issuer, want.Audience = "rueda", "rueda"
			}
			if got != want {
				t.Errorf("%s: %+v", c.kind, got)
			}
		}
		inactive := func(what string, token auth.Secret) {
			t.Helper()
			if got, err := w.Introspect(t.Context(), token); err != nil || got != (auth.Introspection{}) {
				t.Errorf("%s: %+v, %v", what, got, err)
			}
		}
		inactive("nothing", auth.Secret{})
		inactive("garbage", auth.NewSecret("rt1_garbage"))
		inactive("another installation's access token", newWorld(t).login("maria").Access)
		inactive("another installation's refresh token", newWorld(t).login("maria").Refresh)
		second := w.refresh(tokens.Refresh)
		third := w.refresh(second.Refresh)
		inactive("a dead refresh token", tokens.Refresh)
		time.Sleep(day)
		inactive("an expired access token", tokens.Access)
		w.people.change("us_maria", func(p *person) { p.user.Version++ })
		inactive("a refresh token of before a change of password", third.Refresh)
		otto := w.login("otto")
		if err := w.Revoke(t.Context(), otto.Access, origin); err != nil {
			t.Fatal(err)
		}
		inactive("a revoked access token", otto.Access)
		inactive("a revoked refresh token", otto.Refresh)

		w.store.setDown(errors.New("down"))
		_, err := w.Introspect(t.Context(), third.Refresh)
		wantReason(t, err, auth.Unavailable)
	})
}

// flaky is a Store whose Watch is controlled by a test.
type flaky struct {
	auth.Store
	watches chan func([]auth.Revocation) // one entry for each Watch that began
	fail    chan error                   // ends the current Watch
}

func (f *flaky) Watch(ctx context.Context, report func([]auth.Revocation)) error {
	f.watches <- report
	select {
	case err := <-f.fail:
		return err
	case <-ctx.Done():
		return nil
	}
}

// TestWatchAgain checks that each revocation of another process is reported once, also those that
// happened while no watch was running.
func TestWatchAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := &flaky{Store: w.store.Store, watches: make(chan func([]auth.Revocation), 10), fail: make(chan error)}
		w.store.Store = f
		ctx, cancel := contextOf(t)
		defer cancel()
		go w.Run(ctx)
		report := <-f.watches
		heard, missed := w.login("maria"), w.login("maria")
		a, b := w.verify(heard.Access).Family, w.verify(missed.Access).Family
		for range 3 {
			report([]auth.Revocation{{Family: a, At: time.Now()}})
		}
		w.rejects(heard.Access, auth.TokenRevoked)
		if got := w.hooks.revokedFamilies(); !slices.Equal(got, []string{a}) {
			t.Errorf("OnRevoke for %v, want once for %s", got, a)
		}
		for range 5 {
			f.fail <- errors.New("connection lost")
			<-f.watches
		}
		synctest.Wait() // the last watch has read what it had missed
		if err := f.RevokeFamily(t.Context(), b, auth.RevokedLogout, audit.Event{Time: time.Now(), Kind: audit.Logout}); err != nil {
			t.Fatal(err)
		}
		w.verify(missed.Access)
		began := time.Now()
		f.fail <- errors.New("connection lost")
		<-f.watches
		time.Sleep(2 * time.Second)
		w.rejects(missed.Access, auth.TokenRevoked)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("watched again after %v", took)
		}
		cancel()
		synctest.Wait()
	})
}

// TestRefreshedElsewhere checks that the deadline of a family's sockets moves when another node
// refreshes the family.
func TestRefreshedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open []string
		here := newWorld(t, func(c *auth.Config) { c.Expiring = func() []string { return open } })
		there := newWorld(t, func(c *auth.Config) { c.Keys, c.Users, c.Store = here.cfg.Keys, here.people, here.store.Store })
		ctx, cancel := contextOf(t)
		defer cancel()
		tokens, idle := here.login("maria"), here.login("maria")
		id, other := here.verify(tokens.Access), here.verify(idle.Access)
		open = []string{id.Family, other.Family, "unknown"}
		for i := range 2500 { // more than one query may have
			open = append(open, strings.Repeat("x", 1+i))
		}
		time.Sleep(day - 5*time.Minute)
		refreshed := there.refresh(tokens.Refresh)
		want := there.verify(refreshed.Access).Expires
		go here.Run(ctx)
		time.Sleep(time.Minute + time.Second)
		here.hooks.mu.Lock()
		defer here.hooks.mu.Unlock()
		if got := here.hooks.extended; len(got) != 1 || !got[id.Family].Equal(want) {
			t.Errorf("deadlines moved: %v, want of %s to %v", got, id.Family, want)
		}
		cancel()
		synctest.Wait()
	})
}

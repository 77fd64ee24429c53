package auth_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// crowd adds n users.
func (p *people) crowd(n int) (ids, names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range n {
		name := fmt.Sprintf("user%d", i)
		p.byID["us_"+name] = &person{user: broker.User{ID: "us_" + name, Username: name, Version: 1}, password: name + "'s password"}
		ids, names = append(ids, "us_"+name), append(names, name)
	}
	return ids, names
}

// asked is a user base that records its queries and fails for some users.
type asked struct {
	*people
	mu    sync.Mutex
	list  []string
	wrong map[string]error
	takes time.Duration
	busy  atomic.Int64
	most  int64
}

func (a *asked) User(ctx context.Context, id string) (broker.User, error) {
	defer a.busy.Add(-1)
	busy := a.busy.Add(1)
	time.Sleep(a.takes)
	a.mu.Lock()
	a.most = max(a.most, busy)
	a.list = append(a.list, id)
	err := a.wrong[id]
	a.mu.Unlock()
	if err != nil {
		return broker.User{}, err
	}
	return a.people.User(ctx, id)
}

func (a *asked) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

func (a *asked) fails(id string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wrong == nil {
		a.wrong = map[string]error{}
	}
	a.wrong[id] = err
}

// on makes a world use the user base.
func (a *asked) on(c *auth.Config) { a.people = c.Users.(*people); c.Users = a }

// TestThreat09SilentSockets uses a user base that does not report changes. A disabled user loses
// sockets without requests within a minute, and changed rights take effect. The base is queried
// about once a minute for each user, spread over time. A base that reports its changes is not
// queried.
func TestThreat09SilentSockets(t *testing.T) {
	for _, watched := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const users, rounds = 120, 10
			var base asked
			var ids, names []string
			w := newWorld(t, base.on, func(c *auth.Config) {
				ids, names = base.crowd(users)
				c.Connected, c.Watched = func() []string { return ids }, watched
			})
			for _, name := range names { // all at once, as after an outage
				w.login(name)
			}
			ctx, cancel := contextOf(t)
			go w.Run(ctx)
			burst := 0
			time.Sleep(5 * time.Minute)
			base.since()
			for range rounds * 60 {
				time.Sleep(time.Second)
				burst = max(burst, len(base.since()))
			}
			reads := 0
			base.mu.Lock()
			most := base.most
			base.mu.Unlock()
			if watched {
				if burst != 0 {
					t.Errorf("%d users were read at once though nothing changed", burst)
				}
			} else if burst == 0 || burst > users/2 || most > 8 {
				t.Errorf("%d of %d users were read in one second, %d at a time", burst, users, most)
			}
			for range 5 * 60 {
				time.Sleep(time.Second)
				reads += len(base.since())
			}
			if !watched && (reads < 5*users || reads > 2*5*users) {
				t.Errorf("%d reads of %d users in 5 minutes", reads, users)
			}
			base.change("us_user7", func(p *person) { p.disabled = true })
			base.change("us_user8", func(p *person) { p.user.Scopes = []string{broker.ScopeRead} })
			base.remove("us_user9")
			time.Sleep(time.Minute)
			synctest.Wait()
			ended := w.hooks.revokedUsers()
			slices.Sort(ended)
			if !watched && (!slices.Equal(ended, []string{"us_user7", "us_user9"}) || len(w.hooks.rights) != 1 || w.hooks.rights[0].ID != "us_user8") {
				t.Errorf("sockets closed of %v, rights reported of %v", ended, w.hooks.rights)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// TestForgottenUserIsClosed checks that sockets of a deleted user close even if the user has no
// stored state.
func TestForgottenUserIsClosed(t *testing.T) {
	w := newWorld(t, func(c *auth.Config) { c.Connected = func() []string { return []string{"us_maria", "us_otto"} } })
	w.people.change("us_maria", func(p *person) { p.disabled = true })
	w.UsersChanged(t.Context())
	if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_maria"}) {
		t.Errorf("sockets closed of %v, want of us_maria", got)
	}
}

// TestThreat09OneBadRecord checks that a user whose record cannot be read, or is answered with an
// error, does not delay the closing of other users' sockets or keep their tokens valid. The user's
// own tokens end after five minutes.
func TestThreat09OneBadRecord(t *testing.T) {
	for what, wrong := range map[string]error{
		"bad record": fmt.Errorf("%w: entitlements", broker.ErrBadUser),
		"error":      fmt.Errorf("%w: 500", broker.ErrUnavailable),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var base asked
				var ids, names []string
				w := newWorld(t, base.on, func(c *auth.Config) {
					ids, names = base.crowd(60)
					c.Connected = func() []string { return ids }
				})
				tokens := map[string]auth.Tokens{}
				for i, name := range names {
					tokens[ids[i]] = w.login(name)
				}
				bad, gone := ids[20], ids[40]
				base.fails(bad, wrong)
				for i, id := range ids {
					if i%2 == 1 {
						base.change(id, func(p *person) { p.disabled = true })
					}
				}
				w.UsersChanged(t.Context())
				if got := w.hooks.revokedUsers(); len(got) != 30 {
					t.Errorf("sockets closed of %d users, want of 30: %v", len(got), got)
				}
				time.Sleep(2 * time.Minute)
				w.verify(tokens[bad].Access) // as last read
				base.change(gone, func(p *person) { p.disabled = true })
				w.rejects(tokens[gone].Access, auth.TokenRevoked) // the user base is queried all the same
				wantReason(t, second(w.Refresh(t.Context(), tokens[bad].Refresh, origin)), auth.Unavailable)

				ctx, cancel := contextOf(t)
				go w.Run(ctx)
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if over := slices.Contains(w.hooks.revokedUsers(), bad); over != errors.Is(wrong, broker.ErrBadUser) {
					t.Errorf("sockets closed of the user with the bad record: %v", over)
				}
				if errors.Is(wrong, broker.ErrBadUser) {
					w.rejects(tokens[bad].Access, auth.TokenRevoked)
				}
				base.fails(bad, nil) // fixed
				time.Sleep(2 * time.Minute)
				w.verify(tokens[bad].Access)
				w.refresh(tokens[bad].Refresh)
				cancel()
				synctest.Wait()
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestBaseDownIsLeftAlone checks that a user base that does not answer is queried about few users
// only, and then not for a while.
func TestBaseDownIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var base asked
		var names []string
		w := newWorld(t, base.on, func(*auth.Config) { _, names = base.crowd(400) })
		var tokens []auth.Tokens
		for _, name := range names {
			tokens = append(tokens, w.login(name))
		}
		base.setDown(errors.New("down"))
		w.UsersChanged(t.Context())
		if n := len(base.since()); n > 16+8 {
			t.Errorf("%d users were asked for", n)
		}
		for _, x := range tokens {
			w.verify(x.Access)
		}
		if n := len(base.since()); n != 0 {
			t.Errorf("asked %d times more within five seconds", n)
		}
	})
}

// paged is a user base that answers in pages.
type paged struct {
	asked
	pages [][]string
}

func (p *paged) UsersByID(ctx context.Context, ids []string) ([]broker.UserResult, error) {
	list := make([]broker.UserResult, len(ids))
	for i, id := range ids {
		list[i].User, list[i].Err = p.people.User(ctx, id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages = append(p.pages, slices.Clone(ids))
	return list, nil
}

// TestManyUsersChanged checks that users with open sockets are read first after a change, in pages
// or several in parallel.
func TestManyUsersChanged(t *testing.T) {
	const users = 1200
	connected := []string{"us_user11", "us_user500", "us_user1100"}
	at := func(c *auth.Config) { c.Connected = func() []string { return connected } }
	synctest.Test(t, func(t *testing.T) {
		base := asked{}
		w := newWorld(t, base.on, at, func(*auth.Config) { base.crowd(users) })
		for i := range users {
			w.login(fmt.Sprint("user", i))
		}
		base.takes = 10 * time.Millisecond
		base.change("us_user1199", func(p *person) { p.disabled = true })
		began := time.Now()
		w.UsersChanged(t.Context())
		if took := time.Since(began); took > users*base.takes/8+time.Second/10 || base.most != 8 {
			t.Errorf("%d users read in %v, %d at a time", users, took, base.most)
		}
		first := base.since()[:8]
		for _, id := range connected {
			if !slices.Contains(first, id) {
				t.Errorf("%s is not among the first, which are %v", id, first)
			}
		}
		if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_user1199"}) {
			t.Errorf("sockets closed of %v", got)
		}
	})
	base := &paged{}
	w := newWorld(t, base.on, at, func(c *auth.Config) { c.Users = base; base.crowd(users) })
	for i := range users {
		w.login(fmt.Sprint("user", i))
	}
	base.since()
	base.change("us_user1199", func(p *person) { p.disabled = true })
	w.UsersChanged(t.Context())
	total := 0
	first := false
	for _, page := range base.pages {
		total += len(page)
		first = first || slices.Equal(page[:3], connected)
	}
	if one := base.since(); total != users || len(base.pages) > users/200 || !first || len(one) != 0 {
		t.Errorf("%d users in %d pages, those with sockets first: %v; one by one %d", total, len(base.pages), first, len(one))
	}
	if got := w.hooks.revokedUsers(); !slices.Equal(got, []string{"us_user1199"}) {
		t.Errorf("sockets closed of %v", got)
	}
}

// TestRightsReportedInOrder checks that the last call of the hooks has the current rights if
// several goroutines find changes at once.
func TestRightsReportedInOrder(t *testing.T) {
	var mu sync.Mutex
	var reported broker.User
	w := newWorld(t, func(c *auth.Config) {
		c.OnRights = func(u broker.User) {
			for range len(u.Scopes) * 7 % 30 { // some calls take longer than others
				runtime.Gosched()
			}
			mu.Lock()
			defer mu.Unlock()
			reported = u
		}
	})
	w.login("maria")
	for round := range soak(60_000) {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				w.people.change("us_maria", func(p *person) { p.user.Scopes = strings.Fields(strings.Repeat("x ", 1+(len(p.user.Scopes)+i)%9)) })
				w.UsersChanged(t.Context())
			})
		}
		all.Wait()
		now, err := w.people.User(t.Context(), "us_maria")
		if err != nil {
			t.Fatal(err)
		}
		if len(reported.Scopes) != len(now.Scopes) {
			t.Fatalf("round %d: %d scopes were reported last, the user has %d", round, len(reported.Scopes), len(now.Scopes))
		}
	}
}

// TestThreat30OneUnreadableUser has one user log in and refresh all the time whose record cannot be
// read, or is answered with an error. Nobody else waits, also not in the same network. The user
// base is hardly asked about that user after an error.
func TestThreat30OneUnreadableUser(t *testing.T) {
	for what, wrong := range map[string]error{
		"bad record": fmt.Errorf("%w: entitlements", broker.ErrBadUser),
		"error":      fmt.Errorf("%w: 500", broker.ErrUnavailable),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var base asked
				w := newWorld(t, base.on, defaultThrottle)
				bad, otto := w.login("maria"), w.login("otto")
				base.fails("us_maria", wrong)
				base.since()
				for i := range 50 {
					_, err := w.Refresh(t.Context(), bad.Refresh, origin)
					wantReason(t, err, auth.Unavailable)
					if i%10 == 0 {
						w.refresh(otto.Refresh)
					}
					time.Sleep(500 * time.Millisecond)
				}
				about := 0
				for _, id := range base.since() {
					if id == "us_maria" {
						about++
					}
				}
				if errors.Is(wrong, broker.ErrUnavailable) && about > 6 {
					t.Errorf("the user base was asked %d times in 25 s about a user whose record it cannot answer", about)
				}
				w.people.setDown(wrong)
				for range 4 {
					_, _ = w.Password(t.Context(), "maria", "maria's password", "", origin)
				}
				if errors.Is(wrong, broker.ErrBadUser) {
					for range 50 {
						_, _ = w.Password(t.Context(), "maria", "maria's password", "", origin)
					}
				}
				w.people.setDown(nil)
				w.login("otto")
				other := scattered(9)
				other.Address = origin.Address.Next() // a new place in the network
				if errors.Is(wrong, broker.ErrBadUser) {
					if reason, _ := try(t, w, "otto", "otto's password", other); reason != "" {
						t.Errorf("another user in the network: %s", reason)
					}
				}
			})
		})
	}
}

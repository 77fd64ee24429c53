package auth_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// directory is a user base that locks an account after three wrong passwords, each less than half
// an hour after the one before, as directories do.
type directory struct {
	*people
	mu     sync.Mutex
	wrong  map[string]int
	last   map[string]time.Time
	locked []string
}

func (d *directory) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	user, err := d.people.Authenticate(ctx, login)
	d.mu.Lock()
	defer d.mu.Unlock()
	name := login.Username
	if now := time.Now(); err == nil {
		delete(d.wrong, name)
	} else {
		if now.Sub(d.last[name]) >= 30*time.Minute {
			d.wrong[name] = 0
		}
		d.last[name] = now
		if d.wrong[name]++; d.wrong[name] == 3 {
			d.locked = append(d.locked, name)
		}
	}
	return user, err
}

// TestThreat03DirectoryLockout has strangers in many networks guess the passwords of accounts for a
// day, at two nodes that restart now and then, and checks that the directory locks none of them.
// The owner can log in from the usual place all the time, also after one mistake.
func TestThreat03DirectoryLockout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{wrong: map[string]int{}, last: map[string]time.Time{}}
		w := newWorld(t, defaultThrottle, func(c *auth.Config) {
			d.people = c.Users.(*people)
			c.Users, c.AccountFailures = d, 2
		})
		node := &world{t: t, cfg: w.cfg, people: w.people, store: w.store, hooks: w.hooks}
		node.restart()
		nodes := []*world{w, node}
		w.login("maria") // the usual place
		for _, n := range nodes {
			n.restart()
		}
		for minute := range 24 * 60 {
			time.Sleep(time.Minute)
			for i := range 4 {
				try(t, nodes[i%2], "maria", "wrong", scattered(4*minute+i))
				try(t, nodes[i%2], "nobody", "wrong", scattered(4*minute+i))
			}
			if minute%97 == 0 {
				nodes[minute%2].restart()
			}
			if minute%200 == 100 {
				if reason, _ := try(t, nodes[0], "maria", "a typing error", origin); reason != auth.InvalidCredentials {
					t.Errorf("the owner's mistake at minute %d: %s", minute, reason)
				}
				time.Sleep(36 * time.Minute)
			}
			if minute%50 == 0 {
				if reason, _ := try(t, nodes[1], "maria", "maria's password", origin); reason != "" {
					t.Errorf("the owner at minute %d: %s", minute, reason)
				}
			}
		}
		if len(d.locked) > 0 {
			t.Errorf("the directory has locked %v", d.locked)
		}
	})
}

// TestLockoutParallel checks that wrong passwords that are tried at once do not exceed the bound
// together.
func TestLockoutParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{wrong: map[string]int{}, last: map[string]time.Time{}}
		w := newWorld(t, func(c *auth.Config) {
			d.people = c.Users.(*people)
			c.Users, c.AccountFailures = d, 2
		})
		w.login("maria")
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				at := origin
				if i%2 == 0 {
					at = scattered(i)
				}
				_, _ = w.Password(t.Context(), "maria", "wrong", "", at)
			})
		}
		all.Wait()
		if d.wrong["maria"] != 2 {
			t.Errorf("%d wrong passwords reached the directory, want 2", d.wrong["maria"])
		}
	})
}

// TestThreat03EmptyPasswords checks that passwords that never reach the directory do not count
// there: the owner gets in at a new place.
func TestThreat03EmptyPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle, func(c *auth.Config) { c.AccountFailures = 2 })
		for i := range 4 {
			if reason, _ := try(t, w, "maria", "", scattered(i)); reason != auth.InvalidCredentials {
				t.Errorf("an empty password: %s", reason)
			}
		}
		if reason, wait := try(t, w, "maria", "maria's password", scattered(9)); reason != "" {
			t.Errorf("the owner: %s, %v", reason, wait)
		}
		if reason, _ := try(t, w, "otto", "wrong", scattered(10)); reason != auth.InvalidCredentials {
			t.Errorf("a wrong password: %s", reason)
		}
		if reason, _ := try(t, w, "otto", "otto's password", scattered(11)); reason != auth.TooManyFailures {
			t.Errorf("after a wrong password: %s", reason)
		}
	})
}

package auth_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// countedUsers counts the calls of a user base.
type countedUsers struct {
	broker.Users
	checks, reads atomic.Int64
}

func (c *countedUsers) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	c.checks.Add(1)
	return c.Users.Authenticate(ctx, login)
}

func (c *countedUsers) User(ctx context.Context, id string) (broker.User, error) {
	c.reads.Add(1)
	return c.Users.User(ctx, id)
}

// countedStore counts the calls of a Store.
type countedStore struct {
	auth.Store
	reads, writes atomic.Int64
}

func (c *countedStore) Lookup(ctx context.Context, h auth.Hash) (auth.RefreshToken, auth.Family, error) {
	c.reads.Add(1)
	return c.Store.Lookup(ctx, h)
}

func (c *countedStore) Append(ctx context.Context, events ...audit.Event) error {
	c.writes.Add(1)
	return c.Store.Append(ctx, events...)
}

// refusals returns the three logins that must not be distinguishable by the time of the answer.
func refusals() [3]struct{ what, username string } {
	return [3]struct{ what, username string }{{"unknown user", "nobody"}, {"wrong password", "maria"}, {"disabled user", "otto"}}
}

// writtenOneByOne is the largest number of attempts of each kind for which every refusal has its
// own row in the audit log.
const writtenOneByOne = 6

// TestThreat05UserEnumeration checks that an unknown user, a wrong password and a disabled user get
// the same answer after the same work: the same number of hashes, queries of the user base and
// writes. A soak run compares their times over 2,000 logins of each kind, in random order.
func TestThreat05UserEnumeration(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	base, err := local.Open(t.Context(), local.Config{Writer: db.Writer(), Reader: db.Reader()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"maria", "otto"} {
		if _, err := base.Add(t.Context(), local.NewUser{Username: name, Password: "a password of " + name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := base.Disable(t.Context(), "otto"); err != nil {
		t.Fatal(err)
	}
	users, counted := &countedUsers{Users: base}, &countedStore{Store: db}
	w := newWorld(t, func(c *auth.Config) { c.Users, c.Store = users, counted })
	tries := 5
	if soak(20) == 20 {
		tries = 2000
	}
	var took [3][]time.Duration
	var work [3][6]int64
	now := func() [6]int64 {
		s := base.Passwords().Stats()
		return [6]int64{int64(s.Hashed), int64(s.Work), users.checks.Load(), users.reads.Load(), counted.reads.Load(), counted.writes.Load()}
	}
	for range tries {
		order := rand.Perm(3)
		for _, i := range order {
			username := refusals()[i].username
			before, began := now(), time.Now()
			_, err := w.Password(t.Context(), username, "a password of otto", "", origin)
			took[i] = append(took[i], time.Since(began))
			for k, n := range now() {
				work[i][k] += n - before[k]
			}
			wantReason(t, err, auth.InvalidCredentials)
			if e, _ := errors.AsType[*auth.Error](err); e != nil && e.RetryAfter != 0 {
				t.Errorf("%s: wait %v", refusals()[i].what, e.RetryAfter)
			}
		}
	}
	for i, c := range refusals() {
		if len(took[i]) > writtenOneByOne { // further refusals share rows whose number depends on the clock
			work[i][5] = 0
		}
		if work[i] != work[0] || work[i][0] != int64(tries) || len(took[i]) <= writtenOneByOne && work[i][5] != int64(tries) {
			t.Errorf("%s: hashes, their work, checks, reads of users, reads and writes of the store: %v; %s: %v, in %d tries", c.what, work[i], refusals()[0].what, work[0], tries)
		}
	}
	if tries < 2000 {
		return
	}
	var medians [3]time.Duration
	for i, c := range refusals() {
		slices.Sort(took[i])
		medians[i] = took[i][tries/2]
		t.Logf("figure: login refused, %s: median %v of %d", c.what, medians[i].Round(time.Microsecond), tries)
	}
	apart := slices.Max(medians[:]) - slices.Min(medians[:])
	t.Logf("figure: login refused: medians apart %v", apart.Round(time.Microsecond))
	if apart >= time.Millisecond {
		t.Errorf("the medians are %v apart, want less than 1 ms", apart)
	}
}

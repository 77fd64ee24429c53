package auth_test

import (
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// TestSharedLimitsPostgresE2E checks that two nodes that share limits by PostgreSQL together check
// as many passwords of an address, and of an account, as one node. When the server is killed, each
// checks half of that.
func TestSharedLimitsPostgresE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	dsn := server.CreateDatabase(t, "limits")
	var all [2]*world
	for i := range all {
		limits, err := store.OpenPostgres(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { limits.Close() })
		all[i] = newWorld(t, defaultThrottle, func(c *auth.Config) {
			c.Shared, c.AuditKey = limits, []byte("of the installation")
			c.Throttle.AddressPerMinute = 1 // so that nothing is refunded during the test
			c.Throttle.AddressBurst = 20
			if i > 0 {
				c.Users, c.Store, c.Keys = all[0].people, all[0].store.Store, all[0].cfg.Keys
			}
		})
	}
	checked := func(tries int, username func(int) string, o func(int) auth.Origin) int {
		before, _ := all[0].people.counts()
		for i := range tries {
			try(t, all[i%2], username(i), "wrong", o(i))
		}
		after, _ := all[0].people.counts()
		return after - before
	}
	somebody := func(i int) string { return fmt.Sprint("user", i) }
	home := func(n int) func(int) auth.Origin { return func(int) auth.Origin { return scattered(n) } }
	if n := checked(80, somebody, home(1001)); n != 20 {
		t.Errorf("two nodes looked at %d passwords of one address, want 20", n)
	}
	if n := checked(6, func(int) string { return "maria" }, scattered); n > 5+1 {
		t.Errorf("two nodes looked at %d passwords of one account, want 5, and one more if a second has gone by", n)
	}
	if reason, _ := try(t, all[0], "otto", "otto's password", scattered(50)); reason != "" {
		t.Errorf("otto: %s", reason)
	}
	server.Kill()
	if n := checked(80, somebody, home(1002)); n != 2*10 {
		t.Errorf("with the server killed two nodes looked at %d, want half of 20 each", n)
	}
}

package upgrade_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestLogins opens the SQLite database.
func TestLogins(t *testing.T) {
	testLogins(t, "sqlite", func(t *testing.T) string { return copied(t, "sqlite") })
}

// TestLoginsOfPostgresE2E opens the PostgreSQL database, whose keys are encrypted.
func TestLoginsOfPostgresE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	databases := 0
	testLogins(t, "postgres", func(t *testing.T) string {
		databases++
		folder, dsn := copied(t, "postgres"), server.CreateDatabase(t, fmt.Sprint("upgrade", databases))
		db, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(t.Context())
		if _, err := db.PgConn().Exec(t.Context(), string(readFile(t, "postgres", "dump.sql"))).ReadAll(); err != nil {
			t.Fatalf("load the dump: %v", err)
		}
		if err := os.WriteFile(filepath.Join(folder, "database.url"), []byte(dsn+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return folder
	})
}

// passes reports whether the clock of a bubble goes on while a gateway has the database of a folder
// open. With PostgreSQL it stands, because a read from a socket is not a wait for the clock.
func passes(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "database.url"))
	return err != nil
}

// testLogins compares the answers of this program with those of the commit, each at the time at
// which the commit gave it, and tests later what ends later. fresh returns a copy of the data.
func testLogins(t *testing.T, folder string, fresh func(t *testing.T) string) {
	var was fixture.Logins
	parse(t, readFile(t, folder, "logins.json"), &was)
	if !strings.HasPrefix(was.Commit, "fd6a63bd") || len(was.Exchanges) == 0 {
		t.Fatalf("%s: commit %s, %d requests", folder, was.Commit, len(was.Exchanges))
	}
	for _, test := range []struct {
		name string
		test func(*testing.T, string, *fixture.Logins)
	}{
		{"the same answers", testExchanges},
		{"later", testLater},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := fresh(t)
			synctest.Test(t, func(t *testing.T) { test.test(t, data, &was) })
		})
	}
}

// testExchanges checks what is stored, and makes the requests of the commit.
func testExchanges(t *testing.T, folder string, was *fixture.Logins) {
	until(was.Exchanges[0].At.Add(-time.Second))
	checkStored(t, folder, was)
	c, stop := serve(t, folder)
	defer stop()
	for i := range was.Exchanges {
		x := &was.Exchanges[i]
		if passes(folder) {
			until(x.At)
		}
		status, body := c.ask(x)
		var got struct{ Error struct{ Reason string } }
		parse(t, body, &got)
		if status != x.Status || got.Error.Reason != x.Reason {
			t.Errorf("%s: %d %s, was %d %s", x.Name, status, got.Error.Reason, x.Status, x.Reason)
			continue
		}
		if x.Answer == nil {
			continue
		}
		var is, before map[string]any
		parse(t, body, &is)
		parse(t, x.Answer, &before)
		if data, ok := before["data"].(map[string]any); ok && !passes(folder) {
			delete(data, "epoch") // of a journal that the folder is without
		}
		if !reflect.DeepEqual(has(is, before), any(before)) {
			t.Errorf("%s:\n is %s\nwas %s", x.Name, body, x.Answer)
		}
	}
}

// has returns the part of an answer that an earlier one has too, because members may be added.
func has(is, was any) any {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return nil
		}
		part := map[string]any{}
		for name, value := range was {
			if now, ok := is[name]; ok {
				part[name] = has(now, value)
			}
		}
		return part
	case []any:
		list, ok := is.([]any)
		if !ok || len(list) != len(was) {
			return is
		}
		part := make([]any, len(was))
		for i := range was {
			part[i] = has(list[i], was[i])
		}
		return part
	}
	return is
}

// checkStored checks the states of the keys, and that the audit log verifies and misses no row.
func checkStored(t *testing.T, folder string, was *fixture.Logins) {
	db, err := database.Open(t.Context(), settings(t, folder).Data)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	head, err := audit.ParseHead(was.AuditHead)
	if err != nil {
		t.Fatal(err)
	}
	report, err := auditlog.Verify(t.Context(), db.Store, head, func(int64) {})
	if err != nil || report.Rows != was.AuditRows || report.Head != head {
		t.Errorf("the audit log: %v; %+v, want %d rows up to %s", err, report, was.AuditRows, was.AuditHead)
	}
	keys, err := db.OperatorKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, k := range keys.Keys() {
		states = append(states, fmt.Sprintf("%s\t%s\t%s", k.ID, cmp.Or(k.Algorithm, "-"), k.State))
	}
	slices.Sort(states)
	for i, line := range slices.Sorted(slices.Values(was.Keys)) {
		if i >= len(states) || !strings.HasPrefix(line, states[i]) {
			t.Errorf("the keys are %q, were %q", states, was.Keys)
			break
		}
	}
	stored, err := keys.Anchored()
	if err != nil || stored == (audit.Head{}) {
		t.Fatalf("the head that is stored with the keys: %v, %v", stored, err)
	}
	if err := auditlog.Contains(t.Context(), db.Store, report.Head, stored); err != nil {
		t.Error(err)
	}
}

// testLater tests what ends on a date: before it and after it. The gateway does not run in between.
func testLater(t *testing.T, folder string, was *fixture.Logins) {
	made := was.Exchanges[0].At
	named := map[string]*fixture.Exchange{}
	for i := range was.Exchanges {
		named[was.Exchanges[i].Name] = &was.Exchanges[i]
	}
	refresh, access := named["refresh of otto"], named["sessions, signing key"]
	trades := "/market/trades?instrument=GGAL%7CTEST%7CCI"
	tradesOf := func(user string) func(*asker) int {
		return func(c *asker) int {
			status, _ := c.ask(&fixture.Exchange{Method: http.MethodGet, Path: trades, Token: c.login(user)})
			return status
		}
	}
	publicKeys := func(c *asker) int {
		time.Sleep(time.Minute) // until the changes that are due have been made
		_, text := c.ask(&fixture.Exchange{Method: http.MethodGet, Path: "/.well-known/jwks.json"})
		return strings.Count(string(text), `"kid"`)
	}
	token := func(c *asker) int { status, _ := c.ask(access); return status }
	loginOf := func(user string) func(*asker) int {
		return func(c *asker) int { status, _ := c.tryLogin(user); return status }
	}
	type step struct {
		name string
		at   time.Time
		ask  func(*asker) int
		want int
	}
	steps := []step{
		{"an access token before its end", made.Add(23 * time.Hour), token, 200},
		{"an access token after its end", made.Add(25 * time.Hour), token, 401},
		{"a right before its end", was.RightEnds.Add(-time.Minute), tradesOf("eva"), 200},
		{"a right after its end", was.RightEnds.Add(time.Minute), tradesOf("eva"), 403},
		{"a right without an end", was.RightEnds.Add(2 * time.Minute), tradesOf("ana"), 200},
		{"an account before its end", was.UserEnds.Add(-time.Minute), loginOf("tom"), 200},
		{"an account after its end", was.UserEnds.Add(time.Minute), loginOf("tom"), 401},
		{"a refresh token before its end", made.Add(29 * 24 * time.Hour), func(c *asker) int { status, _ := c.tokens(named["refresh of ana2"].Body); return status }, 200},
		{"a refresh token after its end", made.Add(31 * 24 * time.Hour), func(c *asker) int { status, _ := c.tokens(refresh.Body); return status }, 401},
	}
	if passes(folder) { // otherwise no change of a key gets due while the gateway runs
		steps = slices.Insert(steps, 1, step{"the retired, the signing and the next key", made.Add(23*time.Hour + 30*time.Minute), publicKeys, 3})
		steps = slices.Insert(steps, 3, step{"the retired keys are gone", made.Add(60 * time.Hour), publicKeys, 1})
	}
	for _, step := range steps {
		until(step.at)
		c, stop := serve(t, folder)
		if got := step.ask(c); got != step.want {
			t.Errorf("%s: %d, want %d", step.name, got, step.want)
		}
		stop()
	}
}

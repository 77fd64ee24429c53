package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// shared is the suite for databases that several processes use; open opens the database once more.
var maxBatch = []struct {
	name string
	test func(t *testing.T, open func() database)
}{
	{"two write one chain", testTwoWriters},
	{"others append to the chain", testOthersAppend},
	{"one watches the other", testWatch},
	{"two rotate one family", testTwoRotate},
	{"a log that was changed", testTampering},
	{"usage", testUsage},
	{"requested instruments", testDailyInstruments},
	{"one sends the audit log", testExports},
	{"nodes of a cluster", testClusterNodes},
}

// testExports checks that one process sends at a time, and that the position is kept.
func testExports(t *testing.T, open func() database) {
	a, b := open(), open()
	claim := func(s database, holder string, lease time.Duration, want bool, seq int64) {
		t.Helper()
		sent, ok, err := s.ClaimExport(t.Context(), "syslog", holder, lease)
		if err != nil || ok != want || sent.Seq != seq || seq > 0 && sent.Hash != (audit.Hash{9}) {
			t.Errorf("%s: %v, %v, %v; want %v after row %d", holder, sent, ok, err, want, seq)
		}
	}
	move := func(s database, holder string, seq int64, want bool) {
		t.Helper()
		held, err := s.MoveExport(t.Context(), "syslog", holder, audit.Head{Seq: seq, Hash: audit.Hash{9}}, time.Hour)
		if err != nil || held != want {
			t.Errorf("%s: %v, %v; want %v", holder, held, err, want)
		}
	}
	move(a, "a", 1, false) // not claimed
	claim(a, "a", time.Hour, true, 0)
	claim(b, "b", time.Hour, false, 0)
	move(a, "a", 7, true)
	move(b, "b", 8, false)
	claim(a, "a", time.Hour, true, 7)
	claim(a, "a", 0, true, 7) // returned
	claim(b, "b", time.Hour, true, 7)
	move(a, "a", 9, false)
	if _, ok, err := a.ClaimExport(t.Context(), "webhook", "a", time.Hour); !ok || err != nil {
		t.Errorf("another receiver: %v, %v", ok, err)
	}
	list, err := b.AuditExports(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "syslog" || list[0].Holder != "b" || list[0].Sent.Seq != 7 || !list[0].Until.After(time.Now()) ||
		time.Since(list[0].At).Abs() > time.Minute || list[1].Name != "webhook" || !list[1].At.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}

// testTwoWriters checks that rows of two writers have no gaps.
func testTwoWriters(t *testing.T, open func() database) {
	a, b := open(), open()
	var wg sync.WaitGroup
	for i, s := range []database{a, b} {
		s.UseChain(chain())
		for j := range 8 {
			wg.Go(func() {
				for n := range 10 {
					create(t, s, fmt.Sprint(i, "-", j, "-", n), "u1")
					if err := s.Append(t.Context(), at(0), at(0)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, s := range []database{a, b} {
		if head, err := verify(t, s, chain()); err != nil || head.Seq != 2*8*10*3 {
			t.Errorf("%v, %v", head, err)
		}
	}
}

// testOthersAppend checks that another package writes its events in its own transactions, between
// those of the store.
func testOthersAppend(t *testing.T, open func() database) {
	s := open()
	s.UseChain(chain())
	failed := errors.New("on purpose")
	appendOne := func(fail bool) (err error) {
		tx, err := s.Writer().BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, tx.Rollback())
			}
		}()
		for range 2 {
			if err := s.AppendAudit(t.Context(), tx, at(0)); err != nil {
				return err
			}
		}
		if fail {
			return failed
		}
		return tx.Commit()
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 10 {
				create(t, s, fmt.Sprint(i, "-", n), "u1")
				if err := appendOne(n%2 == 0); (err != nil) != (n%2 == 0) || err != nil && !errors.Is(err, failed) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if head, err := verify(t, s, chain()); err != nil || head.Seq != 4*(10+5*2) {
		t.Errorf("%v, %v", head, err)
	}
}

// testWatch checks that revocations of another process are reported soon and once.
func testWatch(t *testing.T, open func() database) {
	s, other := open(), open()
	now := time.Now()
	for _, id := range []string{"reused", "ended", "of the user"} {
		f, first := family(id, id)
		first.Expires, first.Kept = now.Add(month), now.Add(month)
		if err := s.CreateFamily(t.Context(), f, first); err != nil {
			t.Fatal(err)
		}
	}
	reported := make(chan auth.Revocation, 100)
	var watch sync.WaitGroup
	watching, cancel := context.WithCancel(t.Context())
	watch.Go(func() {
		err := s.Watch(watching, func(list []auth.Revocation) {
			for _, r := range list {
				reported <- r
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	defer watch.Wait()
	defer cancel()
	event := audit.Event{Time: now, Kind: audit.SessionEnded, Actor: "administrator"}
	for _, c := range []struct {
		id     string
		revoke func() error
	}{
		{"ended", func() error { return other.RevokeFamily(t.Context(), "ended", auth.RevokedLogout, event) }},
		{"of the user", func() error {
			_, err := other.RevokeUser(t.Context(), "of the user", auth.RevokedUser, time.Time{}, event)
			return err
		}},
		{"reused", func() error {
			for n, at := range []time.Duration{-time.Hour, -time.Hour, 0} { // the first, its successor, the first again
				r := rotation("reused", n%2, 0, false)
				r.Now, r.Expires, r.End = now.Add(at), now.Add(month), now.Add(month)
				if _, err := other.Rotate(t.Context(), r); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		if err := c.revoke(); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-reported:
			if r.Family != c.id || r.At.Before(now) || r.At.Sub(now) > time.Minute {
				t.Errorf("reported %+v, want %s at %v", r, c.id, now)
			}
		case <-time.After(time.Minute):
			t.Fatalf("of %s nothing was reported", c.id)
		}
	}
}

func testTwoRotate(t *testing.T, open func() database) {
	both := []database{open(), open()}
	create(t, both[0], "a", "u1")
	var wg sync.WaitGroup
	for _, s := range both {
		for range 16 {
			wg.Go(func() { rotateAs(t, s, rotation("a", 0, 0, false), auth.Granted) })
		}
	}
	wg.Wait()
	rotate(t, both[0], rotation("a", 1, 0, false), auth.Granted)
	rotate(t, both[1], rotation("a", 0, grace+1, false), auth.Reused)
	rotate(t, both[0], rotation("a", 1, grace+1, false), auth.Refused)
}

// rotateAs is rotate for another goroutine.
func rotateAs(t *testing.T, s auth.Store, r auth.Rotation, want auth.Outcome) {
	if got, err := s.Rotate(t.Context(), r); err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// testTampering changes the log with access to the database but without the key: each change is
// detected, with its row.
func testTampering(t *testing.T, open func() database) {
	s := open()
	s.UseChain(chain())
	for i := range 10 {
		create(t, s, fmt.Sprint("f", i), fmt.Sprint("u", i))
	}
	noted, err := verify(t, s, chain())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(statements ...string) {
		t.Helper()
		for _, st := range statements {
			if _, err := s.Writer().ExecContext(t.Context(), st); err != nil {
				t.Fatalf("%s: %v", st, err)
			}
		}
	}
	exec(`CREATE TABLE kept AS SELECT * FROM audit`)
	for _, c := range []struct {
		name, find string
		do         []string
	}{
		{"another user", "row 5 ", []string{`UPDATE audit SET user_id = 'u9' WHERE seq = 5`}},
		{"another time", "row 5 ", []string{`UPDATE audit SET at = at + 1 WHERE seq = 5`}},
		{"another kind", "row 1 ", []string{`UPDATE audit SET kind = 'refresh' WHERE seq = 1`}},
		{"text moved between columns", "row 7 ", []string{`UPDATE audit SET address = '192.0.2', client = '.1' || client WHERE seq = 7`}},
		{"another hash", "row 3 ", []string{`UPDATE audit SET hash = (SELECT hash FROM kept WHERE seq = 2) WHERE seq = 3`}},
		{"a row taken out", "row 6 follows row 4", []string{`DELETE FROM audit WHERE seq = 5`}},
		{"a row taken out, the others moved up", "row 5 ", []string{`DELETE FROM audit WHERE seq = 5`, `UPDATE audit SET seq = seq - 1000 WHERE seq > 5`, `UPDATE audit SET seq = seq + 999 WHERE seq < 0`}},
		{"two rows swapped", "row 4 ", []string{`UPDATE audit SET seq = -4 WHERE seq = 4`, `UPDATE audit SET seq = 4 WHERE seq = 5`, `UPDATE audit SET seq = 5 WHERE seq = -4`}},
		{"the start cut off", "row 4 follows row 0", []string{`DELETE FROM audit WHERE seq <= 3`}},
		{"the start cut off, and pruning claimed", "up to row 3 ", []string{
			`DELETE FROM audit WHERE seq <= 3`,
			`INSERT INTO audit_start (one, seq, hash) SELECT 1, seq, hash FROM kept WHERE seq = 3`,
		}},
		{"all but the note of a start", "up to row 10 ", []string{
			`DELETE FROM audit`,
			`INSERT INTO audit_start (one, seq, hash) SELECT 1, seq, hash FROM kept WHERE seq = 10`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			exec(c.do...)
			if _, err := verify(t, s, chain()); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), c.find) {
				t.Errorf("error %v; want one with %q", err, c.find)
			}
			exec(`DELETE FROM audit`, `DELETE FROM audit_start`, `INSERT INTO audit SELECT * FROM kept`)
			if head, err := verify(t, s, chain()); err != nil || head != noted {
				t.Fatalf("put back: %v, %v", head, err)
			}
		})
	}
	t.Run("forged without the key", func(t *testing.T) {
		forged := open()
		forged.UseChain(audit.NewChain([]byte("a guess")))
		create(t, forged, "forged", "u1")
		if _, err := verify(t, s, chain()); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), "row 11 ") {
			t.Errorf("error %v", err)
		}
	})
}

func testDailyInstruments(t *testing.T, open func() database) {
	s := open()
	row := func(day, user, instrument string) store.DailyInstrument {
		return store.DailyInstrument{Day: day, User: user, Entitlement: "e", Instrument: instrument}
	}
	first := []store.DailyInstrument{row("2026-11-20", "u", "B|M|CI"), row("2026-11-20", "u", "A|M|CI"), row("2026-11-20", "v", "A|M|CI"), row("2026-11-19", "u", "A|M|CI")}
	for _, list := range [][]store.DailyInstrument{first, first[:2], {row("2026-11-21", "u", "A|M|CI")}} {
		oldest := "2026-11-19"
		if len(list) == 1 {
			oldest = "2026-11-20"
		}
		if err := s.AddDailyInstruments(t.Context(), oldest, list); err != nil {
			t.Fatal(err)
		}
	}
	for day, want := range map[string]int{"2026-11-19": 0, "2026-11-20": 2, "2026-11-21": 1} {
		if got, err := open().DailyInstruments(t.Context(), day, "u"); err != nil || len(got) != want {
			t.Errorf("%s: %+v, %v; want %d", day, got, err, want)
		}
	}
}

func testUsage(t *testing.T, open func() database) {
	s := open()
	one := store.Usage{
		Month: "2026-09", UserID: "u1", Market: "XNAS", Level: "trades", Delay: 0, Days: 1 << 20, Connections: 2,
		First: epoch.Truncate(time.Microsecond), Last: epoch.Add(time.Hour).Truncate(time.Microsecond),
	}
	delayed, quotes, next := one, one, one
	delayed.Delay, quotes.Level, quotes.Market, next.Month = 15, "quotes", "XNYS", "2026-10"
	if err := s.AddUsage(t.Context(), []store.Usage{quotes, delayed, one, next}); err != nil {
		t.Fatal(err)
	}
	more := one
	more.Days, more.Connections = 1<<31|1, 1
	more.First, more.Last = one.First.Add(-time.Hour), one.Last.Add(-time.Hour)
	last := more
	last.Connections, last.Last = 5, one.Last.Add(time.Hour)
	if err := s.AddUsage(t.Context(), []store.Usage{more, last}); err != nil {
		t.Fatal(err)
	}
	sum := one
	sum.Days, sum.Connections, sum.First, sum.Last = 1<<31|1<<20|1, 5, more.First, last.Last
	want := []store.Usage{sum, delayed, quotes}
	got, err := open().Usage(t.Context(), "2026-09")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, u := range got {
		if !u.First.Equal(want[i].First) || !u.Last.Equal(want[i].Last) {
			t.Errorf("from %v to %v; want %v to %v", u.First, u.Last, want[i].First, want[i].Last)
		}
		u.First, u.Last = want[i].First, want[i].Last
		if u != want[i] {
			t.Errorf("%+v\nwant %+v", u, want[i])
		}
	}
	if list, err := s.Usage(t.Context(), "2026-08"); err != nil || len(list) != 0 {
		t.Errorf("a month without any: %v, %v", list, err)
	}
	if err := s.AddUsage(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

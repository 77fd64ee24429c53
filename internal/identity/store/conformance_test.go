package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// backend is what every store implements.
type backend interface {
	auth.Store
	UseChain(audit.Chain)
	AuditStart(context.Context) (audit.Head, error)
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
	PruneAudit(ctx context.Context, before time.Time) (int64, error)
}

// database is a backend that several processes and packages may use.
type database interface {
	backend
	AppendAudit(context.Context, *sql.Tx, audit.Event) error
	ClaimExport(ctx context.Context, name, holder string, lease time.Duration) (sent audit.Head, ok bool, err error)
	MoveExport(ctx context.Context, name, holder string, sent audit.Head, lease time.Duration) (held bool, err error)
	AuditExports(context.Context) ([]audit.Export, error)
	AddUsage(context.Context, []store.Usage) error
	Usage(ctx context.Context, month string) ([]store.Usage, error)
	AddDailyInstruments(ctx context.Context, oldest string, list []store.DailyInstrument) error
	DailyInstruments(ctx context.Context, day, user string) ([]store.DailyInstrument, error)
	Writer() *sql.DB
	Reader() *sql.DB
}

// kind is a kind of store. It must pass the suite below, and a database the suite of databases too.
type kind struct {
	name string
	// open opens the store in a folder of the test. Opening the same folder again opens the same
	// database, as another process would.
	open   func(t testing.TB, folder string) backend
	shared bool // it is a database
}

// backends returns the stores that need no other process.
var backends = []kind{
	{"memory", func(testing.TB, string) backend { return store.NewMemory() }, false},
	{"sqlite", func(t testing.TB, place string) backend { return openFile(t, filepath.Join(place, "rueda.db")) }, true},
	{"sqlite in memory", func(t testing.TB, _ string) backend {
		s, err := store.OpenInMemory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		return s
	}, false},
}

// onPostgres is the store that needs PostgreSQL.
var onPostgres = kind{"postgres", func(t testing.TB, folder string) backend { return connect(t, cluster.DatabaseFor(t, folder)) }, true}

func openFile(t testing.TB, path string) *store.SQLite {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *store.SQLite) {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// epoch is when the tests begin; its nanosecond would be lost in a coarser column.
var epoch = time.Unix(1_790_000_000, 123_456_789)

const (
	day   = 24 * time.Hour
	month = 30 * day
	grace = 30 * time.Second
)

func hash(name string) auth.Hash { return sha256.Sum256([]byte(name)) }

func family(id, user string) (auth.Family, auth.RefreshToken) {
	f := auth.Family{
		ID: id, UserID: user, UserVersion: 3, KeyID: "k1", Seed: hash("seed " + id),
		Created: epoch, Used: epoch, Address: "192.0.2.1", Client: "test/1",
	}
	return f, auth.RefreshToken{Hash: hash(id + "0"), Family: id, Issued: epoch, Expires: epoch.Add(month), Kept: epoch.Add(month)}
}

// rotation presents token n of a family, which succeeds token n-1. From token 1 on they are valid
// for two months from the beginning.
func rotation(id string, n int, at time.Duration, strict bool) auth.Rotation {
	now := epoch.Add(at)
	r := auth.Rotation{
		Presented: hash(fmt.Sprint(id, n)),
		Now:       now, End: now.Add(month), Strict: strict, Grace: grace,
		Address: "192.0.2.2", Client: "test/2",
	}
	if n > 0 {
		r.Parent, r.Issued, r.Expires = hash(fmt.Sprint(id, n-1)), epoch, epoch.Add(2*month)
	}
	return r
}

// sibling presents another successor of the parent of token n, from an address.
func sibling(id string, n int, at time.Duration, strict bool, address string) auth.Rotation {
	r := rotation(id, n, at, strict)
	r.Presented, r.Address = hash(fmt.Sprint(id, n, " sibling")), address
	return r
}

// suite is the conformance suite of a Store.
var suite = []struct {
	name string
	test func(t *testing.T, s backend)
}{
	{"a login is read as written", testCreate},
	{"a family or token is made once", testCreateTwice},
	{"an unknown token", testUnknown},
	{"rotation by activation", testActivation},
	{"siblings of a used successor", testSiblings},
	{"strict rotation", testStrict},
	{"a row is kept for its successors", testKept},
	{"64 at once", testParallel},
	{"reuse revokes", testReuse},
	{"revoking a family", testRevokeFamily},
	{"revoking a user", testRevokeUser},
	{"revoking old logins of a user", testRevokeUserByTime},
	{"failures of an account", testFailures},
	{"trusted locations", testTrusted},
	{"expiry", testExpire},
	{"expiry of many", testExpireMany},
	{"sessions of a user", testSessions},
	{"families by id", testFamilies},
	{"who gives up", testGivesUp},
	{"a failure fails alone", testFailsAlone},
	{"what each change appends", testEvents},
	{"events of any size", testEventText},
	{"the chain", testChain},
	{"the newest rows", testLast},
	{"pruning", testPrune},
}

func TestConformance(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			conform(t, b)
		})
	}
}

func TestConformanceE2E(t *testing.T) { conform(t, onPostgres) }

// conform runs the suite on one kind of store.
func conform(t *testing.T, b kind) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) { c.test(t, b.open(t, t.TempDir())) })
	}
	if !b.shared {
		return
	}
	for _, c := range maxBatch {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			c.test(t, func() database {
				s, ok := b.open(t, folder).(database)
				if !ok {
					t.Fatal("this is not all that a database can do")
				}
				return s
			})
		})
	}
}

func create(t testing.TB, s auth.Store, id, user string) {
	t.Helper()
	f, first := family(id, user)
	if err := s.CreateFamily(t.Context(), f, first); err != nil {
		t.Fatal(err)
	}
}

// at returns an audit event at a time.
func at(d time.Duration) audit.Event {
	return audit.Event{Time: epoch.Add(d), Kind: audit.Logout, Actor: "client"}
}

func rotate(t testing.TB, s auth.Store, r auth.Rotation, want auth.Outcome) {
	t.Helper()
	got, err := s.Rotate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("at %v: %v, want %v", r.Now.Sub(epoch), got, want)
	}
}

func lookup(t testing.TB, s auth.Store, name string) (auth.RefreshToken, auth.Family) {
	t.Helper()
	token, f, err := s.Lookup(t.Context(), hash(name))
	if err != nil {
		t.Fatalf("look up %s: %v", name, err)
	}
	return token, f
}

func testCreate(t *testing.T, s backend) {
	wantFamily, wantToken := family("a", "u1")
	create(t, s, "a", "u1")
	token, f := lookup(t, s, "a0")
	if token != wantToken {
		t.Errorf("token %+v, want %+v", token, wantToken)
	}
	if f != wantFamily {
		t.Errorf("family %+v, want %+v", f, wantFamily)
	}
}

func testCreateTwice(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	f, first := family("a", "u1")
	if err := s.CreateFamily(t.Context(), f, first); err == nil {
		t.Error("the same family was made twice")
	}
	f, _ = family("b", "u1")
	first.Family = "b"
	if err := s.CreateFamily(t.Context(), f, first); err == nil {
		t.Error("two families have one token")
	}
	rotate(t, s, rotation("b", 0, 0, false), auth.Refused)
}

func testUnknown(t *testing.T, s backend) {
	if _, _, err := s.Lookup(t.Context(), hash("a0")); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("look up: %v", err)
	}
	rotate(t, s, rotation("a", 0, 0, false), auth.Refused)
	if err := s.RevokeFamily(t.Context(), "a", auth.RevokedLogout, at(0)); err != nil {
		t.Errorf("revoke: %v", err)
	}
	ids, err := s.RevokeUser(t.Context(), "u1", auth.RevokedUser, time.Time{}, at(0))
	if err != nil || len(ids) != 0 {
		t.Errorf("revoke user: %v, %v", ids, err)
	}
}

func testActivation(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	rotate(t, s, rotation("a", 0, time.Hour, false), auth.Granted)
	rotate(t, s, rotation("a", 0, 2*time.Hour, false), auth.Granted) // its answer was lost
	if _, _, err := s.Lookup(t.Context(), hash("a1")); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("a successor is stored before its use: %v", err)
	}
	token, f := lookup(t, s, "a0")
	if !f.Used.Equal(epoch.Add(2*time.Hour)) || f.Address != "192.0.2.2" || f.Client != "test/2" {
		t.Errorf("family not noted as used: %+v", f)
	}
	if !token.Dead.IsZero() || !token.Expires.Equal(epoch.Add(month)) || !token.Kept.Equal(epoch.Add(2*time.Hour+month)) {
		t.Errorf("the parent, before its successor was used: %+v", token)
	}
	rotate(t, s, rotation("a", 1, 3*time.Hour, false), auth.Granted)
	token, _ = lookup(t, s, "a1")
	want := auth.RefreshToken{
		Hash: hash("a1"), Parent: hash("a0"), Family: "a", Issued: epoch, Expires: epoch.Add(2 * month), Kept: epoch.Add(2 * month),
	}
	if !sameToken(token, want) {
		t.Errorf("successor %+v, want %+v", token, want)
	}
	rotate(t, s, rotation("a", 1, 4*time.Hour, false), auth.Granted)
	if token, _ := lookup(t, s, "a0"); !token.Dead.Equal(epoch.Add(3*time.Hour)) || token.Successor != hash("a1") {
		t.Errorf("the parent died at %v for %x", token.Dead, token.Successor)
	}
	rotate(t, s, rotation("a", 0, 3*time.Hour+grace, false), auth.Late)
	rotate(t, s, rotation("a", 1, 5*time.Hour, false), auth.Granted) // a late retry is allowed
}

// testSiblings checks that a successor that is presented after the use of another one ends the
// family, except for an accident in one network.
func testSiblings(t *testing.T, s backend) {
	for i, c := range []struct {
		after   time.Duration
		address string
		want    auth.Outcome
	}{
		{grace, "192.0.2.99", auth.Late},
		{grace + 1, "192.0.2.99", auth.Reused},
		{0, "192.0.3.2", auth.Reused},
		{0, "2001:db8::1", auth.Reused},
		{0, "", auth.Reused},
	} {
		for _, strict := range []bool{false, true} {
			id := fmt.Sprint("a", i, strict)
			create(t, s, id, "u1")
			rotate(t, s, rotation(id, 0, time.Hour, strict), auth.Granted)
			rotate(t, s, rotation(id, 1, day, strict), auth.Granted)
			rotate(t, s, sibling(id, 1, day+c.after, strict, c.address), c.want)
			want := auth.Granted
			if c.want == auth.Reused {
				want = auth.Refused
			}
			rotate(t, s, rotation(id, 2, day+grace+2, strict), want)
		}
	}
}

// sameToken compares tokens without the location of times.
func sameToken(a, b auth.RefreshToken) bool {
	return a.Hash == b.Hash && a.Parent == b.Parent && a.Successor == b.Successor && a.Family == b.Family &&
		a.Issued.Equal(b.Issued) && a.Expires.Equal(b.Expires) && a.Kept.Equal(b.Kept) && a.Dead.Equal(b.Dead)
}

func testStrict(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	rotate(t, s, rotation("a", 0, time.Hour, true), auth.Granted)
	rotate(t, s, rotation("a", 0, time.Hour+grace, true), auth.Granted) // in the retry window
	if token, _ := lookup(t, s, "a0"); !token.Dead.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the window runs from %v, not from the first use", token.Dead)
	}
	rotate(t, s, rotation("a", 1, time.Hour+grace, true), auth.Granted)
	rotate(t, s, rotation("a", 0, time.Hour+grace, true), auth.Late) // its successor was used
	rotate(t, s, rotation("a", 0, time.Hour+2*grace, true), auth.Late)
	rotate(t, s, rotation("a", 0, time.Hour+2*grace+1, true), auth.Reused)
	rotate(t, s, rotation("a", 1, time.Hour+2*grace+2, true), auth.Refused)
}

func testKept(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	rotate(t, s, rotation("a", 0, day, false), auth.Granted)
	earlier := rotation("a", 0, 2*day, false)
	earlier.End = epoch.Add(3 * day)
	rotate(t, s, earlier, auth.Granted)
	if token, _ := lookup(t, s, "a0"); !token.Kept.Equal(epoch.Add(day + month)) {
		t.Errorf("kept until %v", token.Kept)
	}
	rotate(t, s, rotation("a", 0, month-1, false), auth.Granted)
	rotate(t, s, rotation("a", 0, month, false), auth.Refused) // not valid any more
	if n, err := s.Expire(t.Context(), epoch.Add(2*month-2), epoch); err != nil || n != 0 {
		t.Errorf("%d families expired, %v", n, err)
	}
	if list, err := s.Sessions(t.Context(), "u1", epoch.Add(2*month-2)); err != nil || len(list) != 1 {
		t.Errorf("sessions %v, %v", list, err)
	}
	rotate(t, s, rotation("a", 1, 2*month-2, false), auth.Granted)
	rotate(t, s, rotation("a", 1, 2*month, false), auth.Refused)
}

func testParallel(t *testing.T, s backend) {
	for _, strict := range []bool{false, true} {
		id := fmt.Sprint("family-", strict, "-")
		create(t, s, id, "u1")
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				got, err := s.Rotate(t.Context(), rotation(id, 0, time.Hour, strict))
				if err != nil || got != auth.Granted {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		wg.Wait()
	}
}

func testReuse(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	create(t, s, "b", "u1")
	rotate(t, s, rotation("a", 0, 0, false), auth.Granted)
	rotate(t, s, rotation("a", 1, 0, false), auth.Granted)
	rotate(t, s, rotation("a", 0, grace+1, false), auth.Reused)
	for n := range 3 {
		rotate(t, s, rotation("a", n, grace+2, false), auth.Refused)
	}
	rotate(t, s, rotation("b", 0, grace+2, false), auth.Granted)
	if _, f := lookup(t, s, "a1"); !f.Revoked.Equal(epoch.Add(grace+1)) || f.RevokedFor != auth.RevokedReuse {
		t.Errorf("revoked at %v for %s", f.Revoked, f.RevokedFor)
	}
}

func testRevokeFamily(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	for i, reason := range []string{auth.RevokedLogout, auth.RevokedReuse} {
		if err := s.RevokeFamily(t.Context(), "a", reason, at(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	rotate(t, s, rotation("a", 0, time.Hour, false), auth.Refused)
	if _, f := lookup(t, s, "a0"); !f.Revoked.Equal(epoch) || f.RevokedFor != auth.RevokedLogout {
		t.Errorf("revoked at %v for %s: the first stays", f.Revoked, f.RevokedFor)
	}
	for _, c := range []struct {
		since time.Time
		want  int
	}{{epoch, 1}, {epoch.Add(1), 0}} {
		list, err := s.Revoked(t.Context(), c.since)
		if err != nil || len(list) != c.want {
			t.Errorf("revoked since %v: %v, %v", c.since, list, err)
		}
		for _, r := range list {
			if r.Family != "a" || !r.At.Equal(epoch) {
				t.Errorf("revocation %+v", r)
			}
		}
	}
}

func testRevokeUser(t *testing.T, s backend) {
	for _, id := range []string{"a", "b", "c"} {
		create(t, s, id, "u1")
	}
	create(t, s, "d", "u2")
	if err := s.RevokeFamily(t.Context(), "c", auth.RevokedLogout, at(0)); err != nil {
		t.Fatal(err)
	}
	ids, err := s.RevokeUser(t.Context(), "u1", auth.RevokedUser, time.Time{}, at(0))
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("%v, %v; want the live ones", ids, err)
	}
	rotate(t, s, rotation("a", 0, 0, false), auth.Refused)
	rotate(t, s, rotation("d", 0, 0, false), auth.Granted)
}

func testRevokeUserByTime(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	_, family := lookup(t, s, "a0")
	for _, c := range []struct {
		created time.Time
		want    int
	}{{family.Created.Add(-1), 0}, {family.Created, 1}} {
		if ids, err := s.RevokeUser(t.Context(), "u1", auth.RevokedUser, c.created, at(0)); err != nil || len(ids) != c.want {
			t.Errorf("created by %v: %v, %v; want %d", c.created, ids, err, c.want)
		}
	}
}

func testExpire(t *testing.T, s backend) {
	create(t, s, "live", "u1")
	create(t, s, "ended", "u1")
	create(t, s, "revoked", "u1")
	create(t, s, "long revoked", "u1")
	rotate(t, s, rotation("live", 0, time.Hour, false), auth.Granted)
	for id, late := range map[string]time.Duration{"revoked": time.Hour, "long revoked": 0} {
		if err := s.RevokeFamily(t.Context(), id, auth.RevokedLogout, at(late)); err != nil {
			t.Fatal(err)
		}
	}
	expire := func(at time.Duration, want int) {
		t.Helper()
		n, err := s.Expire(t.Context(), epoch.Add(at), epoch.Add(time.Hour))
		if err != nil || n != want {
			t.Errorf("at %v: %d families, %v; want %d", at, n, err, want)
		}
	}
	expire(month-1, 1) // revoked long ago
	lookup(t, s, "ended0")
	expire(month, 1)      // expired
	lookup(t, s, "live0") // kept for its successor
	for _, name := range []string{"ended0", "long revoked0"} {
		if _, _, err := s.Lookup(t.Context(), hash(name)); !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	rotate(t, s, rotation("live", 1, month, false), auth.Granted)
	if list, err := s.Revoked(t.Context(), epoch); err != nil || len(list) != 1 {
		t.Errorf("a recent revocation was forgotten: %v, %v", list, err)
	}
}

func testExpireMany(t *testing.T, s backend) {
	const families = 520 // more than fit in a transaction
	for i := range families {
		create(t, s, fmt.Sprint("f", i), "u1")
	}
	if n, err := s.Expire(t.Context(), epoch.Add(month), epoch); err != nil || n != families {
		t.Errorf("%d families expired, %v", n, err)
	}
}

// TestBackendsAgree applies the same random rotations to SQL and to Go.
func TestBackendsAgree(t *testing.T) {
	memory := store.NewMemory()
	database, err := store.OpenInMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, database)
	families := 0
	rapid.Check(t, func(rt *rapid.T) {
		families++
		id := fmt.Sprint("agree", families, "-")
		create(t, memory, id, "u1")
		create(t, database, id, "u1")
		var at time.Duration
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			at += rapid.SampledFrom([]time.Duration{0, 1, grace - 1, grace, grace + 1, day, month}).Draw(rt, "wait")
			n, strict := rapid.IntRange(0, 5).Draw(rt, "token"), rapid.Bool().Draw(rt, "strict")
			r := rotation(id, n, at, strict)
			if n > 0 && rapid.Bool().Draw(rt, "sibling") {
				r = sibling(id, n, at, strict, rapid.SampledFrom([]string{"192.0.2.2", "198.51.100.1"}).Draw(rt, "address"))
			}
			want, err := memory.Rotate(t.Context(), r)
			if err != nil {
				rt.Fatal(err)
			}
			if got, err := database.Rotate(t.Context(), r); err != nil || got != want {
				rt.Fatalf("SQLite says %v, %v; memory says %v", got, err, want)
			}
			a, _, errA := memory.Lookup(t.Context(), r.Presented)
			b, _, errB := database.Lookup(t.Context(), r.Presented)
			if !sameToken(a, b) || errors.Is(errA, auth.ErrNotFound) != errors.Is(errB, auth.ErrNotFound) {
				rt.Fatalf("SQLite has %+v, %v; memory has %+v, %v", b, errB, a, errA)
			}
		}
	})
}

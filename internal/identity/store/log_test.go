package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// chain returns the chain of the tests.
func chain() audit.Chain { return audit.NewChain([]byte("a key of the tests")) }

// rows returns the log after a row.
func rows(t testing.TB, s backend, after int64) (list []audit.Row) {
	t.Helper()
	for r, err := range s.AuditRows(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// verify verifies the whole log.
func verify(t testing.TB, s backend, c audit.Chain) (audit.Head, error) {
	t.Helper()
	start, err := s.AuditStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.Verify(start, s.AuditRows(t.Context(), start.Seq))
}

func sameEvent(a, b audit.Event) bool {
	at, bt := a.Time, b.Time
	a.Time, b.Time = time.Time{}, time.Time{}
	return a == b && at.UnixMicro() == bt.UnixMicro()
}

func testSessions(t *testing.T, s backend) {
	for _, id := range []string{"old", "used", "revoked", "ended", "dead"} {
		create(t, s, id, "u1")
	}
	create(t, s, "of another", "u2")
	rotate(t, s, rotation("used", 0, time.Hour, false), auth.Granted)
	if err := s.RevokeFamily(t.Context(), "revoked", auth.RevokedLogout, at(0)); err != nil {
		t.Fatal(err)
	}
	list := func(user string, at time.Duration, want ...string) {
		t.Helper()
		families, err := s.Sessions(t.Context(), user, epoch.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, f := range families {
			if f.UserID != user || !f.Created.Equal(epoch) || f.Address == "" {
				t.Errorf("session %+v", f)
			}
			got = append(got, f.ID)
		}
		if len(got) > 1 {
			slices.Sort(got[1:]) // the others were used at the same time
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s at %v: %v, want %v", user, at, got, want)
		}
	}
	list("u1", time.Hour, "used", "dead", "ended", "old")
	list("u1", month-1, "used", "dead", "ended", "old")
	list("u1", month, "used")
	list("u1", month+time.Hour)
	list("u2", 0, "of another")
	list("u3", 0)
}

func testFamilies(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	create(t, s, "b", "u2")
	create(t, s, "c", "u2")
	list, err := s.Families(t.Context(), []string{"b", "no such", "a"})
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, f := range list {
		if want, _ := family(f.ID, map[string]string{"a": "u1", "b": "u2"}[f.ID]); f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	if list, err := s.Families(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("of none: %v, %v", list, err)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	many[999] = "c"
	if list, err := s.Families(t.Context(), many); err != nil || len(list) != 1 {
		t.Errorf("of a thousand: %v, %v", list, err)
	}
}

// testGivesUp checks that a canceled caller changes nothing.
func testGivesUp(t *testing.T, s backend) {
	create(t, s, "a", "u1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := s.(interface{ Close() error }); !ok {
		return // nothing to wait for in memory
	}
	before := len(rows(t, s, 0))
	if _, err := s.Rotate(ctx, rotation("a", 0, 0, false)); !errors.Is(err, context.Canceled) {
		t.Errorf("rotate: %v", err)
	}
	if err := s.Append(ctx, at(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v", err)
	}
	if _, _, err := s.Lookup(ctx, hash("a0")); !errors.Is(err, context.Canceled) {
		t.Errorf("look up: %v", err)
	}
	if n := len(rows(t, s, 0)); n != before {
		t.Errorf("%d rows were written", n-before)
	}
	rotate(t, s, rotation("a", 0, 0, false), auth.Granted)
}

// testFailsAlone checks that a failing operation does not affect concurrent ones.
func testFailsAlone(t *testing.T, s backend) {
	create(t, s, "twice", "u1")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			id := fmt.Sprint("f", i)
			if i%8 == 0 {
				id = "twice"
			}
			f, first := family(id, "u1")
			if err := s.CreateFamily(t.Context(), f, first); (err != nil) != (id == "twice") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
	logins := 0
	for _, r := range rows(t, s, 0) {
		if r.Kind == audit.Login {
			logins++
		}
	}
	if logins != 57 {
		t.Errorf("%d logins in the log, want 57", logins)
	}
	if _, err := verify(t, s, audit.Chain{}); err != nil {
		t.Error(err)
	}
}

// testEvents checks that each change appends its event, in order, and that operations without a
// change append nothing.
func testEvents(t *testing.T, s backend) {
	seen := int64(0)
	wants := func(what string, want ...audit.Event) {
		t.Helper()
		got := rows(t, s, seen)
		if len(got) != len(want) {
			t.Fatalf("%s appended %d rows, want %d: %+v", what, len(got), len(want), got)
		}
		for i, r := range got {
			seen++
			if r.Seq != seen || !sameEvent(r.Event, want[i]) {
				t.Errorf("%s appended %+v\nwant row %d with %+v", what, r, seen, want[i])
			}
		}
	}
	refresh := func(kind audit.Kind, at time.Duration) audit.Event {
		return audit.Event{Time: epoch.Add(at), Kind: kind, Actor: "client", User: "u1", Family: "a", Address: "192.0.2.2", Client: "test/2"}
	}
	create(t, s, "a", "u1")
	wants("a login", audit.Event{Time: epoch, Kind: audit.Login, Actor: "client", User: "u1", Family: "a", Address: "192.0.2.1", Client: "test/1"})
	f, first := family("a", "u1")
	if err := s.CreateFamily(t.Context(), f, first); err == nil {
		t.Error("the same family was made twice")
	}
	wants("a login that failed")
	rotate(t, s, rotation("a", 0, time.Hour, false), auth.Granted)
	rotate(t, s, rotation("a", 1, 2*time.Hour, false), auth.Granted)
	wants("refreshes", refresh(audit.Refresh, time.Hour), refresh(audit.Refresh, 2*time.Hour))
	rotate(t, s, rotation("a", 9, time.Hour, false), auth.Refused)
	rotate(t, s, rotation("a", 0, 2*time.Hour+grace, false), auth.Late)
	wants("refused and late refreshes")
	rotate(t, s, rotation("a", 0, 3*time.Hour, false), auth.Reused)
	wants("reuse", refresh(audit.Reuse, 3*time.Hour))
	rotate(t, s, rotation("a", 1, 3*time.Hour, false), auth.Refused)
	revoke := func(id string) {
		t.Helper()
		if err := s.RevokeFamily(t.Context(), id, auth.RevokedLogout, at(4*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	revoke("a")
	revoke("no such")
	wants("revoking what is over or not there")
	create(t, s, "b", "u2")
	create(t, s, "c", "u2")
	seen += 2
	revoke("b")
	over := at(4 * time.Hour)
	over.Family, over.User = "b", "u2"
	wants("a logout", over)
	ended := audit.Event{Time: epoch.Add(5 * time.Hour), Kind: audit.UserEnded, Actor: "administrator", Detail: "all of them"}
	for range 2 { // the second time there are none
		if _, err := s.RevokeUser(t.Context(), "u2", auth.RevokedUser, time.Time{}, ended); err != nil {
			t.Fatal(err)
		}
	}
	ended.User = "u2"
	wants("ending a user", ended, ended)
	if _, err := s.Expire(t.Context(), epoch.Add(2*month), epoch.Add(2*month)); err != nil {
		t.Fatal(err)
	}
	wants("expiry")
	if err := s.Append(t.Context()); err != nil {
		t.Error(err)
	}
	wants("nothing")
}

// testEventText checks that many concurrent events with any text are read as written.
func testEventText(t *testing.T, s backend) {
	s.UseChain(chain())
	texts := []string{"", "'; DROP TABLE audit; --", "ünïcode \u2028 ✓", strings.Repeat("long ", 2000), "line\nend\ttab \"quoted\""}
	var events []audit.Event
	for i := range 40 {
		text := texts[i%len(texts)]
		events = append(events, audit.Event{
			Time: epoch.Add(time.Duration(i) * time.Microsecond), Kind: audit.AccessDenied, Actor: text, User: text,
			Family: text, Address: text, Client: text, Detail: text,
		})
	}
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows(t, s, 0) {
		if r.Seq != int64(i)+1 || !sameEvent(r.Event, events[i]) {
			t.Errorf("row %d is %+v, want %+v", i+1, r, events[i])
		}
	}
	if head, err := verify(t, s, chain()); err != nil || head.Seq != 40 {
		t.Errorf("%v, %v", head, err)
	}
}

func testChain(t *testing.T, s backend) {
	s.UseChain(chain())
	if head, err := verify(t, s, chain()); err != nil || head != (audit.Head{}) {
		t.Errorf("an empty log: %v, %v", head, err)
	}
	var wg sync.WaitGroup
	for i := range 600 { // more than a page
		wg.Go(func() { create(t, s, fmt.Sprint("f", i), "u1") })
	}
	wg.Wait()
	head, err := verify(t, s, chain())
	if err != nil || head.Seq != 600 {
		t.Errorf("%v, %v", head, err)
	}
	if _, err := verify(t, s, audit.NewChain([]byte("another key"))); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("with another key: %v", err)
	}
	for r, err := range s.AuditRows(t.Context(), 0) { // a reader may stop
		if err != nil || r.Seq != 1 {
			t.Errorf("%v, %v", r, err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := s.(interface{ Close() error }); !ok {
		return
	}
	for _, err := range s.AuditRows(ctx, 0) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("reading without end: %v", err)
		}
	}
}

func testLast(t *testing.T, s backend) {
	for i := range 10 {
		create(t, s, fmt.Sprint("f", i), fmt.Sprint("u", i%2))
	}
	if err := s.RevokeFamily(t.Context(), "f1", auth.RevokedLogout, at(0)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int
		user string
		kind audit.Kind
		want []int64
	}{
		{3, "", "", []int64{9, 10, 11}},
		{2, "u1", "", []int64{10, 11}},
		{2, "u1", audit.Login, []int64{8, 10}},
		{5, "", audit.Logout, []int64{11}},
		{100, "u0", "", []int64{1, 3, 5, 7, 9}},
		{5, "u9", "", nil},
		{0, "", "", nil},
	} {
		list, err := s.AuditLast(t.Context(), c.n, c.user, c.kind)
		var got []int64
		for _, r := range list {
			got = append(got, r.Seq)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("the last %d of %q, %q: %v, %v; want %v", c.n, c.user, c.kind, got, err, c.want)
		}
	}
}

func testPrune(t *testing.T, s backend) {
	s.UseChain(chain())
	var events []audit.Event
	for i := range 50 {
		events = append(events, at(time.Duration(i)*time.Hour))
	}
	events[10], events[11] = events[11], events[10] // slightly out of order, as with two processes
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	prune := func(before time.Duration, want, left int64) {
		t.Helper()
		n, err := s.PruneAudit(t.Context(), epoch.Add(before))
		if err != nil || n != want {
			t.Errorf("before %v: %d rows, %v; want %d", before, n, err, want)
		}
		start, err := s.AuditStart(t.Context())
		if err != nil || start.Seq != left {
			t.Errorf("the log begins after row %d, %v; want %d", start.Seq, err, left)
		}
		if _, err := verify(t, s, chain()); err != nil {
			t.Errorf("after pruning: %v", err)
		}
	}
	prune(0, 0, 0)
	prune(11*time.Hour, 10, 10) // row 11 is of hour 11, and keeps row 12 of hour 10
	prune(20*time.Hour, 10, 20)
	prune(20*time.Hour, 0, 20)
	list := rows(t, s, 0)
	if n := len(list); n != 32 || list[0].Seq != 21 || list[n-1].Kind != audit.Pruned || list[n-1].Detail != "up to row 20" {
		t.Errorf("%d rows, from %+v to %+v", n, list[0], list[n-1])
	}
	create(t, s, "a", "u1")
	if n, err := s.PruneAudit(t.Context(), time.Now().Add(1000*day)); err != nil || n != 33 {
		t.Errorf("all of them: %d, %v", n, err)
	}
	create(t, s, "b", "u1")
	if head, err := verify(t, s, chain()); err != nil || head.Seq != 55 {
		t.Errorf("after pruning all: %v, %v", head, err)
	}
}

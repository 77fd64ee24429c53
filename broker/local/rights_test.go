package local

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

var errTest = errors.New("no")

// TestRightsAndTheirLog changes rights in every way and checks the result and the audit log. No
// change of rights ends a login.
func TestRightsAndTheirLog(t *testing.T) { everywhere(t, rightsAndTheirLog) }

func TestRightsAndTheirLogE2E(t *testing.T) { onPostgres(t, rightsAndTheirLog) }

func rightsAndTheirLog(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	u := add(t, b, "ana", "right password")
	until := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	byma := broker.Entitlement{Market: "BYMA", Trades: true, Quotes: true, Depth: 5, Until: until}
	rofex := broker.Entitlement{Market: "ROFEX", Quotes: true, Instruments: 7, Delay: 900, From: until.Add(90 * time.Minute)}
	now := func() broker.User {
		t.Helper()
		got, err := b.User(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	steps := []struct {
		what string
		do   func() error
		log  []string
	}{
		{"added", func() error { return nil }, []string{"user_added user scope accounts:read; scope marketdata:read; grant * trades quotes depth=all; connections=3"}},
		{"grant", func() error { return second(b.Grant(t.Context(), "ana", byma)) }, []string{"grant_changed user grant BYMA trades quotes depth=5 until=2026-12-31"}},
		{"the same again", func() error { return second(b.Grant(t.Context(), "ana", byma)) }, nil},
		{"another", func() error { return second(b.Grant(t.Context(), "ana", rofex)) }, []string{"grant_changed user grant ROFEX quotes instruments=7 delay=900 from=2026-12-31T01:30:00Z"}},
		{"revoke", func() error {
			gone, err := b.Revoke(t.Context(), "ana", func(e broker.Entitlement) bool { return e.Market != "BYMA" })
			if len(gone) != 2 {
				t.Errorf("gone: %+v", gone)
			}
			return err
		}, []string{"grant_changed user revoke * trades quotes depth=all; revoke ROFEX quotes instruments=7 delay=900 from=2026-12-31T01:30:00Z"}},
		{"set", func() error {
			return b.SetRights(t.Context(), "ana", Rights{Scopes: []string{"accounts:read", "marketdata:depth"}, Entitlements: []broker.Entitlement{byma}, Limits: broker.Limits{Connections: 20, RequestsPerMinute: 7}})
		}, []string{"grant_changed user scope marketdata:depth; without scope marketdata:read; connections=20; requests_per_minute=7"}},
		{"an edit that gives up", func() error {
			_, err := b.EditRights(t.Context(), "ana", func(r *Rights) error { r.Scopes = nil; return errTest })
			if errors.Is(err, errTest) {
				return nil
			}
			return fmt.Errorf("error %w", err)
		}, nil},
		{"a group", func() error {
			return b.AddGroup(t.Context(), "equity", Rights{Scopes: []string{"marketdata:read", "accounts:read"}, Entitlements: []broker.Entitlement{byma, rofex}, Limits: broker.Limits{Connections: 5, Subscriptions: 9}})
		}, []string{"grant_changed - group equity added; scope marketdata:read; scope accounts:read; grant BYMA trades quotes depth=5 until=2026-12-31; grant ROFEX quotes instruments=7 delay=900 from=2026-12-31T01:30:00Z; connections=5; subscriptions=9"}},
		{"join", func() error { return second(b.Join(t.Context(), "ana", "equity")) }, []string{"grant_changed user joins group equity"}},
		{"join again", func() error { return second(b.Join(t.Context(), "ana", "equity")) }, nil},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		if got := diary(); !slices.Equal(got, s.log) && len(got)+len(s.log) > 0 {
			t.Errorf("%s: log %q, want %q", s.what, got, s.log)
		}
	}
	want := broker.User{
		ID: u.ID, Username: "ana", Version: u.Version,
		Scopes:       []string{"accounts:read", "marketdata:depth", "marketdata:read"},
		Entitlements: []broker.Entitlement{byma, rofex},
		Limits:       broker.Limits{Connections: 20, Subscriptions: 9, RequestsPerMinute: 7},
	}
	if got := now(); !reflect.DeepEqual(got, want) {
		t.Errorf("in the group %+v\nwant %+v", got, want)
	}
	if _, err := b.EditGroup(t.Context(), "equity", func(r *Rights) error { r.Limits.Connections = 50; r.Scopes = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	want.Scopes, want.Limits.Connections = want.Scopes[:2], 50
	if got := now(); !reflect.DeepEqual(got, want) {
		t.Errorf("the group changed: %+v\nwant %+v", got, want)
	}
	if was, err := b.Leave(t.Context(), "ana", "equity"); !was || err != nil {
		t.Errorf("left: %v, %v", was, err)
	}
	want.Entitlements, want.Limits = want.Entitlements[:1], broker.Limits{Connections: 20, RequestsPerMinute: 7}
	if got := now(); !reflect.DeepEqual(got, want) {
		t.Errorf("left: %+v\nwant %+v", got, want)
	}
	if got, want := diary(), []string{"grant_changed - group equity: without scope marketdata:read; without scope accounts:read; connections=50", "grant_changed user leaves group equity"}; !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// TestGroups lists, shows and removes groups.
func TestGroups(t *testing.T) { everywhere(t, groups) }

func TestGroupsE2E(t *testing.T) { onPostgres(t, groups) }

func groups(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	for _, name := range []string{"ana", "eva", "ivo"} {
		add(t, b, name, "right password")
	}
	for _, g := range []string{"zeta", "alfa"} {
		if err := b.AddGroup(t.Context(), g, Rights{Scopes: []string{"group:" + g}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range [][2]string{{"ana", "zeta"}, {"ana", "alfa"}, {"eva", "alfa"}} {
		if changed, err := b.Join(t.Context(), m[0], m[1]); !changed || err != nil {
			t.Fatal(changed, err)
		}
	}
	groups, err := b.Groups(t.Context())
	if err != nil || len(groups) != 2 || groups[0].Name != "alfa" || groups[0].Members != 2 || groups[1].Members != 1 || !slices.Equal(groups[1].Scopes, []string{"group:zeta"}) {
		t.Errorf("%+v, %v", groups, err)
	}
	all, err := b.List(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatal(len(all), err)
	}
	for i, want := range []string{"accounts:read marketdata:read group:alfa group:zeta", "accounts:read marketdata:read group:alfa", "accounts:read marketdata:read"} {
		e := all[i]
		if got := strings.Join(e.Scopes, " "); got != want || len(e.Own.Scopes) != 2 || len(e.Groups) != 2-i {
			t.Errorf("%s: %s, own %v, groups %v", e.Username, got, e.Own.Scopes, e.Groups)
		}
		one, err := b.Entry(t.Context(), e.Username)
		if err != nil || !reflect.DeepEqual(one, e) {
			t.Errorf("shown %+v, %v; listed %+v", one, err, e)
		}
	}
	diary()
	if n, err := b.RemoveGroup(t.Context(), "alfa"); n != 2 || err != nil {
		t.Errorf("%d members, %v", n, err)
	}
	if got := diary(); len(got) != 1 || got[0] != "grant_changed - group alfa removed, 2 were in it" {
		t.Errorf("log %q", got)
	}
	if e, err := b.Entry(t.Context(), "eva"); err != nil || len(e.Scopes) != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	for what, err := range map[string]error{
		"remove": second(b.RemoveGroup(t.Context(), "alfa")),
		"join":   second(b.Join(t.Context(), "ana", "alfa")),
		"leave":  second(b.Leave(t.Context(), "ana", "alfa")),
		"edit":   second(b.EditGroup(t.Context(), "alfa", func(*Rights) error { return nil })),
	} {
		if !errors.Is(err, ErrNoGroup) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.AddGroup(t.Context(), "zeta", Rights{}); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	if got := diary(); len(got) != 0 {
		t.Errorf("what failed is in the log: %q", got)
	}
}

func TestRightsRefused(t *testing.T) {
	b := openBase(t, places[1].open(t))
	add(t, b, "ana", "right password")
	grant := func(e broker.Entitlement) Rights { return Rights{Entitlements: []broker.Entitlement{e}} }
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, r := range map[string]Rights{
		"a scope of two words":        {Scopes: []string{"a b"}},
		"an empty scope":              {Scopes: []string{""}},
		"a scope twice":               {Scopes: []string{"a", "a"}},
		"a scope with a quote":        {Scopes: []string{`a"`}},
		"a scope beyond ASCII":        {Scopes: []string{"ñ"}},
		"no market":                   grant(broker.Entitlement{Trades: true}),
		"a market of two words":       grant(broker.Entitlement{Market: "A B", Trades: true}),
		"nothing of a market":         grant(broker.Entitlement{Market: "BYMA"}),
		"depth below all":             grant(broker.Entitlement{Market: "BYMA", Depth: -2}),
		"delay from the future":       grant(broker.Entitlement{Market: "BYMA", Trades: true, Delay: -1}),
		"an end before the beginning": grant(broker.Entitlement{Market: "BYMA", Trades: true, From: at, Until: at}),
		"a negative limit":            {Limits: broker.Limits{RequestsPerMinute: -1}},
		"endless entitlements":        {Entitlements: slices.Repeat([]broker.Entitlement{{Market: "BYMA", Trades: true}}, maxEntitlements+1)},
	} {
		if err := b.SetRights(t.Context(), "ana", r); err == nil {
			t.Errorf("%s: set", what)
		}
		if err := b.AddGroup(t.Context(), "group", r); err == nil {
			t.Errorf("%s: a group has it", what)
		}
		if _, err := b.Add(t.Context(), NewUser{Username: "new", Password: "right password", Scopes: r.Scopes, Entitlements: r.Entitlements, Limits: r.Limits}); err == nil {
			t.Errorf("%s: a new user has it", what)
		}
	}
	if err := b.AddGroup(t.Context(), "two words", Rights{}); err == nil {
		t.Error("a group of two words")
	}
	if err := b.SetRights(t.Context(), "nobody", Rights{}); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := b.Join(t.Context(), "nobody", "group"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("nobody joins: %v", err)
	}
}

// TestAuditFails checks that no change is made whose event cannot be written.
func TestAuditFails(t *testing.T) {
	db := places[1].open(t)
	b, diary := openAudited(t, db)
	u := add(t, b, "ana", "right password")
	diary()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON diary BEGIN SELECT RAISE(ABORT, 'full'); END`); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"add":      second(b.Add(t.Context(), NewUser{Username: "eva", Password: "right password"})),
		"password": b.SetPassword(t.Context(), "ana", "another password"),
		"disable":  b.Disable(t.Context(), "ana"),
		"logout":   b.Logout(t.Context(), "ana"),
		"grant":    second(b.Grant(t.Context(), "ana", broker.Entitlement{Market: "BYMA", Trades: true})),
		"group":    b.AddGroup(t.Context(), "equity", Rights{}),
		"account":  second(b.AddAccount(t.Context(), "ana", broker.Account{Number: "1"})),
		"one-time": second(b.EnableSecondFactor(t.Context(), "ana", "Rueda")),
		"import":   second(b.Import(t.Context(), []Imported{{Username: "eva", Hash: someHash}}, false)),
	} {
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	got, err := b.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "right password"})
	if err != nil || !reflect.DeepEqual(got, u) {
		t.Errorf("%+v, %v; was %+v", got, err, u)
	}
	if all, err := b.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d users, %v", len(all), err)
	}
}

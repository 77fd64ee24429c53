package local

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// TestNamesByCase checks that no new name differs from another only by case, in both databases, and
// that logins are exact.
func TestNamesByCase(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		b := openBase(t, db)
		add(t, b, "ana", "right password")
		_, err := b.Add(t.Context(), NewUser{Username: "aNa", Password: "right password", WeakPassword: true})
		if !errors.Is(err, ErrExists) || !errors.Is(err, ErrCase) || !strings.Contains(err.Error(), `"ana" exists already (names differ only by case)`) {
			t.Errorf("aNa next to ana: %v", err)
		}
		_, err = b.Add(t.Context(), NewUser{Username: "ana", Password: "right password", WeakPassword: true})
		if !errors.Is(err, ErrExists) || errors.Is(err, ErrCase) {
			t.Errorf("ana next to ana: %v", err)
		}
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: "Ana", Password: "right password"}); !errors.Is(err, broker.ErrInvalidCredentials) {
			t.Errorf("login as Ana: %v", err)
		}
		granted := broker.Entitlement{Market: "BYMA", Trades: true, Delay: 900}
		for range 2 {
			if _, err := b.Grant(t.Context(), "ana", granted); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.AddGroup(t.Context(), "late", Rights{Entitlements: []broker.Entitlement{granted, {Market: "*", Quotes: true}}}); err != nil {
			t.Fatal(err)
		}
		list, err := b.Granted(t.Context())
		if err != nil || len(list) < 2 {
			t.Errorf("granted %v, %v", list, err)
		}
		for i, x := range list {
			for _, y := range list[:i] {
				if sameEntitlement(x, y) {
					t.Errorf("%s is listed twice", Describe(x))
				}
			}
		}
	})
}

// TestNewNames checks which names of new users are refused: those that look like another one.
// Names from before still log in.
func TestNewNames(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "users.db"))
	b := openBase(t, db)
	old := add(t, b, "ana", "right password")
	for what, c := range map[string]struct {
		name string
		ok   bool
	}{
		"plain": {"alice", true}, "with a space": {"otto von bahn", true}, "mail": {"ana.perez+1@broker.example", true},
		"Spanish": {"peña", true}, "Russian": {"анна", true}, "Greek": {"άννα", true}, "Japanese": {"さくら山カ", true}, "Korean": {"김漢", true}, "Arabic": {"سارة", true},
		"Devanagari with marks": {"हिन्दी", true}, "digits": {"12345", true},
		"zero width space": {"ali\u200bce", false}, "right to left": {"ali\u202ece", false}, "soft hyphen": {"ali\u00adce", false}, "private use": {"ali\ue000ce", false},
		"space before": {" alice", false}, "space after": {"alice ", false}, "no-break space": {"alice\u00a0b", false}, "line separator": {"alice\u2028", false},
		"Cyrillic letter": {"\u0430lice", false}, "Greek letter": {"alic\u03b5", false}, "full width": {"\uff41lice", false}, "ligature": {"\ufb01ona", false},
		"Kelvin": {"\u212aarl", false}, "decomposed": {"pen\u0303a", false},
	} {
		_, err := b.Add(t.Context(), NewUser{Username: c.name, Password: "right password"})
		if (err == nil) != c.ok {
			t.Errorf("%s, %q: %v", what, c.name, err)
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE users SET username = ? WHERE id = ?`, c.name+"2", old.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: c.name + "2", Password: "right password"}); err != nil {
			t.Errorf("%s, from before: %v", what, err)
		}
	}
	problems, err := b.Import(t.Context(), []Imported{{Username: "b\u200bea", Hash: stored(t, b, "alice")}}, false)
	if err != nil || problems[0] == nil {
		t.Errorf("import: %v %v", problems, err)
	}
}

// TestTwins checks which names are reported as looking alike.
func TestTwins(t *testing.T) {
	names := []string{
		"alice", "\u0430lice", "ali\u200bce", "Alice ", "bob", "b0b", "pe\u00f1a", "pen\u0303a", "pena", "\u0440\u0430\u0441\u0430", "paca", "otto",
	}
	got := Twins(names)
	for i, name := range names {
		if want := i < 8 || i == 9 || i == 10; got[name] != want {
			t.Errorf("%q: %v", name, got[name])
		}
	}
}

func TestAccountsThatAreNone(t *testing.T) {
	b := openBase(t, openDB(t, filepath.Join(t.TempDir(), "users.db")))
	add(t, b, "ana", "right password")
	for _, a := range []broker.Account{
		{Number: "12 34"}, {Number: "12;34"}, {Number: "12|34"}, {Number: "12\n"}, {Number: strings.Repeat("1", 65)},
		{Number: "1", Currency: "pesos"}, {Number: "1", Currency: "ars"},
	} {
		if _, err := b.AddAccount(t.Context(), "ana", a); err == nil || errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("account %q in %q: %v", a.Number, a.Currency, err)
		}
	}
	if _, err := b.AddAccount(t.Context(), "ana", broker.Account{Number: strings.Repeat("1", 62) + "/a", Currency: "USD"}); err != nil {
		t.Error(err)
	}
}

func TestCovers(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 12, n, 0, 0, 0, 0, time.UTC) }
	all := broker.Entitlement{Market: "*", Trades: true, Quotes: true, Depth: -1}
	one := broker.Entitlement{Market: "BYMA", Trades: true, Depth: 5, Delay: 900, From: day(1), Until: day(9), Instruments: 20}
	for what, c := range map[string]struct {
		change func(x, e *broker.Entitlement)
		want   bool
	}{
		"all":              {func(_, _ *broker.Entitlement) {}, true},
		"another market":   {func(x, _ *broker.Entitlement) { x.Market = "ROFEX" }, false},
		"no trades":        {func(x, _ *broker.Entitlement) { x.Trades = false }, false},
		"no quotes wanted": {func(x, _ *broker.Entitlement) { x.Quotes = false }, true},
		"a lower book":     {func(x, _ *broker.Entitlement) { x.Depth = 1 }, false},
		"as deep a book":   {func(x, _ *broker.Entitlement) { x.Depth = 5 }, true},
		"a book of all":    {func(x, e *broker.Entitlement) { x.Depth, e.Depth = 25, -1 }, false},
		"later":            {func(x, _ *broker.Entitlement) { x.Delay = 901 }, false},
		"ends before":      {func(x, _ *broker.Entitlement) { x.Until = day(8) }, false},
		"ends with it":     {func(x, _ *broker.Entitlement) { x.Until = day(9) }, true},
		"ends, and not it": {func(x, e *broker.Entitlement) { x.Until, e.Until = day(9), time.Time{} }, false},
		"begins after":     {func(x, _ *broker.Entitlement) { x.From = day(2) }, false},
		"fewer":            {func(x, _ *broker.Entitlement) { x.Instruments = 19 }, false},
		"some, and not it": {func(x, e *broker.Entitlement) { x.Instruments, e.Instruments = 20, 0 }, false},
	} {
		x, e := all, one
		c.change(&x, &e)
		if got := Covers(x, e); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

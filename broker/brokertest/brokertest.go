// Package brokertest checks a user base against the contract of package broker. A test of the user
// base opens it with a few users and calls Run:
//
//	func TestConformance(t *testing.T) {
//		brokertest.Run(t, func(t *testing.T) brokertest.Base { ... })
//	}
package brokertest

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// Base is a user base with the users that Run needs.
type Base struct {
	Users    broker.Users
	Accounts broker.Accounts

	Trader   Login // can log in, has at least two accounts
	Other    Login // can log in, has no account
	Disabled Login // cannot log in; ID is required

	// SetPassword and Disable change the user with this username, as an administrator would. nil:
	// not possible; the rules that depend on it are not checked.
	SetPassword func(ctx context.Context, username, password string) error
	Disable     func(ctx context.Context, username string) error

	// SetNetworks and SetExpiry change the user with this username. No networks and the zero time
	// remove the restriction. nil: the base has none.
	SetNetworks func(ctx context.Context, username string, networks []netip.Prefix) error
	SetExpiry   func(ctx context.Context, username string, at time.Time) error

	// SecondFactor can log in only with a one-time password, which OTP returns. If it has no
	// username, Run does not check second factors.
	SecondFactor Login
	OTP          func() string
}

// Login is a user with its password. ID may be empty if it is unknown before a login.
type Login struct {
	ID, Username, Password string
}

// Run checks a base. It calls open once for each check; the base must not be shared, and ends with
// t.
func Run(t *testing.T, open func(t *testing.T) Base) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Base)
	}{
		{"login", login},
		{"login refused", loginRefused},
		{"password as it is", passwordAsIs},
		{"user by id", userByID},
		{"many by id", manyByID},
		{"answers are the caller's own", ownAnswers},
		{"canceled", canceled},
		{"many at once", manyAtOnce},
		{"accounts", accounts},
		{"password changed", passwordChanged},
		{"user disabled", userDisabled},
		{"networks", networks},
		{"end of an account", expiry},
		{"second factor", secondFactor},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func mustLogin(t *testing.T, b Base, l Login) broker.User {
	t.Helper()
	u, err := b.Users.Authenticate(t.Context(), broker.Login{Username: l.Username, Password: l.Password})
	if err != nil {
		t.Fatalf("log in as %q: %v", l.Username, err)
	}
	return u
}

func refused(t *testing.T, b Base, what, username, password string) {
	t.Helper()
	u, err := b.Users.Authenticate(t.Context(), broker.Login{Username: username, Password: password})
	if !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("%s: error %v, want ErrInvalidCredentials", what, err)
	}
	if !reflect.DeepEqual(u, broker.User{ID: u.ID}) {
		t.Errorf("%s: more of a user than the id comes with the error: %+v", what, u)
	}
}

func login(t *testing.T, b Base) {
	u := mustLogin(t, b, b.Trader)
	if u.ID == "" || len(u.ID) > 64 || b.Trader.ID != "" && u.ID != b.Trader.ID {
		t.Errorf("id %q", u.ID)
	}
	if u.Username != b.Trader.Username {
		t.Errorf("username %q, want %q", u.Username, b.Trader.Username)
	}
	scopes := slices.Clone(u.Scopes)
	slices.Sort(scopes)
	if len(slices.Compact(scopes)) != len(u.Scopes) {
		t.Errorf("scopes repeat: %v", u.Scopes)
	}
	for _, s := range u.Scopes {
		if s == "" || strings.ContainsAny(s, " \t\n\"\\") {
			t.Errorf("scope %q is not one word", s)
		}
	}
	for _, e := range u.Entitlements {
		if e.Market == "" || e.Depth < -1 {
			t.Errorf("entitlement %+v", e)
		}
	}
	if again := mustLogin(t, b, b.Trader); !reflect.DeepEqual(again, u) {
		t.Errorf("logged in again as %+v, before as %+v", again, u)
	}
	if other := mustLogin(t, b, b.Other); other.ID == u.ID {
		t.Error("two users have one id")
	}
}

func loginRefused(t *testing.T, b Base) {
	name, password := b.Trader.Username, b.Trader.Password
	refused(t, b, "wrong password", name, password+"x")
	refused(t, b, "password cut", name, password[:len(password)-1])
	refused(t, b, "empty password", name, "")
	refused(t, b, "endless password", name, strings.Repeat("x", 100_000))
	refused(t, b, "another's password", name, b.Other.Password)
	refused(t, b, "unknown user", name+"-nobody", password)
	refused(t, b, "empty username", "", password)
	refused(t, b, "user with a space", name+" ", password)
	refused(t, b, "pattern", "*", password)
	refused(t, b, "SQL", name+"' OR '1'='1", password)
	refused(t, b, "LDAP", "*)(uid=*", password)
	refused(t, b, "look-alike", strings.Replace(name, "a", "\u0430", 1)+"\u200b", password)
	refused(t, b, "NUL", name+"\x00", password)
	refused(t, b, "not UTF-8", name+"\xff", password)
	refused(t, b, "disabled user", b.Disabled.Username, b.Disabled.Password)
}

func passwordAsIs(t *testing.T, b Base) {
	name, password := b.Trader.Username, b.Trader.Password
	refused(t, b, "space before", name, " "+password)
	refused(t, b, "space after", name, password+" ")
	refused(t, b, "line end after", name, password+"\n")
	refused(t, b, "NUL after", name, password+"\x00")
	if upper := strings.ToUpper(password); upper != password {
		refused(t, b, "another case", name, upper)
	}
	mustLogin(t, b, b.Trader)
}

func userByID(t *testing.T, b Base) {
	u := mustLogin(t, b, b.Trader)
	got, err := b.Users.User(t.Context(), u.ID)
	if err != nil || !reflect.DeepEqual(got, u) {
		t.Errorf("by id %+v, %v; by login %+v", got, err, u)
	}
	for _, id := range []string{u.ID + "x", "", u.Username, "*", "' OR '1'='1"} {
		if id == u.ID {
			continue // a base may use its usernames as ids
		}
		if _, err := b.Users.User(t.Context(), id); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("id %q: error %v, want ErrNotFound", id, err)
		}
	}
	if _, err := b.Users.User(t.Context(), b.Disabled.ID); !errors.Is(err, broker.ErrDisabled) {
		t.Errorf("disabled user: error %v, want ErrDisabled", err)
	}
}

// manyByID checks a base that implements BatchUsers.
func manyByID(t *testing.T, b Base) {
	many, ok := b.Users.(broker.BatchUsers)
	if !ok {
		return
	}
	ids := []string{mustLogin(t, b, b.Trader).ID, "nobody has this id", b.Disabled.ID, mustLogin(t, b, b.Other).ID, ""}
	answers, err := many.UsersByID(t.Context(), ids)
	if err != nil || len(answers) != len(ids) {
		t.Fatalf("%d answers about %d users, error %v", len(answers), len(ids), err)
	}
	for i, id := range ids {
		want, wrong := b.Users.User(t.Context(), id)
		if got := answers[i]; !reflect.DeepEqual(got.User, want) || !errors.Is(got.Err, wrong) {
			t.Errorf("%q: %+v, %v in a page; %+v, %v alone", id, got.User, got.Err, want, wrong)
		}
	}
}

func ownAnswers(t *testing.T, b Base) {
	u := mustLogin(t, b, b.Trader)
	want, err := b.Users.User(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	scopes, entitlements := slices.Clone(want.Scopes), slices.Clone(want.Entitlements)
	for i := range u.Scopes {
		u.Scopes[i] = "changed"
	}
	for i := range u.Entitlements {
		u.Entitlements[i] = broker.Entitlement{Market: "changed"}
	}
	got, err := b.Users.User(t.Context(), u.ID)
	if err != nil || !slices.Equal(got.Scopes, scopes) || !slices.Equal(got.Entitlements, entitlements) {
		t.Errorf("a caller that writes to its answer changes the next: %+v, %v", got, err)
	}
}

func canceled(t *testing.T, b Base) {
	u := mustLogin(t, b, b.Trader)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// it may answer correctly, but must not invent an error
	if _, err := b.Users.Authenticate(ctx, broker.Login{Username: b.Trader.Username, Password: b.Trader.Password}); errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a canceled login counts as a wrong password: %v", err)
	}
	if _, err := b.Users.User(ctx, u.ID); errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrDisabled) {
		t.Errorf("a canceled read says that the user is gone: %v", err)
	}
	mustLogin(t, b, b.Trader)
}

func manyAtOnce(t *testing.T, b Base) {
	u := mustLogin(t, b, b.Trader)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			login := b.Trader
			if i%2 == 1 {
				login.Password += "x"
			}
			_, err := b.Users.Authenticate(t.Context(), broker.Login{Username: login.Username, Password: login.Password})
			if wrong := errors.Is(err, broker.ErrInvalidCredentials); err != nil && !errors.Is(err, broker.ErrUnavailable) && wrong != (i%2 == 1) {
				t.Errorf("login %d: %v", i, err)
			}
			if got, err := b.Users.User(t.Context(), u.ID); err != nil || got.ID != u.ID {
				t.Errorf("read %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func accounts(t *testing.T, b Base) {
	trader, other := mustLogin(t, b, b.Trader), mustLogin(t, b, b.Other)
	list, err := b.Accounts.ListAccounts(t.Context(), trader.ID)
	if err != nil || len(list) < 2 {
		t.Fatalf("%d accounts, %v; the seed has two or more", len(list), err)
	}
	seen := map[string]bool{}
	for _, a := range list {
		if a.ID == "" || seen[a.ID] {
			t.Errorf("id %q is empty or repeats", a.ID)
		}
		seen[a.ID] = true
		if a.Number == "" || a.Type == "" || a.Status == "" || a.Currency == "" {
			t.Errorf("a field is empty: %+v", a)
		}
	}
	if again, err := b.Accounts.ListAccounts(t.Context(), trader.ID); err != nil || !reflect.DeepEqual(again, list) {
		t.Errorf("asked again: %+v, %v; before %+v", again, err, list)
	}
	for _, id := range []string{other.ID, "", "nobody", trader.ID + "'"} {
		if list, err := b.Accounts.ListAccounts(t.Context(), id); err != nil || len(list) != 0 {
			t.Errorf("accounts of %q: %v, %v; want none", id, list, err)
		}
	}
}

func passwordChanged(t *testing.T, b Base) {
	if b.SetPassword == nil {
		t.Log("passwords cannot be changed here")
		return
	}
	before := mustLogin(t, b, b.Trader)
	const password = "another good password"
	if err := b.SetPassword(t.Context(), b.Trader.Username, password); err != nil {
		t.Fatal(err)
	}
	refused(t, b, "the old password", b.Trader.Username, b.Trader.Password)
	after := mustLogin(t, b, Login{Username: b.Trader.Username, Password: password})
	if after.ID != before.ID || after.Version <= before.Version {
		t.Errorf("after the change %+v, before %+v: the id stays, the version rises", after, before)
	}
	mustLogin(t, b, b.Other)
}

func userDisabled(t *testing.T, b Base) {
	if b.Disable == nil {
		t.Log("users cannot be disabled here")
		return
	}
	u := mustLogin(t, b, b.Trader)
	if err := b.Disable(t.Context(), b.Trader.Username); err != nil {
		t.Fatal(err)
	}
	refused(t, b, "disabled", b.Trader.Username, b.Trader.Password)
	if _, err := b.Users.User(t.Context(), u.ID); !errors.Is(err, broker.ErrDisabled) {
		t.Errorf("by id: error %v, want ErrDisabled", err)
	}
	mustLogin(t, b, b.Other)
}

func networks(t *testing.T, b Base) {
	if b.SetNetworks == nil {
		t.Log("users have no networks here")
		return
	}
	list := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:7::/48"), netip.MustParsePrefix("203.0.113.9/32")}
	for _, want := range [][]netip.Prefix{list, list[:1], nil} {
		if err := b.SetNetworks(t.Context(), b.Trader.Username, want); err != nil {
			t.Fatal(err)
		}
		u := mustLogin(t, b, b.Trader)
		if !slices.Equal(u.Networks, want) {
			t.Errorf("networks %v, want %v", u.Networks, want)
		}
		if again, err := b.Users.User(t.Context(), u.ID); err != nil || !reflect.DeepEqual(again, u) {
			t.Errorf("by id %+v, %v; by login %+v", again, err, u)
		}
		if other := mustLogin(t, b, b.Other); len(other.Networks) > 0 {
			t.Errorf("another user has networks: %v", other.Networks)
		}
	}
}

func expiry(t *testing.T, b Base) {
	if b.SetExpiry == nil {
		t.Log("accounts do not end here")
		return
	}
	set := func(at time.Time) {
		t.Helper()
		if err := b.SetExpiry(t.Context(), b.Trader.Username, at); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second)
	set(end)
	u := mustLogin(t, b, b.Trader)
	if !u.Expires.Equal(end) {
		t.Errorf("the account ends at %v, want %v", u.Expires, end)
	}
	if again, err := b.Users.User(t.Context(), u.ID); err != nil || !reflect.DeepEqual(again, u) {
		t.Errorf("by id %+v, %v; by login %+v", again, err, u)
	}
	set(time.Now().Add(-time.Minute))
	refused(t, b, "account that has ended", b.Trader.Username, b.Trader.Password)
	if _, err := b.Users.User(t.Context(), u.ID); !errors.Is(err, broker.ErrDisabled) {
		t.Errorf("account that has ended: error %v, want ErrDisabled", err)
	}
	mustLogin(t, b, b.Other)
	set(time.Time{})
	if again := mustLogin(t, b, b.Trader); !again.Expires.IsZero() {
		t.Errorf("an account without an end ends at %v", again.Expires)
	}
}

func secondFactor(t *testing.T, b Base) {
	l := b.SecondFactor
	if l.Username == "" {
		t.Log("nobody has a second factor here")
		return
	}
	try := func(what, password, otp string, want error) {
		t.Helper()
		u, err := b.Users.Authenticate(t.Context(), broker.Login{Username: l.Username, Password: password, OTP: otp})
		if !errors.Is(err, want) || err == nil && u.ID == "" || err != nil && !reflect.DeepEqual(u, broker.User{ID: u.ID}) {
			t.Errorf("%s: %+v, error %v, want %v", what, u, err, want)
		}
	}
	try("without", l.Password, "", broker.ErrSecondFactor)
	try("wrong one", l.Password, "000000", broker.ErrInvalidCredentials) // or ErrWrongOTP
	try("wrong password without", l.Password+"x", "", broker.ErrInvalidCredentials)
	try("wrong password with", l.Password+"x", b.OTP(), broker.ErrInvalidCredentials)
	otp := b.OTP()
	try("right", l.Password, otp, nil)
	try("the same again", l.Password, otp, broker.ErrInvalidCredentials)
}

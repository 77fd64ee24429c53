package local

import (
	"database/sql"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// TestNetworksAndExpiry checks that networks of a user and its groups add up, that accounts end,
// and that Watch counts each change.
func TestNetworksAndExpiry(t *testing.T) { everywhere(t, testNetworksAndExpiry) }

// TestNetworksAndExpiryOnPostgresE2E is TestNetworksAndExpiry with PostgreSQL.
func TestNetworksAndExpiryOnPostgresE2E(t *testing.T) { onPostgres(t, testNetworksAndExpiry) }

func testNetworksAndExpiry(t *testing.T, db *sql.DB) {
	ctx := t.Context()
	b := openBase(t, db)
	home, office := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.20.0.0/16")
	if err := b.AddGroup(ctx, "desk", Rights{Networks: []netip.Prefix{office}}); err != nil {
		t.Fatal(err)
	}
	ana, err := b.Add(ctx, NewUser{Username: "ana", Password: "the first password"})
	if err != nil {
		t.Fatal(err)
	}
	counted := int64(-1)
	networks := func(what string, want ...netip.Prefix) {
		t.Helper()
		n, err := b.countChanges(ctx)
		if err != nil || n == counted {
			t.Errorf("%s: not counted as a change, %v", what, err)
		}
		counted = n
		u, err := b.User(ctx, ana.ID)
		if err != nil || !slices.Equal(u.Networks, want) {
			t.Errorf("%s: %v %v, want %v", what, u.Networks, err, want)
		}
	}
	edit := func(list ...netip.Prefix) error {
		_, err := b.EditRights(ctx, "ana", func(r *Rights) error { r.Networks = list; return nil })
		return err
	}
	networks("none")
	if err := edit(home); err != nil {
		t.Fatal(err)
	}
	networks("own", home)
	if _, err := b.Join(ctx, "ana", "desk"); err != nil {
		t.Fatal(err)
	}
	networks("own and the group's", home, office)
	if _, err := b.EditGroup(ctx, "desk", func(r *Rights) error { r.Networks = []netip.Prefix{home}; return nil }); err != nil {
		t.Fatal(err)
	}
	networks("the same", home)
	if err := edit(); err != nil {
		t.Fatal(err)
	}
	networks("the group's", home)
	if err := edit(netip.PrefixFrom(home.Addr().Next(), 24)); err == nil {
		t.Error("a network with more bits was accepted")
	}
	if err := edit(office, office); err == nil {
		t.Error("a network twice was accepted")
	}

	end := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	if changed, err := b.SetExpiry(ctx, "ana", end); err != nil || !changed {
		t.Fatalf("expiry: %v %v", changed, err)
	}
	networks("an end", home)
	if u := authenticated(t, b, "ana", "the first password", ""); !u.Expires.Equal(end) {
		t.Errorf("expires %v, want %v", u.Expires, end)
	}
	ended := authenticated(t, b, "ana", "the first password", "")
	if _, err := b.SetExpiry(ctx, "ana", time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "the first password"}); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("login after the end: %v", err)
	}
	if _, err := b.User(ctx, ana.ID); !errors.Is(err, broker.ErrDisabled) {
		t.Errorf("User after the end: %v", err)
	}
	if e, err := b.BeginEnrolment(ctx, ended); err != nil {
		t.Error(err)
	} else if _, _, err := b.ConfirmEnrolment(ctx, e.Token, codeAt(t, e.Secret, time.Now()), here()); !errors.Is(err, broker.ErrEnrolment) {
		t.Errorf("enrolment after the end: %v", err)
	}
	if _, err := b.SetExpiry(ctx, "ana", time.Time{}); err != nil {
		t.Fatal(err)
	}
	networks("never", home)
}

// TestThreat47EndMovedLater checks that logins of before the end of an account do not come back
// when the end is moved, also if no gateway ran meanwhile. Moving an end that has not come ends
// none.
func TestThreat47EndMovedLater(t *testing.T) {
	ctx, b := t.Context(), openBase(t, openDB(t, ":memory:"))
	add(t, b, "ana", "the first password")
	for _, at := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(2 * time.Hour), {}} {
		before := authenticated(t, b, "ana", "the first password", "")
		if _, err := b.SetExpiry(ctx, "ana", at); err != nil {
			t.Fatal(err)
		}
		if u, err := b.User(ctx, before.ID); err != nil || u.Version != before.Version {
			t.Errorf("an end that had not come: version %d after %d, %v", u.Version, before.Version, err)
		}
	}
	for _, at := range []time.Time{time.Now().Add(time.Hour), {}} {
		before := authenticated(t, b, "ana", "the first password", "")
		for _, end := range []time.Time{time.Now().Add(-time.Second), at} {
			if _, err := b.SetExpiry(ctx, "ana", end); err != nil {
				t.Fatal(err)
			}
		}
		if u, err := b.User(ctx, before.ID); err != nil || u.Version <= before.Version {
			t.Errorf("after the end: version %d after %d, %v", u.Version, before.Version, err)
		}
	}
}

// TestEnrolmentFromElsewhere checks that an enrolment is confirmed only in the networks of its
// user.
func TestEnrolmentFromElsewhere(t *testing.T) {
	b := openBase(t, openDB(t, ":memory:"))
	add(t, b, "ana", "the first password")
	e, err := b.BeginEnrolment(t.Context(), authenticated(t, b, "ana", "the first password", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.EditRights(t.Context(), "ana", func(r *Rights) error {
		r.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	otp := codeAt(t, e.Secret, time.Now())
	if _, _, err := b.ConfirmEnrolment(t.Context(), e.Token, otp, here()); !errors.Is(err, broker.ErrAddress) {
		t.Errorf("from elsewhere: %v", err)
	}
	if _, _, err := b.ConfirmEnrolment(t.Context(), e.Token, otp, broker.Caller{Address: netip.MustParseAddr("10.1.2.3")}); err != nil {
		t.Errorf("from an allowed address: %v", err)
	}
}

// TestThreat46AddedWithNetworks checks that a user is added with networks and groups in one step,
// or not at all.
func TestThreat46AddedWithNetworks(t *testing.T) { everywhere(t, testAddedWithNetworks) }

func testAddedWithNetworks(t *testing.T, db *sql.DB) {
	ctx := t.Context()
	b := openBase(t, db)
	home := netip.MustParsePrefix("192.0.2.0/24")
	if err := b.AddGroup(ctx, "desk", Rights{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RequireFactor(ctx, "desk", true); err != nil {
		t.Fatal(err)
	}
	u := NewUser{Username: "ana", Password: "the first password", Networks: []netip.Prefix{home}, Groups: []string{"desk", "none"}}
	if _, err := b.Add(ctx, u); !errors.Is(err, ErrNoGroup) {
		t.Errorf("with a group that does not exist: %v", err)
	}
	if _, err := b.Entry(ctx, "ana"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("the user was added without it: %v", err)
	}
	u.Groups = []string{"desk"}
	if _, err := b.Add(ctx, u); err != nil {
		t.Fatal(err)
	}
	e, err := b.Entry(ctx, "ana")
	if err != nil || !slices.Equal(e.Networks, u.Networks) || len(e.Groups) != 1 || !e.Groups[0].RequiredFactor {
		t.Errorf("%+v, %v", e, err)
	}
	u.Username, u.Networks = "eva", []netip.Prefix{{}}
	if _, err := b.Add(ctx, u); err == nil {
		t.Error("an invalid network is accepted")
	}
}

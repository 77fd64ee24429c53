package local

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// TestRequiredFactor checks users of a group that requires a second factor: without one they can
// only enrol, and they cannot disable it. Watch counts each change.
func TestRequiredFactor(t *testing.T) { everywhere(t, testRequiredFactor) }

// TestRequiredFactorOnPostgresE2E is TestRequiredFactor with PostgreSQL.
func TestRequiredFactorOnPostgresE2E(t *testing.T) { onPostgres(t, testRequiredFactor) }

func testRequiredFactor(t *testing.T, db *sql.DB) {
	ctx := t.Context()
	b := openBase(t, db)
	add(t, b, "ana", "the first password")
	ana := authenticated(t, b, "ana", "the first password", "")
	for _, group := range []string{"any", "strict"} {
		if err := b.AddGroup(ctx, group, Rights{}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Join(ctx, "ana", group); err != nil {
			t.Fatal(err)
		}
	}
	counted := int64(-1)
	state := func(what string, want error) {
		t.Helper()
		n, err := b.countChanges(ctx)
		if err != nil || n == counted {
			t.Errorf("%s: not counted as a change, %v", what, err)
		}
		counted = n
		if _, err := b.User(ctx, ana.ID); !errors.Is(err, want) {
			t.Errorf("%s: User: %v, want %v", what, err, want)
		}
		list, err := b.UsersByID(ctx, []string{ana.ID})
		if err != nil || !errors.Is(list[0].Err, want) {
			t.Errorf("%s: UsersByID: %v %v, want %v", what, list, err, want)
		}
	}
	require := func(required, want bool) {
		t.Helper()
		if changed, err := b.RequireFactor(ctx, "strict", required); err != nil || changed != want {
			t.Fatalf("require %v: %v %v", required, changed, err)
		}
	}
	if _, err := b.RequireFactor(ctx, "none", true); !errors.Is(err, ErrNoGroup) {
		t.Errorf("an unknown group: %v", err)
	}
	require(false, false)
	require(true, true)
	require(true, false)
	state("required", broker.ErrEnrolmentRequired)
	got, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "the first password"})
	if !errors.Is(err, broker.ErrEnrolmentRequired) || got.Version != ana.Version {
		t.Errorf("login: %v", err)
	}
	if _, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "wrong"}); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a wrong password: %v", err)
	}
	e, err := b.BeginEnrolment(ctx, got)
	if err != nil {
		t.Fatal(err)
	}
	with, codes, err := b.ConfirmEnrolment(ctx, e.Token, codeAt(t, e.Secret, time.Now()), here())
	if err != nil {
		t.Fatal(err)
	}
	state("enrolled", nil)
	if err := b.RemoveSecondFactor(ctx, authenticated(t, b, "ana", "the first password", codes[0]), here()); !errors.Is(err, broker.ErrFactor) {
		t.Errorf("disabled by the user: %v", err)
	}
	if _, err := b.DisableSecondFactor(ctx, "ana"); err != nil {
		t.Fatal(err)
	}
	state("disabled by an operator", broker.ErrEnrolmentRequired)
	groups, err := b.Groups(ctx)
	if err != nil || groups[0].RequiredFactor || !groups[1].RequiredFactor {
		t.Errorf("groups %+v %v", groups, err)
	}
	require(false, true)
	state("optional", nil)
	if u := authenticated(t, b, "ana", "the first password", ""); u.Version != with.Version {
		t.Errorf("version %d, want %d", u.Version, with.Version)
	}
	require(true, true)
	if _, err := b.Leave(ctx, "ana", "strict"); err != nil {
		t.Fatal(err)
	}
	state("left the group", nil)
}

// TestMustChange checks that a temporary password serves to set another one and nothing else, also
// for a user who must enrol a second factor then.
func TestMustChange(t *testing.T) { everywhere(t, testMustChange) }

// TestMustChangeE2E is TestMustChange with PostgreSQL.
func TestMustChangeE2E(t *testing.T) { onPostgres(t, testMustChange) }

func testMustChange(t *testing.T, db *sql.DB) {
	ctx := t.Context()
	b := openBase(t, db)
	if err := b.AddGroup(ctx, "strict", Rights{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ana", "eva"} {
		if _, err := b.Add(ctx, NewUser{Username: name, Password: "of an operator", MustChange: true}); err != nil {
			t.Fatal(err)
		}
	}
	try := func(name, password string, want error) broker.User {
		t.Helper()
		u, err := b.Authenticate(ctx, broker.Login{Username: name, Password: password})
		if !errors.Is(err, want) {
			t.Errorf("%s with %q: %v, want %v", name, password, err, want)
		}
		return u
	}
	try("ana", "wrong password", broker.ErrInvalidCredentials)
	u := try("ana", "of an operator", broker.ErrPasswordChange)
	if e, err := b.Entry(ctx, "ana"); err != nil || !e.MustChange {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := b.ChangePassword(ctx, u, "of ana alone", here()); err != nil {
		t.Fatal(err)
	}
	u = try("ana", "of ana alone", nil)
	if err := b.SetTemporaryPassword(ctx, "ana", "of an operator again"); err != nil {
		t.Fatal(err)
	}
	if v := try("ana", "of an operator again", broker.ErrPasswordChange).Version; v != u.Version+1 {
		t.Errorf("version %d, want %d", v, u.Version+1)
	}
	if err := b.SetPassword(ctx, "ana", "of a program"); err != nil {
		t.Fatal(err)
	}
	try("ana", "of a program", nil)

	if _, err := b.Join(ctx, "eva", "strict"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RequireFactor(ctx, "strict", true); err != nil {
		t.Fatal(err)
	}
	u = try("eva", "of an operator", broker.ErrPasswordChange)
	if _, err := b.ChangePassword(ctx, u, "of eva alone", here()); !errors.Is(err, broker.ErrEnrolmentRequired) {
		t.Errorf("a new password of a user without a second factor: %v", err)
	}
	try("eva", "of an operator", broker.ErrInvalidCredentials)
	try("eva", "of eva alone", broker.ErrEnrolmentRequired)
}

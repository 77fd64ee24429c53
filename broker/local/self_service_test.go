package local

import (
	"context"
	"crypto/sha1"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

var _ broker.SelfService = (*Base)(nil)

// here is the client of the tests' changes.
func here() broker.Caller {
	return broker.Caller{Address: netip.MustParseAddr("192.0.2.7"), Client: "browser"}
}

// authenticated returns a user as a login does.
func authenticated(t testing.TB, b *Base, name, password, otp string) broker.User {
	t.Helper()
	u, err := b.Authenticate(t.Context(), broker.Login{Username: name, Password: password, OTP: otp})
	if err != nil {
		t.Fatalf("log in %s: %v", name, err)
	}
	return u
}

// TestSelfService checks that users change their own password and second factor, that both raise
// the version, and that a user who has changed since the login changes nothing.
func TestSelfService(t *testing.T) { everywhere(t, testSelfService) }

// TestSelfServiceOnPostgresE2E is TestSelfService with PostgreSQL.
func TestSelfServiceOnPostgresE2E(t *testing.T) { onPostgres(t, testSelfService) }

func testSelfService(t *testing.T, db *sql.DB) {
	ctx := t.Context()
	b := openBase(t, db)
	add(t, b, "ana", "the first password")
	before := authenticated(t, b, "ana", "the first password", "")

	weak := (*broker.PasswordError)(nil)
	if _, err := b.ChangePassword(ctx, before, "short", here()); !errors.As(err, &weak) {
		t.Errorf("a short password: %v", err)
	}
	now, err := b.ChangePassword(ctx, before, "the second password", here())
	if err != nil || now.Version != before.Version+1 {
		t.Fatalf("change the password: version %d after %d, %v", now.Version, before.Version, err)
	}
	if _, err := b.ChangePassword(ctx, before, "the third password", here()); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a login of before changes the password: %v", err)
	}
	if _, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "the first password"}); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("the old password: %v", err)
	}
	u := authenticated(t, b, "ana", "the second password", "")
	if u.Version != now.Version {
		t.Errorf("version %d, want %d", u.Version, now.Version)
	}

	if _, err := b.RenewRecoveryCodes(ctx, u, here()); !errors.Is(err, broker.ErrNoFactor) {
		t.Errorf("codes without a second factor: %v", err)
	}
	if err := b.RemoveSecondFactor(ctx, u, here()); !errors.Is(err, broker.ErrNoFactor) {
		t.Errorf("no second factor to remove: %v", err)
	}
	e, err := b.BeginEnrolment(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	with, codes, err := b.ConfirmEnrolment(ctx, e.Token, codeAt(t, e.Secret, time.Now()), here())
	if err != nil || with.Version != u.Version+1 || len(codes) != recoveryCodes {
		t.Fatalf("confirm: version %d, %d codes, %v", with.Version, len(codes), err)
	}
	if _, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "the second password"}); !errors.Is(err, broker.ErrSecondFactor) {
		t.Errorf("without a one-time password: %v", err)
	}
	with = authenticated(t, b, "ana", "the second password", codes[0])
	renewed, err := b.RenewRecoveryCodes(ctx, with, here())
	if err != nil || len(renewed) != recoveryCodes || slices.Contains(renewed, codes[1]) {
		t.Fatalf("renew: %d codes, %v", len(renewed), err)
	}
	if _, err := b.Authenticate(ctx, broker.Login{Username: "ana", Password: "the second password", OTP: codes[1]}); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a recovery code of before: %v", err)
	}
	if err := b.RemoveSecondFactor(ctx, u, here()); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a login of before removes the second factor: %v", err)
	}
	if err := b.RemoveSecondFactor(ctx, authenticated(t, b, "ana", "the second password", renewed[0]), here()); err != nil {
		t.Errorf("remove: %v", err)
	}
	last := authenticated(t, b, "ana", "the second password", "")
	if err := b.Disable(ctx, "ana"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ChangePassword(ctx, last, "the fourth password", here()); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("a disabled user changes the password: %v", err)
	}
}

// TestEnrolment checks that an enrolment is valid once, for one user, for ten minutes, until the
// user changes, and that nobody can make one.
func TestEnrolment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := openBase(t, places[1].open(t))
		other, err := Open(ctx, Config{Writer: openDB(t, ":memory:"), Cost: cheap(), Secret: []byte("another secret")})
		if err != nil {
			t.Fatal(err)
		}
		add(t, b, "ana", "the first password")
		add(t, other, "ana", "the first password")
		u := authenticated(t, b, "ana", "the first password", "")
		begin := func(of *Base, u broker.User) broker.Enrolment {
			e, err := of.BeginEnrolment(ctx, u)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		confirm := func(what, token, otp string, want error) {
			t.Helper()
			if _, _, err := b.ConfirmEnrolment(ctx, token, otp, here()); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		e := begin(b, u)
		if !strings.HasPrefix(e.URL, "otpauth://totp/Rueda:ana?") {
			t.Errorf("URL %s", e.URL)
		}
		otp := codeAt(t, e.Secret, time.Now())
		confirm("another key", begin(other, u).Token, otp, broker.ErrEnrolment)
		confirm("a stored secret", b.factors.encrypt([]byte("12345678901234567890"), u.ID), otp, broker.ErrEnrolment)
		confirm("nothing", "", otp, broker.ErrEnrolment)
		changed := "A" + e.Token[1:]
		if changed == e.Token {
			changed = "B" + e.Token[1:]
		}
		confirm("one byte changed", changed, otp, broker.ErrEnrolment)
		confirm("a line end", e.Token+"\n", otp, broker.ErrEnrolment)
		confirm("the code of another step", e.Token, codeAt(t, e.Secret, time.Now().Add(5*time.Minute)), broker.ErrOTP)
		if _, err := b.factors.decrypt(e.Token, u.ID); err == nil {
			t.Error("an enrolment is a stored secret")
		}

		time.Sleep(enrolmentLife - time.Second)
		confirm("in the last second", e.Token, codeAt(t, e.Secret, time.Now()), nil)
		confirm("again", e.Token, codeAt(t, e.Secret, time.Now()), broker.ErrEnrolment)
		if _, err := b.DisableSecondFactor(ctx, "ana"); err != nil {
			t.Fatal(err)
		}
		u = authenticated(t, b, "ana", "the first password", "")
		e = begin(b, u)
		time.Sleep(enrolmentLife)
		confirm("too late", e.Token, codeAt(t, e.Secret, time.Now()), broker.ErrEnrolment)
		e = begin(b, u)
		if err := b.SetPassword(ctx, "ana", "the second password"); err != nil {
			t.Fatal(err)
		}
		confirm("after a new password", e.Token, codeAt(t, e.Secret, time.Now()), broker.ErrEnrolment)
		e = begin(b, authenticated(t, b, "ana", "the second password", ""))
		if err := b.Disable(ctx, "ana"); err != nil {
			t.Fatal(err)
		}
		confirm("of a disabled user", e.Token, codeAt(t, e.Secret, time.Now()), broker.ErrEnrolment)
	})
}

// TestEnrolmentOnce confirms one enrolment many times at once: one of them succeeds.
func TestEnrolmentOnce(t *testing.T) { everywhere(t, testEnrolmentOnce) }

// TestEnrolmentOnceOnPostgresE2E is TestEnrolmentOnce with PostgreSQL.
func TestEnrolmentOnceOnPostgresE2E(t *testing.T) { onPostgres(t, testEnrolmentOnce) }

func testEnrolmentOnce(t *testing.T, db *sql.DB) {
	b := openBase(t, db)
	add(t, b, "ana", "the first password")
	e, err := b.BeginEnrolment(t.Context(), authenticated(t, b, "ana", "the first password", ""))
	if err != nil {
		t.Fatal(err)
	}
	otp := codeAt(t, e.Secret, time.Now())
	var confirmed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch _, _, err := b.ConfirmEnrolment(t.Context(), e.Token, otp, here()); {
			case err == nil:
				confirmed.Add(1)
			case !errors.Is(err, broker.ErrEnrolment):
				t.Errorf("confirm: %v", err)
			}
		})
	}
	all.Wait()
	if n := confirmed.Load(); n != 1 {
		t.Errorf("confirmed %d times", n)
	}
	if _, err := b.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "the first password", OTP: otp}); !errors.Is(err, broker.ErrInvalidCredentials) {
		t.Errorf("the confirming one-time password works for a login: %v", err)
	}
}

// TestOwnChangesAreAudited checks the audit rows of changes that users make: the actor is the user,
// with the address and the client. A refused change has none.
func TestOwnChangesAreAudited(t *testing.T) {
	var events []audit.Event
	b, err := Open(t.Context(), Config{
		Writer: openDB(t, ":memory:"), Cost: cheap(), Secret: []byte("a secret"), Actor: "command line",
		Audit: func(_ context.Context, _ *sql.Tx, e audit.Event) error {
			events = append(events, e)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	add(t, b, "ana", "the first password")
	u := authenticated(t, b, "ana", "the first password", "")
	events = nil
	if _, err := b.ChangePassword(ctx, u, "the second password", here()); err != nil {
		t.Fatal(err)
	}
	_, _ = b.ChangePassword(ctx, u, "the third password", here())
	e, err := b.BeginEnrolment(ctx, authenticated(t, b, "ana", "the second password", ""))
	if err != nil {
		t.Fatal(err)
	}
	u, codes, err := b.ConfirmEnrolment(ctx, e.Token, codeAt(t, e.Secret, time.Now()), here())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.RenewRecoveryCodes(ctx, u, here()); err != nil {
		t.Fatal(err)
	}
	if err := b.RemoveSecondFactor(ctx, u, here()); err != nil {
		t.Fatal(err)
	}
	var details []string
	for _, e := range events {
		details = append(details, e.Detail)
		if e.Kind != audit.UserChanged || e.Actor != "user" || e.User != u.ID || e.Address != "192.0.2.7" || e.Client != "browser" {
			t.Errorf("row %+v", e)
		}
		if strings.Contains(e.Detail, codes[0]) || strings.Contains(e.Detail, e.Address) {
			t.Errorf("row with a secret: %s", e.Detail)
		}
	}
	if want := []string{"password", "second factor enabled", "recovery codes renewed", "second factor disabled"}; !slices.Equal(details, want) {
		t.Errorf("rows %q, want %q", details, want)
	}
}

// TestBreachedPasswords checks that a password of the file is refused wherever a password is set,
// and accepted at a login.
func TestBreachedPasswords(t *testing.T) {
	db := openDB(t, ":memory:")
	const breached, other = "correct horse battery", "another horse battery"
	before := openBase(t, db)
	add(t, before, "ana", breached)
	path := filepath.Join(t.TempDir(), "breached.txt")
	line := fmt.Sprintf("%X:12\r\n", sha1.Sum([]byte(breached)))
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Writer: db, Breached: path + ".none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	b, err := Open(t.Context(), Config{Writer: db, Cost: cheap(), Secret: []byte("a secret of this test alone"), Breached: path})
	if err != nil {
		t.Fatal(err)
	}
	ana := authenticated(t, b, "ana", breached, "")
	set := map[string]func(password string) error{
		"Add": func(p string) error {
			_, err := b.Add(t.Context(), NewUser{Username: "otto " + p, Password: p})
			return err
		},
		"SetPassword":    func(p string) error { return b.SetPassword(t.Context(), "otto "+other, p) },
		"CheckPassword":  func(p string) error { return b.CheckPassword("ana", p) },
		"ChangePassword": func(p string) error { _, err := b.ChangePassword(t.Context(), ana, p, here()); return err },
	}
	weak := (*broker.PasswordError)(nil)
	for _, name := range []string{"Add", "SetPassword", "CheckPassword", "ChangePassword"} {
		if err := set[name](breached); !errors.As(err, &weak) || !strings.Contains(err.Error(), "breach") {
			t.Errorf("%s: %v", name, err)
		}
		if err := set[name](other); err != nil {
			t.Errorf("%s of another password: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.CheckPassword("ana", "one more horse battery"); !errors.Is(err, broker.ErrUnavailable) || errors.As(err, &weak) {
		t.Errorf("without the file: %v", err)
	}
}

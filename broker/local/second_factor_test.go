package local

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// codeAt returns what an authenticator app shows at a time.
func codeAt(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	return totp(keyOf(t, secret), at.Unix()/otpStep)
}

// TestTOTPVectors has the SHA-1 vectors of RFC 6238, appendix B. They have eight digits; the last
// six are used.
func TestTOTPVectors(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if got := totp(secret, at/otpStep); got != want[2:] {
			t.Errorf("at %d: %s, want %s", at, got, want[2:])
		}
		for drift, ok := range map[int64]bool{-2: false, -1: true, 0: true, 1: true, 2: false} {
			now := time.Unix(at+drift*otpStep, 0)
			if _, got := totpStep(secret, want[2:], now); got != ok && now.Unix() >= 0 {
				t.Errorf("at %d, clock off by %d steps: %v", at, drift, got)
			}
		}
	}
}

// TestOneTimePassword uses one-time passwords over a day: each is valid once, and earlier ones are
// not valid after it.
func TestOneTimePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBase(t, places[1].open(t))
		u := add(t, b, "fiona", "right password")
		f, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda")
		if err != nil {
			t.Fatal(err)
		}
		try := func(what, otp string, want error) {
			t.Helper()
			got, err := b.Authenticate(t.Context(), broker.Login{Username: "fiona", Password: "right password", OTP: otp})
			if !errors.Is(err, want) || got.ID != u.ID {
				t.Errorf("%s: %v, %v", what, got.ID, err)
			}
		}
		now := codeAt(t, f.Secret, time.Now())
		next := codeAt(t, f.Secret, time.Now().Add(30*time.Second))
		try("none", "", broker.ErrSecondFactor)
		try("too long", strings.Repeat("1", 1000), broker.ErrInvalidCredentials)
		try("letters", "ABCDEF", broker.ErrInvalidCredentials)
		try("of a minute ago", codeAt(t, f.Secret, time.Now().Add(-time.Minute)), broker.ErrInvalidCredentials)
		try("this one, with a space", now[:3]+" "+now[3:], nil)
		try("this one again", now, broker.ErrInvalidCredentials)
		try("the next, a clock is ahead", next, nil)
		try("this one, after the next", now, broker.ErrInvalidCredentials)
		time.Sleep(30 * time.Second)
		try("the next again when its time has come", next, broker.ErrInvalidCredentials)
		time.Sleep(30 * time.Second)
		try("a fresh one", codeAt(t, f.Secret, time.Now()), nil)
	})
}

// TestWrongOneTimePasswords checks that after ten wrong one-time passwords in a row with the right
// password none is checked, on any node, until there is a new password. A recovery code works.
func TestWrongOneTimePasswords(t *testing.T) { everywhere(t, wrongOneTimePasswords) }

func TestWrongOneTimePasswordsE2E(t *testing.T) { onPostgres(t, wrongOneTimePasswords) }

func wrongOneTimePasswords(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	u := add(t, b, "fiona", "right password")
	f, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	diary()
	next := time.Now()
	try := func(what, password, otp string, want error) broker.User {
		t.Helper()
		u, err := b.Authenticate(t.Context(), broker.Login{Username: "fiona", Password: password, OTP: otp})
		if !errors.Is(err, want) || want == broker.ErrWrongOTP && errors.Is(err, broker.ErrFactorLocked) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		return u
	}
	right := func() string { // one of three is valid, and each works once
		defer func() { next = next.Add(30 * time.Second) }()
		return codeAt(t, f.Secret, next.Add(-30*time.Second))
	}
	wrong := func() string {
		code := []byte(codeAt(t, f.Secret, time.Now().Add(time.Hour)))
		for range 10 {
			if _, ok := totpStep(keyOf(t, f.Secret), string(code), time.Now()); !ok {
				return string(code)
			}
			code[0] = '0' + (code[0]-'0'+1)%10
		}
		panic("all are right")
	}
	used := right()
	try("a right one", "right password", used, nil)
	for range 9 {
		try("a wrong one", "right password", wrong(), broker.ErrWrongOTP)
		try("a wrong password", "wrong password", wrong(), broker.ErrInvalidCredentials)
		try("one that was used", "right password", used, broker.ErrWrongOTP)
	}
	try("a right one after nine", "right password", right(), nil)
	for range 10 {
		try("a wrong one", "right password", wrong(), broker.ErrWrongOTP)
	}
	last := right()
	try("a right one after ten", "right password", last, broker.ErrFactorLocked)
	try("without one", "right password", "", broker.ErrSecondFactor)
	try("a wrong password", "wrong password", last, broker.ErrInvalidCredentials)
	if e, err := b.Entry(t.Context(), "fiona"); err != nil || !e.FactorLocked {
		t.Errorf("%+v, %v", e, err)
	}
	want := []string{"user_changed user one-time passwords locked until there is a new password"}
	if got := diary(); !slices.Equal(got, want) {
		t.Errorf("log %q", got)
	}
	try("a recovery code", "right password", f.Codes[0], nil)
	try("a right one after it", "right password", last, broker.ErrFactorLocked)
	if _, err := openBase(t, db).ChangePassword(t.Context(), try("a recovery code", "right password", f.Codes[1], nil), "another password", here()); err != nil {
		t.Fatal(err)
	}
	try("with a new password", "another password", last, nil)

	if _, err := db.ExecContext(t.Context(), `UPDATE second_factors SET wrong = 10`); err != nil {
		t.Fatal(err)
	}
	if err := b.SetPassword(t.Context(), "fiona", "right password"); err != nil {
		t.Fatal(err)
	}
	if e, err := b.EntryByID(t.Context(), u.ID); err != nil || e.FactorLocked {
		t.Errorf("after an operator's new password: %+v, %v", e, err)
	}
}

func keyOf(t testing.TB, secret string) []byte {
	t.Helper()
	key, err := b32().DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestSecondFactorEndsLogins checks that enabling a second factor ends the logins that were made
// without one.
func TestSecondFactorEndsLogins(t *testing.T) { everywhere(t, secondFactorEndsLogins) }

func TestSecondFactorEndsLoginsE2E(t *testing.T) { onPostgres(t, secondFactorEndsLogins) }

func secondFactorEndsLogins(t *testing.T, db *sql.DB) {
	b := openBase(t, db)
	before := add(t, b, "ana", "right password")
	if _, err := b.EnableSecondFactor(t.Context(), "ana", "Rueda"); err != nil {
		t.Fatal(err)
	}
	after, err := b.User(t.Context(), before.ID)
	if err != nil || after.Version <= before.Version {
		t.Errorf("version %d, before %d, %v", after.Version, before.Version, err)
	}
}

// TestOneCodeManyLogins uses one code for many concurrent logins: one succeeds.
func TestOneCodeManyLogins(t *testing.T) { everywhere(t, oneCodeManyLogins) }

func TestOneCodeManyLoginsE2E(t *testing.T) { onPostgres(t, oneCodeManyLogins) }

func oneCodeManyLogins(t *testing.T, db *sql.DB) {
	b := openBase(t, db)
	add(t, b, "fiona", "right password")
	f, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	for what, code := range map[string]string{"one-time password": codeAt(t, f.Secret, time.Now()), "recovery code": f.Codes[0]} {
		var in, refused atomic.Int32
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				_, err := b.Authenticate(t.Context(), broker.Login{Username: "fiona", Password: "right password", OTP: code})
				switch {
				case err == nil:
					in.Add(1)
				case errors.Is(err, broker.ErrInvalidCredentials):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if in.Load() != 1 || refused.Load() != 31 {
			t.Errorf("%s: %d got in, %d were refused", what, in.Load(), refused.Load())
		}
	}
}

func TestRecoveryCodes(t *testing.T) { everywhere(t, spendRecoveryCodes) }

func TestRecoveryCodesE2E(t *testing.T) { onPostgres(t, spendRecoveryCodes) }

func spendRecoveryCodes(t *testing.T, db *sql.DB) {
	b, diary := openAudited(t, db)
	u := add(t, b, "fiona", "right password")
	add(t, b, "maria", "right password")
	f, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.EnableSecondFactor(t.Context(), "maria", "Rueda")
	if err != nil {
		t.Fatal(err)
	}
	diary()
	left := func() int {
		n, err := b.RecoveryCodes(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if len(f.Codes) != recoveryCodes || left() != recoveryCodes {
		t.Errorf("%d codes, %d kept", len(f.Codes), left())
	}
	if code := regexp.MustCompile(`^([A-Z2-7]{4}-){5}[A-Z2-7]{4}$`); !code.MatchString(f.Codes[0]) { // 24 characters of 5 bits
		t.Errorf("code %q", f.Codes[0])
	}
	const old = "GEZD-GNBV-GY3T-QOJQ" // 80 bits, of an earlier version
	sum := sha256.Sum256([]byte("GEZDGNBVGY3TQOJQ"))
	if _, err := db.ExecContext(t.Context(), `INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)`, u.ID, hex.EncodeToString(sum[:])); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		otp  string
		want error
	}{
		{f.Codes[3], nil},
		{f.Codes[3], broker.ErrInvalidCredentials},
		{strings.ToLower(strings.ReplaceAll(f.Codes[4], "-", " ")), nil},
		{other.Codes[0], broker.ErrInvalidCredentials},
		{"AAAA-AAAA-AAAA-AAAA", broker.ErrInvalidCredentials},
		{old, nil},
		{old, broker.ErrInvalidCredentials},
	} {
		if _, err := b.Authenticate(t.Context(), broker.Login{Username: "fiona", Password: "right password", OTP: c.otp}); !errors.Is(err, c.want) {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if left() != recoveryCodes-2 {
		t.Errorf("%d codes are left", left())
	}
	if got, want := diary(), slices.Repeat([]string{"user_changed user recovery code used"}, 3); !slices.Equal(got, want) {
		t.Errorf("log %q", got)
	}
	if was, err := b.DisableSecondFactor(t.Context(), "fiona"); !was || err != nil || left() != 0 {
		t.Errorf("disabled: %v, %v, %d codes left", was, err, left())
	}
	if was, err := b.DisableSecondFactor(t.Context(), "fiona"); was || err != nil {
		t.Errorf("disabled again: %v, %v", was, err)
	}
	if _, err := b.Authenticate(t.Context(), broker.Login{Username: "fiona", Password: "right password"}); err != nil {
		t.Errorf("without: %v", err)
	}
}

// TestSecondFactorAtRest checks that the database alone yields no one-time passwords, and that no
// row is valid for another user.
func TestSecondFactorAtRest(t *testing.T) {
	db := places[1].open(t)
	b := openBase(t, db)
	u := add(t, b, "fiona", "right password")
	add(t, b, "maria", "right password")
	f, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda & Co")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.EnableSecondFactor(t.Context(), "fiona", "Rueda"); !errors.Is(err, ErrExists) {
		t.Errorf("enabled twice: %v", err)
	}
	if f.URL != "otpauth://totp/Rueda%20&%20Co:fiona?algorithm=SHA1&digits=6&issuer=Rueda%20%26%20Co&period=30&secret="+f.Secret {
		t.Error(f.URL)
	}
	if link, err := url.Parse(f.URL); err != nil || link.Query().Get("issuer") != "Rueda & Co" || link.Path != "/Rueda & Co:fiona" {
		t.Errorf("%v, %v", link, err)
	}
	key, err := b32().DecodeString(f.Secret)
	if err != nil || len(key) != otpSecret {
		t.Fatalf("%d bytes, %v", len(key), err)
	}
	var dump strings.Builder
	for _, query := range []string{`SELECT user_id || ' ' || secret FROM second_factors`, `SELECT user_id || ' ' || hash FROM recovery_codes`} {
		lines := texts(t, db, query)
		if len(lines) == 0 {
			t.Fatal("nothing there")
		}
		dump.WriteString(strings.ToLower(strings.Join(lines, "\n")))
	}
	for _, secret := range append(slices.Clone(f.Codes), f.Secret, hex.EncodeToString(key), plainOTP(f.Codes[0])) {
		if strings.Contains(dump.String(), strings.ToLower(secret)) {
			t.Errorf("the database has %s", secret)
		}
	}

	login := broker.Login{Username: "fiona", Password: "right password", OTP: codeAt(t, f.Secret, time.Now())}
	refuses := func(what string, b *Base, login broker.Login) {
		t.Helper()
		if _, err := b.Authenticate(t.Context(), login); !errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), f.Secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
	keyless, err := Open(t.Context(), Config{Writer: db, Cost: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	refuses("no key", keyless, login)
	if _, err := keyless.EnableSecondFactor(t.Context(), "maria", "Rueda"); !errors.Is(err, ErrNoSecret) {
		t.Errorf("enabled without a key: %v", err)
	}
	rekeyed, err := Open(t.Context(), Config{Writer: db, Cost: cheap(), Secret: []byte("another")})
	if err != nil {
		t.Fatal(err)
	}
	refuses("another key", rekeyed, login)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO second_factors (user_id, secret, created_at) SELECT id, (SELECT secret FROM second_factors), 0 FROM users WHERE username = 'maria'`); err != nil {
		t.Fatal(err)
	}
	refuses("another's row", b, broker.Login{Username: "maria", Password: "right password", OTP: login.OTP})
	if got, err := b.Authenticate(t.Context(), login); err != nil || got.ID != u.ID {
		t.Errorf("all as it should be: %v", err)
	}
}

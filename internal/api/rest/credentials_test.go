package rest_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// TestCredentialScripts plays testdata/credentials/*.http, with the users ana and otto in a local
// user base. ${otp:secret} and ${otp:secret:1} are the one-time passwords of a secret for the
// current and the next time step.
func TestCredentialScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/credentials/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			users := newLocalUsers(t)
			g := newGateway(t, func(_ *rest.Config, a *auth.Config) {
				a.Users = users
				a.Throttle = throttle.Config{AddressBurst: 10_000, AccountFree: 10_000}
			})
			s := &script{t: t, gateway: g, local: users, file: file, vars: map[string]string{}, address: g.serve(t)}
			s.play(string(text))
		})
	}
}

func newLocalUsers(t *testing.T) *local.Base {
	t.Helper()
	return newAuditedUsers(t, nil)
}

// newAuditedUsers returns the users ana and otto. record may be nil.
func newAuditedUsers(t *testing.T, record func(audit.Event) error) *local.Base {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "users.db")+"?_txlock=immediate&_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	users, err := local.Open(t.Context(), local.Config{
		Writer: db, Secret: []byte("a secret of this test alone"), OTPIssuer: "Broker", Cost: password.Cost{Memory: 64, Time: 1},
		Audit: func(_ context.Context, _ *sql.Tx, e audit.Event) error {
			if record == nil {
				return nil
			}
			return record(e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ana", "otto"} {
		if _, err := users.Add(t.Context(), local.NewUser{Username: name, Password: name + "'s old password", Scopes: []string{broker.ScopeRead}}); err != nil {
			t.Fatal(err)
		}
	}
	return users
}

// happenToUsers changes the users of TestCredentialScripts, as an operator does.
func (s *script) happenToUsers(what string) {
	s.t.Helper()
	if s.local == nil {
		s.fatalf("%q cannot happen", what)
	}
	ctx, err := s.t.Context(), error(nil)
	switch what {
	case "second factor required of ana":
		err = s.local.AddGroup(ctx, "strict", local.Rights{})
		if err == nil {
			_, err = s.local.RequireFactor(ctx, "strict", true)
		}
		if err == nil {
			_, err = s.local.Join(ctx, "ana", "strict")
		}
	case "temporary password of ana":
		err = s.local.SetTemporaryPassword(ctx, "ana", "of an operator")
	case "second factor optional":
		_, err = s.local.RequireFactor(ctx, "strict", false)
	default:
		s.fatalf("%q cannot happen", what)
	}
	if err != nil {
		s.fatalf("%s: %v", what, err)
	}
	s.gateway.service.UsersChanged(ctx)
}

// oneTimePassword returns the one-time password of a secret some time steps from now.
func oneTimePassword(t *testing.T, secret string, ahead int64) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(time.Now().Unix()/30+ahead))
	mac := hmac.New(sha1.New, key)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1_000_000)
}

// TestThreat01OtherRoutesOfPasswords checks that password checks of all routes share the limits of
// logins.
func TestThreat01OtherRoutesOfPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(_ *rest.Config, a *auth.Config) { a.Users = newLocalUsers(t) })
		bodies := []struct{ path, body string }{
			{"/auth/token", `{"grant_type":"password","username":"ana","password":"a guess"}`},
			{"/auth/password", `{"username":"ana","password":"a guess","new_password":"a new password of ana's"}`},
			{"/auth/otp", `{"action":"enrol","username":"ana","password":"a guess"}`},
			{"/auth/otp", `{"action":"recovery_codes","username":"ana","password":"a guess"}`},
			{"/auth/otp", `{"action":"disable","username":"ana","password":"a guess"}`},
		}
		for _, b := range bodies {
			if w := g.post(b.path, b.body); w.Code != http.StatusUnauthorized {
				t.Fatalf("%s: %d %s", b.path, w.Code, w.Body)
			}
		}
		for _, b := range bodies {
			right := strings.ReplaceAll(b.body, "a guess", "ana's old password")
			w := g.post(b.path, right)
			if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "too_many_failures") {
				t.Errorf("%s after five wrong passwords: %d %s", b.path, w.Code, w.Body)
			}
		}
	})
}

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// issuer is the token route of a gateway. Each grant has the next number.
type issuer struct {
	mu      sync.Mutex
	grants  []string // kinds, and the refresh tokens that were used
	life    int
	refuse  map[string]wire.Reason // by kind of grant
	answers atomic.Int64
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	var q struct {
		Grant   string `json:"grant_type"`
		Refresh string `json:"refresh_token"`
		OTP     string
		Token   string // to revoke
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // others come meanwhile
	i.mu.Lock()
	defer i.mu.Unlock()
	i.grants = append(i.grants, strings.TrimSpace(q.Grant+" "+q.Refresh+q.OTP+q.Token))
	if reason := i.refuse[q.Grant]; reason != "" && q.OTP == "" {
		status := http.StatusUnauthorized
		switch reason {
		case wire.MFARequired:
			status = http.StatusForbidden
		case wire.Unavailable:
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"success":false,"error":{"code":%d,"reason":%q,"msg":"no"}}`, status, reason)
		return w.Result(), nil
	}
	n := i.answers.Add(1)
	fmt.Fprintf(w, `{"success":true,"data":{"access_token":"access-%d","expires_in":%d,"refresh_token":"refresh-%d","refresh_expires_in":2592000,"scope":"a b"}}`, n, i.life, n)
	return w.Result(), nil
}

func newIssued(t *testing.T, o Options) (*Client, *issuer) {
	t.Helper()
	c, err := New([]string{"http://127.0.0.1:1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{life: 1000, refuse: map[string]wire.Reason{}}
	c.http = &http.Client{Transport: i}
	return c, i
}

// TestOneRefresh checks that a hundred goroutines cause one login and, at 80 to 85 % of the life of
// the access token, one refresh.
func TestOneRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, i := newIssued(t, Options{Username: "ana", Password: "canary"})
		all := func(want string) {
			t.Helper()
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					if got, err := c.Login(t.Context()); err != nil || string(got.Access) != want {
						t.Errorf("%q, %v, want %q", string(got.Access), err, want)
					}
				})
			}
			group.Wait()
		}
		all("access-1")
		time.Sleep(790 * time.Second)
		all("access-1")
		time.Sleep(60 * time.Second)
		all("access-2")
		all("access-2")
		if got := strings.Join(i.grants, ", "); got != "password, refresh_token refresh-1" {
			t.Errorf("the grants were %s", got)
		}
		// A refusal is for all of them too.
		time.Sleep(2000 * time.Second)
		i.grants = nil
		i.refuse["refresh_token"] = wire.Unavailable
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if _, err := c.Login(t.Context()); ReasonOf(err) != wire.Unavailable {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
		if len(i.grants) != 1 {
			t.Errorf("%d refreshes were refused", len(i.grants))
		}
	})
}

// memory is a TokenStore that may fail.
type memory struct {
	tokens Tokens
	saves  int
	fails  bool
}

func (m *memory) Load(context.Context) (Tokens, error) { return m.tokens, nil }

func (m *memory) Save(_ context.Context, t Tokens) error {
	if m.fails {
		return errors.New("disk full")
	}
	m.tokens, m.saves = t, m.saves+1
	return nil
}

// TestStoredBeforeUse checks that a refresh token that could not be stored is not used: the one
// before it stays in use, and a password login takes its place if there is none.
func TestStoredBeforeUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		c, i := newIssued(t, Options{Username: "ana", Password: "canary", Tokens: store})
		renew := func() {
			t.Helper()
			c.tokens.renewWithin(0)
			if _, err := c.Login(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		renew()
		renew()
		store.fails = true
		renew() // refresh-3 is not stored
		renew()
		store.fails = false
		renew()
		renew()
		want := "password, refresh_token refresh-1, refresh_token refresh-2, refresh_token refresh-2, refresh_token refresh-2, refresh_token refresh-5"
		if got := strings.Join(i.grants, ", "); got != want || store.saves != 4 {
			t.Errorf("the grants were %s, %d saved", got, store.saves)
		}
		// Another run of the program continues with the stored tokens.
		again, j := newIssued(t, Options{Tokens: store})
		if now, err := again.Login(t.Context()); err != nil || string(now.Access) != "access-6" || len(j.grants) != 0 {
			t.Errorf("%v, %v", now, err)
		}
	})
}

// TestStoredLoginEnds checks that Logout ends the login of the store, also before its first use. A
// renewal at the same time must store no tokens after it.
func TestStoredLoginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{tokens: Tokens{Access: "access", Expires: time.Now().Add(time.Hour), Refresh: "stored"}}
		c, i := newIssued(t, Options{Tokens: store})
		if err := c.Logout(t.Context()); err != nil || len(i.grants) != 1 || i.grants[0] != "stored" || store.tokens != (Tokens{}) {
			t.Errorf("%v, %v, stored %v", err, i.grants, store.tokens)
		}
		store.tokens = Tokens{Refresh: "stored"}
		c, i = newIssued(t, Options{Tokens: store})
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.Login(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := c.Logout(t.Context()); err != nil {
			t.Error(err)
		}
		group.Wait()
		if got := strings.Join(i.grants, ", "); got != "refresh_token stored, refresh-1" || store.tokens != (Tokens{}) {
			t.Errorf("%s, stored %v", got, store.tokens)
		}
	})
}

// TestFallbacks checks what follows a refused refresh, an outage and a second factor.
func TestFallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, i := newIssued(t, Options{Username: "ana", Password: "canary", OTP: func(context.Context) (string, error) { return "123456", nil }})
		renew := func() error {
			c.tokens.renewWithin(0)
			_, err := c.Login(t.Context())
			return err
		}
		i.refuse["password"] = wire.MFARequired
		if err := renew(); err != nil {
			t.Error(err)
		}
		i.refuse["refresh_token"] = wire.InvalidRefreshToken
		i.refuse["password"] = ""
		if err := renew(); err != nil {
			t.Error(err)
		}
		i.refuse["refresh_token"] = wire.Unavailable
		if err := renew(); err != nil {
			t.Errorf("an outage, and the access token is valid: %v", err)
		}
		time.Sleep(2000 * time.Second)
		if err := renew(); ReasonOf(err) != wire.Unavailable || !mayHelp(err) {
			t.Errorf("an outage, and the access token is not valid: %v", err)
		}
		i.refuse["refresh_token"], i.refuse["password"] = wire.InvalidRefreshToken, wire.InvalidCredentials
		if err := renew(); ReasonOf(err) != wire.InvalidCredentials || mayHelp(err) {
			t.Errorf("%v", err)
		}
		want := "password, password 123456, refresh_token refresh-1, password, refresh_token refresh-2, refresh_token refresh-2, refresh_token refresh-2, password"
		if got := strings.Join(i.grants, ", "); got != want {
			t.Errorf("the grants were\n%s, want\n%s", got, want)
		}
	})
}

// TestCancelledLeader checks that the end of one caller's context does not fail the others.
func TestCancelledLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, i := newIssued(t, Options{Username: "ana", Password: "canary"})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.Login(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that gave up: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if _, err := c.Login(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
		if len(i.grants) != 2 {
			t.Errorf("the grants were %v", i.grants)
		}
	})
}

// TestFileStore checks the file of tokens: only the user may read it, and a failed save leaves it
// as it was.
func TestFileStore(t *testing.T) {
	folder := t.TempDir()
	f := FileStore(filepath.Join(folder, "tokens.json"))
	if got, err := f.Load(t.Context()); err != nil || got != (Tokens{}) {
		t.Errorf("without a file: %v, %v", got, err)
	}
	want := Tokens{Access: "a", Refresh: "r", Expires: time.Unix(1, 0).UTC(), RefreshExpires: time.Unix(2, 0).UTC(), Scope: "s"}
	if err := f.Save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Load(t.Context()); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	if info, err := os.Stat(string(f)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := FileStore(filepath.Join(folder, "none", "tokens.json")).Save(t.Context(), want); err == nil {
		t.Error("saved in a folder that does not exist")
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestSecrets checks that passwords and tokens are not printed.
func TestSecrets(t *testing.T) {
	text := fmt.Sprintf("%v %+v %#v %s %q", Options{Password: "canary"}, Tokens{Access: "canary", Refresh: "canary"}, Secret("canary"), Secret("canary"), Secret("canary"))
	if strings.Contains(text, "canary") {
		t.Error(text)
	}
}

// TestSharedTokens renews the tokens of one file from two clients. Each of them uses what the other
// has stored, and no refresh token is used twice.
func TestSharedTokens(t *testing.T) {
	store := FileStore(filepath.Join(t.TempDir(), "tokens.json"))
	synctest.Test(t, func(t *testing.T) {
		one, i := newIssued(t, Options{Username: "ana", Password: "canary", Tokens: store})
		two, _ := newIssued(t, Options{Tokens: store})
		two.http = one.http
		login := func(c *Client, want string) {
			t.Helper()
			if got, err := c.Login(t.Context()); err != nil || string(got.Access) != want {
				t.Errorf("%q, %v, want %q", string(got.Access), err, want)
			}
		}
		login(one, "access-1")
		login(two, "access-1")
		time.Sleep(900 * time.Second)
		login(two, "access-2")
		login(one, "access-2")
		time.Sleep(900 * time.Second)
		var both sync.WaitGroup
		both.Go(func() { login(one, "access-3") })
		both.Go(func() { login(two, "access-3") })
		both.Wait()
		if got := strings.Join(i.grants, ", "); got != "password, refresh_token refresh-1, refresh_token refresh-2" {
			t.Errorf("the grants were %s", got)
		}
	})
}

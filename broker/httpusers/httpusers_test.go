package httpusers_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
)

func secret() []byte { return []byte("a secret of thirty-two bytes or more") }

// serve starts a service without TLS, and returns Users of it.
func serve(t *testing.T, h http.Handler) *httpusers.Users {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := httpusers.New(httpusers.Config{URL: s.URL + "/login", Secret: secret()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

func TestConformance(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		s := newService(secret())
		return s.seed(t, serve(t, s))
	})
}

// TestConformanceGuarded uses a guard, as the gateway does.
func TestConformanceGuarded(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		s := newService(secret())
		b := s.seed(t, serve(t, s))
		g := guard.New(guard.Config{})
		b.Users, b.Accounts = guard.Users(g, b.Users), guard.Accounts(g, b.Accounts)
		return b
	})
}

// TestConformanceMutualTLS uses a client certificate instead of signatures.
func TestConformanceMutualTLS(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		s := newService(nil)
		cfg := startTLS(t, s)
		u, err := httpusers.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s.seed(t, u)
	})
}

// TestThreat29Injection checks that syntax for a database or directory arrives unchanged, and that
// empty passwords are not sent.
func TestThreat29Injection(t *testing.T) {
	s := newService(secret())
	u := serve(t, s)
	for _, name := range []string{
		`*)(uid=*`, `' OR 1=1 --`, `ana' OR '1'='1`, "ana\x00", `ana\00`, `\00`, `"}{"username":"ana"`, `ana","password":"correct horse`,
		"ana\r\nX-Rueda-Signature: v1=0", `ana\u0000`, "*", "",
	} {
		for _, password := range []string{"correct horse", `' OR 1=1`, `*`, ""} {
			if _, err := u.Authenticate(t.Context(), broker.Login{Username: name, Password: password}); !errors.Is(err, broker.ErrInvalidCredentials) {
				t.Errorf("%q, %q: %v", name, password, err)
			}
			if _, err := u.User(t.Context(), name); !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("id %q: %v", name, err)
			}
		}
	}
	if n := s.refused.Load(); n != 0 {
		t.Errorf("%d requests were spoilt by what they carried", n)
	}
	asked := 0
	never := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	if _, err := never.Authenticate(t.Context(), broker.Login{Username: "ana"}); !errors.Is(err, broker.ErrInvalidCredentials) || asked != 0 {
		t.Errorf("an empty password: %v, asked %d times", err, asked)
	}
}

// TestAnswers checks the meaning of each answer. Everything unknown is an outage, except for an
// answer with status 200 that cannot be read: that is the fault of one user's record.
func TestAnswers(t *testing.T) {
	const good = `{"id":"u-1","username":"ana","version":1}`
	for _, tc := range []struct {
		status       int
		kind, body   string
		login, byID  error
		accountsGood bool
	}{
		{200, "application/json", good, nil, nil, false},
		{200, "application/json; charset=utf-8", " " + good + "\n", nil, nil, false},
		{401, "application/json", `{"reason":"wrong_otp"}`, broker.ErrWrongOTP, broker.ErrUnavailable, false},
		{401, "application/json", `{"reason":"invalid_credentials"}`, broker.ErrInvalidCredentials, broker.ErrUnavailable, false},
		{403, "application/json", `{"reason":"mfa_required"}`, broker.ErrSecondFactor, broker.ErrUnavailable, false},
		{404, "application/json", `{"reason":"not_found"}`, broker.ErrUnavailable, broker.ErrNotFound, true},
		{423, "application/json", `{"reason":"disabled"}`, broker.ErrInvalidCredentials, broker.ErrDisabled, true},

		{400, "text/html", `<h1>Bad Request</h1>`, broker.ErrInvalidCredentials, broker.ErrUnavailable, false},
		{422, "application/json", `{"reason":"username"}`, broker.ErrInvalidCredentials, broker.ErrUnavailable, false},
		{200, "application/json", `{"id":"u-1","username":"ANA","version":1}`, nil, nil, false},
		{200, "application/json", `{"id":"u-1","username":"ana ","version":1}`, broker.ErrInvalidCredentials, nil, false},

		{401, "text/html", `<h1>401</h1>`, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{401, "application/json", `{"reason":"bad_signature"}`, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{404, "text/plain", `404 page not found`, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{404, "application/json", `{}`, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{423, "application/json", ``, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{204, "", "", broker.ErrUnavailable, broker.ErrUnavailable, false},
		{302, "application/json", good, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{500, "application/json", good, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{200, "text/html", good, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{200, "application/json; charset=latin1", good, broker.ErrUnavailable, broker.ErrUnavailable, false},
		{200, "application/json", ``, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `null`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `[` + good + `]`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", good + good, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", good[:20], broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana"}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":"1"}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"entitlments":[],"new":{"a":1}}`, nil, nil, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"entitlements":[{"market":"*","untill":"2026-01-01T00:00:00Z"}]}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"limits":{"conections":1}}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"networks":["192.0.2.1/24"]}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"networks":"192.0.2.0/24"}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"expires_at":""}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"networks":null,"expires_at":null}`, nil, nil, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"expires_at":"2020-01-01T00:00:00Z"}`, broker.ErrInvalidCredentials, broker.ErrDisabled, false},
		{200, "application/json", `{"id":"","username":"ana","version":1}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"an` + "\xff" + `a","version":1}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"scopes":["a b"]}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-1","username":"ana","version":1,"entitlements":[{"market":"","depth":1}]}`, broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"u-2","username":"ana","version":1}`, nil, broker.ErrBadUser, false},
		{200, "application/json", good + strings.Repeat(" ", 64<<10), broker.ErrBadUser, broker.ErrBadUser, false},
		{200, "application/json", `{"id":"` + strings.Repeat("[", 60_000), broker.ErrBadUser, broker.ErrBadUser, false},
	} {
		u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tc.kind)
			w.Header().Set("Location", "/login/elsewhere")
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		}))
		_, err := u.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "canary-password"})
		if !is(err, tc.login) || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%d %.60s: login %v, want %v", tc.status, tc.body, err, tc.login)
		}
		if _, err := u.User(t.Context(), "u-1"); !is(err, tc.byID) {
			t.Errorf("%d %.60s: user %v, want %v", tc.status, tc.body, err, tc.byID)
		}
		list, err := u.ListAccounts(t.Context(), "u-1")
		want := broker.ErrUnavailable
		if tc.status == 200 && strings.HasPrefix(tc.kind, "application/json") && !strings.Contains(tc.kind, "latin1") {
			want = broker.ErrBadUser
		}
		if (err == nil) != tc.accountsGood || len(list) != 0 || err != nil && !errors.Is(err, want) {
			t.Errorf("%d %.60s: accounts %v, %v", tc.status, tc.body, list, err)
		}
	}
}

// TestReasonInError checks that the reason of a refusal is reported if it is a word, and not if it
// may be a secret.
func TestReasonInError(t *testing.T) {
	for _, tc := range []struct {
		status             int
		body, reason, want string
	}{
		{403, `{"reason":"bad_signature"}`, "bad_signature", `the login service answered 403 "bad_signature" to /authenticate`},
		{403, `{"reason":"old_nonce","more":1}`, "old_nonce", `answered 403 "old_nonce"`},
		{401, `{"reason":"mfa_required"}`, "mfa_required", `answered 401 "mfa_required"`}, // another status than usual
		{500, `{}`, "", "answered 500 without a reason"},
		{502, `no JSON`, "", "answered 502 without a reason"},
		{403, `{"reason":"canary-password"}`, "", "answered 403 without a reason"},
		{403, `{"reason":"canary password"}`, "", "answered 403 without a reason"},
		{403, `{"reason":"` + strings.Repeat("canary", 7) + `"}`, "", "answered 403 without a reason"},
	} {
		u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		}))
		_, err := u.Authenticate(t.Context(), broker.Login{Username: "ana", Password: "canary-password"})
		var said *httpusers.Refused
		if !errors.Is(err, broker.ErrUnavailable) || !errors.As(err, &said) || said.Status != tc.status || said.Reason != tc.reason ||
			!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%d %s: %v", tc.status, tc.body, err)
		}
	}
}

func is(err, want error) bool { return errors.Is(err, want) && (want != nil || err == nil) }

// TestEndlessAnswer checks that reading an endless answer is bounded.
func TestEndlessAnswer(t *testing.T) {
	var sent atomic.Int64
	u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		piece := bytes.Repeat([]byte(" "), 4096)
		for {
			n, err := w.Write(piece)
			sent.Add(int64(n))
			if err != nil || r.Context().Err() != nil {
				return
			}
		}
	}))
	if _, err := u.User(t.Context(), "u-1"); !errors.Is(err, broker.ErrBadUser) {
		t.Error(err)
	}
}

// TestThreat30UnreadableRecord reads a user whose record is unreadable again and again, in each of
// the ways: the service is asked about the others all the time.
func TestThreat30UnreadableRecord(t *testing.T) {
	for what, record := range map[string]string{
		"no version":   `{"id":"bad","username":"bad"}`,
		"not JSON":     `{"id":"bad`,
		"another user": `{"id":"u-1","username":"ana","version":1}`,
		"many scopes":  `{"id":"bad","username":"bad","version":1,"scopes":["` + strings.Repeat(`s","`, 70) + `s"]}`,
		"long name":    `{"id":"bad","username":"` + strings.Repeat("n", 200) + `","version":1}`,
		"too large":    `{"id":"bad","username":"bad","version":1}` + strings.Repeat(" ", 65<<10),
	} {
		t.Run(what, func(t *testing.T) {
			u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(string(body), "bad") {
					_, _ = io.WriteString(w, record)
				} else {
					_, _ = io.WriteString(w, `{"id":"u-1","username":"ana","version":1}`)
				}
			}))
			g := guard.New(guard.Config{})
			base := guard.Users(g, u)
			for range 50 {
				if _, err := base.User(t.Context(), "bad"); !errors.Is(err, broker.ErrBadUser) {
					t.Fatal(err)
				}
			}
			if _, err := base.User(t.Context(), "u-1"); err != nil || g.State() != guard.Closed {
				t.Error("another user cannot be read:", err, g.State())
			}
			accounts := guard.Accounts(g, u)
			for range 50 {
				if _, err := accounts.ListAccounts(t.Context(), "bad"); !errors.Is(err, broker.ErrBadUser) {
					t.Fatal(err)
				}
			}
			if g.State() != guard.Closed {
				t.Error("accounts of one user stop those of others:", g.State())
			}
		})
	}
}

// TestNobodyThere asks where nothing listens, and a service that accepts the connection and sends
// nothing.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ask := func(patience time.Duration) {
		t.Helper()
		u, err := httpusers.New(httpusers.Config{URL: "http://" + l.Addr().String(), Secret: secret()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := u.Authenticate(ctx, broker.Login{Username: "ana", Password: "x"}); !errors.Is(err, broker.ErrUnavailable) {
			t.Error(err)
		}
	}
	ask(50 * time.Millisecond)
	l.Close()
	ask(5 * time.Second)
}

// TestCheck connects to a running service, one with an untrusted certificate, and one that is down.
func TestCheck(t *testing.T) {
	secure := httptest.NewTLSServer(newService(secret()))
	defer secure.Close()
	plain := httptest.NewServer(newService(secret()))
	defer plain.Close()
	check := func(at, want string) {
		t.Helper()
		u, err := httpusers.New(httpusers.Config{URL: at, Secret: secret()})
		if err != nil {
			t.Fatal(err)
		}
		switch err = u.Check(t.Context()); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
	check(plain.URL+"/login", "")
	check(secure.URL, "certificate")
	plain.Close()
	check(plain.URL, "connect to the login service")
}

// TestConnectionsAreKept checks that many requests use few connections.
func TestConnectionsAreKept(t *testing.T) {
	s := newService(secret())
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	u, err := httpusers.New(httpusers.Config{URL: server.URL + "/login/", Secret: secret()})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for range 50 {
		if _, err := u.User(t.Context(), "u-1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.connections.Load(); n != 1 {
		t.Errorf("%d connections for 50 questions", n)
	}
}

// TestSignature checks that a service refuses changed, late and repeated requests.
func TestSignature(t *testing.T) {
	s := newService(secret())
	var kept *http.Request
	var body []byte
	u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept = r.Clone(context.Background())
		var buf bytes.Buffer
		_, _ = buf.ReadFrom(r.Body)
		body = buf.Bytes()
		r.Body = http.NoBody
		reply(w, 404, map[string]string{"reason": "not_found"})
	}))
	if _, err := u.User(t.Context(), "u-1"); !errors.Is(err, broker.ErrNotFound) {
		t.Fatal(err)
	}
	try := func(change func(*http.Request) []byte) int {
		r := kept.Clone(t.Context())
		text := change(r)
		r.Body = http.NoBody
		q := httptest.NewRequest(r.Method, r.URL.EscapedPath(), bytes.NewReader(text))
		q.Header = r.Header
		w := httptest.NewRecorder()
		s.ServeHTTP(w, q)
		return w.Code
	}
	as := func(header, value string) func(*http.Request) []byte {
		return func(r *http.Request) []byte { r.Header.Set(header, value); return body }
	}
	for what, change := range map[string]func(*http.Request) []byte{
		"another body":      func(*http.Request) []byte { return []byte(`{"id":"u-2"}`) },
		"another path":      func(r *http.Request) []byte { r.URL.Path = "/login/accounts"; return body },
		"another time":      as(httpusers.HeaderTimestamp, "1"),
		"another nonce":     as(httpusers.HeaderNonce, strings.Repeat("0", 32)),
		"no signature":      as(httpusers.HeaderSignature, ""),
		"another signature": as(httpusers.HeaderSignature, "v1="+strings.Repeat("0", 64)),
	} {
		if code := try(change); code != http.StatusForbidden {
			t.Errorf("%s: %d", what, code)
		}
	}
	same := func(*http.Request) []byte { return body }
	if code := try(same); code != http.StatusOK {
		t.Errorf("as it was sent: %d", code)
	}
	if code := try(same); code != http.StatusForbidden {
		t.Errorf("sent again: %d", code)
	}
	seconds, err := strconv.ParseInt(kept.Header.Get(httpusers.HeaderTimestamp), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []time.Duration{-61 * time.Second, 61 * time.Second} {
		if _, err := httpusers.Verify(secret(), kept, body, time.Unix(seconds, 0).Add(off)); err == nil {
			t.Errorf("%v off is taken", off)
		}
	}
}

// TestWhatIsAsked checks the bytes of a login request.
func TestWhatIsAsked(t *testing.T) {
	var got string
	u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var buf bytes.Buffer
		_, _ = buf.ReadFrom(r.Body)
		got = r.Method + " " + r.URL.String() + " " + buf.String()
	}))
	_, _ = u.Authenticate(t.Context(), broker.Login{
		Username: "ana", Password: " p\"w ", OTP: "123456", Address: netip.MustParseAddr("::ffff:192.0.2.7"), Client: "curl/8",
	})
	want := `POST /login/authenticate {"username":"ana","password":" p\"w ","otp":"123456","address":"192.0.2.7","client":"curl/8"}`
	if got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
}

// TestSignExample checks the example of docs/identity.md.
func TestSignExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	got := httpusers.Sign([]byte("0123456789abcdef0123456789abcdef"), "POST", "/login/user", "1795292400",
		"9f86d081884c7d659a2feaa0c55ad015", []byte(`{"id":"u-17"}`))
	if !strings.Contains(string(text), got) {
		t.Errorf("docs/identity.md does not show %s", got)
	}
}

func TestConfig(t *testing.T) {
	good := string(secret())
	for _, tc := range []struct {
		cfg  httpusers.Config
		want string
	}{
		{httpusers.Config{URL: "http://login.example", Secret: secret()}, "https"},
		{httpusers.Config{URL: "ftp://login.example", Secret: secret()}, "https"},
		{httpusers.Config{URL: "https://", Secret: secret()}, "no host"},
		{httpusers.Config{URL: "https://a:canary@login.example", Secret: secret()}, "user or password"},
		{httpusers.Config{URL: "https://login.example?key=canary", Secret: secret()}, "query"},
		{httpusers.Config{URL: "https://login.example"}, "a secret or a certificate"},
		{httpusers.Config{URL: "https://login.example", Secret: []byte(good[:31])}, "fewer than 32"},
		{httpusers.Config{URL: "https://login.example", Secret: secret(), Certificate: "x"}, "go together"},
		{httpusers.Config{URL: "https://login.example", Secret: secret(), Certificate: "nowhere", Key: "nowhere"}, "client certificate"},
		{httpusers.Config{URL: "https://login.example", Secret: secret(), Authorities: "nowhere"}, "authorities"},
		{httpusers.Config{URL: "http://127.0.0.1", Certificate: "x", Key: "y"}, "needs https"},
		{httpusers.Config{URL: "\x00canary", Secret: secret()}, "URL"},
	} {
		_, err := httpusers.New(tc.cfg)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", tc.cfg.URL, err, tc.want)
		}
	}
}

// TestTLSRefusals checks that services of another authority and clients without a certificate are
// refused.
func TestTLSRefusals(t *testing.T) {
	s := newService(secret())
	cfg := startTLS(t, s)
	cfg.Secret = secret()
	for what, change := range map[string]func(*httpusers.Config){
		"unknown authority": func(c *httpusers.Config) { c.Authorities = "" },
		"no certificate":    func(c *httpusers.Config) { c.Certificate, c.Key = "", "" },
	} {
		c := cfg
		change(&c)
		u, err := httpusers.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.User(t.Context(), "u-1"); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		_ = u.Close()
	}
}

// startTLS starts the service with TLS and client certificates, and returns its configuration.
func startTLS(t *testing.T, h http.Handler) httpusers.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificateFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, block := range map[string]*pem.Block{
		certificateFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secretKey},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return httpusers.Config{URL: server.URL + "/login", Certificate: certificateFile, Key: keyFile, Authorities: certificateFile}
}

// FuzzAnswer makes a service answer anything: the result is a valid user, a known refusal, or an
// outage.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"id":"u-1","username":"ana","version":1}`, `{"reason":"not_found"}`, `{"reason":"disabled"}`, `{}`, `null`, `[`, "\xff",
		`{"id":"u-1","username":"ana","version":1,"entitlements":[{"market":"*","until":"2027-01-01T00:00:00Z"}],"limits":{"connections":1e3}}`,
	} {
		f.Add(200, body)
		f.Add(401, body)
	}
	var status atomic.Int64
	var text atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(*text.Load()))
	}))
	f.Cleanup(server.Close)
	u, err := httpusers.New(httpusers.Config{URL: server.URL, Secret: secret()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, body string) {
		status.Store(int64(200 + max(-code, code)%400))
		text.Store(&body)
		user, err := u.User(t.Context(), "u-1")
		known := errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrDisabled) || errors.Is(err, broker.ErrUnavailable)
		if err == nil && (user.ID != "u-1" || user.Check() != nil) || err != nil && !known {
			t.Errorf("%+v, %v", user, err)
		}
	})
}

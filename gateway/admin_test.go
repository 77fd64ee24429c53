package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

const testAdminToken = "an-administrator-token-of-the-tests"

func writeToken(t *testing.T, folder, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(folder, "admin.token")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// serveAdmin runs a gateway with a listener for administrators until the test ends.
func serveAdmin(t *testing.T, cfg Config) Bound {
	t.Helper()
	ready := make(chan Bound, 1)
	cfg.Listen, cfg.OnReady = "127.0.0.1:0", func(b Bound) { ready <- b }
	g, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case b := <-ready:
		return b
	case err := <-done:
		done <- nil
		t.Fatalf("run: %v", err)
	}
	panic("unreachable")
}

func askStatus(t *testing.T, client *http.Client, method, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("token=x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// TestThreat35AdminListener checks that neither listener of a gateway has the routes of the other.
func TestThreat35AdminListener(t *testing.T) {
	t.Run("token of a file", func(t *testing.T) {
		testAdminListener(t, Admin{TokenFile: writeToken(t, t.TempDir(), testAdminToken+"\n", 0o600)})
	})
	t.Run("token of a command", func(t *testing.T) { testAdminListener(t, Admin{Tokens: testAdminToken}) })
}

func testAdminListener(t *testing.T, admin Admin) {
	admin.Listen = "127.0.0.1:0"
	b := serveAdmin(t, Config{Admin: admin})
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for _, r := range []struct {
		method, path  string
		admin, closed int // with the token, and without
	}{
		{"POST", "/oauth/introspect", 200, 401},
		{"GET", "/admin/users/u1/sessions", 404, 401},
		{"DELETE", "/admin/users/u1/sessions", 404, 401},
		{"GET", "/auth/sessions", 404, 404},
		{"POST", "/auth/token", 404, 404},
		{"GET", "/market/markets", 404, 404},
	} {
		if got := askStatus(t, client, r.method, "http://"+b.Admin+r.path, testAdminToken); got != r.admin {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, got, r.admin)
		}
		if got := askStatus(t, client, r.method, "http://"+b.Admin+r.path, ""); got != r.closed {
			t.Errorf("%s %s without the token: %d, want %d", r.method, r.path, got, r.closed)
		}
		if got := askStatus(t, client, r.method, b.REST+r.path, testAdminToken); r.closed == 401 && got != 404 {
			t.Errorf("%s %s for clients: %d", r.method, r.path, got)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if got := askStatus(t, client, "GET", "http://"+b.Admin+path, ""); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
	}
}

// On an address that other machines can reach, a client needs a certificate of the authority before
// its token is checked.
func TestThreat35AdminCertificates(t *testing.T) {
	folder := t.TempDir()
	server, other := TLS(certtest.Write(t, folder, "server")), t.TempDir()
	client, foreign := TLS(certtest.Write(t, other, "administrator")), TLS(certtest.Write(t, t.TempDir(), "foreign"))
	b := serveAdmin(t, Config{Admin: Admin{
		Listen: "0.0.0.0:0", TokenFile: writeToken(t, folder, testAdminToken, 0o600), TLS: server, ClientCA: client.Certificate,
	}})
	_, port, err := net.SplitHostPort(b.Admin)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(server.Certificate)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	ask := func(files *TLS) (int, error) {
		secure := &tls.Config{RootCAs: roots}
		if files != nil {
			pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
			if err != nil {
				t.Fatal(err)
			}
			// The client presents its certificate even if the server asks for another authority.
			secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		c := &http.Client{Transport: openapitest.Wrap(&http.Transport{TLSClientConfig: secure})}
		defer c.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", fmt.Sprintf("https://127.0.0.1:%s/admin/users/u1/sessions", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+testAdminToken)
		answer, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		if answer.Header.Get("Strict-Transport-Security") == "" {
			t.Error("an answer over TLS without Strict-Transport-Security")
		}
		return answer.StatusCode, nil
	}
	if status, err := ask(&client); err != nil || status != http.StatusNotFound { // there is no such user
		t.Errorf("with the certificate: %d %v", status, err)
	}
	if status, err := ask(nil); err == nil {
		t.Errorf("without a certificate: %d", status)
	}
	if status, err := ask(&foreign); err == nil {
		t.Errorf("with another certificate: %d", status)
	}
}

func TestAdminRefusals(t *testing.T) {
	folder := t.TempDir()
	pair := TLS(certtest.Write(t, folder, "server"))
	token := writeToken(t, folder, testAdminToken, 0o600)
	open := writeToken(t, t.TempDir(), testAdminToken, 0o640)
	short := writeToken(t, t.TempDir(), "short\n", 0o600)
	lines := writeToken(t, t.TempDir(), testAdminToken+"\n"+testAdminToken, 0o600)
	for _, tt := range []struct {
		admin Admin
		want  string
	}{
		{Admin{TokenFile: token}, "listen is missing"},
		{Admin{Listen: "127.0.0.1:0"}, "token_file is missing"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: folder + "/none"}, "no such file"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: open}, "chmod 600"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: short}, "at least 32 characters"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: lines}, "beside other lines"},
		{Admin{Listen: "127.0.0.1:0", Tokens: "short"}, "at least 32 characters"},
		{Admin{Listen: "127.0.0.1", TokenFile: token}, "host:port"},
		{Admin{Listen: "127.0.0.1:x", TokenFile: token}, "not a port"},
		{Admin{Listen: "0.0.0.0:0", TokenFile: token}, "client_ca"},
		{Admin{Listen: ":0", TokenFile: token}, "client_ca"},
		{Admin{Listen: "192.0.2.1:0", TokenFile: token, TLS: pair}, "client_ca"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: token, ClientCA: pair.Certificate}, "client_ca needs certificate and key"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: token, TLS: pair, ClientCA: pair.Key}, "no certificate in PEM"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: token, TLS: pair, ClientCRL: pair.Key}, "client_crl needs client_ca"},
		{Admin{Listen: "127.0.0.1:0", TokenFile: token, TLS: pair, ClientCA: pair.Certificate, ClientCRL: pair.Key}, "revoked client certificates"},
	} {
		// Insecure applies to the listener for clients only.
		_, err := New(t.Context(), Config{Admin: tt.admin, Insecure: true})
		if err == nil || !errors.Is(err, ErrAdmin) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.admin, err)
		}
		if err != nil && strings.Contains(err.Error(), testAdminToken) {
			t.Errorf("%+v: the error tells the token", tt.admin)
		}
	}
	// Whether other machines can reach a name is known only after it is bound.
	g, err := New(t.Context(), Config{Listen: "127.0.0.1:0", Admin: Admin{Listen: "0.0.0.0.:0", TokenFile: token}})
	if err == nil {
		err = g.Run(t.Context())
	}
	if !errors.Is(err, ErrAdmin) {
		t.Errorf("a name: %v", err)
	}
}

func TestProxies(t *testing.T) {
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		if _, err := New(t.Context(), Config{Proxies: []netip.Prefix{p}}); err == nil || !strings.Contains(err.Error(), "proxies") {
			t.Errorf("%v: %v", p, err)
		}
	}
}

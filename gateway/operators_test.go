package gateway

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/internal/base/reload"
)

func tokenHash(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// TestThreat35Operators checks that each operator has an own token with a scope and an end. What
// operators do is in the audit log with their names and those of their certificates.
func TestThreat35Operators(t *testing.T) {
	data, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	user, err := data.Users.Add(t.Context(), local.NewUser{Username: "maria", Password: "a long password of hers"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	server, client := TLS(certtest.Write(t, folder, "server")), TLS(certtest.Write(t, t.TempDir(), "ops-17"))
	yesterday := time.Now().AddDate(0, 0, -2).UTC().Format(time.DateOnly)
	lines := "# operators\n" +
		"ana " + tokenHash("ana's token") + " operate 2099-12-31\n\n" +
		"otto " + tokenHash("otto's token") + " read\n" +
		"eva " + tokenHash("eva's token") + " identity\n" +
		"old " + tokenHash("old token") + " operate " + yesterday + "\n"
	b := serveAdmin(t, Config{Data: data, Admin: Admin{
		Listen: "127.0.0.1:0", TokenFile: writeToken(t, folder, lines, 0o600), TLS: server, ClientCA: client.Certificate,
	}})
	_, port, err := net.SplitHostPort(b.Admin)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(server.Certificate); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(client.Certificate, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: openapitest.Wrap(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})}
	defer c.CloseIdleConnections()
	at := "https://127.0.0.1:" + port
	for _, tt := range []struct {
		token, method, path string
		want                int
	}{
		{"ana's token", "GET", "/admin/users/" + user.ID + "/sessions", 200},
		{"ana's token", "DELETE", "/admin/users/" + user.ID + "/sessions", 200},
		{"otto's token", "GET", "/admin/users/" + user.ID + "/sessions", 200},
		{"otto's token", "POST", "/oauth/introspect", 200},
		{"otto's token", "DELETE", "/admin/users/" + user.ID + "/sessions", 403},
		{"ana's token", "GET", "/admin/users/" + user.ID, 403},
		{"eva's token", "GET", "/admin/users", 200},
		{"eva's token", "GET", "/admin/users/" + user.ID, 200},
		{"old token", "GET", "/admin/users/" + user.ID + "/sessions", 401},
		{tokenHash("ana's token"), "GET", "/admin/users/" + user.ID + "/sessions", 401},
	} {
		if got := askStatus(t, c, tt.method, at+tt.path, tt.token); got != tt.want {
			t.Errorf("%s %s with %s: %d, want %d", tt.method, tt.path, tt.token, got, tt.want)
		}
	}
	rows, err := data.db.Store.AuditLast(t.Context(), 100, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, r := range rows {
		if strings.HasPrefix(string(r.Kind), "admin") || r.Kind == audit.UserEnded {
			fmt.Fprintln(&got, r.Kind, r.Actor, r.User == user.ID, r.Detail)
		}
	}
	const want = `admin_read administrator (ana, ops-17) true sessions
user_ended administrator (ana, ops-17) true 
admin_read administrator (otto, ops-17) true sessions
admin_read administrator (otto, ops-17) false introspection
admin_refused administrator (otto, ops-17) false needs the role operate
admin_refused administrator (ana, ops-17) false needs the role identity
admin_read administrator (eva, ops-17) false users
admin_read administrator (eva, ops-17) true user
admin_refused client false wrong token
`
	if got.String() != want {
		t.Errorf("the audit log has\n%swant\n%s", got.String(), want)
	}
}

// TestOperatorFile reads files of operators, good and bad.
func TestOperatorFile(t *testing.T) {
	sum := tokenHash("x")
	for text, want := range map[string]string{
		testAdminToken: "", "ana " + sum + " read": "", "ana " + sum + " operate 2027-01-31\notto " + sum + " read\n": "", "eva " + sum + " identity": "",
		"": "one line", "# none\n": "one line", testAdminToken + "\n" + testAdminToken: "beside other lines", "short": "at least 32",
		"ana " + sum[1:] + " read": "64 hexadecimal digits", "ana " + sum + " write": "none of read, operate and identity",
		"ana " + sum: "want NAME SHA256", "ana " + sum + " read tomorrow": "no day", "ana " + sum + " read 2027-01-31 x": "want NAME",
	} {
		name := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := rest.ReadOperators(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(list) == 0 {
			t.Errorf("%q: %d operators, %v, want %q", text, len(list), err, want)
		}
	}
}

// TestThreat35RemovedOperator checks that an operator whose line was removed is not accepted any
// more, also if the file is empty or gone, has a mistake in another line, or may be read by others.
// A mistake does not lock out the operators of the other lines.
func TestThreat35RemovedOperator(t *testing.T) {
	otto := "otto " + tokenHash("otto") + " read\n"
	for _, tt := range []struct {
		what, text string
		mode       os.FileMode
		want       string
	}{
		{"line removed", otto, 0o600, "otto"},
		{"empty", "", 0o600, ""},
		{"only a comment", "# nobody\n", 0o600, ""},
		{"another line is wrong", "eva 12 read\n" + otto, 0o600, "otto"},
		{"a token between operators", otto + testAdminToken + "\n", 0o600, "otto"},
		{"others may read it", otto, 0o644, ""},
		{"others may read it, with the same content", "", 0o644, ""},
		{"gone", "", 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			name := writeToken(t, t.TempDir(), "ana "+tokenHash("ana")+" identity\n"+otto, 0o600)
			list, err := rest.Operators("", name, slog.New(slog.DiscardHandler))
			if err != nil || len(list()) != 2 {
				t.Fatal(list(), err)
			}
			switch {
			case tt.mode == 0:
				err = os.Remove(name)
			case tt.mode != 0o600 && tt.text == "":
				err = os.Chmod(name, tt.mode)
			default:
				writeToken(t, filepath.Dir(name), tt.text, tt.mode)
			}
			for range 2 {
				time.Sleep(reload.Interval)
				got := ""
				for _, o := range list() {
					got += o.Name
				}
				if got != tt.want || err != nil {
					t.Errorf("%s: the operators are %q, want %q, %v", tt.what, got, tt.want, err)
				}
			}
			writeToken(t, filepath.Dir(name), otto, 0o600)
			if time.Sleep(reload.Interval); len(list()) != 1 {
				t.Errorf("%s: repaired, and the operators are %v", tt.what, list())
			}
		})
	}
}

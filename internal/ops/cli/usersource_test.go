package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestServeUsersOfAnother runs a gateway with users and accounts of a login service.
func TestServeUsersOfAnother(t *testing.T) {
	t.Parallel()
	const secret = "canary-secret-0123456789abcdef0123456789"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if _, err := httpusers.Verify([]byte(secret), r, body, time.Now()); err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var q struct{ Password, ID string }
		_ = json.Unmarshal(body, &q)
		switch {
		case r.URL.Path == "/accounts":
			fmt.Fprint(w, `{"accounts":[{"account_id":"a-1","number":"100001","name":"Ana","type":"cash","status":"active","currency":"ARS",`+
				`"currencies":[],"roles":[],"permissions":[],"is_default":true,"created_at":"2021-03-02T00:00:00Z"}]}`)
		case q.Password == "canary-password" || q.ID == "u-1":
			fmt.Fprint(w, `{"id":"u-1","username":"ana","version":1,"scopes":["accounts:read"],"entitlements":[],"limits":{}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"reason":"invalid_credentials"}`)
		}
	}))
	defer service.Close()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "login.secret"), secret)
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, `listen = "127.0.0.1:0"
drain = "10ms"
[users]
type = "http"
[users.http]
url = "`+service.URL+`"
secret_file = "login.secret"
[accounts]
type = "http"
[log]
format = "json"
`)
	server := start(t, "serve", "--config", config)
	address := server.said(`"msg":"ready","address":"([^"]+)"`)[1]
	plain := &http.Client{}
	defer plain.CloseIdleConnections()
	token, err := grant(t.Context(), plain, "http://"+address, "ana", "canary-password")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/broker/accounts", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), `"number":"100001"`) {
		t.Errorf("accounts: %s, %v", text, err)
	}
	if _, err := grant(t.Context(), plain, "http://"+address, "ana", "canary-other"); err == nil || !strings.Contains(err.Error(), "rong username or password") {
		t.Errorf("a wrong password: %v", err)
	}
	service.Close()
	if _, err := grant(t.Context(), plain, "http://"+address, "ana", "canary-password"); err == nil || strings.Contains(err.Error(), "rong username or password") {
		t.Errorf("without the service: %v", err)
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	if strings.Contains(server.talk.String(), "canary") || strings.Contains(server.talk.String(), "Nobody can log in") {
		t.Errorf("the log says:\n%s", server.talk)
	}
}

// TestUserCheckPrintsTheReason has a login service that refuses to answer. Its message is printed
// with advice.
func TestUserCheckPrintsTheReason(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"reason":"bad_signature"}`)
	}))
	defer service.Close()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "login.secret"), "canary-secret-0123456789abcdef0123456789")
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, "[users]\ntype = \"http\"\n[users.http]\nurl = \""+service.URL+"\"\nsecret_file = \"login.secret\"\n")
	var talk transcript
	status := run(t.Context(), []string{"user", "check", "ana", "--password-stdin", "--config", config},
		command.Streams{In: strings.NewReader("canary-password\n"), Out: io.Discard, Err: &talk})
	if status != command.ExitUnreachable {
		t.Errorf("ended with %d", status)
	}
	for _, want := range []string{`the login service answered 403 "bad_signature" to /authenticate`, "Has it the same secret, and the same time?"} {
		if !strings.Contains(talk.String(), want) {
			t.Errorf("did not say %s, but:\n%s", want, &talk)
		}
	}
	if strings.Contains(talk.String(), "canary") {
		t.Errorf("said:\n%s", &talk)
	}
}

// TestServeWithoutItsLoginService starts a gateway whose login service is not reachable. It reports
// this at the start, not at the first login.
func TestServeWithoutItsLoginService(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "login.secret"), "canary-secret-0123456789abcdef0123456789")
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, "listen = \"127.0.0.1:0\"\ndrain = \"10ms\"\n[users]\ntype = \"http\"\n[users.http]\nurl = \""+gone.URL+"\"\nsecret_file = \"login.secret\"\n[accounts]\ntype = \"http\"\n")
	server := start(t, "serve", "--config", config)
	server.said(`user base not reached, nobody can log in until it is.*connect to the login service`)
	server.said(`msg=ready`)
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	if n := strings.Count(server.talk.String(), "user base not reached"); n != 1 {
		t.Errorf("said %d times, of users and accounts in one place:\n%s", n, server.talk)
	}
}

// TestServeWithoutItsUserBase starts a gateway whose user base is down. It serves, and reports the
// outage.
func TestServeWithoutItsUserBase(t *testing.T) {
	t.Setenv("RUEDA_TEST_USERS", "postgres://rueda:canary@127.0.0.1:1/customers?sslmode=disable")
	config := filepath.Join(t.TempDir(), "rueda.toml")
	write(t, config, `listen = "127.0.0.1:0"
drain = "10ms"
[users]
type = "sql"
[users.sql]
driver = "postgres"
url_env = "RUEDA_TEST_USERS"
login = "SELECT 1 AS id, name AS username, hash AS password_hash, 0 AS version FROM people WHERE name = $1"
user = "SELECT 1 AS id, name AS username, 0 AS version FROM people WHERE id = $1"
`)
	server := start(t, "serve", "--config", config)
	server.said(`user base not reached, nobody can log in until it is`)
	address := server.said(`msg=ready address=(\S+)`)[1]
	plain := &http.Client{}
	defer plain.CloseIdleConnections()
	if _, err := grant(t.Context(), plain, "http://"+address, "ana", "correct horse"); err == nil || strings.Contains(err.Error(), "rong username or password") {
		t.Errorf("login: %v", err)
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	if strings.Contains(server.talk.String(), "canary") {
		t.Errorf("the log says:\n%s", server.talk)
	}
}

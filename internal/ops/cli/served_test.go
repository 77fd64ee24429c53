package cli

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestServeWarnsOfUnservedRights starts a gateway whose database grants rights that the gateway
// does not serve.
func TestServeWarnsOfUnservedRights(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(folder, "db")})
	if err != nil {
		t.Fatal(err)
	}
	late := broker.Entitlement{Market: "*", Trades: true, Delay: 420}
	for _, name := range []string{"ana", "eva"} {
		if err := addTestUser(t, data, name, late, broker.Entitlement{Market: "*", Quotes: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, "listen = \"127.0.0.1:0\"\ndrain = \"10ms\"\ndata = \"db\"\n")
	server := start(t, "serve", "--config", config)
	server.said(`level=WARN msg="a right is not served" reason="\* trades delay=420: its delay is not in stream.delays"`)
	server.said(`msg=ready`)
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	if n := strings.Count(server.talk.String(), "a right is not served"); n != 1 {
		t.Errorf("printed %d times, want once:\n%s", n, server.talk)
	}
}

// TestServeLogLevel changes the level of the log of a running gateway, and finds the change in the
// audit log.
func TestServeLogLevel(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config, token := filepath.Join(folder, "rueda.toml"), filepath.Join(folder, "admin.token")
	write(t, config, "listen = \"127.0.0.1:0\"\ndrain = \"10ms\"\ndata = \"db\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n[log]\nlevel = \"info\"\n")
	write(t, token, "an-operators-token-of-these-tests-0123\n")
	server := start(t, "serve", "--config", config)
	admin := "http://" + server.said(`msg=ready .* admin=(\S+)`)[1]
	logs := func(level string) {
		t.Helper()
		p := start(t, "log-level", level, "--admin", admin, "--token-file", token)
		p.line("^" + level + "$")
		if status := p.exit(); status != command.ExitOK {
			t.Errorf("log-level %s ended with %d", level, status)
		}
	}
	look := func(path string) {
		t.Helper()
		answer, err := http.Get(admin + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	look("/livez")
	logs("debug")
	server.said(`level=WARN msg="log level changed" log_level=debug request_id=\S+`)
	look("/readyz")
	server.said(`level=DEBUG msg=request .*route=/readyz`)
	logs("error")
	look("/livez")
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	if text := server.talk.String(); strings.Contains(text, "route=/livez") || strings.Contains(text, "shutting down") {
		t.Errorf("logged lines below the level:\n%s", text)
	}
	tail := start(t, "audit", "tail", "--kind", "setting_changed", "--config", config)
	tail.line(`administrator .*log level debug, was info`)
	tail.line(`administrator .*log level error, was debug`)
	if status := tail.exit(); status != command.ExitOK {
		t.Errorf("audit tail ended with %d", status)
	}
}

// TestAuditEmptied deletes rows of the log. It checks the message for a log that is empty, and for
// a missing row in the middle.
func TestAuditEmptied(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ana", "eva", "ivo", "uma"} {
		if err := addTestUser(t, data, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(folder, "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, c := range []struct{ change, output, advice string }{
		{`UPDATE audit SET detail = 'x' WHERE seq = 3`, `row 3 of .* was changed`, `Rows up to 2 are valid\. Keep a copy`},
		{`DELETE FROM audit WHERE seq = 2`, `row 3 follows row 1`, `Rows up to 1 are valid\. Keep a copy`},
		{`DELETE FROM audit`, `audit log is broken: it is empty, and the database has users since 20\d\d-\d\d-\d\d\n`, `  Keep a copy of the database`},
	} {
		if _, err := db.Exec(c.change); err != nil {
			t.Fatal(err)
		}
		p := start(t, "audit", "verify", "--data", folder)
		if status := p.exit(); status != command.ExitBadData {
			t.Errorf("%s: ended with %d", c.change, status)
		}
		p.said(c.output)
		p.said(c.advice)
		if strings.Contains(p.talk.String(), "key file") {
			t.Errorf("%s: said %s", c.change, p.talk)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "keys.json")); err != nil {
		t.Error(err)
	}
}

func addTestUser(t *testing.T, data *gateway.Data, name string, rights ...broker.Entitlement) error {
	t.Helper()
	_, err := data.Users.Add(t.Context(), local.NewUser{Username: name, Password: "correct horse battery staple", Entitlements: rights})
	return err
}

package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// operatorsOf writes a configuration with a listener for administrators, and a token file for each
// role: read, operate and identity.
func operatorsOf(t *testing.T, folder string) (config string) {
	t.Helper()
	var lines strings.Builder
	for _, role := range []string{"read", "operate", "identity"} {
		token := "the token of an operator with the role " + role
		token = strings.ReplaceAll(token, " ", "-")
		fmt.Fprintf(&lines, "op-%s %x %s\n", role, sha256.Sum256([]byte(token)), role)
		write(t, filepath.Join(folder, role), token+"\n")
	}
	write(t, filepath.Join(folder, "admin.token"), lines.String())
	config = filepath.Join(folder, "rueda.toml")
	write(t, config, "listen = \"127.0.0.1:0\"\ndrain = \"10ms\"\ndata = \"db\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n")
	return config
}

// outcome runs a command to its end, with text at its standard input.
func outcome(t *testing.T, text string, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, command.Streams{In: strings.NewReader(text), Out: &stdout, Err: &stderr})
	return status, stdout.String(), stderr.String()
}

// TestSameOverAdmin runs commands on a database and on a running gateway, and compares what they
// print.
func TestSameOverAdmin(t *testing.T) {
	t.Parallel()
	var got [2]strings.Builder
	folders := [2]string{t.TempDir(), t.TempDir()}
	var flags [2][]string
	for i, folder := range folders {
		config := operatorsOf(t, folder)
		flags[i] = []string{"--config", config}
		if status, _, errs := outcome(t, "a long password of the first user", "user", "add", "first", "--rights", "all", "--password-stdin", "--config", config); status != 0 {
			t.Fatal(errs)
		}
	}
	server := start(t, "serve", "--config", flags[1][1])
	admin := "http://" + server.said(`msg=ready .* admin=(\S+)`)[1]
	flags[1] = []string{"--admin", admin, "--token-file", filepath.Join(folders[1], "identity")}
	vary := regexp.MustCompile(`us_[A-Za-z0-9_-]+|[A-Za-z0-9_-]{16,}|20\d\d-\d\d-\d\dT\S+`)
	for _, c := range []string{
		"user add ana --rights quotes --password-stdin",
		"user add ana --rights all --password-stdin",
		"group add equity --scopes marketdata:read --second-factor required",
		"group add equity",
		"group grant equity --market BYMA --trades --quotes --depth 5 --until 2999-01-01",
		"group grant equity --market BYMA --trades --quotes --depth 5 --until 2999-01-01",
		"group join equity ana", "group join equity ana", "group join bonds ana", "group join equity nobody",
		"group set equity --second-factor optional --connections 3",
		"group list",
		"user grant ana --market ROFEX --trades", "user grant ana --market ROFEX --trades",
		"user set ana --scopes marketdata:read,marketdata:history --networks 192.0.2.0/24 --expires 2199-01-01",
		"user set ana --expires 2199-01-01",
		"user show ana", "user show nobody",
		"user password ana --password-stdin", "user password nobody --password-stdin",
		"user account add ana 100001 --type margin --currency USD", "user account list ana", "user account list first",
		"user disable ana", "user disable ana", "user enable ana", "user logout ana", "user logout nobody",
		"user logins ana", "user logins nobody",
		"user logout --login nothing", "user logout --login ..", "user logout --login=", "user logout ana --login nothing", "user logout",
		"user otp ana --disable",
		"user revoke ana --market ROFEX", "user revoke ana --all",
		"group leave equity ana", "group leave equity ana", "group revoke equity --all", "group remove equity", "group remove equity",
		"user list",
		"keys list", "keys rotate", "keys rotate", "keys rotate --revoke nothing",
		"report usage --month 2026-11", "report usage --month 2026-11 --json",
		"audit tail --kind logins",
		"audit tail -n 3 --kind key_changed",
	} {
		for i := range flags {
			status, out, errs := outcome(t, "another long password", append(strings.Fields(c), flags[i]...)...)
			text := fmt.Sprintf("%s\n%d\n%s%s\n", c, status, out, errs)
			text = vary.ReplaceAllString(text, "...")
			text = regexp.MustCompile(`command line \(uid \d+\)|administrator \(op-\w+\)`).ReplaceAllString(text, "somebody")
			text = regexp.MustCompile(`(?m)^ *\d+ +20\S+ \S+ +key_changed`).ReplaceAllString(text, "... key_changed")
			text = regexp.MustCompile(` +`).ReplaceAllString(text, " ")
			got[i].WriteString(text)
		}
	}
	database, served := strings.Split(got[0].String(), "\n"), strings.Split(got[1].String(), "\n")
	for i := range max(len(database), len(served)) {
		if i >= len(database) || i >= len(served) || database[i] != served[i] {
			from := max(0, i-8)
			t.Fatalf("line %d differs\ndatabase:\n%s\n\nserved:\n%s", i+1, strings.Join(database[from:min(i+6, len(database))], "\n"), strings.Join(served[from:min(i+6, len(served))], "\n"))
		}
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}

// TestGatewayOrDatabase checks when commands use a running gateway, and what they print when it
// does not serve them.
func TestGatewayOrDatabase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := operatorsOf(t, folder)
	if status, _, errs := outcome(t, "a long password of the first user", "user", "add", "first", "--rights", "all", "--password-stdin", "--config", config); status != 0 {
		t.Fatal(errs)
	}
	server := start(t, "serve", "--config", config)
	ready := server.said(`msg=ready address=(\S+) .* admin=(\S+)`)
	clients, admin := "http://"+ready[1], "http://"+ready[2]
	// A second configuration names the address of the running gateway.
	named := filepath.Join(folder, "named.toml")
	write(t, named, "data = \"db\"\n[admin]\nlisten = \""+ready[2]+"\"\ntoken_file = \"admin.token\"\n")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/admin/openapi.json":
			_, _ = w.Write([]byte(`{"paths":{"/admin/users":{}}}`))
		case "/metrics":
			_, _ = w.Write([]byte("# a page\nrueda_build_info{version=\"0.0.9\"} 1\n"))
		}
	}))
	defer other.Close()
	write(t, filepath.Join(folder, "wrong"), "a-token-that-no-operator-of-this-gateway-has\n")
	token := func(name string) string { return filepath.Join(folder, name) }
	for _, c := range []struct {
		rule, command string
		status        int
		out, errs     string
	}{
		{"a token and a configuration: the gateway", "user disable first --token-file " + token("identity") + " --config " + named, 0, "Disabled first", ""},
		{"a configuration alone: the database", "user enable first --config " + named, 0, "Enabled first", ""},
		{"nothing answers and a database is named", "user list --admin http://127.0.0.1:1 --token-file " + token("identity") + " --config " + config, 0, "first\tactive", "the database is used instead"},
		{"nothing answers", "user list --admin http://127.0.0.1:1 --token-file " + token("identity"), 5, "", "the gateway does not answer"},
		{"no token", "user list --admin " + admin, 2, "", "The role identity is enough"},
		{"a wrong token", "user list --admin " + admin + " --token-file " + token("wrong"), 3, "", "Compare its SHA-256 with the lines of admin.token_file"},
		{"a weak token", "user list --admin " + admin + " --token-file " + token("read"), 3, "", "It needs the role identity in the operator's line of token_file"},
		{"a weak token for keys", "keys rotate --admin " + admin + " --token-file " + token("read"), 3, "", "needs the role operate"},
		{"the role read is enough for keys", "keys list --admin " + admin + " --token-file " + token("read"), 0, "signing", ""},
		{"the listener for clients", "group list --admin " + clients + " --token-file " + token("identity"), 1, "", "--admin is the URL of the listener for administrators"},
		{"another version", "group list --admin " + other.URL + " --token-file " + token("identity"), 1, "", "The gateway is version 0.0.9 and this program is"},
		{"an import needs the database", "user import users.csv --admin " + admin + " --token-file " + token("identity"), 2, "", "a gateway has no route to import users"},
		{"a second factor needs the database", "user otp first --enable --admin " + admin + " --token-file " + token("identity"), 2, "", "without --admin and --token-file"},
		{"neither", "user list", 2, "", "which database?"},
		{"a group that has no path", "group add a/b --config " + config, 0, "Added group a/b", ""},
		{"the gateway lists it", "group list --admin " + admin + " --token-file " + token("identity"), 0, "a/b\t0", ""},
		{"and cannot change it", "group remove a/b --admin " + admin + " --token-file " + token("identity"), 2, "", "whose name cannot be part of a path"},
		{"logins of a gateway", "user logins first --admin " + admin + " --token-file " + token("identity"), 0, "127.0.0.1\t0\t", ""},
		{"logins of a database", "user logins first --config " + config, 0, "127.0.0.1\t-\t", ""},
		{"ended", "user logout first --admin " + admin + " --token-file " + token("identity"), 0, "Logged out first", ""},
		{"none of a gateway", "user logins first --admin " + admin + " --token-file " + token("identity"), 0, "", "first is not logged in."},
		{"none of a database", "user logins first --config " + config, 0, "", "first is not logged in."},
	} {
		if c.rule == "logins of a gateway" { // enabled again above
			logIn(t, clients, "first", "a long password of the first user")
		}
		status, out, errs := outcome(t, "", strings.Fields(c.command)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%s: %s\n%d\n%s%s", c.rule, c.command, status, out, errs)
		}
	}
	_, rows, _ := outcome(t, "", "audit", "tail", "--kind", "user_changed", "--admin", admin, "--token-file", token("operate"))
	if !strings.Contains(rows, "administrator (op-identity)") || !strings.Contains(rows, "command line") {
		t.Errorf("the audit log has\n%s", rows)
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}

// logIn logs in at a gateway.
func logIn(t *testing.T, url, username, password string) {
	t.Helper()
	body := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, username, password)
	answer, err := http.Post(url+"/auth/token", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("log in: %s", answer.Status)
	}
}

// TestEndOneLogin ends one of three logins over the gateway and one in the database, as the gateway
// then lists them.
func TestEndOneLogin(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := operatorsOf(t, folder)
	const password = "a long password of the first user"
	if status, _, errs := outcome(t, password, "user", "add", "first", "--rights", "all", "--password-stdin", "--config", config); status != 0 {
		t.Fatal(errs)
	}
	server := start(t, "serve", "--config", config)
	ready := server.said(`msg=ready address=(\S+) .* admin=(\S+)`)
	clients, admin := "http://"+ready[1], "http://"+ready[2]
	for range 3 {
		logIn(t, clients, "first", password)
	}
	over := func(role string) []string {
		return []string{"--admin", admin, "--token-file", filepath.Join(folder, role)}
	}
	ids := func() (list []string) {
		t.Helper()
		status, out, errs := outcome(t, "", append([]string{"user", "logins", "first"}, over("identity")...)...)
		if status != 0 {
			t.Fatal(errs)
		}
		for line := range strings.Lines(out) {
			id, _, _ := strings.Cut(line, "\t")
			list = append(list, id)
		}
		return list
	}
	end := func(status int, want, id string, flags ...string) {
		t.Helper()
		got, out, errs := outcome(t, "", append([]string{"user", "logout", "--login=" + id}, flags...)...)
		if got != status || !strings.Contains(out+errs, want) {
			t.Errorf("end %s with %q: %d\n%s%s", id, flags, got, out, errs)
		}
	}
	all := ids()
	if len(all) != 3 {
		t.Fatalf("the logins are %q", all)
	}
	end(command.ExitRefused, "needs the role operate", all[0], over("read")...)
	end(command.ExitOK, "Ended the login "+all[0], all[0], over("operate")...)
	end(command.ExitNotFound, "or it has ended", all[0], over("operate")...)
	end(command.ExitOK, "Ended the login "+all[1], all[1], "--config", config)
	end(command.ExitNotFound, "or it has ended", all[1], "--config", config)
	if left := ids(); len(left) != 1 || left[0] != all[2] {
		t.Errorf("left are %q of %q", left, all)
	}
	_, rows, _ := outcome(t, "", "audit", "tail", "--kind", "session_ended", "--config", config)
	if strings.Count(rows, "session_ended") != 2 || !strings.Contains(rows, "administrator (op-operate)") || !strings.Contains(rows, "command line") {
		t.Errorf("the audit log has\n%s", rows)
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}

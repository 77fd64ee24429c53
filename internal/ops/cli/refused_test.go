package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// operatorCommand is a command that can use the listener for administrators.
type operatorCommand struct {
	args string
	role string // that it needs; "": it works on a database only
}

// operatorCommands has all of them by their path.
func operatorCommands() map[string]operatorCommand {
	return map[string]operatorCommand{
		"conformance server": {"http://127.0.0.1:1", "identity"},
		"status":             {"--every 100ms", "read"},
		"doctor":             {"", "read"},
		"log-level":          {"debug", "operate"},
		"connections":        {"", "read"},
		"connections close":  {"0-1-1", "operate"},
		"reload":             {"", "operate"},
		"operator":           {"", "read"},
		"user add":           {"ana --rights all --password-stdin", "identity"},
		"user password":      {"ana --password-stdin", "identity"},
		"user disable":       {"ana", "identity"},
		"user enable":        {"ana", "identity"},
		"user logout":        {"--login nothing", "operate"},
		"user logins":        {"ana", "identity"},
		"user list":          {"", "identity"},
		"user show":          {"ana", "identity"},
		"user set":           {"ana --expires 2199-01-01", "identity"},
		"user grant":         {"ana --market BYMA --quotes", "identity"},
		"user revoke":        {"ana --all", "identity"},
		"user otp":           {"ana --disable", "identity"},
		"user import":        {"users.csv", ""},
		"user check":         {"ana", ""},
		"user account add":   {"ana 100001", "identity"},
		"user account list":  {"ana", "identity"},
		"group add":          {"desk", "identity"},
		"group list":         {"", "identity"},
		"group set":          {"desk --connections 3", "identity"},
		"group grant":        {"desk --market BYMA --quotes", "identity"},
		"group revoke":       {"desk --all", "identity"},
		"group join":         {"desk ana", "identity"},
		"group leave":        {"desk ana", "identity"},
		"group remove":       {"desk", "identity"},
		"keys list":          {"", "read"},
		"keys rotate":        {"", "operate"},
		"keys new":           {"", ""},
		"keys reseal":        {"", ""},
		"keys accept-older":  {"", ""},
		"audit tail":         {"", "operate"},
		"audit verify":       {"", ""},
		"audit exports":      {"", ""},
		"report usage":       {"--month 2026-11", "operate"},
	}
}

// TestOperatorCommandsRefused runs each command that can use the listener for administrators where
// it cannot work: nothing answers, the token is wrong, its role does not allow the command, and
// another version of the gateway answers. Each is a sentence, and nothing is printed as a result.
func TestOperatorCommandsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := operatorsOf(t, folder)
	if status, _, errs := outcome(t, "a long password of the first user", "user", "add", "first", "--rights", "all", "--password-stdin", "--config", config); status != 0 {
		t.Fatal(errs)
	}
	server := start(t, "serve", "--config", config)
	admin := "http://" + server.said(`msg=ready .* admin=(\S+)`)[1]
	// The answer of the gateway itself: it slows down those who send many wrong tokens.
	status, text := askAs(t, admin, "a-token-that-no-operator-of-this-gateway-has")
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/openapi.json" { // without a token
			_, _ = io.WriteString(w, `{"paths":{"/admin/groups":{}}}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(wrong.Close)
	old := oldGateway(t)
	known := operatorCommands()
	for _, cmd := range runnable(Root()) {
		if cmd.Flag("token-file") == nil || cmd.Name() == "init-encryption" { // which only writes a file
			continue
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "rueda ")
		c, ok := known[path]
		if !ok {
			t.Errorf("rueda %s is missing in operatorCommands", path)
			continue
		}
		delete(known, path)
		try := func(what, admin, token string, status int, want string) {
			t.Helper()
			args := append(strings.Fields(path+" "+c.args), "--admin", admin, "--token-file", filepath.Join(folder, token))
			got, out, errs := outcome(t, "another long password", args...)
			switch {
			case c.role == "" && (path != "user import" || what == "a wrong token"): // it asks a gateway first, without the token
				status, want = command.ExitUsage, "--config"
			case what == "another version" && (path == "status" || path == "doctor"): // they read what there is
				out, got = "", status
			}
			if got != status || !strings.Contains(errs, want) || out != "" {
				t.Errorf("rueda %s, %s: %d, want %d and %q\n%s%s", path, what, got, status, want, out, errs)
			}
			if strings.Contains(errs, "the-token-of-an") || strings.Contains(errs, "long password") {
				t.Errorf("rueda %s, %s, prints a secret: %s", path, what, errs)
			}
		}
		try("nothing answers", "http://127.0.0.1:1", "identity", command.ExitUnreachable, "the gateway does not answer")
		try("a wrong token", wrong.URL, "identity", command.ExitRefused, "does not accept the token")
		switch c.role {
		case "operate":
			try("a weak token", admin, "read", command.ExitRefused, "It needs the role operate")
		case "identity":
			try("a weak token", admin, "operate", command.ExitRefused, "It needs the role identity")
		}
		status, want := command.ExitError, "version 0.0.9"
		if cmd.Parent() == cmd.Root() && path != "status" && path != "doctor" || cmd.Parent().Name() == "connections" {
			status, want = command.ExitNotFound, "a gateway of an older version"
		}
		try("another version", old, "identity", status, want)
	}
	for path := range known {
		t.Errorf("there is no command rueda %s with --token-file", path)
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}

// oldGateway returns the URL of a gateway of an older version, which has few routes.
func oldGateway(t *testing.T) string {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/admin/openapi.json":
			_, _ = io.WriteString(w, `{"paths":{"/admin/users":{}}}`)
		case "/metrics":
			_, _ = io.WriteString(w, "# a page\nrueda_build_info{version=\"0.0.9\"} 1\n")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"success":false,"error":{"reason":"not_found","msg":"Not found"}}`)
		}
	}))
	t.Cleanup(old.Close)
	return old.URL
}

// runnable returns a command and those below it that do something themselves.
func runnable(cmd *cobra.Command) (list []*cobra.Command) {
	if (!cmd.HasSubCommands() || cmd.Name() == "connections") && !cmd.Hidden {
		list = append(list, cmd)
	}
	for _, sub := range cmd.Commands() {
		list = append(list, runnable(sub)...)
	}
	return list
}

// askAs returns the status and the body of an answer to a token.
func askAs(t *testing.T, admin, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/admin/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

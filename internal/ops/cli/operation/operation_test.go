package operation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

const token = "an-operators-token-of-these-tests-0123"

// start runs a gateway until the test ends, and returns the URLs of its listeners. change may
// change its configuration.
func start(t *testing.T, change func(*gateway.Config)) (admin, clients string) {
	t.Helper()
	ready := make(chan gateway.Bound, 1)
	c := gateway.Config{
		Listen: "127.0.0.1:0", Version: "9.9.9", Admin: gateway.Admin{Listen: "127.0.0.1:0", Tokens: token},
		OnReady: func(b gateway.Bound) { ready <- b },
	}
	if change != nil {
		change(&c)
	}
	g, err := gateway.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b := <-ready
	return "http://" + b.Admin, b.REST
}

// execute runs a command and returns its exit status and what it prints.
func execute(t *testing.T, name string, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	std := command.Streams{Out: &stdout, Err: &stderr}
	cmd := NewDoctor(std)
	switch name {
	case "status":
		cmd = NewStatus(std)
	case "log-level":
		cmd = NewLogLevel(std)
	case "reload":
		cmd = NewReload(std)
	case "connections":
		cmd = NewConnections(std)
	case "operator":
		cmd = NewOperator(std)
	}
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	status, text, advice := command.Outcome(t.Context(), cmd.ExecuteContext(t.Context()))
	return status, stdout.String(), stderr.String() + text + "\n" + advice
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCommands runs both commands with a gateway of another version.
func TestCommands(t *testing.T) {
	t.Parallel()
	admin, _ := start(t, nil)
	file := writeFile(t, token+"\n")
	status, out, errs := execute(t, "status", "--admin", admin, "--token-file", file, "--every", "100ms")
	for _, want := range []string{"rueda 9.9.9: ready, up ", "connections  0 live, 0 unauthenticated", "keys         signing key ", "database "} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not print %q:\n%s", want, out)
		}
	}
	if status != command.ExitOK || !strings.Contains(errs, "the gateway is version 9.9.9 and this program is ") {
		t.Errorf("status: %d %s", status, errs)
	}
	status, out, errs = execute(t, "doctor", "--admin", admin+"/", "--token-file", file)
	for _, want := range []string{"ok    gateway: ready 1\n", "ok    clock: ", "ok    keys: 1 that sign", "ok    database: 0 "} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not print %q:\n%s", want, out)
		}
	}
	if status != command.ExitOK || strings.Contains(out, "FAIL") {
		t.Errorf("doctor: %d %s\n%s", status, errs, out)
	}
}

// TestLogLevel shows and changes the level of a running gateway, with tokens of two operators.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	level := new(slog.LevelVar)
	line := func(name, role string) string {
		return fmt.Sprintf("%s %x %s\n", name, sha256.Sum256([]byte("the-token-of-"+name)), role)
	}
	admin, _ := start(t, func(c *gateway.Config) {
		c.LogLevel, c.Admin.Tokens = level, line("ana", "operate")+line("otto", "read")
	})
	as := func(name string, args ...string) (status int, out, errs string) {
		return execute(t, "log-level", append(args, "--admin", admin, "--token-file", writeFile(t, "the-token-of-"+name))...)
	}
	if status, out, errs := as("otto"); status != command.ExitOK || out != "info\n" {
		t.Errorf("show: %d %q %s", status, out, errs)
	}
	if status, out, errs := as("ana", "debug"); status != command.ExitOK || out != "debug\n" || level.Level() != slog.LevelDebug {
		t.Errorf("set: %d %q %s, level %v", status, out, errs, level)
	}
	if status, out, errs := as("otto", "error"); status != command.ExitRefused || out != "" || !strings.Contains(errs, "It needs the role operate") || level.Level() != slog.LevelDebug {
		t.Errorf("set with the role read: %d %q %s, level %v", status, out, errs, level)
	}
	if status, out, errs := as("ana", "verbose"); status != command.ExitUsage || out != "" || !strings.Contains(errs, `"verbose" is not one of debug, info, warn, error`) {
		t.Errorf("an unknown level: %d %q %s", status, out, errs)
	}
	fixed, _ := start(t, nil)
	if status, out, errs := execute(t, "log-level", "debug", "--admin", fixed, "--token-file", writeFile(t, token)); status == command.ExitOK || out != "" ||
		!strings.Contains(errs, "The level of this gateway's log is fixed") {
		t.Errorf("a fixed level: %d %q %s", status, out, errs)
	}
}

// TestMistakes checks that each mistake is a sentence with the next step.
func TestMistakes(t *testing.T) {
	t.Parallel()
	admin, clients := start(t, nil)
	file := writeFile(t, token)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(other.Close)
	weak := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"success":false,"error":{"msg":"The role does not allow this","hint":"It needs the role read"}}`))
	}))
	t.Cleanup(weak.Close)
	for _, m := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"unreachable", []string{"--admin", "http://127.0.0.1:9", "--token-file", file}, command.ExitUnreachable, "the gateway does not answer"},
		{"wrong token", []string{"--admin", admin, "--token-file", writeFile(t, "another-token-of-thirty-two-characters")}, command.ExitRefused, "does not accept the token"},
		{"weak token", []string{"--admin", weak.URL, "--token-file", file}, command.ExitRefused, "It needs the role read"},
		{"listener for clients", []string{"--admin", clients, "--token-file", file}, command.ExitNotFound, "--admin is the URL of the listener for administrators"},
		{"another program", []string{"--admin", other.URL, "--token-file", file}, command.ExitError, "another program has this address"},
		{"no token", []string{"--admin", admin, "--token-file", writeFile(t, "\n")}, command.ExitUsage, " is enough"},
		{"no such file", []string{"--admin", admin, "--token-file", filepath.Join(t.TempDir(), "none")}, command.ExitUsage, "read the token"},
		{"no URL", []string{"--admin", "127.0.0.1:8081", "--token-file", file}, command.ExitUsage, "is not a URL"},
		{"clear text", []string{"--admin", "http://192.0.2.1:8081", "--token-file", file}, command.ExitUsage, "in clear text"},
	} {
		for _, name := range []string{"status", "doctor", "log-level", "connections", "reload"} {
			status, out, errs := execute(t, name, m.args...)
			if status != m.status || out != "" || !strings.Contains(errs, m.want) || strings.Contains(errs, token) {
				t.Errorf("%s, %s: %d %q %s", name, m.name, status, out, errs)
			}
		}
	}
}

// TestThreat43LyingGateway checks that a server in place of the gateway neither controls the
// terminal of an operator nor keeps the command busy.
func TestThreat43LyingGateway(t *testing.T) {
	t.Parallel()
	const control = "\x1b]0;owned\x07\u009b2J\u202e"
	hostile := fmt.Sprintf("# HELP x\nrueda_build_info{version=\"9%[1]s\"} 1\nrueda_feed_up{feed=\"f%[1]s\"} 1\n"+
		"rueda_disk_size_bytes{folder=\"d%[1]s\"} 1\nrueda_certificate_expires_timestamp_seconds{listener=\"l%[1]s\"} 1\n", control)
	var many strings.Builder
	many.WriteString("# HELP x\nrueda_build_info{version=\"9\"} 1\n")
	for i := range 200_000 {
		fmt.Fprintf(&many, "rueda_delivery_seconds_bucket{le=\"%d\"} 1\n", i)
	}
	for _, c := range []struct {
		name, body, want string
		status           int
	}{
		{"control characters", hostile, "", http.StatusOK},
		{"many metrics", many.String(), "the answer has more than 10000 metrics", http.StatusOK},
		{"connections", `{"data":{"connections":[{"id":"1","session":"` + "\u009b" + `2Jc","username":"\u001b[2J"}],"matching":1}}`, "", http.StatusOK},
		{"an error", `{"error":{"msg":"m\u001b]0;owned\u0007\u009b2J"}}`, "", http.StatusTeapot},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		for _, line := range []string{"status --every 100ms", "doctor", "connections", "connections -o json"} {
			words := strings.Fields(line)
			name, args := words[0], append(words[1:], "--admin", server.URL, "--token-file", writeFile(t, token))
			_, out, errs := execute(t, name, args...)
			if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("%s, %s printed %q", name, c.name, out)
			}
			if name != "connections" && !strings.Contains(errs, c.want) {
				t.Errorf("%s, %s: %q, want %q", name, c.name, errs, c.want)
			}
		}
		server.Close()
	}
}

// TestExamine checks that each problem is found, with a next step.
func TestExamine(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	examined := func(text string) (problems []string) {
		p, err := parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		p.at, p.clock = now, now
		for _, f := range examine(p) {
			if f.next != "" {
				problems = append(problems, f.what)
			}
		}
		return problems
	}
	const good = "# HELP x\nrueda_ready 1\nrueda_keys{state=\"signing\"} 1\nprocess_max_fds 100\nprocess_open_fds 80\nrueda_connections_limit 100\n" +
		"rueda_connections{state=\"live\"} 80\nrueda_disk_size_bytes{folder=\"data\"} 100\nrueda_disk_free_bytes{folder=\"data\"} 10\n" +
		"rueda_feed_up{feed=\"byma\"} 1\nrueda_feed_newest_timestamp_seconds{feed=\"byma\"} 1.79999995e+09\nrueda_journal_suspended 0\n" +
		"rueda_certificate_expires_timestamp_seconds{listener=\"clients\"} 1.8013e+09\n"
	if got := examined(good); len(got) != 0 {
		t.Errorf("problems of a gateway that works: %q", got)
	}
	for _, c := range [][3]string{
		{"rueda_ready 1", "rueda_ready 0", "gateway: ready 0"},
		{"process_open_fds 80", "process_open_fds 81", "descriptors: 81% used"},
		{`{state="live"} 80`, `{state="live"} 81`, "connections: 81% used"},
		{`{folder="data"} 10` + "\n", `{folder="data"} 9` + "\n", "disk of data: 9% free"},
		{`rueda_feed_up{feed="byma"} 1`, `rueda_feed_up{feed="byma"} 0`, "feed byma: up 0"},
		{"1.79999995e+09", "1.7999999e+09", "feed byma: newest event 2m ago"},
		{"rueda_journal_suspended 0", "rueda_journal_suspended 1", "journal: suspended 1"},
		{"1.8013e+09", "1.8012e+09", "certificate of clients: ends in 13 days"},
		{`rueda_keys{state="signing"} 1`, `rueda_keys{state="retired"} 1`, "keys: 0 that sign, 0s old"},
		{"rueda_ready 1", "rueda_ready 1\nrueda_stream_memory_relief 1", "memory of the stream: relief step 1"},
		{"rueda_ready 1", "rueda_ready 1\nrueda_database_failures_total 1", "database: 1 transactions or polls have failed since the start"},
		{"rueda_ready 1", "rueda_ready 1\nrueda_user_base_breaker_open 1", "user base: circuit breaker open 1"},
		{"rueda_ready 1", "rueda_ready 1\nrueda_panics_total 2", "panics: 2 since the start"},
		{"rueda_ready 1", "rueda_ready 1\nrueda_feed_refused_total{feed=\"byma\"} 3", "feed byma: 3 calls with invalid events"},
	} {
		text := strings.Replace(good, c[0], c[1], 1)
		if strings.Contains(c[2], "feed byma: up 0") { // one finding for one cause: not ready, and silent
			text = strings.Replace(strings.Replace(text, "rueda_ready 1", "rueda_ready 0", 1), "1.79999995e+09", "1.7999999e+09", 1)
		}
		if got := examined(text); text == good || len(got) != 1 || got[0] != c[2] {
			t.Errorf("%s: %q, want %q", c[1], got, c[2])
		}
	}
}

// TestRates checks the figures between two pages.
func TestRates(t *testing.T) {
	t.Parallel()
	read := func(text string, at int64) *page {
		p, err := parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		p.at = time.Unix(at, 0)
		return p
	}
	before := read("a_total 10\nt_bucket{le=\"0.01\"} 5\nt_bucket{le=\"0.1\"} 5\nt_bucket{le=\"+Inf\"} 5\n", 100)
	now := read("a_total 30\nt_bucket{le=\"0.01\"} 95\nt_bucket{le=\"0.1\"} 105\nt_bucket{le=\"+Inf\"} 105\n", 102)
	if r := now.rate(before, "a_total"); r != 10 {
		t.Errorf("rate %v", r)
	}
	if r := before.rate(now, "a_total"); r != 0 {
		t.Errorf("rate after a restart %v", r)
	}
	if d, ok := now.quantile(before, 0.5, "t"); !ok || d != 10*time.Millisecond {
		t.Errorf("median %v", d)
	}
	if d, ok := now.quantile(before, 0.99, "t"); !ok || d != 100*time.Millisecond {
		t.Errorf("p99 %v", d)
	}
	if _, ok := now.quantile(now, 0.99, "t"); ok {
		t.Error("a quantile of nothing")
	}
	if _, err := parse(strings.NewReader("no metrics here\n")); err == nil {
		t.Error("text was read as metrics")
	}
}

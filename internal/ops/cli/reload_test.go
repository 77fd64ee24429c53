package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// reloaded is a running gateway whose configuration changes.
type reloaded struct {
	*testing.T
	folder, admin, address string
	server                 *program
	token                  string
	sockets                []*websocket.Conn // open all the time
	trusted                *x509.CertPool
}

// soakCount returns the full count of a long test if RUEDA_SOAK is set, and a fiftieth otherwise.
func soakCount(n int) int {
	if os.Getenv("RUEDA_SOAK") != "" {
		return n
	}
	return n / 50
}

const reloadMarkets = `[[market]]
id = "BYMA"
weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
[[market.term]]
name = "CI"
[[market.session]]
start = "00:00"
end = "24:00"
phase = "open"
`

// startReloaded starts a gateway with TLS and opens sockets of one user.
func startReloaded(t *testing.T, sockets int) *reloaded {
	t.Helper()
	g := &reloaded{T: t, folder: t.TempDir()}
	g.trusted = writeCertificate(t, g.folder)
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(g.folder, "db")})
	if err != nil {
		t.Fatal(err)
	}
	all := []broker.Entitlement{{Market: "*", Trades: true, Quotes: true}}
	if _, err := data.Users.Add(t.Context(), local.NewUser{Username: "ana", Password: "correct horse battery staple", Scopes: []string{broker.ScopeRead}, Entitlements: all}); err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(g.folder, "admin.token"), "an-operators-token-of-these-tests-0123\n")
	g.file("markets.toml", reloadMarkets)
	g.file("instruments.toml", "[[instrument]]\nid = \"GGAL|BYMA|CI\"\n[[instrument]]\nid = \"ALUA|BYMA|CI\"\n")
	g.configure("")
	g.server = start(t, "serve", "--config", filepath.Join(g.folder, "rueda.toml"))
	ready := g.server.said(`msg=ready address=(\S+) .* admin=(\S+)`)
	g.address, g.admin = ready[1], "http://"+ready[2]
	if g.token, err = grant(t.Context(), g.client(), "https://"+g.address, "ana", "correct horse battery staple"); err != nil {
		t.Fatal(err)
	}
	https := g.client()
	for range sockets {
		c := open(t, https, "wss://"+g.address+"/stream", g.token)
		expect(t, c, `{"type":"Success","code":200,"msg":"Connected"`)
		g.sockets = append(g.sockets, c)
	}
	return g
}

// client returns a client with connections of its own.
func (g *reloaded) client() *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.trusted}}
	g.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func (g *reloaded) file(name, text string) { write(g.T, filepath.Join(g.folder, name), text) }

// configure writes the configuration. tables replaces or adds settings of tables.
func (g *reloaded) configure(tables string) {
	text := "listen = \"127.0.0.1:0\"\ndrain = \"10ms\"\ndata = \"db\"\nmarkets = \"markets.toml\"\ninstruments = \"instruments.toml\"\n" +
		"[journal]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n"
	if !strings.Contains(tables, "[tls]") {
		text += "[tls]\ncertificate = \"tls.crt\"\nkey = \"tls.key\"\n"
	}
	limits := "[limits]\n"
	for _, setting := range []string{"connections = 10000\n", "handshakes = 20000\n", "requests_per_minute = 100000\n"} {
		if name, _, _ := strings.Cut(setting, " "); !strings.Contains(tables, "\n"+name+" =") {
			limits += setting
		}
	}
	if before, after, ok := strings.Cut(tables, "[limits]\n"); ok {
		text += before + limits + after
	} else {
		text += limits + tables
	}
	g.file("rueda.toml", text)
}

// reload runs rueda reload, and returns its status and what it prints.
func (g *reloaded) reload() (status int, out, errs string) {
	g.Helper()
	var stdout, stderr bytes.Buffer
	status = run(g.Context(), []string{"reload", "--admin", g.admin, "--token-file", filepath.Join(g.folder, "admin.token")}, command.Streams{Out: &stdout, Err: &stderr})
	return status, stdout.String(), stderr.String()
}

// apply writes the configuration with further tables, and checks what a reload prints.
func (g *reloaded) apply(tables string, want ...string) {
	g.Helper()
	g.configure(tables)
	status, out, errs := g.reload()
	got := strings.Split(strings.TrimSpace(out), "\n")
	if out == "" {
		got = nil
	}
	if status != command.ExitOK || !slices.Equal(got, want) {
		g.Errorf("reload of %q: %d %q %s, want %q", tables, status, got, errs, want)
	}
}

// send sends a message on a socket and checks the answer.
func (g *reloaded) send(c *websocket.Conn, message, want string) {
	g.Helper()
	if err := c.Write(g.Context(), websocket.MessageText, []byte(message)); err != nil {
		g.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	last := ""
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			g.Fatalf("%v after %s instead of %s", err, last, want)
		}
		last = string(text)
		if strings.Contains(string(text), want) {
			return
		}
	}
}

// status returns the status of a GET with a token.
func (g *reloaded) status(https *http.Client, path string) int {
	g.Helper()
	r, err := http.NewRequestWithContext(g.Context(), http.MethodGet, "https://"+g.address+path, nil)
	if err != nil {
		g.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.token)
	answer, err := https.Do(r)
	if err != nil {
		g.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil { // so that the connection is used again
		g.Fatal(err)
	}
	return answer.StatusCode
}

// refused returns the status with which a handshake is refused, or 0 if it is accepted. It is -1 if
// the connection is reset before.
func (g *reloaded) refused() int {
	g.Helper()
	c, answer, err := websocket.Dial(g.Context(), "wss://"+g.address+"/stream", &websocket.DialOptions{HTTPClient: g.client()})
	if err == nil {
		g.Cleanup(func() { c.CloseNow() })
		return 0
	}
	if answer == nil {
		return -1
	}
	return answer.StatusCode
}

// answerPings answers the pings of the gateway on all sockets, until the test ends.
func (g *reloaded) answerPings() {
	for {
		select {
		case <-g.Context().Done():
			return
		case <-time.After(5 * time.Second):
		}
		for _, c := range g.sockets {
			_ = c.Write(g.Context(), websocket.MessageText, []byte(`{"action":"pong"}`)) // the test checks whether it is open
		}
	}
}

// TestReload changes each setting that applies while a gateway runs, with open sockets. None of
// them is lost.
func TestReload(t *testing.T) {
	t.Parallel()
	n := soakCount(5000)
	g := startReloaded(t, n)
	go g.answerPings()
	began := time.Now()
	g.apply("")
	g.reloadSessions()
	g.reloadServers()
	g.reloadMarket()
	g.reloadCertificate()
	g.apply("[log]\nlevel = \"debug\"\n", "applied: log.level")
	g.status(g.client(), "/livez")
	g.server.said(`level=DEBUG msg=request .*route=/livez`)
	g.apply("", "applied: log.level")
	g.reloadMistakes()
	g.listAll()
	for i, c := range g.sockets {
		g.send(c, fmt.Sprintf(`{"action":"ping","id":%d}`, i), fmt.Sprintf(`"action":"pong","id":%d`, i))
	}
	t.Logf("figure: %d sockets stayed open during the reloads of %v", n, time.Since(began).Round(time.Millisecond))
}

// reloadSessions changes the limits of sessions.
func (g *reloaded) reloadSessions() {
	g.Helper()
	c := g.sockets[0]
	const both = `{"action":"subscribe","trades":["GGAL|BYMA|CI","ALUA|BYMA|CI"],"snapshot":false}`
	g.apply("[limits]\nsubscriptions = 1\n", "applied: limits.subscriptions")
	g.send(c, both, `"subscription_limit"`)
	g.apply("", "applied: limits.subscriptions")
	g.send(c, both, `"type":"Subscription"`)

	g.apply("[limits]\nmessages_per_second = 1\n", "applied: limits.messages_per_second")
	for range 10 {
		if err := c.Write(g.Context(), websocket.MessageText, []byte(`{"action":"ping"}`)); err != nil {
			g.Fatal(err)
		}
	}
	g.send(c, `{"action":"ping"}`, `"rate_limited"`)
	g.apply("", "applied: limits.messages_per_second")

	g.apply("[limits]\nmessage_bytes = \"1KiB\"\n", "applied: limits.message_bytes")
	large := open(g.T, g.client(), "wss://"+g.address+"/stream", g.token)
	g.send(large, `{"action":"ping","id":"`+strings.Repeat("x", 2000)+`"}`, `"message_too_big"`)
	g.apply("", "applied: limits.message_bytes")

	g.apply("[limits]\nconnections = 1\n", "applied: limits.connections")
	more := open(g.T, g.client(), "wss://"+g.address+"/stream", g.token)
	expect(g.T, more, `{"type":"Error","code":429,"reason":"connection_limit"`)
	if _, _, err := more.Read(g.Context()); websocket.CloseStatus(err) != 4429 { // which releases its slot
		g.Error(err)
	}
	g.apply("", "applied: limits.connections")
}

// reloadServers changes the limits of connections, requests and logins.
func (g *reloaded) reloadServers() {
	g.Helper()
	g.apply("[limits]\nsockets = 10\n", "applied: limits.sockets")
	if status := g.refused(); status != http.StatusServiceUnavailable {
		g.Errorf("above sockets: %d", status)
	}
	g.apply("", "applied: limits.sockets")
	g.apply("[limits]\nunauthenticated_per_address = 1\n", "applied: limits.unauthenticated_per_address")
	oldest, _, err := websocket.Dial(g.Context(), "wss://"+g.address+"/stream", &websocket.DialOptions{HTTPClient: g.client()})
	if err != nil {
		g.Fatal(err)
	}
	defer oldest.CloseNow()
	if status := g.refused(); status != 0 {
		g.Errorf("above unauthenticated_per_address: %d", status)
	}
	expect(g.T, oldest, `{"type":"Error","code":503,"reason":"overloaded"`)
	g.apply("", "applied: limits.unauthenticated_per_address")

	g.apply("[limits]\nhandshakes = 1\n", "applied: limits.handshakes")
	status := 0
	for range 1000 { // 200 are accepted at first, and one a second
		if status = g.refused(); status != 0 {
			break
		}
	}
	if status != http.StatusTooManyRequests && status != -1 { // connections of TLS are limited too
		g.Errorf("above handshakes: %d", status)
	}
	g.apply("", "applied: limits.handshakes")
	for until := time.Now().Add(time.Minute); time.Now().Before(until); { // the address has used up what it may do at once
		if status = g.refused(); status == 0 {
			break
		}
	}
	if status != 0 {
		g.Errorf("below handshakes: %d", status)
	}

	idle := g.client()
	g.status(idle, "/livez")
	g.apply("[limits]\nhistory_per_user = 1\nrequests = 50\nrequests_per_address = 1\n",
		"applied: limits.requests", "applied: limits.requests_per_address", "applied: limits.history_per_user")
	for range 40 { // each replaces the oldest one of the address, also those of before
		g.status(g.client(), "/livez")
	}
	var reused bool // the connection of idle
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
	again, err := http.NewRequestWithContext(httptrace.WithClientTrace(g.Context(), trace), http.MethodGet, "https://"+g.address+"/livez", nil)
	if err != nil {
		g.Fatal(err)
	}
	if r, err := idle.Do(again); err != nil || r.Body.Close() != nil || reused {
		g.Errorf("the oldest connection for requests is used again: %v, %v", reused, err)
	}
	g.apply("", "applied: limits.requests", "applied: limits.requests_per_address", "applied: limits.history_per_user")
	g.status(g.client(), "/livez")

	g.apply("[limits]\nrequests_per_minute = 1\n", "applied: limits.requests_per_minute")
	https := g.client()
	if first, second := g.status(https, "/market/time"), g.status(https, "/market/time"); second != http.StatusTooManyRequests {
		g.Errorf("above requests_per_minute: %d %d", first, second)
	}
	g.apply("", "applied: limits.requests_per_minute")

	g.apply("[limits]\nlogin_burst = 1\nlogins_per_minute = 1\n[throttle]\naccount_free = 3\n", "applied: limits.logins_per_minute", "applied: limits.login_burst", "applied: throttle.account_free")
	logins := g.client()
	for i := range 2 {
		_, err := grant(g.Context(), logins, "https://"+g.address, "eva", "wrong")
		if limited := err != nil && strings.Contains(err.Error(), "rate_limited"); limited != (i == 1) {
			g.Errorf("login %d: %v", i, err)
		}
	}
	g.apply("", "applied: limits.logins_per_minute", "applied: limits.login_burst", "applied: throttle.account_free")
}

// reloadMarket lists an instrument and a holiday. What is removed stays until a restart.
func (g *reloaded) reloadMarket() {
	g.Helper()
	g.file("instruments.toml", "[[instrument]]\nid = \"GGAL|BYMA|CI\"\n[[instrument]]\nid = \"ALUA|BYMA|CI\"\nname = \"Aluar\"\n[[instrument]]\nid = \"PAMP|BYMA|CI\"\n")
	g.apply("", "applied: instruments (2)")
	c := g.sockets[1]
	g.send(c, `{"action":"subscribe","trades":["PAMP|BYMA|CI"],"snapshot":false}`, `"type":"Subscription"`)
	g.send(c, `{"action":"subscribe","status":["GGAL|BYMA|CI"]}`, `"open"`)
	today := time.Now().UTC()
	g.file("markets.toml", reloadMarkets+fmt.Sprintf("[[market.holiday]]\ndate = %q\nname = \"Feriado\"\n[[market.holiday]]\ndate = %q\nname = \"Feriado\"\n",
		today.Format(time.DateOnly), today.AddDate(0, 0, 1).Format(time.DateOnly)))
	g.apply("", "applied: market BYMA")
	g.send(c, `{"action":"ping"}`, `"closed"`)
	g.file("instruments.toml", "[[instrument]]\nid = \"GGAL|BYMA|CI\"\n[[instrument]]\nid = \"ALUA|BYMA|CI\"\nname = \"Aluar\"\n")
	g.apply("", "needs a restart: instruments (1)")
	g.file("instruments.toml", "[[instrument]]\nid = \"GGAL|BYMA|CI\"\n[[instrument]]\nid = \"ALUA|BYMA|CI\"\nname = \"Aluar\"\n[[instrument]]\nid = \"PAMP|BYMA|CI\"\n")
	g.apply("")
}

// reloadCertificate names other files of the certificate.
func (g *reloaded) reloadCertificate() {
	g.Helper()
	folder := g.TempDir()
	next := writeCertificate(g.T, folder)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Rename(filepath.Join(folder, name), filepath.Join(g.folder, "new-"+name)); err != nil {
			g.Fatal(err)
		}
	}
	g.apply("[tls]\ncertificate = \"new-tls.crt\"\nkey = \"new-tls.key\"\n", "applied: tls.certificate", "applied: tls.key")
	for _, trusted := range []*x509.CertPool{g.trusted, next} {
		nc, err := tls.Dial("tcp", g.address, &tls.Config{RootCAs: trusted})
		if (err == nil) != (trusted == next) {
			g.Errorf("a handshake with the old certificate %v: %v", trusted == g.trusted, err)
		}
		if err == nil {
			nc.Close()
		}
	}
	g.apply("", "applied: tls.certificate", "applied: tls.key")
}

// listAll checks that rueda connections counts all sockets once all shards have answered.
func (g *reloaded) listAll() {
	g.Helper()
	type connections struct {
		Connections []struct{ Username, Transport string }
		Matching    int
		Stale       []int `json:"stale_shards"` // shards of a busy machine that have not answered in time
	}
	var list connections
	began := time.Now()
	for try := 0; try == 0 || len(list.Stale) > 0 && time.Since(began) < time.Minute; try++ {
		var stdout, stderr bytes.Buffer
		status := run(g.Context(), []string{"connections", "--user", "ana", "--limit", "5", "--output", "json", "--admin", g.admin, "--token-file", filepath.Join(g.folder, "admin.token")},
			command.Streams{Out: &stdout, Err: &stderr})
		list = connections{}
		if err := json.Unmarshal(stdout.Bytes(), &list); err != nil || status != command.ExitOK {
			g.Fatalf("%d %v %s%s", status, err, &stdout, &stderr)
		}
	}
	g.Logf("figure: rueda connections took %v", time.Since(began).Round(time.Millisecond))
	if len(list.Stale) > 0 || list.Matching < len(g.sockets) || len(list.Connections) != 5 || list.Connections[0].Transport != "wss" {
		g.Errorf("%d sockets: %+v", len(g.sockets), list)
	}
}

// reloadMistakes checks that a configuration with mistakes changes nothing, and that what cannot
// change is named each time.
func (g *reloaded) reloadMistakes() {
	g.Helper()
	g.configure("[limits]\nconnections_per_user = 3\n")
	status, out, errs := g.reload()
	if status == command.ExitOK || out != "" || !strings.Contains(errs, "The configuration has mistakes, and nothing was changed") || !strings.Contains(errs, "rueda.toml:") || !strings.Contains(errs, "connections_per_user") {
		g.Errorf("a mistake: %d %q %s", status, out, errs)
	}
	g.server.said(`level=ERROR msg="configuration not applied, keeping the old one"`)
	g.configure("[tls]\ncertificate = \"none.crt\"\nkey = \"none.key\"\n[limits]\nsubscriptions = 1\n")
	if status, out, errs := g.reload(); status == command.ExitOK || out != "" || !strings.Contains(errs, "none.crt") {
		g.Errorf("no certificate: %d %q %s", status, out, errs)
	}
	for range 2 {
		g.apply("[limits]\nhistory_readers = 7\n[stream]\nmax_age = \"3s\"\n", "needs a restart: stream.max_age", "needs a restart: limits.history_readers")
	}
	g.server.said(`level=WARN msg="configuration read again" .*restart=stream.max_age,limits.history_readers`)
	g.apply("")
}

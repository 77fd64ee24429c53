package operation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestConnections lists and closes connections of a running gateway, with tokens of two operators.
func TestConnections(t *testing.T) {
	t.Parallel()
	line := func(name, role string) string {
		return fmt.Sprintf("%s %x %s\n", name, sha256.Sum256([]byte("the-token-of-"+name)), role)
	}
	admin, clients := start(t, func(c *gateway.Config) { c.Admin.Tokens = line("ana", "operate") + line("otto", "read") })
	var sockets []*websocket.Conn
	for range 3 {
		c, _, err := websocket.Dial(t.Context(), strings.Replace(clients, "http", "ws", 1)+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		sockets = append(sockets, c)
	}
	stale := regexp.MustCompile(`"stale_shards":\[\d`)
	as := func(name string, args ...string) (status int, out, errs string) {
		t.Helper()
		args = append(args, "--admin", admin, "--token-file", writeFile(t, "the-token-of-"+name))
		status, out, errs = execute(t, "connections", args...)
		for range 100 { // on a busy machine a shard may not answer in time
			if !strings.Contains(errs, "have not answered in time") && !stale.MatchString(out) {
				break
			}
			status, out, errs = execute(t, "connections", args...)
		}
		return status, out, errs
	}
	row := regexp.MustCompile(`(?m)^(\d+-\d+-\d+) +- +- +127\.0\.0\.1 +ws +awaiting_token +\d+m?s +0 +0 B +0 B$`)
	status, out, errs := as("otto", "--sort", "age")
	ids := row.FindAllStringSubmatch(out, -1)
	if status != command.ExitOK || len(ids) != 3 || strings.Count(out, "\n") != 4 || errs != "\n" {
		t.Fatalf("list: %d\n%s%s", status, out, errs)
	}
	if status, out, errs := as("otto", "--limit", "2"); status != command.ExitOK || strings.Count(out, "\n") != 3 || !strings.Contains(errs, "The first 2 of 3 connections") {
		t.Errorf("a short list: %d\n%s%s", status, out, errs)
	}
	var list struct {
		Connections []map[string]any
		Open        int
	}
	if status, out, errs := as("otto", "-o", "json"); status != command.ExitOK || json.Unmarshal([]byte(out), &list) != nil || len(list.Connections) != 3 || list.Open != 3 {
		t.Errorf("JSON: %d %s%s", status, out, errs)
	}
	if status, out, _ := as("otto", "--user", "eva"); status != command.ExitOK || strings.Count(out, "\n") != 1 {
		t.Errorf("of a user without connections: %d %s", status, out)
	}
	if status, out, errs := as("otto", "close", ids[0][1]); status != command.ExitRefused || out != "" || !strings.Contains(errs, "It needs the role operate") {
		t.Errorf("close with the role read: %d %q %s", status, out, errs)
	}
	if status, out, errs := as("ana", "close", ids[0][1]); status != command.ExitOK || out != "Closed 1 connection\n" {
		t.Errorf("close: %d %q %s", status, out, errs)
	}
	if status, out, errs := as("ana", "close", ids[0][1]); status != command.ExitNotFound || out != "" || !strings.Contains(errs, "No connection has this id") {
		t.Errorf("close it again: %d %q %s", status, out, errs)
	}
	if status, out, errs := as("ana", "close", "--user", "eva"); status != command.ExitOK || out != "Closed 0 connections\n" {
		t.Errorf("close those of a user without any: %d %q %s", status, out, errs)
	}
	if status, out, _ := as("otto"); status != command.ExitOK || strings.Contains(out, ids[0][1]) || len(row.FindAllString(out, -1)) != 2 {
		t.Errorf("afterwards: %d\n%s", status, out)
	}
	codes := make(chan int, len(sockets)) // the others wait until the gateway ends
	for _, c := range sockets {
		go func() {
			_, text, err := c.Read(t.Context())
			if err == nil && strings.Contains(string(text), `"overloaded"`) {
				_, _, err = c.Read(t.Context())
				codes <- int(websocket.CloseStatus(err))
			}
		}()
	}
	if code := <-codes; code != 4503 {
		t.Errorf("closed with %d", code)
	}
}

// TestStaleConnections checks what is printed for shards that do not answer, and that text of a
// gateway cannot control the terminal.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"success":true,"data":{"connections":[{"id":"0-1-1","username":"a\u001b[31m","session":"bot","address":"192.0.2.1","transport":"wss",`+
			`"state":"live","since":"2020-01-01T00:00:00Z","subscriptions":3,"backlog_bytes":1048576,"sent_bytes":2048,"slow":true}],"open":1,"matching":1,"stale_shards":[1,3]}}`)
	}))
	t.Cleanup(other.Close)
	status, out, errs := execute(t, "connections", "--admin", other.URL, "--token-file", writeFile(t, token))
	if status != command.ExitOK || !regexp.MustCompile(`bot +192\.0\.2\.1 +wss +live, slow +\d+ days +3 +1\.0 MiB +2\.0 KiB\n`).MatchString(out) || strings.Contains(out, "\x1b") ||
		!strings.Contains(errs, "Some connections are missing: shards 1 3 have not answered in time.") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
}

package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// operatorLine returns a line of a token file.
func operatorLine(name, token, role string) string {
	sum := sha256.Sum256([]byte(token))
	return name + " " + hex.EncodeToString(sum[:]) + " " + role + "\n"
}

// scrapePage returns the page of metrics with a token, as Prometheus asks for it.
func scrapePage(t *testing.T, base, token string) (status int, media, body string) {
	t.Helper()
	return scrapeAs(t, base, token, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
}

func scrapeAs(t *testing.T, base, token, accept string) (status int, media, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(text)
}

// TestThreat35MetricsNeedAToken checks that only operators can scrape, also one who may only read,
// and only on the administrator's listener.
func TestThreat35MetricsNeedAToken(t *testing.T) {
	const reader = "a-token-that-may-only-read-and-scrape"
	file := writeToken(t, t.TempDir(), operatorLine("prometheus", reader, "read"), 0o600)
	b := serveAdmin(t, Config{Admin: Admin{Listen: "127.0.0.1:0", TokenFile: file}})
	status, media, body := scrapePage(t, "http://"+b.Admin, reader)
	if status != http.StatusOK || !strings.HasPrefix(media, "text/plain; version=0.0.4") {
		t.Fatalf("%d %s %.200s", status, media, body)
	}
	for _, want := range []string{
		"\nrueda_ready 1\n", "\nrueda_connections{state=\"live\"} 0\n", "\nrueda_connections_limit 20000\n",
		"\nrueda_keys{state=\"signing\"} 1\n", "\nrueda_shard_stale{shard=\"0\"} ", "\ngo_goroutines ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for _, accept := range []string{"application/openmetrics-text", "application/vnd.google.protobuf"} {
		if status, media, _ := scrapeAs(t, "http://"+b.Admin, reader, accept); status != http.StatusOK || !strings.HasPrefix(media, "text/plain; version=0.0.4") {
			t.Errorf("for %s: %d %s", accept, status, media)
		}
	}
	if status, _, body := scrapePage(t, "http://"+b.Admin, "another-token-of-thirty-two-characters"); status != http.StatusUnauthorized || strings.Contains(body, "rueda_") {
		t.Errorf("with another token: %d", status)
	}
	if status, _, body := scrapePage(t, b.REST, reader); status != http.StatusNotFound || strings.Contains(body, "rueda_ready") {
		t.Errorf("on the listener for clients: %d", status)
	}
	_, _, body = scrapePage(t, "http://"+b.Admin, reader)
	for _, want := range []string{
		`rueda_requests_total{reason="",route="/metrics",status="200"} 3`,
		`rueda_requests_total{reason="invalid_token",route="/metrics",status="401"} 1`,
		`rueda_requests_total{reason="not_found",route="none",status="404"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

// TestMetricsPageE2E checks a page with the linter of Prometheus.
func TestMetricsPageE2E(t *testing.T) {
	promtool := findPromtool(t)
	file := writeToken(t, t.TempDir(), testAdminToken, 0o600)
	b := serveAdmin(t, Config{Admin: Admin{Listen: "127.0.0.1:0", TokenFile: file}})
	_, _, body := scrapePage(t, "http://"+b.Admin, testAdminToken)
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// findPromtool returns the path of promtool. Without it the test fails under RUEDA_REQUIRE_ALL, and
// is skipped otherwise.
func findPromtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatal("promtool is required: apt-get install prometheus")
	}
	if err != nil {
		t.Skip("promtool is not installed (apt-get install prometheus); RUEDA_REQUIRE_ALL=1 requires it")
	}
	return path
}

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestThreat43LyingAdmin checks that the texts of a server in place of a gateway do not control the
// terminal of an operator, whatever command prints them.
func TestThreat43LyingAdmin(t *testing.T) {
	t.Parallel()
	const (
		raw    = "\u009b2J"
		rights = `{"scopes":["s@"],"entitlements":[{"market":"m@","trades":true}],"limits":{},"networks":[]}`
		user   = `{"id":"us@","username":"ana@","status":"a@","groups":["g@"],"networks":[],"rights":` + rights + `}`
		key    = `{"kid":"k@","alg":"a@","state":"published","since":"2026-11-20T00:00:00Z"}`
		hash   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	)
	answers := map[string]string{
		"/admin/users":    `{"users":[` + user + `]}`,
		"/admin/groups":   `{"groups":[{"name":"g@","members":1,"rights":` + rights + `}]}`,
		"/admin/keys":     `{"keys":[` + key + `],"changes":[` + key + `,{"kid":"k@","state":"revoked"}]}`,
		"/admin/audit":    `{"rows":[{"seq":1,"time":"2026-11-20T00:00:00Z","kind":"k@","actor":"a@","user":"u@","detail":"d@","hash":"` + hash + `"}],"last":1}`,
		"/admin/usage":    `{"month":"2026-11","rows":[{"user_id":"u@","username":"n@","market":"m@","level":"l@","days":[1]}]}`,
		"/admin/accounts": `{"accounts":[{"number":"n@","type":"t@","currency":"c@","status":"s@","name":"x@"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/openapi.json" {
			_, _ = io.WriteString(w, `{"/admin/groups":{}}`)
			return
		}
		data := user
		for path, text := range answers {
			if r.URL.Path == path || strings.HasSuffix(r.URL.Path, "/accounts") && strings.HasSuffix(path, "/accounts") {
				data = text
			}
		}
		_, _ = io.WriteString(w, `{"success":true,"data":`+strings.ReplaceAll(data, "@", `\u001b]0;owned\u0007`+raw)+`}`)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "an-operators-token-of-this-test-0123456789\n")
	for _, line := range []string{
		"user list", "user show ana", "user grant ana --market BYMA --quotes", "user revoke ana --market BYMA", "user disable ana", "user account list ana",
		"group list", "group join ana equity", "keys list", "keys list --json", "keys rotate --now", "audit tail", "audit tail --json",
		"report usage --month 2026-11", "report usage --month 2026-11 --json", "report usage --month 2026-11 --csv",
	} {
		_, out, errs := outcome(t, "", append(strings.Fields(line), "--admin", server.URL, "--token-file", token)...)
		if text := out + errs; text == "" || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("%s printed %q", line, text)
		}
	}
}

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestOneTimePassword logs in as a user with a second factor. Without the one-time password the
// error names the next step. With it the login succeeds.
func TestOneTimePassword(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /auth/token", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		switch body["otp"] {
		case "":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"success":false,"error":{"code":403,"reason":"mfa_required","msg":"A second factor is needed"}}`)
		case "123456":
			fmt.Fprint(w, `{"success":true,"data":{"access_token":"a","refresh_token":"r","expires_in":86400}}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"success":false,"error":{"code":401,"reason":"invalid_credentials","msg":"Wrong username or password"}}`)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Setenv("RUEDA_PASSWORD", "correct horse battery staple")
	for _, line := range [][]string{
		{"watch", "GGAL|BYMA|CI"}, {"verify", "GGAL|BYMA|CI"},
		{"record", "GGAL|BYMA|CI", "-f", t.TempDir() + "/a.jsonl"},
	} {
		args := append(line, "--url", server.URL, "--user", "ana")
		none := start(t, args...)
		if status := none.exit(); status != command.ExitRefused {
			t.Errorf("%s without one ended with %d", line[0], status)
		}
		none.said(`rueda: ana needs a one-time password\n  Add --otp CODE`)
		wrong := start(t, append(args, "--otp", "654321")...)
		if status := wrong.exit(); status != command.ExitRefused {
			t.Errorf("%s with a wrong one ended with %d", line[0], status)
		}
		wrong.said(`invalid_credentials`)
		right := start(t, append(args, "--otp", "123456")...)
		if status := right.exit(); status == command.ExitRefused {
			t.Errorf("%s with the right one ended with %d: %s", line[0], status, right.talk)
		}
	}
}

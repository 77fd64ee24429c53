package docsite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/api/docsite"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/ruedatest"
)

// patience is how long a program may run. One with an endless answer is stopped by its output.
const patience = time.Minute

// page returns the text of a page.
func page(t *testing.T, s http.Handler, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d", path, w.Code)
	}
	return w.Body.String()
}

// programsOf returns the programs of a page by language, filled in as the script of the page does.
func programsOf(t *testing.T, text, url, token string) map[string]string {
	t.Helper()
	block := regexp.MustCompile(`(?s)data-language="([a-z]+)".*?<code>(.*?)</code>`)
	fill := regexp.MustCompile(`<span class="fill" data-fill="([a-z]+)">[^<]*</span>`)
	values := map[string]string{"token": token, "origin": url, "socket": "ws" + strings.TrimPrefix(url, "http")}
	all := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		program := fill.ReplaceAllStringFunc(m[2], func(span string) string { return values[fill.FindStringSubmatch(span)[1]] })
		if strings.ContainsAny(program, "<") {
			t.Errorf("markup in a program: %s", program)
		}
		all[m[1]] = html.UnescapeString(program)
	}
	return all
}

// have reports whether a tool is there. RUEDA_REQUIRE_ALL makes a missing one a failure.
func have(t *testing.T, name string) bool {
	t.Helper()
	_, err := exec.LookPath(name)
	if err != nil && os.Getenv("RUEDA_REQUIRE_ALL") != "" {
		t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants it", err)
	}
	return err == nil
}

// output collects what a program prints, and stops it when that matches. Answers without an end are
// read as long as necessary.
type output struct {
	text []byte
	want *regexp.Regexp
	stop func()
}

func (w *output) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	if w.want.Match(w.text) {
		w.stop()
	}
	return len(p), nil
}

// run runs a program of a page, and checks what it prints.
func run(t *testing.T, s sample, folder, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := &output{want: regexp.MustCompile(s.want), stop: cancel}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, out, out
	cmd.WaitDelay = time.Second
	err := cmd.Run() // an error if the program was stopped
	if !out.want.Match(out.text) {
		t.Errorf("%s: %s %v: %v, printed %.600s", s.path, name, args, err, out.text)
	}
}

// start runs a gateway with a simulated market, and returns its address and a token.
func start(t *testing.T) (url, token string) {
	t.Helper()
	g := ruedatest.Start(t, ruedatest.Config{Sim: &sim.Config{Seed: 7, Speed: 20}})
	login := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, g.Username, g.Password)
	res, err := http.Post(g.URL+"/auth/token", "application/json", strings.NewReader(login))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Data.Token == "" {
		t.Fatalf("%v, %s", err, res.Status)
	}
	return g.URL, answer.Data.Token
}

// sample is a page with programs, and what they print.
type sample struct{ path, want string }

// TestProgramsE2E runs the programs of the pages about routes and channels. Go programs are in a
// folder of this module, so that they can import what it requires. All are vetted, and some are
// run, because each takes seconds to build.
func TestProgramsE2E(t *testing.T) {
	t.Parallel()
	url, token := start(t)
	site := docsite.New(docsite.Options{})
	var samples []sample
	for _, o := range openapi.Public() {
		switch {
		case o.Upgrade, strings.HasPrefix(o.Path, "/console/"):
			continue // they have no programs
		case o.Method == http.MethodDelete, strings.HasPrefix(o.ID, "revoke"), o.ID == "oauthRevoke", o.ID == "endLogins":
			continue // they would end the login of the others
		case o.ID == "getTokens", o.ID == "oauthToken":
			samples = append(samples, sample{"/docs/api/" + o.ID, `"access_token"`})
		case o.ID == "getAccount", o.ID == "exportDay":
			samples = append(samples, sample{"/docs/api/" + o.ID, `"reason":"not_found"|404|bytes`}) // of another gateway, of another day
		case o.ID == "changePassword", o.ID == "manageSecondFactor":
			samples = append(samples, sample{"/docs/api/" + o.ID, `"reason":"unsupported_option"|"success":true`})
		case o.ID == "getMetadata":
			samples = append(samples, sample{"/docs/api/" + o.ID, `"issuer":`})
		case o.ID == "streamEvents":
			samples = append(samples, sample{"/docs/api/" + o.ID, `"type":"T"`})
		default:
			samples = append(samples, sample{"/docs/api/" + o.ID, `(?s)"success":true|^\S+\s+200|"keys"|openapi|asyncapi|<h1>`})
		}
	}
	for channel, kind := range map[string]string{"trades": "T", "quotes": "Q", "order_book": "O", "status": "H", "summary": "D", "bars": "K"} {
		samples = append(samples, sample{"/docs/stream/" + channel, `["']type["']: ?["']` + kind + `["']`})
	}
	folder, err := os.MkdirTemp("testdata", "programs-") //nolint:usetesting // Go programs there import what this module requires
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	checked := 0
	for i, s := range samples {
		programs := programsOf(t, page(t, site, s.path), url, token)
		if len(programs) != 4 {
			t.Errorf("%s: %d programs", s.path, len(programs))
			continue
		}
		at := filepath.Join(folder, fmt.Sprint("p", i))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, file := range map[string]string{"go": "main.go", "python": "main.py", "typescript": "main.mjs", "curl": "main.sh"} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(programs[name]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range [][]string{{"python3", "main.py"}, {"node", "--experimental-websocket", "main.mjs"}, {"sh", "main.sh"}} {
			if !have(t, c[0]) || c[0] == "sh" && !have(t, "curl") {
				continue
			}
			checked++
			run(t, s, at, c[0], c[1:]...)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "./"+filepath.ToSlash(folder)+"/...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, s := range samples {
		switch path.Base(s.path) {
		case "getTokens", "getBook", "streamEvents", "trades": // one of each kind: all are of two templates, and vetted
			checked++
			run(t, s, ".", "go", "run", "./"+filepath.ToSlash(folder)+"/p"+fmt.Sprint(i))
		}
	}
	if checked < len(samples) || len(samples) < 28 {
		t.Errorf("%d programs of %d pages", checked, len(samples))
	}
	t.Logf("%d programs of %d pages ran", checked, len(samples))
}

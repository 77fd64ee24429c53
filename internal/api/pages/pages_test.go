package pages

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/clients/typescript"
	"github.com/ruedahq/rueda/internal/api/console"
	"github.com/ruedahq/rueda/internal/api/downloads"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/operations"
)

func forUsers(t *testing.T) Site {
	t.Helper()
	s, err := ForUsers(Console{Serve: true, Username: "demo", Password: "demo"}, About{Version: "1.0.0", Packages: true, Dev: true, Contact: "mailto:security@broker.example", PublicURL: "https://api.broker.example"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func forOperators(t *testing.T) map[string]http.Handler {
	t.Helper()
	handlers, err := ForOperators()
	if err != nil {
		t.Fatal(err)
	}
	return handlers
}

// ask requests a path as package rest passes it on.
func ask(t *testing.T, handlers map[string]http.Handler, target string) *http.Response {
	t.Helper()
	at := target
	for handlers[at] == nil {
		if at = at[:strings.LastIndexByte(strings.TrimSuffix(at, "/"), '/')+1]; at == "/" {
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Header: http.Header{}}
		}
	}
	w := httptest.NewRecorder()
	handlers[at].ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w.Result()
}

// TestForUsers checks that the console and every file that it needs are served, and at described
// paths.
func TestForUsers(t *testing.T) {
	s := forUsers(t)
	for at := range s.Handlers {
		if !slices.Contains(openapi.Pages(), at) {
			t.Errorf("%s is not described", at)
		}
	}
	if s.Console == nil || !s.Console.Dev || s.Console.Idle != 12*time.Hour || s.Console.Hint.Username != "demo" {
		t.Errorf("%+v", s.Console)
	}
	checkFiles(t, s.Handlers, "/", "/console", "/console/")
	for _, target := range []string{"/client/index.js", "/console/style/base.css"} {
		if r := ask(t, s.Handlers, target); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", target, r.StatusCode)
		}
	}
	r := ask(t, s.Handlers, securityPath)
	text, err := io.ReadAll(r.Body)
	fields := regexp.MustCompile(`^Contact: mailto:security@broker\.example\nExpires: (\S+)\nCanonical: https://api\.broker\.example/\.well-known/security\.txt\n$`).FindSubmatch(text)
	if err != nil || fields == nil || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("security.txt: %s, %v", text, err)
	}
	if end, err := time.Parse(time.RFC3339, string(fields[1])); err != nil || time.Until(end) < 90*24*time.Hour || time.Until(end) > 365*24*time.Hour {
		t.Errorf("security.txt expires at %s, %v", fields[1], err)
	}
	for console, wants := range map[bool]map[bool]string{
		false: {false: "404 404 404 404 404", true: "200 200 200 200 404"},
		true:  {false: "404 404 404 404 200", true: "200 200 200 200 200"},
	} {
		for packages, want := range wants {
			s, err := ForUsers(Console{Serve: console}, About{Packages: packages})
			if err != nil {
				t.Fatal(err)
			}
			files, err := downloads.Files()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, target := range []string{"/client", "/client/", "/client/es", "/client/" + files[0].Name, "/client/index.js"} {
				got = append(got, strconv.Itoa(ask(t, s.Handlers, target).StatusCode))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("with the console %v and packages %v: %v, want %s", console, packages, got, want)
			}
		}
	}
	off, err := ForUsers(Console{}, About{Dev: true})
	if err != nil || off.Handlers[securityPath] != nil || off.Console != nil || off.Handlers["/"] != nil || off.Handlers["/console/"] != nil {
		t.Errorf("without the console: %+v, %v", off, err)
	}
}

// TestForOperators checks that the operations page and every file that it needs are served.
func TestForOperators(t *testing.T) {
	handlers := forOperators(t)
	for at := range handlers {
		if !slices.Contains(openapi.AdminPages(), at) {
			t.Errorf("%s is not described", at)
		}
	}
	if r := ask(t, handlers, "/"); r.StatusCode != http.StatusFound || r.Header.Get("Location") != "/operations/" {
		t.Errorf("/: %d %v", r.StatusCode, r.Header)
	}
	checkFiles(t, handlers, "/operations/")
	for _, other := range []string{"/operations/common/app/main.js", "/operations/common/index.html", "/operations/common/", "/operations/common/vendor/"} {
		if r := ask(t, handlers, other); r.StatusCode == http.StatusOK {
			t.Errorf("%s of the console is served to operators", other)
		}
	}
}

// checkFiles follows the references of pages and modules, and checks that each file is served.
func checkFiles(t *testing.T, handlers map[string]http.Handler, start ...string) {
	t.Helper()
	inPage, inModule := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`), regexp.MustCompile(`(?:from|import\() ?"(\.[^"]+)"`)
	seen := map[string]bool{}
	for open := start; len(open) > 0; {
		at := open[0]
		if open = open[1:]; seen[at] {
			continue
		}
		seen[at] = true
		r := ask(t, handlers, at)
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", at, r.StatusCode, err)
			continue
		}
		references := inModule
		switch media := r.Header.Get("Content-Type"); {
		case strings.HasPrefix(media, "text/html"):
			references = inPage
		case !strings.HasPrefix(media, "text/javascript"):
			continue
		}
		for _, m := range references.FindAllStringSubmatch(string(text), -1) {
			to := m[1]
			if !strings.HasPrefix(to, "/") {
				to = path.Join(path.Dir(at), to)
			}
			if !strings.HasPrefix(to, "/docs") {
				open = append(open, to)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d files were found", len(seen))
	}
}

// TestNoOperationsForUsers checks that the listener for users serves no file of the operations page
// under any path of it, and that the console does not contain its code.
func TestNoOperationsForUsers(t *testing.T) {
	own, err := operations.Files()
	if err != nil {
		t.Fatal(err)
	}
	s := forUsers(t)
	secret := regexp.MustCompile(`/admin/|/operations/|rueda\.operator`)
	err = fs.WalkDir(own, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, target := range []string{"/operations/" + name, "/console/operations/" + name} {
			if r := ask(t, s.Handlers, target); r.StatusCode != http.StatusNotFound {
				t.Errorf("users get %s: %d", target, r.StatusCode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []fs.FS{console.Files(), typescript.Files()} {
		err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(name, "vendor/") {
				return err
			}
			text, err := fs.ReadFile(root, name)
			if m := secret.Find(text); m != nil {
				t.Errorf("%s of the console has %s", name, m)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestThreat52StoredScripts checks that no page makes HTML of a text: names of instruments,
// accounts, users, sessions and clients are whatever their owners chose. Browser tests show such
// names in each view.
func TestThreat52StoredScripts(t *testing.T) {
	own, err := operations.Files()
	if err != nil {
		t.Fatal(err)
	}
	dangerous := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|srcdoc|createContextualFragment|\beval\(|new Function|javascript:`)
	inline := regexp.MustCompile(`(?i)<script(?:>| (?:[^>]* )?type="importmap")|<style|\sstyle=|\son[a-z]+=`)
	modules := 0
	for name, root := range map[string]fs.FS{"console": console.Files(), "client": typescript.Files(), "operations": own} {
		err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(file, "vendor/") {
				return err
			}
			text, err := fs.ReadFile(root, file)
			switch path.Ext(file) {
			case ".js":
				modules++
				if m := dangerous.Find(text); m != nil {
					t.Errorf("%s: %s has %s", name, file, m)
				}
			case ".html":
				if m := inline.Find(text); m != nil {
					t.Errorf("%s: %s has %s, which the policy of pages forbids", name, file, m)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if modules < 40 {
		t.Errorf("only %d modules were checked", modules)
	}
}

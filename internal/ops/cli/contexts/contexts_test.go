package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
)

// TestContexts checks that contexts and tokens come back from the disk, that only the user may read
// them, and that nothing of a removed context stays.
func TestContexts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "rueda")
	t.Setenv("RUEDA_CONTEXTS", folder)
	l, err := Read()
	if err != nil || len(l.Contexts) != 0 {
		t.Fatalf("%v, %v", l, err)
	}
	for _, name := range []string{"test", "prod", "test"} {
		l.Put(Context{Name: name, URL: "https://" + name + ".example", User: "ana"})
	}
	l.Current = "prod"
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	store, err := l.Tokens("prod")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(context.Background(), client.Tokens{Access: "canary"}); err != nil {
		t.Fatal(err)
	}
	if l, err = Read(); err != nil || strings.Join(l.Names(), " ") != "prod test" || l.Current != "prod" || !l.LoggedIn("prod") || l.LoggedIn("test") {
		t.Errorf("%+v, %v", l, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	if err := l.Remove("prod"); err != nil {
		t.Fatal(err)
	}
	if l, err = Read(); err != nil || l.Current != "" || l.LoggedIn("prod") {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := l.Find("prod"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// TestTokensOfURL checks that a login belongs to the URL and the user of its context: with another
// one, however the file was changed, there is no login. Forget removes all of them, and nothing of
// other contexts.
func TestTokensOfURL(t *testing.T) {
	t.Setenv("RUEDA_CONTEXTS", t.TempDir())
	l, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	login := func(c Context) {
		t.Helper()
		l.Put(c)
		store, err := l.Tokens(c.Name)
		if err == nil {
			err = store.Save(context.Background(), client.Tokens{Access: "canary"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	prod := Context{Name: "prod", URL: "https://a.example", User: "ana"}
	login(prod)
	login(Context{Name: "prod.eu", URL: "https://a.example", User: "ana"})
	for _, other := range []Context{{"prod", "https://b.example", "ana"}, {"prod", "https://a.example", "eva"}, {"prod", "https://a.example/", "ana"}} {
		if l.Put(other); l.LoggedIn("prod") {
			t.Errorf("%+v has the login of %+v", other, prod)
		}
		store, err := l.Tokens("prod")
		if err != nil {
			t.Fatal(err)
		}
		if now, err := store.Load(context.Background()); err != nil || now.Access != "" {
			t.Errorf("%+v loads tokens of another server: %v", other, err)
		}
	}
	if l.Put(prod); !l.LoggedIn("prod") {
		t.Error("the login is gone")
	}
	if l.Put(Context{Name: "prod", URL: "https://b.example", User: "ana"}); l.Forget("prod") != nil {
		t.Error("not forgotten")
	}
	if l.Put(prod); l.LoggedIn("prod") || !l.LoggedIn("prod.eu") {
		t.Error("the wrong tokens were removed")
	}
}

// TestNames checks that the name of a context cannot be a path.
func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"prod": true, "a.b-c_1": true, "": false, "..": false, "a/b": false, `a\b`: false, "-x": false, strings.Repeat("a", 65): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	folder := t.TempDir()
	t.Setenv("RUEDA_CONTEXTS", folder)
	for _, text := range []string{"{", `{"contexts":[{"name":"../x"}]}`} {
		if err := os.WriteFile(filepath.Join(folder, "contexts.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestIdentityExamples reads every configuration in docs/identity.md and checks the result.
func TestIdentityExamples(t *testing.T) {
	text, err := os.ReadFile("../../../docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "users.url"), "postgres://rueda:canary@db.broker.example/customers?sslmode=verify-full\n")
	write(t, filepath.Join(folder, "customers.db"), "")
	write(t, filepath.Join(folder, "login.secret"), "0123456789abcdef0123456789abcdef\n")
	write(t, filepath.Join(folder, "ldap.password"), "canary\n")
	examples := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 4 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, m := range examples {
		example := m[1]
		if !strings.Contains(example, "[users]\n") {
			example = "[users]\ntype = \"ldap\"\n" + example
		}
		var c mainFile
		doc, err := decode(filepath.Join(folder, "rueda.toml"), []byte(example), &c)
		if err != nil {
			t.Fatal(err)
		}
		c.check(doc)
		s := c.settings(doc)
		c.sources(doc, s)
		if err := doc.err(); err != nil || s.Users.users == nil {
			t.Errorf("%v\nin\n%s", err, example)
		}
		if err := s.Users.Close(); err != nil {
			t.Error(err)
		}
	}
}

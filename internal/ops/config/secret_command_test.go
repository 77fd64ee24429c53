package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// commandDocument returns a configuration in a folder of the test, with a mode.
func commandDocument(t *testing.T, text string, mode os.FileMode) (*mainFile, *document) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a shell")
	}
	name := filepath.Join(t.TempDir(), "rueda.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	var c mainFile
	doc, err := decode(name, []byte(text), &c)
	if err != nil || doc.err() != nil {
		t.Fatal(err, doc.err())
	}
	return &c, doc
}

// TestThreat16SecretOfCommand checks that a command runs without a shell and in time, and that
// nothing of its output is in an error.
func TestThreat16SecretOfCommand(t *testing.T) {
	t.Parallel()
	_, doc := commandDocument(t, "", 0o600)
	script := filepath.Join(filepath.Dir(doc.file), "print")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"of $1 in $(basename \"$PWD\")\"\n"), 0o700); err != nil { //nolint:gosec // a script
		t.Fatal(err)
	}
	folder := filepath.Base(filepath.Dir(doc.file))
	for _, tc := range []struct {
		argv       []string
		want, fail string
	}{
		{[]string{"printf", `hunter2\r\n\n`}, "hunter2", ""},
		{[]string{"printf", `two\nlines\n`}, "two\nlines", ""},
		{[]string{"echo", "$HOME;`id`|cat"}, "$HOME;`id`|cat", ""},
		{[]string{"./print", "a b"}, "of a b in " + folder, ""},
		{[]string{script, "x"}, "of x in " + folder, ""},
		{[]string{"sh", "-c", "cat"}, "", "sh: it printed nothing"}, // stdin is empty
		{[]string{"printf", `\n`}, "", "printf: it printed nothing"},
		{[]string{"sh", "-c", `echo hunter2; printf 'no\033[2J token\nat all' >&2; exit 3`}, "", "sh: exit status 3: no [2J token at all"},
		{[]string{"no-such-program-of-rueda"}, "", "executable file not found"},
		{[]string{"./missing"}, "", "no such file"},
		{[]string{"sh", "-c", "head -c 16385 /dev/zero | tr '\\0' h"}, "", "it printed more than 16384 bytes"},
		{[]string{"sh", "-c", "echo hunter2; exec sleep 60"}, "", "it did not end within 1s"},
		{[]string{"sh", "-c", "yes hunter2"}, "", "it did not end within 1s"},
		{[]string{"sh", "-c", "yes hunter2 >&2 & exec sleep 60"}, "", "it did not end within 1s"},
	} {
		began := time.Now()
		got, err := doc.run(tc.argv, time.Second)
		switch {
		case got != tc.want || (err == nil) != (tc.fail == ""):
			t.Errorf("%q: %q, %v; want %q", tc.argv, got, err, tc.want)
		case err != nil && !strings.Contains(err.Error(), tc.fail):
			t.Errorf("%q: %v; want %s", tc.argv, err, tc.fail)
		case err != nil && strings.Contains(err.Error(), "hunter2") && !strings.Contains(tc.argv[len(tc.argv)-1], ">&2"):
			t.Errorf("%q: the error has the output: %v", tc.argv, err)
		case time.Since(began) > time.Minute:
			t.Errorf("%q: %v", tc.argv, time.Since(began))
		}
	}
}

// TestThreat16WritableConfiguration checks that no command of a configuration is run that others
// can change.
func TestThreat16WritableConfiguration(t *testing.T) {
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o660: false, 0o606: false} {
		_, doc := commandDocument(t, "", mode)
		if _, err := doc.run([]string{"echo", "x"}, time.Minute); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestSecretSources checks each setting of a secret with a command, and that one source is set.
func TestSecretSources(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		read       func(*mainFile, *document) string
	}{
		{`[database]
url_command = ["echo", "postgres://u@db.example/rueda?sslmode=verify-full"]
[keys]
encryption_key_command = ["echo", "` + strings.Repeat("ab", 32) + `"]`, "postgres://u@db.example/rueda?sslmode=verify-full " + strings.Repeat("ab", 32),
			func(c *mainFile, d *document) string {
				data := c.data(d)
				return data.Postgres + " " + data.EncryptionKey
			}},
		{`[auth]
pepper_command = ["echo", "0123456789abcdef"]
old_pepper_command = ["echo", "fedcba9876543210"]`, "0123456789abcdef fedcba9876543210",
			func(c *mainFile, d *document) string { p := c.peppers(d); return string(p[0]) + " " + string(p[1]) }},
		{`[audit.webhook]
url = "https://siem.example/"
secret_command = ["echo", "0123456789abcdef0123456789abcdef"]`, "0123456789abcdef0123456789abcdef",
			func(c *mainFile, d *document) string { return string(c.audit(d).Webhook.Secret) }},
	} {
		c, doc := commandDocument(t, tc.text, 0o600)
		if got := tc.read(c, doc); got != tc.want || doc.err() != nil {
			t.Errorf("%s: %q, %v", tc.text, got, doc.err())
		}
	}
	for text, want := range map[string]string{
		"secret_command = []":     ":1: h.secret_command: must be a program and its arguments",
		"secret_command = [\"\"]": ":1: h.secret_command: must be a program",
		"secret_command = [\"echo\", \"x\"]\nsecret_env = \"HOME\"": ":1: h: set only one of secret_file, secret_env and secret_command",
		"secret_command = [\"false\"]":                              ":1: h.secret_command: false: exit status 1",
		"":                                                          ":1: h: secret_file, secret_env or secret_command is missing",
	} {
		_, doc := commandDocument(t, "", 0o600)
		var h httpConfig
		from, err := decode(doc.file, []byte(text), &h)
		if err != nil {
			t.Fatal(err)
		}
		from.secret("h", "secret", secretSource{h.SecretFile, h.SecretEnv, h.SecretCommand})
		if err := from.err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigDatabase checks that the URL is read from its file or variable and never repeated.
func TestConfigDatabase(t *testing.T) {
	const url = "postgres://rueda:hunter2@db.broker.example/rueda?sslmode=verify-full"
	folder := t.TempDir()
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{"good": {url + "\n", 0o600}, "open": {url, 0o644}, "group": {url, 0o640}, "empty": {"", 0o600}, "plain": {"postgres://rueda:hunter2@db.broker.example/rueda", 0o600}, "bad": {"hunter2 postgres", 0o600}, "keys.key": {strings.Repeat("ab", 32), 0o600}} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RUEDA_TEST_URL", url)
	const keys = "\n[keys]\nencryption_key_file = \"keys.key\"\n"
	for _, c := range []struct{ name, text, want, wrong string }{
		{"none", "", "", ""},
		{"a file", `url_file = "good"` + keys, url, ""},
		{"the environment", `url_env = "RUEDA_TEST_URL"` + keys, url, ""},
		{"both", "url_file = \"good\"\nurl_env = \"RUEDA_TEST_URL\"" + keys, "", "set only one of"},
		{"here", `url = "` + url + `"` + keys, "", "must not be in this file"},
		{"the URL as a variable", `url_env = "` + url + `"` + keys, "", "not the name of an environment variable"},
		{"no such variable", `url_env = "RUEDA_TEST_NONE"` + keys, "", "environment variable RUEDA_TEST_NONE is not set"},
		{"no such file", `url_file = "none"` + keys, "", "no such file"},
		{"read by everybody", `url_file = "open"` + keys, "", "chmod 600"},
		{"read by the group", `url_file = "group"` + keys, "", "can be read by its group: chmod 600"},
		{"empty", `url_file = "empty"` + keys, "", "is empty"},
		{"keys in the open", `url_file = "good"`, url, "must be encrypted"},
		{"itself in the open", `url_file = "plain"` + keys, strings.TrimSuffix(url, "?sslmode=verify-full"), "may be unencrypted: set sslmode=verify-full"},
		{"no URL", `url_file = "bad"` + keys, "hunter2 postgres", "database URL: invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var into mainFile
			doc, err := decode(filepath.Join(folder, "rueda.toml"), []byte("[database]\n"+c.text), &into)
			if err != nil {
				t.Fatal(err)
			}
			if got := into.settings(doc).Data.Postgres; got != c.want {
				t.Errorf("URL %q, want %q", got, c.want)
			}
			err = doc.err()
			if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

// TestUnverifiedDatabase checks that a connection without a verified certificate is a warning with
// its place and without the password.
func TestUnverifiedDatabase(t *testing.T) {
	for mode, want := range map[string]int{"require": 1, "verify-full": 0} {
		t.Setenv("RUEDA_TEST_URL", "postgres://rueda:hunter2@db.broker.example/rueda?sslmode="+mode)
		var into mainFile
		doc, err := decode("rueda.toml", []byte("[database]\nurl_env = \"RUEDA_TEST_URL\"\n"), &into)
		if err != nil {
			t.Fatal(err)
		}
		into.database(doc)
		if len(doc.warnings) != want || want > 0 && (!strings.HasPrefix(doc.warnings[0], "rueda.toml:1: database: the certificate of db.broker.example is not verified") ||
			strings.Contains(doc.warnings[0], "hunter2")) {
			t.Errorf("%s: %q", mode, doc.warnings)
		}
	}
}

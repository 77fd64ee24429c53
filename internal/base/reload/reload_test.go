package reload

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFile checks that a file is read again when it changes, and that its last content stays if
// it cannot be read.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(Interval)
		}
		put("one")
		reads := 0
		var said bytes.Buffer
		r, err := New(name, func(name string) (string, error) {
			reads++
			text, err := os.ReadFile(name)
			if string(text) == "bad" {
				err = errors.New("bad")
			}
			return string(text), err
		}, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil || r.Get() != "one" {
			t.Fatal(r.Get(), err)
		}
		time.Sleep(time.Minute)
		if r.Get() != "one" || reads != 1 {
			t.Errorf("an unchanged file was read %d times", reads)
		}
		if err := os.Chmod(name, 0o640); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Interval)
		if r.Get() != "one" || reads != 2 {
			t.Errorf("a file with another mode was read %d times", reads)
		}
		put("three")
		if got := r.Get(); got != "three" {
			t.Errorf("got %q", got)
		}
		put("bad")
		if got := r.Get(); got != "three" || !strings.Contains(said.String(), "keeping its last content") {
			t.Errorf("got %q", got)
		}
		put("seven")
		if got := r.Get(); got != "seven" {
			t.Errorf("got %q", got)
		}
	})
}

// TestStrict checks that a strict file that cannot be read has the content that its reader returns.
// The same error is logged once. The file is read again when it is right.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "file")
		text, wrong := "all", error(nil)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		r, err := NewStrict(name, func(string) (string, error) { return text, wrong }, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil || r.Get() != "all" {
			t.Fatal(r.Get(), err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		text, wrong = "some", errors.New("bad")
		for range 3 {
			time.Sleep(Interval)
			if got := r.Get(); got != "some" {
				t.Errorf("got %q", got)
			}
		}
		if n := strings.Count(said.String(), "keeping only what is right in it"); n != 1 {
			t.Errorf("the error was logged %d times", n)
		}
		text, wrong = "all", nil
		time.Sleep(Interval)
		if got := r.Get(); got != "all" || !strings.Contains(said.String(), "read again") {
			t.Errorf("got %q", got)
		}
	})
}

package password

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// breachedFile writes the file of some passwords, with a line end.
func breachedFile(t testing.TB, end string, passwords ...string) string {
	t.Helper()
	lines := make([]string, len(passwords))
	for i, p := range passwords {
		lines[i] = fmt.Sprintf("%X:%d", sha1.Sum([]byte(p)), i*i*i+1)
	}
	slices.Sort(lines)
	path := filepath.Join(t.TempDir(), "breached.txt")
	if err := os.WriteFile(path, []byte(strings.Join(lines, end)+end), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBreached checks files of many sizes: each password of the file is found, and no other one.
func TestBreached(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		for _, n := range []int{1, 2, 3, 70, 80, 90, 100, 1000, 20_000} {
			passwords := make([]string, n)
			for i := range passwords {
				passwords[i] = fmt.Sprint("password ", i)
			}
			b, err := OpenBreached(breachedFile(t, end, passwords...))
			if err != nil {
				t.Fatalf("%d passwords: %v", n, err)
			}
			for i := range min(n, 2000) {
				if found, err := b.Has(passwords[n-1-i]); err != nil || !found {
					t.Fatalf("%d passwords, %q: %v %v", n, passwords[n-1-i], found, err)
				}
				if found, err := b.Has(fmt.Sprint("another ", i)); err != nil || found {
					t.Fatalf("%d passwords, another one: %v %v", n, found, err)
				}
			}
		}
	}
}

// TestBreachedFiles checks what OpenBreached refuses, and files that change later.
func TestBreachedFiles(t *testing.T) {
	low, high := strings.Repeat("0", 40)+":1\n", strings.Repeat("F", 40)+":1\n"
	for name, text := range map[string]string{
		"empty": "", "plain passwords": "123456\npassword\n", "NTLM": strings.Repeat("A", 32) + ":3\n", "SHA-256": strings.Repeat("A", 64) + ":3\n",
		"not sorted": high + low, "not hexadecimal": strings.Repeat("G", 40) + ":1\n", "a bad end": low + "password\n",
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenBreached(path); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := OpenBreached(t.TempDir()); err == nil {
		t.Error("a folder: accepted")
	}
	if _, err := OpenBreached(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}

	path := breachedFile(t, "\n", "one")
	b, err := OpenBreached(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(breachedFile(t, "\n", "two"), path); err != nil {
		t.Fatal(err)
	}
	if found, err := b.Has("two"); err != nil || !found {
		t.Errorf("in a newer file: %v %v", found, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("nonsense", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Has("two"); !errors.Is(err, errBreachedForm) {
		t.Errorf("in a damaged file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Has("two"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

// FuzzBreached searches in any text: a search ends, and finds only hashes of the text.
func FuzzBreached(f *testing.F) {
	f.Add([]byte("5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:3\n"))
	f.Add([]byte(strings.Repeat("5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:3\r\n", 200)))
	f.Add([]byte(strings.Repeat("\n", 9000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		want := []byte("5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8")
		found, _ := searchLines(strings.NewReader(string(text)), int64(len(text)), want)
		if found && !strings.Contains(strings.ToUpper(string(text)), string(want)) {
			t.Error("found what is not there")
		}
	})
}

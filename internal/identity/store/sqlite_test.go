package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

func TestOpenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a dir", "100% ?#.db")
	s := openFile(t, path)
	create(t, s, "a", "u1")
	again := openFile(t, path) // a second connection, like the command line
	rotate(t, again, rotation("a", 0, time.Hour, false), auth.Granted)
	if token, _ := lookup(t, s, "a0"); !token.Kept.Equal(epoch.Add(time.Hour + month)) {
		t.Errorf("the first connection reads %+v", token)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is elsewhere: %v", err)
	}
}

// TestOpenAtOnce checks that server and command line may open a new file concurrently.
func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rueda.db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			closeStore(t, s)
		})
	}
	wg.Wait()
}

func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("no modes here")
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "rueda.db")
	s := openFile(t, path)
	create(t, s, "a", "u1")
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestPragmas(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "rueda.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
		var got string
		if err := s.Writer().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", pragma, got, err, want)
		}
	}
	if _, err := s.Reader().ExecContext(t.Context(), "DELETE FROM families"); err == nil {
		t.Error("the reader writes")
	}
}

// TestOpenErrors checks the errors that operators may see.
func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"not a database", func(t *testing.T, path string) {
			writeFile(t, path, bytes.Repeat([]byte("not a database\n"), 1000))
		}, "damaged or not a SQLite database"},
		{"cut off", func(t *testing.T, path string) {
			s := openFile(t, path)
			create(t, s, "a", "u1")
			closeStore(t, s)
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, "damaged or not a SQLite database"},
		{"newer schema", func(t *testing.T, path string) {
			s := openFile(t, path)
			if _, err := s.Writer().ExecContext(t.Context(), "INSERT INTO store_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
				t.Fatal(err)
			}
		}, "schema version 99 is newer than version"},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rueda.db")
			c.make(t, path)
			_, err := store.Open(t.Context(), path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v; want one with %q and the path", err, c.want)
			}
		})
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull checks that a failed write returns a clear error and changes nothing.
func TestDiskFull(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "rueda.db"))
	create(t, s, "a", "u1")
	if _, err := s.Writer().ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	var err error
	var full string
	for i := 0; err == nil; i++ {
		full = fmt.Sprint("filler", i)
		f, first := family(full, "u1")
		err = s.CreateFamily(t.Context(), f, first)
	}
	if !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v", err)
	}
	if got, err := s.Rotate(t.Context(), rotation(full, 0, 0, false)); err != nil || got != auth.Refused {
		t.Errorf("of the login that failed something is there: %v, %v", got, err)
	}
	lookup(t, s, "a0") // reading still works
}

func TestReadOnly(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "rueda.db"))
	create(t, s, "a", "u1")
	if _, err := s.Writer().ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(t.Context(), rotation("a", 0, 0, false)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("error %v", err)
	}
}

// TestBubble runs every store except PostgreSQL under synctest, as tests of the whole gateway do:
// the clock of a bubble does not advance while a socket is read.
func TestBubble(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				testParallel(t, b.open(t, t.TempDir()))
			})
		})
	}
}

func BenchmarkRotate(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend.name, func(b *testing.B) {
			s := backend.open(b, b.TempDir())
			create(b, s, "a", "u1")
			n := 0
			for b.Loop() {
				rotate(b, s, rotation("a", n, 0, false), auth.Granted)
				n++
			}
		})
	}
}

// TestSuccessorsOfOldVersions checks tokens of versions that stored each successor when it was
// answered. They stay valid, and compete with a token that a new version answers to the same
// parent.
func TestSuccessorsOfOldVersions(t *testing.T) {
	for _, first := range []string{"old", "new"} {
		s := openFile(t, filepath.Join(t.TempDir(), "rueda.db"))
		create(t, s, "a", "u1")
		parent, old := hash("a0"), hash("a1")
		for _, query := range []string{
			`INSERT INTO refresh_tokens (hash, parent, family, issued_at, expires_at) VALUES (?2, ?1, 'a', ?3, ?4)`,
			`UPDATE refresh_tokens SET valid_until = NULL WHERE hash = ?1 AND ?2 <> '' AND ?3 < ?4`,
		} {
			if _, err := s.Writer().ExecContext(t.Context(), query, parent[:], old[:], epoch.UnixNano(), epoch.Add(month).UnixNano()); err != nil {
				t.Fatal(err)
			}
		}
		rotate(t, s, rotation("a", 0, time.Hour, false), auth.Granted) // answers a new successor
		byRow := rotation("a", 1, 2*time.Hour, false)
		byRow.Parent, byRow.Issued, byRow.Expires = auth.Hash{}, time.Time{}, time.Time{}
		use, dead := byRow, sibling("a", 1, 2*time.Hour+grace+1, false, "192.0.2.2")
		if first == "new" {
			use, dead = sibling("a", 1, 2*time.Hour, false, "192.0.2.2"), byRow
			dead.Now = use.Now.Add(grace + 1)
		}
		rotate(t, s, use, auth.Granted)
		if token, _ := lookup(t, s, "a0"); token.Successor != use.Presented || !token.Dead.Equal(use.Now) {
			t.Errorf("%s first: the parent is %+v", first, token)
		}
		rotate(t, s, dead, auth.Reused)
	}
}

// TestFolderOfOthers checks that a data folder in which everybody may replace files is refused.
func TestFolderOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("no modes here")
		return
	}
	for mode, good := range map[os.FileMode]bool{0o700: true, 0o750: true, 0o755: true, 0o775: true, 0o777: false, 0o702: false} {
		folder := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), filepath.Join(folder, "rueda.db"))
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

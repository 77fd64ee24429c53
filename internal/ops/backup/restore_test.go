package backup_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/backup"
)

// installation is a data folder with a user.
func installation(t *testing.T) (folder string, cfg database.Config) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	cfg = database.Config{Folder: folder, Actor: "test"}
	addUser(t, cfg, "ana")
	return folder, cfg
}

func addUser(t *testing.T, cfg database.Config, name string) {
	t.Helper()
	d := open(t, cfg)
	_, err := d.Users.Add(t.Context(), local.NewUser{Username: name, Password: "correct horse"})
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg database.Config) *database.DB {
	t.Helper()
	d, err := database.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func create(t *testing.T, cfg database.Config) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), backup.Source{Data: cfg, Journal: filepath.Join(cfg.Folder, "journal")}, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rotate replaces the signing key of an installation and revokes it. It returns the revoked key.
func rotate(t *testing.T, cfg database.Config) string {
	t.Helper()
	d := open(t, cfg)
	keys, err := d.OperatorKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := keys.Keys()[0].ID
	_, err = keys.Rotate(t.Context(), keyset.Rotation{Now: true, Revoke: id})
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return id
}

// content returns the files below a folder with their content, without the lock of the journal and
// the header of the database, which says how SQLite writes it.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(folder, name)
		if d.Name() == "rueda.db" && len(text) > 100 {
			text = text[100:]
		}
		files[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRestoreRefusals checks that a backup which cannot be restored changes nothing.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	change := func(name string, edit func([]byte) []byte) func(*testing.T, string, *database.Config) {
		return func(t *testing.T, dir string, _ *database.Config) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), edit(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	manifest := func(edit func(m map[string]any)) func(*testing.T, string, *database.Config) {
		return change("manifest.json", func(text []byte) []byte {
			var m map[string]any
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			edit(m)
			text, _ = json.Marshal(m)
			return text
		})
	}
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, dir string, cfg *database.Config)
		want  error
	}{
		"no manifest": {func(t *testing.T, dir string, _ *database.Config) {
			if err := os.Remove(filepath.Join(dir, "manifest.json")); err != nil {
				t.Fatal(err)
			}
		}, backup.ErrIncomplete},
		"a newer program": {manifest(func(m map[string]any) { m["version"] = 2; m["more"] = true }), backup.ErrNewer},
		"a name outside of the backup": {manifest(func(m map[string]any) {
			m["files"].([]any)[0].(map[string]any)["name"] = "../rueda.db"
		}), backup.ErrDamaged},
		"a changed byte": {change("rueda.db", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), backup.ErrDamaged},
		"a cut file":     {change("keys.json", func(b []byte) []byte { return b[:len(b)-1] }), backup.ErrDamaged},
		"a link to the file": {func(t *testing.T, dir string, _ *database.Config) {
			name := filepath.Join(dir, "keys.json")
			elsewhere := filepath.Join(t.TempDir(), "keys.json")
			if err := errors.Join(os.Rename(name, elsewhere), os.Symlink(elsewhere, name)); err != nil {
				t.Fatal(err)
			}
		}, backup.ErrDamaged},
		"a missing file": {func(t *testing.T, dir string, _ *database.Config) {
			if err := os.Remove(filepath.Join(dir, "keys.json")); err != nil {
				t.Fatal(err)
			}
		}, backup.ErrDamaged},
		"another installation": {func(t *testing.T, _ string, cfg *database.Config) { _, *cfg = installation(t) }, database.ErrOther},
		"older keys":           {func(t *testing.T, _ string, cfg *database.Config) { rotate(t, *cfg) }, keyset.ErrOlder},
		"a database in use": {func(t *testing.T, _ string, cfg *database.Config) {
			d := open(t, *cfg)
			t.Cleanup(func() { d.Close() })
		}, backup.ErrInUse},
		"a journal in use": {func(t *testing.T, _ string, cfg *database.Config) {
			lock, err := journal.Lock(filepath.Join(cfg.Folder, "journal"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Close() })
		}, backup.ErrInUse},
		"PostgreSQL": {func(_ *testing.T, _ string, cfg *database.Config) { cfg.Postgres = "postgres://127.0.0.1/x" }, backup.ErrOtherDatabase},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, cfg := installation(t)
			withJournal(t, folder)
			dir := create(t, cfg)
			tt.spoil(t, dir, &cfg)
			open := name == "a database in use"
			var before map[string]string
			if !open { // SQLite writes to its files while they are open
				before = content(t, cfg.Folder)
			}
			_, err := backup.Restore(t.Context(), dir, backup.Target{Data: cfg, Journal: filepath.Join(cfg.Folder, "journal")})
			if !errors.Is(err, tt.want) {
				t.Fatalf("restored: %v, want %v", err, tt.want)
			}
			if !open && !maps.Equal(content(t, cfg.Folder), before) {
				t.Errorf("the folder has %v, had %v", slices.Sorted(maps.Keys(content(t, cfg.Folder))), slices.Sorted(maps.Keys(before)))
			}
		})
	}
}

// TestRestoreStopped ends a restore early: it is canceled, or a newer program made the database.
// The folder is as before, and the same command works if the cause is gone.
func TestRestoreStopped(t *testing.T) {
	t.Parallel()
	folder, cfg := installation(t)
	withJournal(t, folder)
	dir := create(t, cfg)
	before := content(t, folder)
	target := backup.Target{Data: cfg, Journal: filepath.Join(folder, "journal")}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Restore(canceled, dir, target); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	newer := filepath.Join(t.TempDir(), "newer")
	if err := os.CopyFS(newer, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	setSchema(t, newer, 99)
	if _, err := backup.Restore(t.Context(), newer, target); err == nil || !strings.Contains(err.Error(), "schema version 99 is newer than version") {
		t.Errorf("a database of a newer program: %v", err)
	}
	if now := content(t, folder); !maps.Equal(now, before) {
		t.Errorf("the folder has %v, had %v", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before)))
	}
	open(t, cfg).Close()
	if _, err := backup.Restore(t.Context(), dir, target); err != nil {
		t.Errorf("restored again: %v", err)
	}
}

// setSchema sets the version of the schema in the database of a backup.
func setSchema(t *testing.T, dir string, version int) {
	t.Helper()
	name := filepath.Join(dir, "rueda.db")
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO store_version (version_id, is_applied) VALUES (?, 1)", version)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := backup.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	for i := range m.Files {
		if m.Files[i].Name == "rueda.db" {
			m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(text)), hex.EncodeToString(sum[:])
		}
	}
	if text, err = json.Marshal(m); err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withJournal writes an empty journal with a clean end into a data folder.
func withJournal(t *testing.T, folder string) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: filepath.Join(folder, "journal"), Memory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestThreat14RestoredKeys restores a backup in place after a key was revoked. With AcceptOlderKeys
// the key is revoked again, also if logins are kept, and the previous files are kept.
func TestThreat14RestoredKeys(t *testing.T) {
	t.Parallel()
	folder, cfg := installation(t)
	dir := create(t, cfg)
	stolen := rotate(t, cfg)
	addUser(t, cfg, "eva")
	before := content(t, folder)
	accept := cfg
	accept.AcceptOlderKeys = true
	r, err := backup.Restore(t.Context(), dir, backup.Target{Data: accept, KeepLogins: true})
	if err != nil || r.Unknown != nil || len(r.Previous) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if kept := content(t, r.Previous[0]); kept["keys.json"] != before["keys.json"] || len(kept["rueda.db"]) == 0 {
		t.Errorf("previous files: %v", slices.Sorted(maps.Keys(kept)))
	}
	d := open(t, cfg)
	defer d.Close()
	keys, err := d.OperatorKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Check(stolen); !errors.Is(err, keyset.ErrKeyRevoked) {
		t.Errorf("the key that was revoked before: %v", err)
	}
	users, err := d.Users.List(t.Context())
	if err != nil || len(users) != 1 {
		t.Errorf("%d users, %v", len(users), err)
	}
}

// TestRestoreInterrupted ends a restore after each of its steps on files: nothing opens the folder,
// and the same restore completes it and keeps the previous files.
func TestRestoreInterrupted(t *testing.T) {
	t.Parallel()
	states := map[string]func(t *testing.T, folder, dir string){
		"while files are copied": func(t *testing.T, folder, dir string) {
			move(t, dir, filepath.Join(folder, database.RestoringFolder), "rueda.db", false)
		},
		"after the database was moved away": func(t *testing.T, folder, dir string) {
			exchanging(t, folder)
			move(t, folder, filepath.Join(folder, "before-restore-1"), "rueda.db", true)
		},
		"after the new database was moved in": func(t *testing.T, folder, dir string) {
			exchanging(t, folder)
			for _, name := range []string{"rueda.db", "keys.json"} {
				move(t, folder, filepath.Join(folder, "before-restore-1"), name, true)
			}
			move(t, dir, folder, "rueda.db", false)
		},
		"before the end": func(t *testing.T, folder, dir string) {
			exchanging(t, folder)
			for _, name := range []string{"rueda.db", "keys.json"} {
				move(t, folder, filepath.Join(folder, "before-restore-1"), name, true)
				move(t, dir, folder, name, false)
			}
		},
	}
	for name, interrupt := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, cfg := installation(t)
			withJournal(t, folder)
			dir := create(t, cfg)
			addUser(t, cfg, "eva")
			before := content(t, folder)
			interrupt(t, folder, dir)
			if _, err := database.Open(t.Context(), cfg); !errors.Is(err, database.ErrRestoring) {
				t.Fatalf("an interrupted restore is opened: %v", err)
			}
			r, err := backup.Restore(t.Context(), dir, backup.Target{Data: cfg, Journal: filepath.Join(folder, "journal")})
			if err != nil {
				t.Fatal(err)
			}
			kept := content(t, r.Previous[0])
			if kept["rueda.db"] != before["rueda.db"] || kept["keys.json"] != before["keys.json"] {
				t.Errorf("the previous files are not kept: %v", slices.Sorted(maps.Keys(kept)))
			}
			d := open(t, cfg)
			defer d.Close()
			if users, err := d.Users.List(t.Context()); err != nil || len(users) != 1 {
				t.Errorf("%d users, %v", len(users), err)
			}
		})
	}
}

// exchanging marks that a restore has begun to exchange files.
func exchanging(t *testing.T, folder string) {
	t.Helper()
	staging := filepath.Join(folder, database.RestoringFolder)
	err := errors.Join(os.MkdirAll(staging, 0o700), os.WriteFile(filepath.Join(staging, "previous"), []byte("before-restore-1"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// move moves or copies a file.
func move(t *testing.T, from, to, name string, remove bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, name))
	err = errors.Join(err, os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, name), text, 0o600))
	if err == nil && remove {
		err = os.Remove(filepath.Join(from, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBackupRefusals checks that a backup that cannot be completed leaves nothing.
func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	folder, cfg := installation(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "backup")
	src := backup.Source{Data: cfg}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Create(canceled, src, dir); err == nil {
		t.Error("a canceled backup is complete")
	}
	if err := os.Rename(filepath.Join(folder, "keys.json"), filepath.Join(folder, "moved")); err != nil {
		t.Fatal(err)
	}
	var missing *database.MissingKeysError
	if _, err := backup.Create(t.Context(), src, dir); !errors.As(err, &missing) {
		t.Errorf("without keys: %v", err)
	}
	if err := os.Rename(filepath.Join(folder, "moved"), filepath.Join(folder, "keys.json")); err != nil {
		t.Fatal(err)
	}
	if left := content(t, parent); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	early := filepath.Join(t.TempDir(), "journal")
	if err := errors.Join(os.Mkdir(early, 0o700), os.WriteFile(filepath.Join(early, journal.EarlierName), []byte("[]"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Create(t.Context(), backup.Source{Data: cfg, Journal: early}, dir); !errors.Is(err, backup.ErrEarlier) {
		t.Errorf("of a new node of a cluster: %v", err)
	}
	if left := content(t, parent); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	// A folder of others is not used, and neither is a link.
	for _, prepare := range []func() error{
		func() error {
			return errors.Join(os.Mkdir(dir+".incomplete", 0o700), os.Chmod(dir+".incomplete", 0o777))
		},
		func() error { return os.Symlink(t.TempDir(), dir+".incomplete") },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Create(t.Context(), src, dir); err == nil || !strings.Contains(err.Error(), "of this user alone") {
			t.Errorf("into a prepared folder: %v", err)
		}
		if err := os.Remove(dir + ".incomplete"); err != nil {
			t.Fatal(err)
		}
	}
	// An interrupted backup does not hinder the next one.
	if err := errors.Join(os.Mkdir(dir+".incomplete", 0o700), os.WriteFile(dir+".incomplete/rueda.db", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Create(t.Context(), src, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Create(t.Context(), src, dir); !errors.Is(err, backup.ErrExists) {
		t.Errorf("into an existing folder: %v", err)
	}
	for name := range content(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

package database_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// TestNewKeys removes the keys of a used database. Nothing opens it or creates keys until NewKeys
// is called. Then the new log verifies, and the users still exist.
func TestNewKeys(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		folder := t.TempDir()
		newKeys(t, database.Config{Folder: folder}, func() {
			if err := os.Remove(filepath.Join(folder, "keys.json")); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// TestNewKeysE2E is TestNewKeys with the keys in PostgreSQL.
func TestNewKeysE2E(t *testing.T) {
	t.Parallel()
	dsn := cluster.Database(t)
	newKeys(t, database.Config{Postgres: dsn, EncryptionKeyFile: encryptionKey(t)}, func() {
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(`DELETE FROM keys`); err != nil {
			t.Fatal(err)
		}
	})
}

func newKeys(t *testing.T, cfg database.Config, lose func()) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "audit.jsonl")
	only := cfg
	only.KeysMustExist = true
	var missing *database.MissingKeysError
	if _, err := database.Open(t.Context(), only); !errors.As(err, &missing) || missing.Used {
		t.Fatalf("a database that was never used was opened with %v", err)
	}
	data, err := database.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := data.Users.Add(t.Context(), local.NewUser{Username: "ana", Password: "correct horse battery staple"}); err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := database.NewKeys(t.Context(), cfg, archive); !errors.Is(err, database.ErrKeysExist) {
		t.Fatalf("keys that are there: %v", err)
	}
	lose()
	for _, c := range []database.Config{cfg, only} {
		if _, err := database.Open(t.Context(), c); !errors.As(err, &missing) || !missing.Used {
			t.Fatalf("a database whose keys are lost was opened with %v", err)
		}
	}
	report, err := database.NewKeys(t.Context(), cfg, archive)
	if err != nil || report.Rows != 1 || report.ID == "" {
		t.Fatalf("new keys: %+v, %v", report, err)
	}
	if text, err := os.ReadFile(archive); err != nil || strings.Count(string(text), `"kind":"user_added"`) != 1 {
		t.Errorf("archived %s, %v", text, err)
	}
	data, err = database.Open(t.Context(), only)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if err := data.Users.Disable(t.Context(), "ana"); err != nil {
		t.Fatal(err)
	}
	checked, err := auditlog.Verify(t.Context(), data.Store, audit.Head{}, func(int64) {})
	if err != nil || checked.Rows != 2 || checked.Head.Seq != 2 {
		t.Errorf("the log has %+v, %v", checked, err)
	}
}

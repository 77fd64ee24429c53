package database_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// TestThreat14KeyRollback revokes a key and puts the document from before back: under a running
// gateway, and before a start, with the counter in the database set back too or not.
func TestThreat14KeyRollback(t *testing.T) {
	testKeyRollback(t, database.Config{Folder: t.TempDir()})
}

func TestThreat14KeyRollbackE2E(t *testing.T) {
	testKeyRollback(t, database.Config{Postgres: cluster.Database(t)})
}

func open(t *testing.T, cfg database.Config) *database.DB {
	t.Helper()
	d, err := database.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// document is the stored document of a database.
type document struct {
	t   *testing.T
	cfg database.Config
	d   *database.DB
}

func (s document) store() keyset.Store {
	if s.cfg.Postgres == "" {
		return keyset.FileStore(filepath.Join(s.cfg.Folder, "keys.json"))
	}
	return s.d.Store.(interface{ Keys() keyset.Store }).Keys()
}

func (s document) read() []byte {
	s.t.Helper()
	data, _, err := s.store().Load(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s document) write(data []byte) {
	s.t.Helper()
	_, version, err := s.store().Load(s.t.Context())
	if err == nil {
		err = s.store().Save(s.t.Context(), data, version)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func stateOf(keys *keyset.Set, id string) (state keyset.State) {
	for _, k := range keys.Keys() {
		if k.ID == id {
			state = k.State
		}
	}
	return state
}

func testKeyRollback(t *testing.T, cfg database.Config) {
	cfg.EncryptionKeyFile = encryptionKey(t)
	d := open(t, cfg)
	stored := document{t, cfg, d}
	revoked := make(chan string, 10)
	keys, err := d.OpenKeys(t.Context(), keyset.Config{MustExist: true, Audit: d.Store.Append, OnRevoke: func(id string) { revoked <- id }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- keys.Run(ctx) }()
	stolen := keys.Keys()[0].ID
	before := stored.read()
	operator, err := d.OperatorKeys(t.Context())
	if err == nil {
		_, err = operator.Rotate(t.Context(), keyset.Rotation{Now: true, Revoke: stolen})
	}
	if err != nil {
		t.Fatal(err)
	}
	if id := <-revoked; id != stolen {
		t.Fatalf("%s was revoked, want %s", id, stolen)
	}

	// Under the running gateway.
	newest := stored.read()
	stored.write(before)
	deadline := time.Now().Add(time.Minute)
	for !slices.ContainsFunc(keyRows(t, d), func(e audit.Row) bool { return strings.Contains(e.Detail, "older keys refused") }) {
		if time.Now().After(deadline) {
			t.Fatal("the audit log does not have the older document")
		}
		<-time.After(10 * time.Millisecond)
	}
	if stateOf(keys, stolen) != keyset.Revoked || len(revoked) > 0 {
		t.Errorf("with the old document the key is %s", stateOf(keys, stolen))
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	// At a start.
	if _, err := d.OperatorKeys(t.Context()); !errors.Is(err, keyset.ErrOlder) {
		t.Errorf("opened with the old document: %v", err)
	}
	if _, err := database.Open(t.Context(), cfg); !errors.Is(err, keyset.ErrOlder) {
		t.Errorf("opened with the old document: %v", err)
	}
	// With the counter set back, the audit log still has the revocation.
	if _, err := d.Store.Writer().ExecContext(t.Context(), `DELETE FROM key_floor`); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg)
	if keys, err := again.OperatorKeys(t.Context()); err != nil || stateOf(keys, stolen) != keyset.Revoked {
		t.Errorf("without the counter: %v, %v", stateOf(keys, stolen), err)
	}

	// Restored by an operator.
	stored.write(before)
	accept := cfg
	accept.AcceptOlderKeys = true
	if keys, err := open(t, accept).OperatorKeys(t.Context()); err != nil || stateOf(keys, stolen) != keyset.Revoked {
		t.Errorf("accepted: %v, %v", stateOf(keys, stolen), err)
	}
	if keys, err := open(t, cfg).OperatorKeys(t.Context()); err != nil || stateOf(keys, stolen) != keyset.Revoked {
		t.Errorf("opened after that: %v, %v", stateOf(keys, stolen), err)
	}
	stored.write(newest) // it is the older one now
	if _, err := d.OperatorKeys(t.Context()); !errors.Is(err, keyset.ErrOlder) {
		t.Errorf("opened with the replaced document: %v", err)
	}
}

func keyRows(t *testing.T, d *database.DB) []audit.Row {
	t.Helper()
	rows, err := d.Store.AuditLast(t.Context(), 100, "", audit.KeyChanged)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

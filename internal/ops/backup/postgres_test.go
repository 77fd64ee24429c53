package backup_test

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/backup"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster holds the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(openapitest.Main(func() int { return cluster.Main(m) }))
}

// TestBackupPostgresE2E backs up a gateway with PostgreSQL: the journal and the keys. The keys are
// restored only if the database has none, and a database of another installation is refused.
func TestBackupPostgresE2E(t *testing.T) {
	t.Parallel()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	cfg := database.Config{Folder: t.TempDir(), Postgres: cluster.Database(t), EncryptionKey: hex.EncodeToString(key), Actor: "test"}
	addUser(t, cfg, "ana")
	withJournal(t, cfg.Folder)
	dir := create(t, cfg)
	if files := content(t, dir); len(files) != 2 || files["keys.json"] == "" {
		t.Fatalf("the backup has %d files", len(files))
	}
	to := backup.Target{Data: cfg, Journal: filepath.Join(cfg.Folder, "journal")}
	if _, err := backup.Restore(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	r, err := journal.OpenReader(t.Context(), to.Journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	d := open(t, cfg)
	_, err = d.Store.Writer().Exec(`DELETE FROM keys`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	to.Data.AcceptOlderKeys = true
	if _, err2 := backup.Restore(t.Context(), dir, to); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	addUser(t, cfg, "eva") // the keys are there again

	other := cfg
	other.Folder, other.Postgres = t.TempDir(), cluster.Database(t)
	addUser(t, other, "ana")
	if _, err := backup.Restore(t.Context(), dir, backup.Target{Data: other}); err == nil {
		t.Error("restored into the database of another installation")
	}
}

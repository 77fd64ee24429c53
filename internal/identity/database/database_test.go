package database_test

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster holds the databases of these tests.
var cluster pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// encryptionKey writes a random encryption key and returns its file.
func encryptionKey(t testing.TB) string {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	path := filepath.Join(t.TempDir(), "keys.key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

package store_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ruedahq/rueda/internal/identity/store"
)

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rueda.db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	memory, err := store.OpenInMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if s.Location() != path || memory.Location() != "memory" {
		t.Errorf("places %q and %q", s.Location(), memory.Location())
	}
}

// TestPlacePostgresE2E checks that the location, which may be logged, has only host, port and name
// of the URL.
func TestPlacePostgresE2E(t *testing.T) {
	p, err := store.OpenPostgres(t.Context(), cluster.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.Location(); !regexp.MustCompile(`^postgres [^ @]+:[0-9]+/[a-z0-9_]+$`).MatchString(got) {
		t.Errorf("place %q", got)
	}
}

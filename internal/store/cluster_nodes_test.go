package store_test

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/store"
)

// testClusterNodes checks that nodes are registered for all processes, with numbers that increase,
// and that an old registration cannot be removed after a new one.
func testClusterNodes(t *testing.T, open func() database) {
	a, b := open(), open()
	register := func(s database, of, node string, want uint64, wantNew bool) {
		t.Helper()
		if n, isNew, err := store.NodesOf(s, of).Register(t.Context(), node); err != nil || n != want || isNew != wantNew {
			t.Errorf("registration %d of %s, new: %v, %v; want %d, %v", n, node, isNew, err, want, wantNew)
		}
	}
	nodes := func(want ...store.Node) {
		t.Helper()
		for _, s := range []database{a, b} {
			if list, err := store.NodesOf(s, "c").List(t.Context()); err != nil || !slices.Equal(list, want) {
				t.Errorf("nodes %v, %v; want %v", list, err, want)
			}
		}
	}
	nodes()
	for range 2 {
		if err := store.NodesOf(a, "c").Claim(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	nodes()
	register(a, "c", "one", 1, true)
	register(b, "c", "two", 1, true)
	register(b, "other", "one", 1, true)
	register(b, "c", "one", 2, false)
	nodes(store.Node{Name: "one", Registrations: 2}, store.Node{Name: "two", Registrations: 1})
	for _, n := range []store.Node{{Name: "one", Registrations: 1}, {Name: "two", Registrations: 1}, {Name: "three", Registrations: 1}} {
		if err := store.NodesOf(a, "c").Unregister(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	nodes(store.Node{Name: "one", Registrations: 2})
	register(a, "c", "two", 2, true)
	nodes(store.Node{Name: "one", Registrations: 2}, store.Node{Name: "two", Registrations: 2})
	if err := store.NodesOf(a, "fourth").Claim(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if names, err := store.NodesOf(b, "third").Clusters(t.Context()); err != nil || !slices.Equal(names, []string{"c", "fourth", "other"}) {
		t.Errorf("clusters %q, %v", names, err)
	}
}

package store_test

import (
	"slices"
	"testing"

	machine "github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/host"
)

func clusterMembers(s database, of string) host.Members {
	return host.DatabaseMembers{Cluster: of, DB: s}
}

// testClusterNodes checks that nodes are registered for all processes, with numbers that increase,
// and that an old registration cannot be removed after a new one. A cluster claims its name only if
// the database has no other one, or with force.
func testClusterNodes(t *testing.T, open func() database) {
	a, b := open(), open()
	register := func(s database, of, node string, want uint64, wantNew bool) {
		t.Helper()
		if n, isNew, err := clusterMembers(s, of).Register(t.Context(), node); err != nil || n != want || isNew != wantNew {
			t.Errorf("registration %d of %s, new: %v, %v; want %d, %v", n, node, isNew, err, want, wantNew)
		}
	}
	nodes := func(want ...machine.Member) {
		t.Helper()
		for _, s := range []database{a, b} {
			if list, err := clusterMembers(s, "c").List(t.Context()); err != nil || !slices.Equal(list, want) {
				t.Errorf("nodes %v, %v; want %v", list, err, want)
			}
		}
	}
	nodes()
	claim := func(of string, force bool, want ...string) {
		t.Helper()
		if others, err := clusterMembers(a, of).Claim(t.Context(), "one", force); err != nil || !slices.Equal(others, want) {
			t.Errorf("claim of %s: %q, %v; want %q", of, others, err, want)
		}
	}
	for range 2 {
		claim("c", false)
		claim("wrong", false, "c")
	}
	nodes()
	register(a, "c", "one", 1, true)
	register(b, "c", "two", 1, true)
	register(b, "other", "one", 1, true)
	register(b, "c", "one", 2, false)
	nodes(machine.Member{Name: "one", Number: 2}, machine.Member{Name: "two", Number: 1})
	for _, n := range []machine.Member{{Name: "one", Number: 1}, {Name: "two", Number: 1}, {Name: "three", Number: 1}} {
		if err := clusterMembers(a, "c").Unregister(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	nodes(machine.Member{Name: "one", Number: 2})
	register(a, "c", "two", 2, true)
	nodes(machine.Member{Name: "one", Number: 2}, machine.Member{Name: "two", Number: 2})
	claim("c", false)
	claim("wrong", false, "c", "other")
	claim("wrong", false, "c", "other")
	for range 2 {
		claim("fourth", true)
	}
	claim("fourth", false)
}

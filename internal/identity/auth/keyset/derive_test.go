package keyset

import (
	"crypto/rand"
	"testing"
)

// TestDerivation checks that a successor depends on the secret, the family and the parent.
func TestDerivation(t *testing.T) {
	one, err := New()
	if err != nil {
		t.Fatal(err)
	}
	two, err := New()
	if err != nil {
		t.Fatal(err)
	}
	two.ring.Load().derivers[0].id = one.Deriver()
	var parent, seed [32]byte
	_, _ = rand.Read(parent[:])
	_, _ = rand.Read(seed[:])
	seen := make(map[[32]byte]string)
	for _, c := range []struct {
		what   string
		keys   *Set
		seed   [32]byte
		parent [32]byte
	}{
		{"base", one, seed, parent},
		{"another secret", two, seed, parent},
		{"another family", one, parent, parent},
		{"another parent", one, seed, seed},
	} {
		got, ok := c.keys.Derive(one.Deriver(), c.seed, c.parent[:])
		again, _ := c.keys.Derive(one.Deriver(), c.seed, c.parent[:])
		if !ok || got != again {
			t.Errorf("%s: %v, and not the same twice", c.what, ok)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s: the same as %s", c.what, other)
		}
		seen[got] = c.what
	}
	if _, ok := one.Derive("unknown", seed, parent[:]); ok {
		t.Error("an unknown secret derives")
	}
}

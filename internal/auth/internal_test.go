package auth

import (
	"testing"

	"pgregory.net/rapid"
)

func FuzzRefreshToken(f *testing.F) {
	good := newRefreshSecret()
	f.Add(good.text().Reveal())
	f.Add("rt1_")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseRefreshSecret(text); ok && s.text().Reveal() != text {
			t.Errorf("%q has a second spelling, %q", text, s.text().Reveal())
		}
	})
}

func TestRefreshTokenText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s refreshSecret
		copy(s[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "bytes"))
		got, ok := parseRefreshSecret(s.text().Reveal())
		if !ok || got != s {
			rt.Fatalf("%x reads back as %x, %v", s, got, ok)
		}
	})
}

// TestDerivation: a successor hangs on all three of secret, family and parent.
func TestDerivation(t *testing.T) {
	one, err := NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	two.ring.Load().derivers[0].id = one.deriver()
	parent, seed := newRefreshSecret(), [32]byte(newRefreshSecret())
	seen := make(map[refreshSecret]string)
	for _, c := range []struct {
		what   string
		keys   *KeySet
		seed   [32]byte
		parent refreshSecret
	}{
		{"base", one, seed, parent},
		{"another secret", two, seed, parent},
		{"another family", one, [32]byte(parent), parent},
		{"another parent", one, seed, refreshSecret(seed)},
	} {
		got, ok := c.keys.derive(one.deriver(), c.seed, c.parent)
		again, _ := c.keys.derive(one.deriver(), c.seed, c.parent)
		if !ok || got != again {
			t.Errorf("%s: %v, and not the same twice", c.what, ok)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s: the same as %s", c.what, other)
		}
		seen[got] = c.what
	}
	if _, ok := one.derive("unknown", seed, parent); ok {
		t.Error("an unknown secret derives")
	}
}

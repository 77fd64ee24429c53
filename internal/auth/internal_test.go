package auth

import (
	"fmt"
	"testing"
	"time"

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

// TestRate: however attempts fall, those let through between any two of them are
// no more than the burst and what the time between allows.
func TestRate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, burst := rapid.IntRange(1, 60).Draw(rt, "a minute"), rapid.IntRange(1, 20).Draw(rt, "burst")
		r := perMinute(n, burst)
		even := newTable[string, time.Time](10)
		now := time.Unix(0, 0)
		var passed []time.Time
		for range rapid.IntRange(1, 80).Draw(rt, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3_000).Draw(rt, "ms")) * time.Millisecond)
			wait := take(&even, r, "key", now)
			if wait > 0 {
				if early := take(&even, r, "key", now.Add(wait-1)); early <= 0 {
					rt.Fatalf("passed 1 ns before the wait of %v was over", wait)
				}
				continue
			}
			passed = append(passed, now)
			for i, first := range passed {
				if got, most := len(passed)-i, burst+int(now.Sub(first)/r.interval); got > most {
					rt.Fatalf("%d in %v, at most %d", got, now.Sub(first), most)
				}
			}
		}
		if len(passed) == 0 {
			rt.Fatal("none was let through")
		}
	})
}

func TestTableIsBounded(t *testing.T) {
	const bound = 100
	table := newTable[int, string](bound)
	table.put(-1, "used all the time")
	for i := range 10 * bound {
		table.put(i, fmt.Sprint(i))
		if _, ok := table.get(-1); !ok {
			t.Fatalf("the key in use was dropped after %d others", i)
		}
		if size := len(table.young) + len(table.old); size > bound {
			t.Fatalf("%d keys", size)
		}
		for recent := max(0, i-bound/2+2); recent <= i; recent++ {
			if _, ok := table.old[recent]; !ok && table.young[recent] == "" {
				t.Fatalf("key %d was dropped after %d more", recent, i-recent)
			}
		}
	}
	n := 0
	for range table.all() {
		n++
	}
	if n != len(table.young)+len(table.old) {
		t.Errorf("all yields %d keys", n)
	}
	table.delete(-1)
	if _, ok := table.get(-1); ok {
		t.Error("deleted, and still there")
	}
}

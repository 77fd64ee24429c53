package cache

import (
	"fmt"
	"testing"
)

func TestMapIsBounded(t *testing.T) {
	const bound = 100
	m := New[int, string](bound)
	m.Put(-1, "used all the time")
	for i := range 10 * bound {
		m.Put(i, fmt.Sprint(i))
		if _, ok := m.Get(-1); !ok {
			t.Fatalf("the key in use was dropped after %d others", i)
		}
		if m.Len() > bound {
			t.Fatalf("%d keys", m.Len())
		}
		for recent := max(0, i-bound/2+2); recent <= i; recent++ {
			if _, ok := m.old[recent]; !ok && m.young[recent] == "" {
				t.Fatalf("key %d was dropped after %d more", recent, i-recent)
			}
		}
	}
	n := 0
	for range m.All() {
		n++
	}
	if n != m.Len() {
		t.Errorf("All yields %d keys of %d", n, m.Len())
	}
	m.Delete(-1)
	if _, ok := m.Get(-1); ok {
		t.Error("a deleted key is still present")
	}
}

func TestPeek(t *testing.T) {
	m := New[int, string](2)
	m.Put(1, "one")
	if v, ok := m.Peek(1); !ok || v != "one" {
		t.Errorf("young: %q %v", v, ok)
	}
	m.Put(2, "two") // 1 is in the old generation now
	if _, ok := m.Peek(1); ok {
		t.Error("Peek found a key of the old generation")
	}
	if v, ok := m.Get(1); !ok || v != "one" {
		t.Errorf("old: %q %v", v, ok)
	}
}

package auth

import "iter"

// table is a map with a bound. It has two generations: what is used lives in the
// young one; when that has grown to half the bound it becomes the old one, and what
// was old and unused since is dropped. So it holds at least the last bound/2 keys used,
// at the cost of a plain map. It has no lock of its own.
type table[K comparable, V any] struct {
	bound      int
	young, old map[K]V
}

func newTable[K comparable, V any](bound int) table[K, V] {
	return table[K, V]{bound: bound, young: make(map[K]V)}
}

func (t *table[K, V]) get(k K) (V, bool) {
	if v, ok := t.young[k]; ok {
		return v, true
	}
	v, ok := t.old[k]
	if ok {
		t.put(k, v)
	}
	return v, ok
}

// peek is get for a reader among several: it does not note the use, and finds what was used of late alone.
func (t *table[K, V]) peek(k K) (V, bool) {
	v, ok := t.young[k]
	return v, ok
}

func (t *table[K, V]) put(k K, v V) {
	if _, ok := t.young[k]; !ok && len(t.young) >= max(t.bound/2, 1) {
		t.young, t.old = make(map[K]V), t.young
	}
	t.young[k] = v
	delete(t.old, k)
}

func (t *table[K, V]) delete(k K) {
	delete(t.young, k)
	delete(t.old, k)
}

// all yields every key once, in no order.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, generation := range []map[K]V{t.young, t.old} {
			for k, v := range generation {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Package cache has a map with a bound on its size.
package cache

import "iter"

// Map is a map that holds at most a given number of keys and drops those unused for
// longest. It has two generations. A key that is used moves to the young one. When that
// holds half the bound, it becomes the old one, and what the old one held is dropped. So the
// map holds at least the bound/2 keys used last. It has no lock of its own.
type Map[K comparable, V any] struct {
	bound      int
	young, old map[K]V
}

// New returns an empty map of at most bound keys.
func New[K comparable, V any](bound int) Map[K, V] {
	return Map[K, V]{bound: bound, young: make(map[K]V)}
}

// Get returns the value of k and marks k as used.
func (m *Map[K, V]) Get(k K) (V, bool) {
	if v, ok := m.young[k]; ok {
		return v, true
	}
	v, ok := m.old[k]
	if ok {
		m.Put(k, v)
	}
	return v, ok
}

// Peek returns the value of k if k is in the young generation. It changes nothing, so
// several readers may call it at once.
func (m *Map[K, V]) Peek(k K) (V, bool) {
	v, ok := m.young[k]
	return v, ok
}

// Put sets the value of k.
func (m *Map[K, V]) Put(k K, v V) {
	if _, ok := m.young[k]; !ok && len(m.young) >= max(m.bound/2, 1) {
		m.young, m.old = make(map[K]V), m.young
	}
	m.young[k] = v
	delete(m.old, k)
}

// Delete removes k.
func (m *Map[K, V]) Delete(k K) {
	delete(m.young, k)
	delete(m.old, k)
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }

// All yields every key once, in no particular order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, generation := range []map[K]V{m.young, m.old} {
			for k, v := range generation {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

package catalogue

import "math/bits"

// A Set is a set of instruments by their index in the catalogue.
type Set []uint64

// Add adds i to the set.
func (s *Set) Add(i uint32) {
	for int(i/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Has reports whether i is in the set.
func (s Set) Has(i uint32) bool {
	return int(i/64) < len(s) && s[i/64]&(1<<(i%64)) != 0
}

// Remove removes i from the set.
func (s Set) Remove(i uint32) {
	if int(i/64) < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// Unite adds the members of another set.
func (s *Set) Unite(x Set) {
	for len(*s) < len(x) {
		*s = append(*s, 0)
	}
	for i, word := range x {
		(*s)[i] |= word
	}
}

// Intersect removes the members that are not in another set.
func (s Set) Intersect(x Set) {
	for i := range s {
		if i < len(x) {
			s[i] &= x[i]
		} else {
			s[i] = 0
		}
	}
}

// Count returns the number of members.
func (s Set) Count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

package record

import (
	"iter"
	"math/bits"
)

// MaxInstruments bounds the numbers of instruments in a file.
const MaxInstruments = 1 << 20

// Set is a set of numbers of instruments.
type Set []uint64

// Has reports whether the set has a number.
func (s Set) Has(n uint32) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 == 1 }

// Add adds a number. It ignores numbers from MaxInstruments on, which no valid file has.
func (s *Set) Add(n uint32) {
	if n >= MaxInstruments {
		return
	}
	for int(n/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

// All returns the numbers of the set, which rise.
func (s Set) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(uint32(64*i + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

package auth_test

import (
	"testing"

	"github.com/ruedahq/rueda/internal/auth"
)

// BenchmarkSigned signs and verifies with each algorithm.
func BenchmarkSigned(b *testing.B) {
	for _, alg := range auth.KeyAlgorithms() {
		keys, err := auth.OpenKeySet(b.Context(), auth.MemoryKeys(), auth.KeySetConfig{Algorithm: alg})
		if err != nil {
			b.Fatal(err)
		}
		w := newWorld(b, func(c *auth.Config) { c.Keys = keys })
		b.Run(alg, func(b *testing.B) {
			for b.Loop() {
				w.verify(w.login("maria").Access)
			}
		})
	}
}

package auth_test

import (
	"testing"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// BenchmarkSigned signs and verifies with each algorithm.
func BenchmarkSigned(b *testing.B) {
	for _, alg := range keyset.Algorithms() {
		keys, err := keyset.Open(b.Context(), keyset.MemoryStore(), keyset.Config{Algorithm: alg})
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

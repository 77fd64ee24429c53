package auth_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ruedahq/rueda/broker"
)

// knownTokens logs in many users and returns their access tokens. All of them are in the cache.
func knownTokens(b *testing.B, w *world, n int) []string {
	b.Helper()
	tokens := make([]string, n)
	for i := range tokens {
		name := fmt.Sprint("user", i)
		w.people.byID["us_"+name] = &person{
			user:     broker.User{ID: "us_" + name, Username: name, Version: 1, Scopes: []string{broker.ScopeRead}},
			password: name + "'s password",
		}
		tokens[i] = w.login(name).Access.Reveal()
		w.verify(w.login(name).Access)
		if _, err := w.Verify(b.Context(), tokens[i]); err != nil {
			b.Fatal(err)
		}
	}
	return tokens
}

// BenchmarkKnown measures the check of a token that was checked before: its hash, the cache, the
// revocations and the user.
func BenchmarkKnown(b *testing.B) {
	w := newWorld(b)
	tokens := knownTokens(b, w, 1000)
	for range 100 { // some have ended
		if err := w.Revoke(b.Context(), w.login("maria").Access, origin); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one core", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, ok, err := w.Known(tokens[i%len(tokens)]); !ok || err != nil {
				b.Fatal(ok, err)
			}
			i++
		}
	})
	b.Run("all cores", func(b *testing.B) {
		b.ReportAllocs()
		var next atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for i := int(next.Add(101)); pb.Next(); i++ {
				if _, ok, err := w.Known(tokens[i%len(tokens)]); !ok || err != nil {
					b.Error(ok, err)
					return
				}
			}
		})
	})
}

// BenchmarkVerifyCached measures the same check by Verify, which REST calls.
func BenchmarkVerifyCached(b *testing.B) {
	w := newWorld(b)
	tokens := knownTokens(b, w, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := w.Verify(b.Context(), tokens[i%len(tokens)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

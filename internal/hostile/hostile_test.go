//go:build unix

package hostile

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// input is one of the numbered inputs.
type input struct {
	n    int
	name string
	send func(*attacker)
}

type group struct {
	name  string
	brisk bool // on the server with short deadlines
	list  []input
}

func groups() []group {
	return []group{
		{"token endpoint", false, tokenInputs()},
		{"refresh", false, refreshInputs()},
		{"bearer", false, bearerInputs()},
		{"http", false, httpInputs()},
		{"handshake", false, handshakeInputs()},
		{"authentication", false, authInputs()},
		{"messages", false, messageInputs()},
		{"deadlines", true, briskInputs()},
	}
}

// TestAllInputsAreThereE2E counts the table: 120 numbers, each once.
func TestAllInputsAreThereE2E(t *testing.T) {
	var numbers []int
	for _, g := range groups() {
		for _, in := range g.list {
			numbers = append(numbers, in.n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("input %d is missing or there twice", i+1)
		}
	}
	if len(numbers) != 120 {
		t.Fatalf("%d inputs, want 120", len(numbers))
	}
}

// TestHostileInputsE2E sends them all, over each way into the gateway.
func TestHostileInputsE2E(t *testing.T) {
	for i, way := range []struct {
		name string
		settings
	}{
		{"event loop", settings{}},
		{"event loop with TLS", settings{TLS: true}},
		{"goroutines with TLS", settings{TLS: true, Pump: true}},
	} {
		t.Run(way.name, func(t *testing.T) {
			alone(t) // there are not descriptors for all ways in full
			next := new(atomic.Int32)
			calm := start(t, way.settings)
			brisk := way.settings
			brisk.Brisk = true
			quick := start(t, brisk)
			for _, g := range groups() {
				s := calm
				if g.brisk {
					s = quick
				}
				t.Run(g.name, func(t *testing.T) { run(t, s, i, next, g.list) })
			}
		})
	}
}

// grown is how much more heap a group may leave behind: caches of tokens, throttled addresses and the like have bounds,
// and fill up.
const grown = 24 << 20

// run runs a group's inputs side by side, and then looks at what is left of them.
func run(t *testing.T, s *server, way int, next *atomic.Int32, list []input) {
	// What first uses leave is no leak: connections to the database, tokens that are remembered.
	warm := &attacker{T: t, server: s, way: way, next: next}
	warm.token("ana")
	warm.atOnce(12, "eve", passwordOf("eve"))
	before, files := s.figures(t), s.ask(t, "files")
	t.Run("inputs", func(t *testing.T) {
		for _, in := range list {
			t.Run(in.name, func(t *testing.T) {
				if in.n != 29 && in.n != 30 && in.n != 88 { // those take all there is
					t.Parallel()
				}
				in.send(&attacker{T: t, server: s, n: in.n, way: way, next: next})
			})
		}
	})
	var after figures
	for end := time.Now().Add(45 * time.Second); ; <-time.After(100 * time.Millisecond) {
		after = s.figures(t)
		if after.Goroutines <= before.Goroutines && after.Files <= before.Files && after.Heap <= before.Heap+grown {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not as before: %+v, was %+v\nfiles: %s\nwere: %s", after, before, s.ask(t, "files"), files)
		}
	}
}

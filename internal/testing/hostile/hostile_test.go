//go:build unix

package hostile

import (
	"slices"
	"sync"
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
	name           string
	shortDeadlines bool // on the server with short deadlines
	list           []input
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
		{"deadlines", true, deadlineInputs()},
		{"routes", false, routeInputs()},
		{"administrator", false, adminInputs()},
	}
}

// TestAllInputsAreThereE2E checks that the tables have each number from 1 to 136 once.
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
			t.Fatalf("input %d is missing or occurs twice", i+1)
		}
	}
	if len(numbers) != 136 {
		t.Fatalf("%d inputs, want 136", len(numbers))
	}
}

// groupsAtOnce is the number of groups that run at the same time, each with its own server. They
// mostly wait.
const groupsAtOnce = 8

// TestHostileInputsE2E sends all inputs over each transport of the gateway. With RUEDA_SOAK one
// group runs at a time, because several would need too many descriptors.
func TestHostileInputsE2E(t *testing.T) {
	parallelUnlessFull(t)
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, groupsAtOnce)
	for i, transport := range []struct {
		name string
		settings
	}{
		{"event loop", settings{}},
		{"event loop with TLS", settings{TLS: true}},
		{"goroutines with TLS", settings{TLS: true, TLSGoroutines: true}},
	} {
		next := new(atomic.Int32)
		for _, g := range groups() {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				t.Run(transport.name+"/"+g.name, func(t *testing.T) {
					set := transport.settings
					set.ShortDeadlines = g.shortDeadlines
					run(t, start(t, set), i, next, g.list)
				})
			})
			if full() {
				all.Wait()
			}
		}
	}
}

// maxGrowth is the heap growth in bytes that a group may cause. Caches, for example of tokens and
// throttled addresses, are bounded, but fill up.
const maxGrowth = 24 << 20

// inputsAtOnce is the number of inputs of a group that are sent at the same time.
const inputsAtOnce = 8

// run sends the inputs of a group and then checks that the server uses no more resources than
// before.
func run(t *testing.T, s *server, transport int, next *atomic.Int32, list []input) {
	// Resources of a first use are not leaks: connections to the database, cached tokens.
	warm := &attacker{T: t, server: s, network: transport, next: next}
	warm.token("ana")
	warm.countLogins(12, "eve", passwordOf("eve"))
	before, files := s.figures(t), s.ask(t, "files")
	t.Run("inputs", func(t *testing.T) {
		send := func(in input) {
			t.Run(in.name, func(t *testing.T) { in.send(&attacker{T: t, server: s, n: in.n, network: transport, next: next}) })
		}
		// These need all resources or stop the database.
		exclusive := func(in input) bool { return in.n == 29 || in.n == 30 || in.n == 42 || in.n == 88 }
		for _, in := range list {
			if exclusive(in) {
				send(in)
			}
		}
		var others sync.WaitGroup
		slots := make(chan struct{}, inputsAtOnce)
		for _, in := range list {
			if exclusive(in) {
				continue
			}
			slots <- struct{}{}
			others.Go(func() {
				send(in)
				<-slots
			})
		}
		others.Wait()
	})
	s.released(t, before, files)
}

// released waits until the process uses no more resources than before.
func (s *server) released(t *testing.T, before figures, files string) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; <-time.After(100 * time.Millisecond) {
		after := s.figures(t)
		if after.Goroutines <= before.Goroutines && after.Files <= before.Files && after.Heap <= before.Heap+maxGrowth {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("resources are %+v, want at most %+v\nfiles: %s\nbefore: %s", after, before, s.ask(t, "files"), files)
		}
	}
}

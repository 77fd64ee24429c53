package steplock

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestLongest checks that the longest wait of the last minutes is known, and is then forgotten.
func TestLongest(t *testing.T) {
	const ms = time.Millisecond
	var l longest
	at := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		wait  time.Duration
		want  time.Duration
	}{
		{0, 30 * ms, 30 * ms},
		{time.Second, ms, 30 * ms},
		{window, 2 * ms, 30 * ms},
		{window, 0, 2 * ms},
		{window - 1, 5 * ms, 5 * ms},
		{3 * window, 0, 0},
	} {
		at = at.Add(step.after)
		l.add(at, step.wait)
		if got := max(l.now, l.before); got != step.want {
			t.Errorf("%v later, after a wait of %v: %v", step.after, step.wait, got)
		}
	}
}

// TestWaitsAreMeasured checks that a goroutine that waits for another one is measured, and that one
// that does not wait is not.
func TestWaitsAreMeasured(t *testing.T) {
	var m Mutex
	for range 1000 {
		m.Lock()
		m.Unlock() //nolint:staticcheck // an empty hold
	}
	m.Lock()
	if d := m.Longest(); d != 0 {
		t.Errorf("a wait of %v without other goroutines", d)
	}
	m.Unlock()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for found := false; !found; {
				m.Lock()
				runtime.Gosched() // the other goroutine comes to Lock meanwhile
				found = m.Longest() > 0
				m.Unlock()
			}
		})
	}
	wg.Wait()
}

func BenchmarkHold(b *testing.B) {
	var m Mutex
	for b.Loop() {
		m.Lock()
		m.Unlock() //nolint:staticcheck // the empty hold is what is measured
	}
}

package steplock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLongest checks that the longest hold of the last minutes is known, and is then forgotten.
func TestLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Mutex
		hold := func(d time.Duration) time.Duration {
			m.Lock()
			defer m.Unlock()
			time.Sleep(d)
			return m.Longest()
		}
		hold(30 * time.Millisecond)
		hold(time.Millisecond)
		if got := hold(0); got != 30*time.Millisecond {
			t.Errorf("longest %v", got)
		}
		time.Sleep(window)
		hold(2 * time.Millisecond)
		if got := hold(0); got != 30*time.Millisecond {
			t.Errorf("in the next window: %v", got)
		}
		time.Sleep(window)
		hold(0)
		if got := hold(0); got != 2*time.Millisecond {
			t.Errorf("two windows later: %v", got)
		}
	})
}

func BenchmarkHold(b *testing.B) {
	var m Mutex
	for b.Loop() {
		m.Lock()
		m.Unlock() //nolint:staticcheck // the empty hold is what is measured
	}
}

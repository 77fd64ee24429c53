package pattern

import (
	"testing"
	"time"
)

// TestTimes checks that the first caller determines the time of an event, and that old events are
// forgotten.
func TestTimes(t *testing.T) {
	var times Times
	for _, c := range []struct{ k, at, want int64 }{
		{0, 10, 10}, {0, 12, 10}, {1, 20, 20}, {2, 30, 30}, {1, 35, 20}, {1024, 40, 40}, {0, 50, 50}, {1024, 60, 40},
	} {
		if got := times.agree(c.k, c.at); got != c.want {
			t.Errorf("event %d at %d: got %d, want %d", c.k, c.at, got, c.want)
		}
	}
}

// TestPacers checks that pacers share the times of events, and that late ones get the original
// time.
func TestPacers(t *testing.T) {
	start := time.Now().Add(-time.Hour)
	var times Times
	first, second, alone := NewPacer(start, 1000, &times), NewPacer(start.Add(time.Millisecond), 1000, &times), NewPacer(start, 1000, nil)
	for k := range 10 {
		due := start.Add(time.Duration(k) * time.Millisecond).UnixNano()
		a, b, c := first.Next(), second.Next(), alone.Next()
		if a != due || b != due || c != due {
			t.Fatalf("event %d was due at %d: got %d, %d and %d", k, due, a, b, c)
		}
	}
}

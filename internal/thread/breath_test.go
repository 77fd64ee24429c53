package thread

import (
	"testing"
	"time"
)

// TestRest rests for nineteen times as long as was worked, in bounds, and only where somebody had the processor.
func TestRest(t *testing.T) {
	for _, c := range []struct{ worked, away, want time.Duration }{
		{40 * time.Microsecond, time.Microsecond, 0},
		{time.Hour, wanted - 1, 0},
		{40 * time.Microsecond, wanted, 760 * time.Microsecond},
		{40 * time.Microsecond, time.Second, 760 * time.Microsecond},
		{time.Second, time.Second, restTimes * mostWork},
		{0, time.Second, 0},
	} {
		if got := rest(c.worked, c.away); got != c.want {
			t.Errorf("after %v of work and %v away: rested %v, want %v", c.worked, c.away, got, c.want)
		}
	}
}

// TestTake goes on after a breath, also the first, and takes none before a piece is done.
func TestTake(t *testing.T) {
	var b Breath
	for range 3 {
		if b.Take(); b.worksFrom.IsZero() {
			t.Fatal("the work has not begun")
		}
		b.worksFrom = b.worksFrom.Add(-piece)
	}
	ahead := time.Now().Add(time.Hour)
	b.worksFrom = ahead
	if b.Take(); !b.worksFrom.Equal(ahead) {
		t.Error("rested amid a piece")
	}

	b = Breath{worksFrom: time.Now().Add(-time.Hour), rested: mostRests}
	if b.Take(); b.rested != mostRests {
		t.Error("rested for longer than it may on the whole")
	}
}

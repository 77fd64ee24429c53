package logage

import (
	"math/rand/v2"
	"testing"
)

// TestDue compares the due position with a list of all positions: no row is due early, and a row is
// due at most one interval late.
func TestDue(t *testing.T) {
	const delay, interval = 1000, 50
	rng := rand.New(rand.NewPCG(1, 2))
	s := New(delay, interval)
	var times []int64 // of row i+1
	for now := int64(1); now < 20*delay; now += rng.Int64N(30) {
		for range rng.IntN(3) {
			times = append(times, now)
		}
		s.Note(now, uint64(len(times)))
		pos, next := s.Due(now)
		for i, at := range times {
			switch row := uint64(i + 1); {
			case row <= pos && at > now-delay:
				t.Fatalf("at %d: row %d of %d is early", now, row, at)
			case row > pos && at <= now-delay-interval-30:
				t.Fatalf("at %d: row %d of %d is late", now, row, at)
			}
		}
		if next != 0 && (next <= now || next > now+delay) {
			t.Fatalf("at %d: next at %d", now, next)
		}
	}
	if n := len(s.list); n > 2*delay/interval+4 {
		t.Errorf("%d samples are kept", n)
	}
}

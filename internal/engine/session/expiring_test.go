package session

import (
	"slices"
	"testing"
	"time"
)

// TestExpiring checks that a family is returned while one of its sessions has a deadline before the
// given time: the end of its token, or of a later one after a refresh. Nothing of a family is kept
// after its last session.
func TestExpiring(t *testing.T) {
	var r Registry
	start := time.Now()
	enter := func(family string, in time.Duration) *note {
		t.Helper()
		n := newNote()
		if _, f := r.admit(&n.entry, &Identity{User: "u", Family: family, Expires: start.Add(in)}, "", 10, r.Mark()); f != nil {
			t.Fatal(f.Reason)
		}
		return n
	}
	want := func(in time.Duration, families ...string) {
		t.Helper()
		got := r.Expiring(start.Add(in))
		slices.Sort(got)
		if !slices.Equal(got, families) {
			t.Errorf("before %v: %v, want %v", in, got, families)
		}
	}
	a, old := enter("a", time.Hour), enter("b", time.Hour)
	young := enter("b", 3*time.Hour)
	want(time.Hour)
	want(2*time.Hour, "a", "b") // of b one session has a newer token, the other has not
	r.Extend("a", start.Add(5*time.Hour))
	r.Extend("a", start.Add(4*time.Hour)) // never back
	r.Extend("unknown", start.Add(time.Minute))
	want(2*time.Hour, "b")
	want(5*time.Hour, "b")
	want(5*time.Hour+1, "a", "b")
	r.release(&old.entry)
	want(2 * time.Hour)
	want(4*time.Hour, "b")
	r.release(&a.entry)
	r.release(&young.entry)
	want(100 * time.Hour)
	if len(r.extended) != 0 {
		t.Errorf("kept for nobody: %v", r.extended)
	}
}

package socket

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWheel compares the wheel with a list, over time steps of all sizes.
func TestWheel(t *testing.T) {
	for _, exact := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 2))
		w := wheel{exact: exact, earliest: never}
		late := deadline(1 << slotBits) // maximum delay of a timer
		if exact {
			late = 0
		}
		conns := make([]*conn, 50)
		for i := range conns {
			conns[i] = new(conn)
		}
		now := deadline(1)
		want := map[*conn]deadline{}
		for step := range 200_000 {
			c := conns[r.IntN(len(conns))]
			switch r.IntN(5) {
			case 0:
				w.remove(c)
				delete(want, c)
			default:
				due := now + deadline(r.Int64N(int64(time.Minute)>>r.IntN(12))) - deadline(time.Millisecond)
				if due = max(1, due); want[c] == 0 || due < want[c] {
					want[c] = due // a later deadline is checked when it is due
				}
				w.set(c, due)
			}
			if r.IntN(3) == 0 {
				now += deadline(r.Int64N(int64(time.Minute) >> r.IntN(20)))
			}
			w.runTimers(now, func(c *conn) {
				if due := want[c]; due == 0 || due > now {
					t.Fatalf("step %d at %d: a connection came up at %d", step, now, due)
				}
				delete(want, c)
				if r.IntN(4) == 0 { // set again by the callback
					want[c] = now + deadline(r.Int64N(int64(time.Second)))
					w.set(c, want[c])
				}
			})
			next := w.next()
			for c, due := range want {
				if due+late < now && !(exact && due == now) {
					t.Fatalf("step %d at %d: deadline %d was missed", step, now, due)
				}
				if next > max(due, now)+late && c.linked() {
					t.Fatalf("step %d at %d: next is %d, but there is %d", step, now, next, due)
				}
			}
			if len(want) != w.size || (w.size == 0) != (next == never) && w.size > 0 {
				t.Fatalf("step %d: %d in the wheel, want %d", step, w.size, len(want))
			}
		}
	}
}

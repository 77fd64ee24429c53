package client_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
)

// TestMergedBooks checks that a program which is slower than its books gets fewer updates, which it
// can still apply, and the newest book in the end. Under Block it gets all of them.
func TestMergedBooks(t *testing.T) {
	t.Parallel()
	const all = 300
	for policy, most := range map[client.Overflow]int{client.Conflate: all / 2, client.Drop: all / 2, client.Block: all + 1} {
		s, c := start(t, ruedatest.Config{}, client.Options{Overflow: policy}, client.Set{Books: []string{ggal, al30}, Depth: client.AllLevels})
		publish := func(step int) {
			s.Book(ggal, strconv.Itoa(7000+step%7), strconv.Itoa(step), "7050", strconv.Itoa(2*step))
		}
		var own client.Book
		updates := 0
		for ev := range c.Events(within(t)) {
			switch ev := ev.(type) {
			case client.StateChange:
				if ev.State == client.Live {
					publish(1)
				}
			case *client.BookUpdate:
				if err := own.Apply(*ev); err != nil {
					t.Fatalf("policy %d: %v, %+v", policy, err, ev)
				}
				bid, ask, _ := own.Best()
				if updates++; ask.Size != 2*bid.Size {
					t.Fatalf("policy %d: %+v %+v", policy, bid, ask)
				}
				if bid.Size == market.Scale { // the program is busy while the others come
					for step := 2; step <= all; step++ {
						publish(step)
						time.Sleep(100 * time.Microsecond)
					}
					time.Sleep(300 * time.Millisecond)
				}
			}
			if bid, _, ok := own.Best(); ok && bid.Size == all*market.Scale {
				break
			}
		}
		if updates > most || policy == client.Block && updates < all/2 {
			t.Errorf("policy %d: %d updates", policy, updates)
		}
	}
}

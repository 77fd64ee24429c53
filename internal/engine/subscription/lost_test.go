package subscription

import (
	"fmt"
	"maps"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

// TestSplitLost checks that the ranges of a message and of those that follow it are all there once,
// and at most MaxLost in each.
func TestSplitLost(t *testing.T) {
	for _, counts := range [][2]int{{0, 0}, {MaxLost, 0}, {MaxLost, 1}, {3, MaxLost}, {2*MaxLost + 7, MaxLost}, {0, 4 * MaxLost}} {
		m := wire.Subscription{Msg: "Subscribed", ID: []byte("7"), Epoch: "e1"}
		var want [wire.NumChannels]map[string]wire.Range
		total := 0
		for i, n := range counts {
			c := []wire.Channel{wire.Trades, wire.BarsOf(3)}[i]
			m.Lost[c], want[c] = map[string]wire.Range{}, map[string]wire.Range{}
			for k := range n {
				m.Lost[c][fmt.Sprintf("A%d|M|CI", k)] = wire.Range{From: uint64(k), Reason: "forbidden"}
			}
			maps.Copy(want[c], m.Lost[c])
			total += n
		}
		more := SplitLost(&m)
		if len(more) != max(0, total-1)/MaxLost {
			t.Errorf("%v: %d further messages", counts, len(more))
		}
		var got [wire.NumChannels]map[string]wire.Range
		for i, x := range append([]wire.Subscription{m}, more...) {
			n := 0
			for c, lost := range x.Lost {
				if n += len(lost); len(lost) > 0 && got[c] == nil {
					got[c] = map[string]wire.Range{}
				}
				for name, r := range lost {
					if _, twice := got[c][name]; twice {
						t.Errorf("%v: %s is there twice", counts, name)
					}
					got[c][name] = r
				}
			}
			if n > MaxLost || x.Epoch != "e1" || i > 0 && (x.Msg != "Rows lost" || x.ID != nil) {
				t.Errorf("%v: message %d has %d ranges, %q, %s", counts, i, n, x.Msg, x.ID)
			}
		}
		for c := range want {
			if !maps.Equal(got[c], want[c]) {
				t.Errorf("%v: %d ranges of channel %d, want %d", counts, len(got[c]), c, len(want[c]))
			}
		}
	}
}

package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// TestLongestMessage checks that the longest answers are within the bound that Success states. They
// say everything about each identifier of a set at once, or repeat what the client has sent.
func TestLongestMessage(t *testing.T) {
	const most = 1<<64 - 1
	for _, limits := range [][2]int{{1, 1000}, {2000, 64 << 10}, {15_000, 64 << 10}, {15_000, 1 << 20}, {50_000, 4 << 20}} {
		subscriptions, messageBytes := limits[0], limits[1]
		bound := longestMessage(subscriptions, messageBytes)
		echo := strings.Repeat("\x01", messageBytes/2) // six characters each, in two places
		changed := wire.Subscription{Msg: "Rights changed", Epoch: strings.Repeat("e", 64), Position: strings.Repeat("p", 128), ID: []byte(`"` + strings.Repeat("i", 36) + `"`)}
		refused := wire.Subscription{Msg: "Unsubscribed", Rejected: []wire.Rejection{{Channel: echo, Instrument: echo, Reason: wire.BadInstrument}}}
		c := wire.BarsOf(0)
		changed.Given[c] = true
		changed.Lost[c], changed.Resumed[c] = map[string]wire.Range{}, map[string]uint64{}
		for i := range subscriptions {
			id := fmt.Sprintf("%032d|%016d|%016d", i, i, i)
			name := id + "|15m"
			changed.Lists[c] = append(changed.Lists[c], name)
			changed.Removed = append(changed.Removed, wire.Rejection{Channel: "order_book", Instrument: name, Reason: wire.UnsupportedOption})
			changed.Moved = append(changed.Moved, wire.Moved{Channel: "order_book", Instrument: name, Delay: 86400})
			changed.Lost[c][name] = wire.Range{From: most, To: most, Reason: "buffer_exceeded"}
			changed.Resumed[c][name] = most
			refused.Rejected = append(refused.Rejected, wire.Rejection{Channel: "order_book", Instrument: id, Reason: wire.UnsupportedOption, Hint: strings.Repeat("h", 300)})
		}
		for i := range subscription.MaxLost {
			changed.Lost[c][fmt.Sprintf("%032d|%016d|x%015d|15m", i, i, i)] = wire.Range{From: most, To: most, Reason: "buffer_exceeded"}
		}
		more := subscription.SplitLost(&changed)
		for _, m := range append(more, changed, refused) {
			if n := len(wire.AppendSubscription(nil, &m)); n > bound {
				t.Errorf("%d subscriptions and %d bytes: a message of %d bytes, the bound is %d", subscriptions, messageBytes, n, bound)
			}
		}
	}
	if got := longestMessage(2000, 64<<10); got != 10<<20 {
		t.Errorf("with the default limits %d bytes, the contract says 10 MiB", got)
	}
}

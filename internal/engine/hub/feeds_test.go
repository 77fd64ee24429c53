package hub_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// inBetween calls do on another goroutine when a function first holds the lock. It then keeps the
// lock so long that the function's next pause hands it over.
type inBetween struct {
	of string
	do func() // nil: it was called
}

func (w *inBetween) Locked(function string) {
	if do := w.do; do != nil && strings.HasSuffix(function, w.of) {
		w.do = nil
		go do()
		for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
			runtime.Gosched()
		}
	}
}

func (w *inBetween) Unlocking(int) {}

// TestFeedsTakeTurns checks that the events of two feeds have one order, and that a replica has the
// same N. One feed publishes a snapshot while the hub applies a gap of the whole market.
func TestFeedsTakeTurns(t *testing.T) {
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
	if x := h.NewPort(func(bool) {}).Await([]hub.Item{{Tier: hub.Tier{Delay: 60}}}, nil); x != nil {
		t.Fatal("not loaded")
	}
	whole := streamtest.Define(t, h, "*|M|*", nil)
	var last market.Handle
	for i := range 4 * hub.LockPiece {
		last = streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), nil)
	}
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: last})
	var other sync.WaitGroup
	other.Add(1)
	watch := &inBetween{of: "loseBook", do: func() {
		defer other.Done()
		_ = h.Publish([]market.Event{{Kind: market.KindSnapshot, Handle: last, Bids: []market.Level{streamtest.Level(1, 1)}}})
	}}
	h.Mu().Watch(watch)
	streamtest.Publish(t, h, market.Event{Kind: market.KindGap, Handle: whole})
	other.Wait()
	h.Mu().Lock()
	defer h.Mu().Unlock()
	h.Mu().Watch(nil)
	h.Age(time.Minute)
	live := h.At(last)
	late := live.AtDelay(60)
	for _, c := range []wire.Channel{wire.Status, wire.OrderBook, wire.Quotes} {
		if n, m := live.Sequences[c].N, late.Sequences[c].N; n != m {
			t.Errorf("%s: %d live, %d in the replica", c, n, m)
		}
	}
}

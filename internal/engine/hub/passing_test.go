package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// atPauses calls do once, when a function takes the lock again after a pause.
type atPauses struct {
	of string
	do func() // nil: it was called
}

func (w *atPauses) Locked(function string) {
	if do := w.do; do != nil && strings.HasSuffix(function, w.of) {
		w.do = nil
		do()
	}
}

func (w *atPauses) Unlocking(int) {}

// TestPassingInPieces checks a client that moves hundreds of instruments from a pattern to exact
// identifiers at another delay. The hub's lock is released in between, and trades come at both
// delays. The client receives each trade once, in order.
func TestPassingInPieces(t *testing.T) {
	for _, rises := range []bool{true, false} {
		t.Run(fmt.Sprintf("rises %v", rises), func(t *testing.T) { passInPieces(t, rises) })
	}
}

func passInPieces(t *testing.T, rises bool) {
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
	sh := subscription.NewShard(h, func(bool) {})
	const instruments = 3 * hub.LockPiece
	var handles []market.Handle
	var exact []hub.Item
	pattern := hub.Item{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		handles = append(handles, streamtest.Define(t, h, name, nil))
		x := hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)}
		if !rises {
			x.Tier.Delay = 60
		}
		exact = append(exact, x)
	}
	if rises {
		pattern.Tier.Delay = 60
	}
	c := streamtest.NewClient(t, sh)
	c.Sub.Subscribe([]hub.Item{pattern}, subscription.Options{})
	all := func(n int) (events []market.Event) {
		for _, hd := range handles {
			events = append(events, streamtest.Trade(hd, n))
		}
		return events
	}
	read := func() {
		streamtest.Turn(sh)
		c.Read(1<<20, false)
	}
	age := func() { h.AgeUnlocked(time.Minute) }
	streamtest.Publish(t, h, all(1)...)
	age()
	read()
	streamtest.Publish(t, h, all(2)...) // in flight, or sent
	read()
	events := all(3)
	of := "(*taking).pause"
	if rises { // rows are replayed
		of = "(*catchUp).pause"
	}
	watch := &atPauses{of: of, do: func() {
		h.Age(time.Minute) // of the second trade
		for i := range events {
			h.ApplyEvent(&events[i], time.Now().UnixNano())
		}
		h.ShowAll()
	}}
	h.Mu().Watch(watch)
	c.Sub.Subscribe(exact, subscription.Options{})
	h.Mu().Watch(nil)
	if watch.do != nil {
		t.Fatal("there was no pause")
	}
	read()
	streamtest.Publish(t, h, all(4)...)
	age()
	age()
	read()
	for _, x := range exact {
		if got := c.Trades[x.ID.String()]; !slices.Equal(got, []uint64{1, 2, 3, 4}) {
			t.Fatalf("%s: trades %d", x.ID, got)
		}
	}
}

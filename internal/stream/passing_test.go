package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// atPauses calls do once, when a function takes the lock again after a pause.
type atPauses struct {
	of string
	do func() // nil: it was called
}

func (w *atPauses) locked(function string) {
	if do := w.do; do != nil && strings.HasSuffix(function, w.of) {
		w.do = nil
		do()
	}
}

func (w *atPauses) unlocking(int) {}

// TestPassingInPieces checks a client that moves hundreds of instruments from a pattern to exact
// identifiers at another delay. The hub's lock is released in between, and trades come at both
// delays. The client receives each trade once, in order.
func TestPassingInPieces(t *testing.T) {
	for _, rises := range []bool{true, false} {
		t.Run(fmt.Sprintf("rises %v", rises), func(t *testing.T) { passInPieces(t, rises) })
	}
}

func passInPieces(t *testing.T, rises bool) {
	h := delayedHub(t, Config{Delays: []time.Duration{time.Minute}})
	sh := h.NewShard(func(bool) {})
	const instruments = 3 * lockPiece
	var handles []market.Handle
	var exact []Item
	pattern := Item{Channel: wire.Trades, ID: id("*|M|*")}
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		handles = append(handles, define(t, h, name, nil))
		x := Item{Channel: wire.Trades, ID: id(name)}
		if !rises {
			x.Tier.Delay = 60
		}
		exact = append(exact, x)
	}
	if rises {
		pattern.Tier.Delay = 60
	}
	c := newClient(t, sh)
	c.sub.Subscribe([]Item{pattern}, Options{})
	all := func(n int) (events []market.Event) {
		for _, hd := range handles {
			events = append(events, trade(hd, n))
		}
		return events
	}
	read := func() {
		turn(sh)
		c.read(1<<20, false)
	}
	age := func() { h.ageUnlocked(time.Minute) }
	publish(t, h, all(1)...)
	age()
	read()
	publish(t, h, all(2)...) // in flight, or sent
	read()
	events := all(3)
	of := "(*taking).pause"
	if rises { // rows are replayed
		of = "(*catchUp).pause"
	}
	watch := &atPauses{of: of, do: func() {
		h.age(time.Minute) // of the second trade
		for i := range events {
			h.apply(&events[i], time.Now().UnixNano())
		}
		h.published()
	}}
	h.mu.watch = watch
	c.sub.Subscribe(exact, Options{})
	h.mu.watch = nil
	if watch.do != nil {
		t.Fatal("there was no pause")
	}
	read()
	publish(t, h, all(4)...)
	age()
	age()
	read()
	for _, x := range exact {
		if got := c.trades[x.ID.String()]; !slices.Equal(got, []uint64{1, 2, 3, 4}) {
			t.Fatalf("%s: trades %d", x.ID, got)
		}
	}
}

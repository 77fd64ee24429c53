package hub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// afterHolds requests events whenever a function other than Publish releases the lock.
type afterHolds struct {
	ask    chan struct{}
	byFeed bool
}

func (w *afterHolds) Locked(function string) { w.byFeed = strings.HasSuffix(function, "Publish") }

func (w *afterHolds) Unlocking(int) {
	if !w.byFeed {
		select {
		case w.ask <- struct{}{}:
		default:
		}
	}
}

// TestPausesLoseNothing checks resumes, replacements and unsubscribes of hundreds of identifiers,
// during which the hub's lock is released and trades are published. Each client receives every
// trade once, in order.
func TestPausesLoseNothing(t *testing.T) {
	h := hub.New(hub.Config{Epoch: "e1"})
	sh := subscription.NewShard(h, func(bool) {})
	const instruments = 5 * hub.LockPiece
	var handles []market.Handle
	var exact []hub.Item
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		handles = append(handles, streamtest.Define(t, h, name, nil))
		exact = append(exact, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
	}
	var feed sync.WaitGroup
	watch := &afterHolds{ask: make(chan struct{}, 1)}
	feed.Go(func() {
		n := 0
		for range watch.ask {
			for range 20 {
				n++
				_ = h.Publish([]market.Event{streamtest.Trade(handles[n*7%instruments], n)})
			}
		}
	})
	h.Mu().Watch(watch)
	pattern := []hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}
	_, since := h.Position()
	for round := range 30 {
		c := streamtest.NewClient(t, sh)
		read := func() {
			sh.Turn()
			for s := sh.Next(); s != nil; s = sh.Next() {
				if s == c.Sub {
					c.Read(1<<20, false)
				}
			}
			c.Read(1<<20, false)
		}
		out := c.Sub.Subscribe(pattern, subscription.Options{Resume: &wire.Resume{Epoch: "e1", Position: since}})
		if out.Fault != nil {
			t.Fatal(out.Fault)
		}
		c.Sub.AfterReplay(subscription.ReplayEnd{Whole: []byte{}})
		read()
		for _, items := range [][]hub.Item{exact, pattern, append(exact[:200:200], pattern...), pattern} {
			c.Sub.Subscribe(items, subscription.Options{Replace: true})
			read()
		}
		c.Sub.Subscribe(exact, subscription.Options{})
		read()
		c.Sub.Unsubscribe(pattern)
		read()
		if round%3 == 2 {
			_, since = h.Position()
		}
		c.Sub.Close()
	}
	h.Mu().Lock()
	h.Mu().Watch(nil)
	h.Mu().Unlock()
	close(watch.ask)
	feed.Wait()
}

// TestHoldsAreBounded checks how many instruments each operation visits in one hold of the hub's
// lock.
func TestHoldsAreBounded(t *testing.T) {
	w := newCrowd(t, 3000, 600, 5000)
	for _, op := range append(feedOperations(), clientOperations()...) {
		bound := 2*hub.LockPiece + subscription.MaxPatterns
		run := op.prepare(w)
		h := &holds{}
		w.hub.Mu().Watch(h)
		run()
		w.hub.Mu().Watch(nil)
		w.calm()
		if h.visited > bound {
			t.Errorf("%s: %s visited %d in one hold, at most %d are right", op.name, h.most[strings.LastIndexByte(h.most, '.')+1:], h.visited, bound)
		}
		lockless := strings.HasPrefix(op.name, "GET of an unknown") || op.name == "last of a closed connection"
		if h.count == 0 && !lockless {
			t.Errorf("%s did not take the lock", op.name)
		}
	}
}

// TestHeirsInPieces checks a client that resumes a pattern and unsubscribes it before it has read
// anything. Another pattern covers the same instruments, and trades are published all the time. The
// client receives every trade once, in order. The hub releases the lock while instruments pass to
// the other pattern.
func TestHeirsInPieces(t *testing.T) {
	h := hub.New(hub.Config{Epoch: "e1"})
	sh := subscription.NewShard(h, func(bool) {})
	const instruments = 10 * hub.LockPiece
	handles := streamtest.DefineMany(t, h, instruments, nil)
	_, since := h.Position()
	n := 0
	for _, hd := range handles {
		n++
		streamtest.Publish(t, h, streamtest.Trade(hd, n))
	}
	streamtest.Turn(sh)
	var feed sync.WaitGroup
	watch := &afterHolds{ask: make(chan struct{}, 1)}
	feed.Go(func() {
		for range watch.ask {
			for range 20 {
				n++
				_ = h.Publish([]market.Event{streamtest.Trade(handles[n*7%instruments], n)})
			}
		}
	})
	c := streamtest.NewClient(t, sh)
	out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: "e1", Position: since}})
	if out.Fault != nil {
		t.Fatal(out.Fault)
	}
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: []byte{}})
	streamtest.Subscribe(t, c.Sub, wire.Trades, "*|*|*")
	count := &countHolds{afterHolds: watch}
	h.Mu().Watch(count)
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}})
	h.Mu().Lock()
	h.Mu().Watch(nil)
	h.Mu().Unlock()
	close(watch.ask)
	feed.Wait()
	if most := instruments / hub.LockPiece; count.holds < most {
		t.Errorf("the lock was held %d times for %d instruments, want at least %d", count.holds, instruments, most)
	}
	streamtest.Turn(sh)
	c.Read(1<<20, false)
	for i := range handles {
		name := fmt.Sprintf("S%d|M|CI", i)
		list := c.Trades[name]
		for k, got := range list {
			if got != uint64(k+1) {
				t.Fatalf("%s: trades %v", name, list)
			}
		}
		if last := h.Lookup(streamtest.ID(name)).Trades.Last; uint64(len(list)) != last {
			t.Fatalf("%s: %d trades of %d", name, len(list), last)
		}
	}
}

// countHolds is afterHolds that also counts the holds of functions other than Publish.
type countHolds struct {
	*afterHolds
	holds int
}

func (w *countHolds) Locked(function string) {
	w.afterHolds.Locked(function)
	if !w.byFeed {
		w.holds++
	}
}

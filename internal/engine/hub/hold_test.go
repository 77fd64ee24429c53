package hub_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// holds watches the hub's lock. It records the longest hold, and the most instruments that one hold
// visited.
type holds struct {
	clock   func() time.Duration // nil: holds are not timed
	began   time.Duration
	longest time.Duration
	by      string // function that took the lock for the longest hold
	cause   string
	count   int
	visited int
	most    string // function of the hold that visited the most
}

func (w *holds) Locked(function string) {
	w.cause = function
	if w.clock != nil {
		w.began = w.clock()
	}
}

func (w *holds) Unlocking(visited int) {
	w.count++
	if visited > w.visited {
		w.visited, w.most = visited, w.cause
	}
	if w.clock == nil {
		return
	}
	if d := w.clock() - w.began; d > w.longest {
		w.longest, w.by = d, w.cause
	}
}

// crowd is a hub with many instruments and many connections, on which operations are measured.
type crowd struct {
	t         testing.TB
	hub       *hub.Hub
	shards    []*subscription.Shard
	handles   []market.Handle
	venue     market.Handle
	n         int // counts trades
	cancelled int
	deals     int        // of the first instrument
	disk      sync.Mutex // held while rows are written, unless the publisher writes them
}

const dealt = "S0|M|CI" // the instrument with the most trades

func newCrowd(t testing.TB, instruments, connections, deals int) *crowd {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	w := &crowd{t: t, deals: deals, hub: hub.New(hub.Config{Journal: j, Markets: []market.Market{{ID: "M"}}, RecentBytes: 1 << 30, Delays: []time.Duration{time.Minute}})}
	if err := w.hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.venue = streamtest.Define(t, w.hub, "*|M|*", func(in *market.Instrument) { in.StartsEmpty = false })
	for range 2 {
		w.shards = append(w.shards, subscription.NewShard(w.hub, func(bool) {}))
	}
	for i := range instruments {
		w.handles = append(w.handles, streamtest.Define(t, w.hub, fmt.Sprintf("S%d|M|CI", i), nil))
		streamtest.Publish(t, w.hub, market.Event{Kind: market.KindUpdate, Handle: w.handles[i], Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}})
	}
	for i := range connections {
		sub := streamtest.Open(w.shards[i%2])
		at := i % instruments
		ids := []string{fmt.Sprintf("S%d|M|CI", at), fmt.Sprintf("S%d|M|CI", (at+1)%instruments), fmt.Sprintf("S%d|M|CI", (at+2)%instruments)}
		streamtest.Subscribe(t, sub, wire.Trades, ids...)
		streamtest.Subscribe(t, sub, wire.Quotes, ids[0])
		if i%2000 == 0 {
			streamtest.Subscribe(t, sub, wire.Status, "*|M|*")
			streamtest.Subscribe(t, sub, wire.Trades, "*|M|*")
		}
	}
	now := time.Now().UnixNano()
	for i := range int64(deals) { // spread over the day until now
		w.n++
		e := streamtest.Trade(w.handles[0], w.n)
		e.Time = now - now%int64(24*time.Hour) + now%int64(24*time.Hour)*i/int64(deals)
		streamtest.Publish(t, w.hub, e)
		if i%10_000 == 0 {
			w.calm()
		}
	}
	w.calm()
	return w
}

// trade publishes a trade of an instrument.
func (w *crowd) trade(i int) {
	w.n++
	streamtest.Publish(w.t, w.hub, streamtest.Trade(w.handles[i], w.n))
}

// calm lets all clients gather all that waits.
func (w *crowd) calm() {
	w.hub.Commit()
	for _, sh := range w.shards {
		sh.Turn()
		for s := sh.Next(); s != nil; s = sh.Next() {
			for s.Pending() {
				s.Gather(nil, 1<<20, wire.JSON, false)
			}
		}
	}
}

// names returns n identifiers, of instruments or of nothing.
func (w *crowd) names(n int, format string) (items []hub.Item) {
	for i := range min(n, len(w.handles)) {
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(fmt.Sprintf(format, i))})
	}
	return items
}

// patterns returns as many patterns as a client may have: most of one instrument, some of all.
func (w *crowd) patterns() (items []hub.Item) {
	for i := range subscription.MaxPatterns {
		x := streamtest.ID(fmt.Sprintf("S%d|*|*", i))
		switch i {
		case 0:
			x = streamtest.ID("*|M|*")
		case 1:
			x = streamtest.ID("*|*|*")
		case 2:
			x = streamtest.ID("*|*|CI")
		}
		items = append(items, hub.Item{Channel: wire.Quotes, ID: x, Tier: hub.Tier{Conflate: 1000}})
	}
	return items
}

// operation is something that takes the hub's lock. prepare does the part that is not measured.
type operation struct {
	name    string
	prepare func(w *crowd) (run func())
}

func once(run func(w *crowd)) func(w *crowd) func() {
	return func(w *crowd) func() { return func() { run(w) } }
}

// fresh makes an operation of a new subscriber, which has subscribed to the items of had.
func fresh(had func(w *crowd) []hub.Item, run func(w *crowd, s *subscription.Subscriber, had []hub.Item)) func(w *crowd) func() {
	return func(w *crowd) func() {
		s := streamtest.Open(w.shards[0])
		var items []hub.Item
		if had != nil {
			items = had(w)
			s.Subscribe(items, subscription.Options{})
			for s.Pending() {
				s.Gather(nil, 1<<20, wire.JSON, false)
			}
		}
		return func() { run(w, s, items) }
	}
}

func twoThousand(w *crowd) []hub.Item { return w.names(2000, "S%d|M|CI") }
func unknown(w *crowd) []hub.Item     { return w.names(2000, "X%dABCDEFGHIJKLMNOPQRS|M|CI") }
func patterns(w *crowd) []hub.Item    { return w.patterns() }
func whole(*crowd) []hub.Item         { return []hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}} }

// feedOperations returns the operations of feeds and clocks.
func feedOperations() []operation {
	one := func(e market.Event) func(w *crowd) func() {
		return once(func(w *crowd) {
			e.Handle = w.handles[1]
			streamtest.Publish(w.t, w.hub, e)
		})
	}
	all := func(e market.Event) func(w *crowd) func() {
		return once(func(w *crowd) {
			e.Handle = w.venue
			streamtest.Publish(w.t, w.hub, e)
		})
	}
	oldest := func(kind market.Kind) func(w *crowd) func() {
		return func(w *crowd) func() {
			w.cancelled++
			first := fmt.Sprint(w.deals/2 + w.cancelled)
			return func() {
				e := streamtest.Trade(w.handles[0], 0)
				e.Kind, e.TradeID, e.OldPrice, e.OldSize = kind, first, e.Price, e.Size
				streamtest.Publish(w.t, w.hub, e)
			}
		}
	}
	return []operation{
		{"trade", once(func(w *crowd) { w.trade(1) })},
		{"book update", one(market.Event{Kind: market.KindUpdate, Bids: []market.Level{streamtest.Level(98, 7)}})},
		{"status", one(market.Event{Kind: market.KindStatus, Phase: market.Halt})},
		{"status of a market", all(market.Event{Kind: market.KindStatus, Phase: market.Closed})},
		{"feed_down of a market", all(market.Event{Kind: market.KindStatus, Phase: market.FeedDown})},
		{"gap of a market", func(w *crowd) func() {
			for _, hd := range w.handles {
				streamtest.Publish(w.t, w.hub, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}})
			}
			w.calm()
			return func() { streamtest.Publish(w.t, w.hub, market.Event{Kind: market.KindGap, Handle: w.venue}) }
		}},
		{"cancel of an old trade", oldest(market.KindCancel)},
		{"correction of an old trade", oldest(market.KindCorrect)},
		{"batch of 5,000 trades", func(w *crowd) func() {
			var batch []market.Event
			for i := range 5000 {
				w.n++
				batch = append(batch, streamtest.Trade(w.handles[i%len(w.handles)], w.n))
			}
			return func() { streamtest.Publish(w.t, w.hub, batch...) }
		}},
		{"listing, with 64 patterns read", fresh(patterns, func(w *crowd, _ *subscription.Subscriber, _ []hub.Item) {
			w.n++
			streamtest.Define(w.t, w.hub, fmt.Sprintf("NEW%d|M|CI", w.n), nil)
		})},
		{"close of the bars of all instruments", func(w *crowd) func() {
			for i := range w.handles {
				w.trade(i)
			}
			w.calm()
			at := time.Now().Add(2 * time.Minute).UnixNano()
			return func() {
				w.hub.Mu().Lock()
				w.hub.SendBars(at)
				w.hub.Mu().Unlock()
			}
		}},
		{"flush of a conflated tier", fresh(func(*crowd) []hub.Item {
			return []hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{Conflate: 1000}}}
		}, func(w *crowd, _ *subscription.Subscriber, _ []hub.Item) {
			for i, hd := range w.handles {
				streamtest.Publish(w.t, w.hub, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(90+int64(i%3), 1+int64(w.n%5))}, Asks: []market.Level{streamtest.Level(101, 1)}})
			}
			w.n++
			at := time.Now().Add(2 * time.Second).UnixNano()
			w.hub.Mu().Lock()
			w.hub.SendDue(at)
			w.hub.Mu().Unlock()
		})},
		// the rows came while the disk wrote nothing
		{"commit of 10,000 rows at once", func(w *crowd) func() {
			w.hub.Commit()
			w.disk.Lock()
			for i := range 10_000 {
				w.trade(i % len(w.handles))
			}
			return func() {
				w.disk.Unlock()
				w.hub.Commit()
			}
		}},
		{"checkpoint of one instrument", once(func(w *crowd) {
			w.hub.Mu().Lock()
			w.hub.CheckpointOf(1, func(*journal.Row) {})
			w.hub.Mu().Unlock()
		})},
	}
}

// clientOperations returns the operations of clients.
func clientOperations() []operation {
	back := func(channel wire.Channel) func(w *crowd) func() {
		return func(w *crowd) func() {
			w.hub.Commit()
			_, position := w.hub.Position()
			for i := range w.handles {
				w.trade(i)
			}
			w.calm()
			s := streamtest.Open(w.shards[0])
			return func() {
				s.Subscribe([]hub.Item{{Channel: channel, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: position}})
				s.AfterReplay(subscription.ReplayEnd{})
			}
		}
	}
	return []operation{
		{"subscribe of 2,000", fresh(nil, func(w *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe(twoThousand(w), subscription.Options{})
		})},
		{"subscribe of 2,000 unknown", fresh(nil, func(w *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe(unknown(w), subscription.Options{})
		})},
		{"subscribe of 64 patterns", fresh(nil, func(w *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe(patterns(w), subscription.Options{})
		})},
		{"replace of 2,000", fresh(twoThousand, func(w *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe(whole(w), subscription.Options{Replace: true})
		})},
		{"resume of a pattern by position", back(wire.Trades)},
		{"start of a pattern", fresh(nil, func(w *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe(whole(w), subscription.Options{Start: subscription.Start{Time: time.Now().Add(-time.Second).UnixNano()}})
		})},
		{"unsubscribe of 2,000", fresh(twoThousand, func(_ *crowd, s *subscription.Subscriber, had []hub.Item) { s.Unsubscribe(had) })},
		{"unsubscribe of 64 patterns", fresh(patterns, func(_ *crowd, s *subscription.Subscriber, had []hub.Item) { s.Unsubscribe(had) })},
		{"subscriptions, with 64 patterns", fresh(patterns, func(_ *crowd, s *subscription.Subscriber, _ []hub.Item) { s.Count(wire.Quotes) })},
		{"resync of 64 patterns", fresh(patterns, func(_ *crowd, s *subscription.Subscriber, had []hub.Item) { s.Resync(had, new(subscription.Work)) })},
		{"states of all instruments", fresh(nil, func(_ *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("*|M|*")}}, subscription.Options{})
			for s.Pending() {
				s.Gather(nil, 64<<10, wire.JSON, false)
			}
		})},
		{"loss of 1,000 of 2,000", fresh(twoThousand, func(_ *crowd, s *subscription.Subscriber, had []hub.Item) { s.Change(had[:len(had)/2], nil) })},
		{"close with 2,000", fresh(twoThousand, func(_ *crowd, s *subscription.Subscriber, _ []hub.Item) { s.Close() })},
		{"close with 64 patterns", fresh(patterns, func(_ *crowd, s *subscription.Subscriber, _ []hub.Item) { s.Close() })},
		{"last of a closed connection", fresh(whole, func(_ *crowd, s *subscription.Subscriber, _ []hub.Item) {
			s.Delivered(wire.Trades, 1000, func(market.InstrumentID, uint64) {})
		})},
		{"turn after a trade of each instrument", func(w *crowd) func() {
			for i := range w.handles {
				w.trade(i)
			}
			w.hub.Commit()
			return w.shards[0].Turn
		}},
		{"GET /market/instruments", once(func(w *crowd) { w.hub.Instruments() })},
		{"GET /market/snapshot of 100", once(func(w *crowd) {
			var list []hub.Wanted
			for _, x := range w.names(100, "S%d|M|CI") {
				list = append(list, hub.Wanted{ID: x.ID, Trades: true, Quotes: true})
			}
			w.hub.Snapshot(nil, list)
		})},
		{"GET /market/book", once(func(w *crowd) { _, _ = w.hub.AppendBook(nil, streamtest.ID(dealt), hub.Tier{}) })},
		{"GET of an unknown instrument", once(func(w *crowd) { w.hub.Suggest(streamtest.ID("X0ABCDEFGHIJKLMNOPQRS|M|CI")) })},
		{"change of the delay of 2,000 and 64 patterns, and back", func(w *crowd) func() { // last: it loads a replica
			s := streamtest.Open(w.shards[0])
			items := append(w.patterns(), twoThousand(w)...)
			items = append(items, whole(w)...)
			w.hub.NewPort(func(bool) {}).Await([]hub.Item{{Tier: hub.Tier{Delay: 60}}}, nil)
			s.Subscribe(items, subscription.Options{NoSnapshot: true})
			w.calm()
			for i := range w.handles {
				w.trade(i)
			}
			delayed := slices.Clone(items)
			for i := range delayed {
				delayed[i].Tier.Delay = 60
			}
			return func() {
				s.Change(nil, delayed)
				s.Change(nil, items)
			}
		}},
	}
}

// TestHoldOfAMove checks that a move of many patterns and identifiers to another delay and back
// takes the hub's lock in pieces, however many instruments the patterns cover.
func TestHoldOfAMove(t *testing.T) {
	h := streamtest.DelayedHub(t, hub.Config{Delays: []time.Duration{time.Minute}})
	const instruments = 3000
	w := &crowd{t: t, hub: h, handles: streamtest.DefineMany(t, h, instruments, nil)}
	h.NewPort(func(bool) {}).Await([]hub.Item{{Tier: hub.Tier{Delay: 60}}}, nil)
	w.shards = []*subscription.Shard{subscription.NewShard(h, func(bool) {})}
	s := streamtest.Open(w.shards[0])
	items := w.patterns()
	for _, c := range []wire.Channel{wire.Trades, wire.Status} {
		for i := range instruments {
			items = append(items, hub.Item{Channel: c, ID: h.At(w.handles[i]).ID()})
		}
		items = append(items, hub.Item{Channel: c, ID: streamtest.ID("*|M|*")}, hub.Item{Channel: c, ID: streamtest.ID("*|*|*")})
	}
	s.Subscribe(items, subscription.Options{})
	for delay := range 4 {
		for i := range w.handles {
			w.trade(i)
		}
		h.AgeUnlocked(20 * time.Second) // the replica is behind
		w.calm()
		moved := slices.Clone(items)
		for i := range moved {
			moved[i].Tier.Delay = 60 * ((delay + 1) % 2)
		}
		watch := &holds{}
		h.Mu().Watch(watch)
		s.Change(nil, moved)
		h.Mu().Watch(nil)
		if watch.visited > 4*hub.LockPiece || watch.count < len(items)/hub.LockPiece {
			t.Errorf("to %d s: %d holds, one of which visited %d in %s", moved[0].Tier.Delay, watch.count, watch.visited, watch.most)
		}
	}
}

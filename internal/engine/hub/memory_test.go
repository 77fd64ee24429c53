package hub_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// withoutBook makes a definition that of an instrument without a book.
func withoutBook(in *market.Instrument) {
	in.NoBook, in.QuotesFromFeed, in.StartsEmpty = true, true, false
}

// heap returns the heap in use after a garbage collection.
func heap() int64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// journaled returns a hub with a journal, which runs until the test ends.
func journaled(t *testing.T, cfg hub.Config) *hub.Hub {
	t.Helper()
	var err error
	if cfg.Journal, err = journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"}); err != nil {
		t.Fatal(err)
	}
	h := hub.New(cfg)
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := cfg.Journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// used returns the memory that the hub counts.
func used(h *hub.Hub) int64 {
	h.Mu().Lock()
	defer h.Mu().Unlock()
	return h.Memory().Used
}

// measured lets the hub measure its memory once, with the reports of its shards.
func measured(h *hub.Hub, shards ...*subscription.Shard) {
	for !h.MeasureStep() {
		for _, sh := range shards {
			streamtest.Turn(sh)
		}
	}
}

// TestQuietRingsHoldNothingE2E checks that readers that are live and rings without new messages
// hold almost no memory, both as counted and as measured.
func TestQuietRingsHoldNothingE2E(t *testing.T) {
	const instruments = 50
	h := hub.New(hub.Config{TradesKept: 1})
	handles := streamtest.DefineMany(t, h, instruments, nil)
	sh := subscription.NewShard(h, func(bool) {})
	var clients []*streamtest.Client
	for _, depth := range []int{1, 5, 10, 25, 0} {
		c := streamtest.NewClient(t, sh)
		var items []hub.Item
		for i := range instruments {
			name := streamtest.ID(fmt.Sprintf("S%d|M|CI", i))
			items = append(items, hub.Item{wire.OrderBook, name, hub.Tier{Depth: depth}})
			if depth == 1 {
				items = append(items, hub.Item{Channel: wire.Quotes, ID: name}, hub.Item{Channel: wire.Trades, ID: name})
			}
		}
		c.Sub.Subscribe(items, subscription.Options{NoSnapshot: true})
		clients = append(clients, c)
	}
	round := func(k int) {
		for _, hd := range handles {
			size := int64(1 + k%7)
			streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(99, size)}, Asks: []market.Level{streamtest.Level(101, size+1)}}, streamtest.Trade(hd, k))
		}
		streamtest.Turn(sh)
		for _, c := range clients {
			for c.Sub.Pending() {
				c.Sub.Gather(nil, 1<<20, wire.JSON, false)
			}
		}
	}
	for k := range 10 {
		round(k)
	}
	before := heap() - used(h)
	for k := range 500 {
		round(k)
	}
	full := heap() - used(h) + h.Memory().Rings
	topics := h.Memory().Topics
	if h.Memory().Rings < topics<<10 {
		t.Fatalf("%d bytes are counted for %d topics at work", h.Memory().Rings, topics)
	}
	for range 3 {
		measured(h, sh)
	}
	quiet := heap() - used(h)
	t.Logf("%d topics: %d KiB each at work, %d bytes once they are quiet", topics, (full-before)/1024/topics, (quiet-before)/topics)
	if h.Memory().Rings != 0 || h.Memory().Listed != 0 {
		t.Errorf("%d bytes of %d rings are counted", h.Memory().Rings, h.Memory().Listed)
	}
	if quiet-before > topics*4<<10 {
		t.Errorf("%d bytes of heap for %d topics", quiet-before, topics)
	}
	streamtest.Publish(t, h, streamtest.Trade(handles[0], 1))
	streamtest.Turn(sh)
	if got := clients[0].Read(1<<20, false); len(got) != 1 {
		t.Errorf("%d messages after the ring was let go of", len(got))
	}
	for _, c := range clients {
		c.Sub.Close()
	}
	if m := h.Memory(); m.Rings != 0 || m.Covers != 0 || m.Topics > 1 {
		t.Errorf("%d bytes of rings and %d instruments are counted without readers", h.Memory().Rings, h.Memory().Covers)
	}
}

// TestHeldSegmentsAreCounted checks the count of ring segments that slow readers keep in memory.
// They are counted once, however many readers there are, until the last reader has gathered them.
func TestHeldSegmentsAreCounted(t *testing.T) {
	h := hub.New(hub.Config{TradesKept: 1})
	hd := streamtest.Define(t, h, "A|M|CI", withoutBook)
	shards := []*subscription.Shard{subscription.NewShard(h, func(bool) {}), subscription.NewShard(h, func(bool) {})}
	var clients []*streamtest.Client
	for i := range 6 {
		c := streamtest.NewClient(t, shards[i%2])
		streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI")
		clients = append(clients, c)
	}
	for k := range 10_000 {
		streamtest.Publish(t, h, streamtest.Trade(hd, k))
	}
	measured(h, shards...)
	all := h.Memory().Rings
	if all < 1_000_000 || clients[0].Sub.Lag().Pinned < int(all)-2*(64<<10) {
		t.Fatalf("%d bytes are counted; %+v", all, clients[0].Sub.Lag())
	}
	for _, c := range clients[1:] {
		c.Read(1<<16, false)
	}
	measured(h, shards...)
	if h.Memory().Rings < all-2*(64<<10) {
		t.Errorf("%d bytes of %d are counted while one has read nothing", h.Memory().Rings, all)
	}
	clients[0].Sub.Close()
	for range 2 {
		measured(h, shards...)
	}
	if h.Memory().Rings != 0 {
		t.Errorf("%d bytes are counted although all was read", h.Memory().Rings)
	}
	for _, c := range clients[1:] {
		if len(c.Trades["S|M|CI"])+len(c.Trades["A|M|CI"]) != 10_000 {
			t.Errorf("%d trades came", len(c.Trades["A|M|CI"]))
		}
	}
}

// TestSlowReplayHoldsLittleE2E checks a client that resumes many instruments and reads almost
// nothing. It keeps neither rows nor rings in memory, and receives everything when it reads. It
// runs without the race detector.
func TestSlowReplayHoldsLittleE2E(t *testing.T) {
	const instruments = 60
	live := max(2500, streamtest.Soak(5000))
	h := journaled(t, hub.Config{TradesKept: 1000})
	handles := streamtest.DefineMany(t, h, instruments, withoutBook)
	sh := subscription.NewShard(h, func(bool) {})
	batch := func(k int) (list []market.Event) {
		for _, hd := range handles {
			list = append(list, streamtest.Trade(hd, k))
		}
		return list
	}
	for k := range 1000 {
		streamtest.Publish(t, h, batch(k)...)
	}
	h.Commit()
	c := streamtest.NewClient(t, sh)
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []hub.Item
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
		r.Seen[wire.Trades][name] = 1
		c.Last[name] = 1
	}
	if out := c.Sub.Subscribe(items, subscription.Options{Resume: r}); len(out.Resumed[wire.Trades]) != instruments {
		t.Fatalf("%+v", out)
	}
	before, most := heap()-used(h), subscription.Lag{}
	for k := range live {
		streamtest.Publish(t, h, batch(k)...)
		if k%100 == 0 {
			h.Commit()
			streamtest.Turn(sh)
			for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1, wire.JSON, false)) {
				c.Take(&m)
			}
			lag := c.Sub.Lag()
			most.Bytes, most.Pinned = max(most.Bytes, lag.Bytes), max(most.Pinned, lag.Pinned)
		}
	}
	h.Commit()
	streamtest.Turn(sh)
	measured(h, sh)
	grew := heap() - used(h) - before
	t.Logf("the heap grew by %d KiB; at most %d bytes waited, %d were kept", grew>>10, most.Bytes, most.Pinned)
	full := ring.New[int]()
	full.Append(make([]byte, 64<<10), ring.Record[int]{})
	oneEach := instruments * int(full.SegmentBytes()) // a segment that is not full
	if grew > 24<<20 || most.Bytes > 1<<20 || most.Pinned > 2*(8<<20)+oneEach {
		t.Errorf("the heap grew by %d KiB; at most %d bytes waited, %d were kept", grew>>10, most.Bytes, most.Pinned)
	}
	(&streamtest.House{T: t, Shard: sh}).Replayed(c)
	c.Read(1<<16, false)
	for name, last := range c.Last {
		if last != uint64(1000+live) {
			t.Fatalf("%s came up to %d", name, last)
		}
	}
}

// TestSlowReplayWithoutJournalCounts checks that rows which only a replay keeps count as waiting,
// for all items together.
func TestSlowReplayWithoutJournalCounts(t *testing.T) {
	const instruments = 60
	h := hub.New(hub.Config{TradesKept: 1000})
	handles := streamtest.DefineMany(t, h, instruments, withoutBook)
	for k := range 1000 {
		for _, hd := range handles {
			streamtest.Publish(t, h, streamtest.Trade(hd, k))
		}
	}
	sh := subscription.NewShard(h, func(bool) {})
	sub := streamtest.Open(sh)
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []hub.Item
	for i := range instruments {
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(fmt.Sprintf("S%d|M|CI", i))})
		r.Seen[wire.Trades][items[i].ID.String()] = 1
	}
	sub.Subscribe(items, subscription.Options{Resume: r})
	if lag := sub.Lag(); lag.Bytes != 0 || lag.Pinned != 0 {
		t.Errorf("%+v before anything came", lag)
	}
	for k := range 2 * recent.ChunkRows {
		for _, hd := range handles {
			streamtest.Publish(t, h, streamtest.Trade(hd, k))
		}
	}
	streamtest.Turn(sh)
	const dropped = instruments * recent.ChunkRows * recent.RowBytes
	if lag := sub.Lag(); lag.KeptBytes < 2*dropped || lag.Pinned < dropped {
		t.Errorf("%+v; %d bytes of rows alone are kept", lag, dropped)
	}
}

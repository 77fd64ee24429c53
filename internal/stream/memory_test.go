package stream

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// defineMany defines n instruments.
func defineMany(t testing.TB, h *Hub, n int, edit func(*market.Instrument)) (list []market.Handle) {
	t.Helper()
	for i := range n {
		list = append(list, define(t, h, fmt.Sprintf("S%d|M|CI", i), edit))
	}
	return list
}

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
func journaled(t *testing.T, cfg Config) *Hub {
	t.Helper()
	var err error
	if cfg.Journal, err = journal.Open(journal.Config{Folder: t.TempDir(), BootID: "same"}); err != nil {
		t.Fatal(err)
	}
	h := New(cfg)
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
func used(h *Hub) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used()
}

// measured lets the hub measure its memory once, with the reports of its shards.
func measured(h *Hub, shards ...*Shard) {
	step := func() (done bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.memory.due == 0 {
			return true
		}
		h.measure(h.memory.due)
		return h.memory.asked == 0
	}
	for done := step(); !done; done = step() {
		for _, sh := range shards {
			turn(sh)
		}
	}
}

// TestQuietRingsHoldNothingE2E checks that readers that are live and rings without new messages
// hold almost no memory, both as counted and as measured.
func TestQuietRingsHoldNothingE2E(t *testing.T) {
	const instruments = 50
	h := New(Config{TradesKept: 1})
	handles := defineMany(t, h, instruments, nil)
	sh := h.NewShard(func(bool) {})
	var clients []*client
	for _, depth := range []int{1, 5, 10, 25, 0} {
		c := newClient(t, sh)
		var items []Item
		for i := range instruments {
			name := id(fmt.Sprintf("S%d|M|CI", i))
			items = append(items, Item{wire.OrderBook, name, Tier{Depth: depth}})
			if depth == 1 {
				items = append(items, Item{Channel: wire.Quotes, ID: name}, Item{Channel: wire.Trades, ID: name})
			}
		}
		c.sub.Subscribe(items, Options{NoSnapshot: true})
		clients = append(clients, c)
	}
	round := func(k int) {
		for _, hd := range handles {
			size := int64(1 + k%7)
			publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(99, size)}, Asks: []market.Level{level(101, size+1)}}, trade(hd, k))
		}
		turn(sh)
		for _, c := range clients {
			for c.sub.Pending() {
				c.sub.Gather(nil, 1<<20, wire.JSON, false)
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
	full := heap() - used(h) + h.memory.rings
	topics := int64(len(h.topics))
	if h.memory.rings < topics<<10 {
		t.Fatalf("%d bytes are counted for %d topics at work", h.memory.rings, topics)
	}
	for range 3 {
		measured(h, sh)
	}
	quiet := heap() - used(h)
	t.Logf("%d topics: %d KiB each at work, %d bytes once they are quiet", topics, (full-before)/1024/topics, (quiet-before)/topics)
	if h.memory.rings != 0 || len(h.memory.listed) != 0 {
		t.Errorf("%d bytes of %d rings are counted", h.memory.rings, len(h.memory.listed))
	}
	if quiet-before > topics*4<<10 {
		t.Errorf("%d bytes of heap for %d topics", quiet-before, topics)
	}
	publish(t, h, trade(handles[0], 1))
	turn(sh)
	if got := clients[0].read(1<<20, false); len(got) != 1 {
		t.Errorf("%d messages after the ring was let go of", len(got))
	}
	for _, c := range clients {
		c.sub.Close()
	}
	if h.memory.rings != 0 || h.memory.covers != 0 {
		t.Errorf("%d bytes of rings and %d instruments are counted without readers", h.memory.rings, h.memory.covers)
	}
}

// TestHeldSegmentsAreCounted checks the count of ring segments that slow readers keep in memory.
// They are counted once, however many readers there are, until the last reader has gathered them.
func TestHeldSegmentsAreCounted(t *testing.T) {
	h := New(Config{TradesKept: 1})
	hd := define(t, h, "A|M|CI", withoutBook)
	shards := []*Shard{h.NewShard(func(bool) {}), h.NewShard(func(bool) {})}
	var clients []*client
	for i := range 6 {
		c := newClient(t, shards[i%2])
		subscribe(t, c.sub, wire.Trades, "A|M|CI")
		clients = append(clients, c)
	}
	for k := range 10_000 {
		publish(t, h, trade(hd, k))
	}
	measured(h, shards...)
	all := h.memory.rings
	if all < 1_000_000 || clients[0].sub.Lag().Pinned < int(all)-2*(64<<10) {
		t.Fatalf("%d bytes are counted; %+v", all, clients[0].sub.Lag())
	}
	for _, c := range clients[1:] {
		c.read(1<<16, false)
	}
	measured(h, shards...)
	if h.memory.rings < all-2*(64<<10) {
		t.Errorf("%d bytes of %d are counted while one has read nothing", h.memory.rings, all)
	}
	clients[0].sub.Close()
	for range 2 {
		measured(h, shards...)
	}
	if h.memory.rings != 0 {
		t.Errorf("%d bytes are counted although all was read", h.memory.rings)
	}
	for _, c := range clients[1:] {
		if len(c.trades["S|M|CI"])+len(c.trades["A|M|CI"]) != 10_000 {
			t.Errorf("%d trades came", len(c.trades["A|M|CI"]))
		}
	}
}

// TestSlowReplayHoldsLittleE2E checks a client that resumes many instruments and reads almost
// nothing. It keeps neither rows nor rings in memory, and receives everything when it reads. It
// runs without the race detector.
func TestSlowReplayHoldsLittleE2E(t *testing.T) {
	const instruments = 60
	live := max(2500, soak(5000))
	h := journaled(t, Config{TradesKept: 1000})
	handles := defineMany(t, h, instruments, withoutBook)
	sh := h.NewShard(func(bool) {})
	batch := func(k int) (list []market.Event) {
		for _, hd := range handles {
			list = append(list, trade(hd, k))
		}
		return list
	}
	for k := range 1000 {
		publish(t, h, batch(k)...)
	}
	h.Commit()
	c := newClient(t, sh)
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []Item
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		items = append(items, Item{Channel: wire.Trades, ID: id(name)})
		r.Seen[wire.Trades][name] = 1
		c.last[name] = 1
	}
	if out := c.sub.Subscribe(items, Options{Resume: r}); len(out.Resumed[wire.Trades]) != instruments {
		t.Fatalf("%+v", out)
	}
	before, most := heap()-used(h), Lag{}
	for k := range live {
		publish(t, h, batch(k)...)
		if k%100 == 0 {
			h.Commit()
			turn(sh)
			for _, m := range frames(t, c.sub.Gather(nil, 1, wire.JSON, false)) {
				c.take(&m)
			}
			lag := c.sub.Lag()
			most.Bytes, most.Pinned = max(most.Bytes, lag.Bytes), max(most.Pinned, lag.Pinned)
		}
	}
	h.Commit()
	turn(sh)
	measured(h, sh)
	grew := heap() - used(h) - before
	t.Logf("the heap grew by %d KiB; at most %d bytes waited, %d were kept", grew>>10, most.Bytes, most.Pinned)
	full := ring.New[*instrument]()
	full.Append(make([]byte, 64<<10), record{})
	oneEach := instruments * int(full.SegmentBytes()) // a segment that is not full
	if grew > 24<<20 || most.Bytes > 1<<20 || most.Pinned > 2*maxBehindReplay+oneEach {
		t.Errorf("the heap grew by %d KiB; at most %d bytes waited, %d were kept", grew>>10, most.Bytes, most.Pinned)
	}
	(&house{t: t, shard: sh}).replayed(c)
	c.read(1<<16, false)
	for name, last := range c.last {
		if last != uint64(1000+live) {
			t.Fatalf("%s came up to %d", name, last)
		}
	}
}

// TestSlowReplayWithoutJournalCounts checks that rows which only a replay keeps count as waiting,
// for all items together.
func TestSlowReplayWithoutJournalCounts(t *testing.T) {
	const instruments = 60
	h := New(Config{TradesKept: 1000})
	handles := defineMany(t, h, instruments, withoutBook)
	for k := range 1000 {
		for _, hd := range handles {
			publish(t, h, trade(hd, k))
		}
	}
	sh := h.NewShard(func(bool) {})
	sub := open(sh)
	r := &wire.Resume{Epoch: h.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var items []Item
	for i := range instruments {
		items = append(items, Item{Channel: wire.Trades, ID: id(fmt.Sprintf("S%d|M|CI", i))})
		r.Seen[wire.Trades][items[i].ID.String()] = 1
	}
	sub.Subscribe(items, Options{Resume: r})
	if lag := sub.Lag(); lag.Bytes != 0 || lag.Pinned != 0 {
		t.Errorf("%+v before anything came", lag)
	}
	for k := range 2 * recent.ChunkRows {
		for _, hd := range handles {
			publish(t, h, trade(hd, k))
		}
	}
	turn(sh)
	const dropped = instruments * recent.ChunkRows * recent.RowBytes
	if lag := sub.Lag(); lag.KeptBytes < 2*dropped || lag.Pinned < dropped {
		t.Errorf("%+v; %d bytes of rows alone are kept", lag, dropped)
	}
}

package hub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// slowHub is a hub whose commits are made by the test. Rows are committed by commitOnce, or by a
// slow commit that stall begins.
type slowHub struct {
	*hub.Hub
	folder  string
	journal *journal.Journal
	shard   *subscription.Shard
	woken   int
}

func newSlowHub(t *testing.T, folder string, cfg hub.Config) *slowHub {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal = j
	w := &slowHub{Hub: hub.New(cfg), folder: folder, journal: j}
	if err := w.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.shard = subscription.NewShard(w.Hub, func(bool) { w.woken++ })
	w.SetCommitting(true)
	t.Cleanup(func() {
		w.SetCommitting(false)
		w.Commit()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// take runs a turn and reads all messages that the client can receive.
func (w *slowHub) take(c *streamtest.Client) {
	streamtest.Turn(w.shard)
	c.Read(1<<20, false)
}

// killed returns a copy of the journal as a kill would leave it now.
func (w *slowHub) killed(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "journal")
	if err := os.CopyFS(folder, os.DirFS(w.folder)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestUnsubscribeSendsNothingUncommitted checks that an unsubscribe sends only committed messages
// ahead of its answer. The rest comes by the identifier that still covers the instrument.
func TestUnsubscribeSendsNothingUncommitted(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	a := streamtest.Define(t, w.Hub, "A|M|CI", nil)
	c := streamtest.NewClient(t, w.shard)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "A|M|CI", "*|M|*")
	streamtest.Publish(t, w.Hub, streamtest.Trade(a, 1))
	w.CommitOnce()
	w.take(c)
	streamtest.Publish(t, w.Hub, streamtest.Trade(a, 2), streamtest.Trade(a, 3))
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}})
	for _, m := range streamtest.Frames(t, c.Sub.TakeCarry(nil)) {
		c.Take(&m)
	}
	seen := slices.Clone(c.Trades["A|M|CI"])
	after := newSlowHub(t, w.killed(t), hub.Config{})
	streamtest.Define(t, after.Hub, "A|M|CI", nil)
	if n := after.Lookup(streamtest.ID("A|M|CI")).Trades.Last; len(seen) > int(n) || after.Epoch() != w.Epoch() {
		t.Errorf("the client has trades %v, the journal %d of them", seen, n)
	}
	w.CommitOnce()
	streamtest.Publish(t, w.Hub, streamtest.Trade(a, 4))
	w.CommitOnce()
	w.take(c)
	if !slices.Equal(c.Trades["A|M|CI"], []uint64{1, 2, 3, 4}) {
		t.Errorf("trades %v", c.Trades["A|M|CI"])
	}
}

// TestStalledWrite checks that clients do not receive the rows of a commit that has not ended, but
// receive everything else.
func TestStalledWrite(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	hot, quiet := streamtest.Define(t, w.Hub, "HOT|M|CI", nil), streamtest.Define(t, w.Hub, "QUIET|M|CI", nil)
	snapshot := func(h market.Handle) market.Event {
		return market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{streamtest.Level(10, 1)}, Asks: []market.Level{streamtest.Level(11, 1)}}
	}
	c := streamtest.NewClient(t, w.shard)
	streamtest.Subscribe(t, c.Sub, wire.Trades, "HOT|M|CI", "QUIET|M|CI")
	streamtest.Publish(t, w.Hub, snapshot(hot), snapshot(quiet), streamtest.Trade(hot, 1), streamtest.Trade(quiet, 1))
	w.CommitOnce()
	w.take(c)
	_, safe := c.Sub.Position()
	streamtest.Publish(t, w.Hub, streamtest.Trade(hot, 2))
	end := w.StallCommit()
	streamtest.Publish(t, w.Hub, streamtest.Trade(hot, 3), snapshot(hot))
	w.take(c)
	if _, now := c.Sub.Position(); len(c.Trades["HOT|M|CI"]) != 1 || now != safe {
		t.Fatalf("trades %v at %s, it was %s", c.Trades["HOT|M|CI"], now, safe)
	}
	// A subscribe is answered at once, and the snapshots of the quiet instrument are sent.
	d := streamtest.NewClient(t, w.shard)
	for _, ch := range []wire.Channel{wire.Status, wire.OrderBook, wire.Summary} {
		streamtest.Subscribe(t, d.Sub, ch, "QUIET|M|CI")
	}
	w.take(d)
	if len(d.Notes) != 1 || d.Books["QUIET|M|CI"] == nil {
		t.Errorf("notes %v, books %v", d.Notes, d.Books)
	}
	// The answer for the hot instrument covers its committed rows. The rest comes after the commit.
	for _, ch := range []wire.Channel{wire.Quotes, wire.OrderBook} {
		streamtest.Subscribe(t, d.Sub, ch, "HOT|M|CI")
	}
	seen := &wire.Resume{Epoch: w.Epoch(), Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"HOT|M|CI": 0}}}
	out := d.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("HOT|M|CI")}}, subscription.Options{Resume: seen})
	if n := out.Resumed[wire.Trades]["HOT|M|CI"]; n != 1 || out.CaughtUp != safe {
		t.Errorf("resumed to %d, at %s and not %s", n, out.CaughtUp, safe)
	}
	w.take(d)
	if len(d.Trades["HOT|M|CI"]) != 1 || d.Books["HOT|M|CI"] != nil {
		t.Fatalf("trades %v, books %v", d.Trades, d.Books)
	}
	end()
	w.CommitOnce()
	w.take(c)
	w.take(d)
	w.take(d)
	for _, x := range []*streamtest.Client{c, d} {
		if !slices.Equal(x.Trades["HOT|M|CI"], []uint64{1, 2, 3}) {
			t.Errorf("trades %v", x.Trades)
		}
	}
	if d.Books["HOT|M|CI"] == nil {
		t.Error("no state of the hot book")
	}
	if w.woken == 0 {
		t.Error("the shard was not woken")
	}
}

// TestRecentRowsStayUntilCommitted checks that recent rows are not dropped before they are
// committed, however few rows the hub keeps.
func TestRecentRowsStayUntilCommitted(t *testing.T) {
	for _, cfg := range []hub.Config{{TradesKept: 1}, {RecentBytes: 1}} {
		w := newSlowHub(t, t.TempDir(), cfg)
		a := streamtest.Define(t, w.Hub, "A|M|CI", nil)
		for i := range 3 * recent.ChunkRows {
			streamtest.Publish(t, w.Hub, streamtest.Trade(a, i))
		}
		w.CommitOnce()
		for i := range 5 * recent.ChunkRows {
			streamtest.Publish(t, w.Hub, streamtest.Trade(a, i))
		}
		c := streamtest.NewClient(t, w.shard)
		seen := &wire.Resume{Epoch: w.Epoch()}
		seen.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 3 * recent.ChunkRows}
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: seen})
		w.take(c)
		w.CommitOnce()
		w.take(c)
		if n := len(c.Trades["A|M|CI"]); n != 5*recent.ChunkRows {
			t.Errorf("%d trades", n)
		}
		for range 2 * recent.ChunkRows {
			streamtest.Publish(t, w.Hub, streamtest.Trade(a, 1))
			w.CommitOnce()
		}
		if n := w.Lookup(streamtest.ID("A|M|CI")).Trades.Stored; n > 3*recent.ChunkRows {
			t.Errorf("%d trades are kept", n)
		}
	}
}

// TestUnsubscribeWhatIsHeld checks that a snapshot that waits for a commit is not sent after its
// instrument was unsubscribed.
func TestUnsubscribeWhatIsHeld(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	a := streamtest.Define(t, w.Hub, "A|M|CI", streamtest.OwnQuotes)
	quote := func(n int64) market.Event {
		return market.Event{Kind: market.KindQuote, Handle: a, Bids: []market.Level{streamtest.Level(n, 1)}}
	}
	streamtest.Publish(t, w.Hub, quote(1))
	c := streamtest.NewClient(t, w.shard)
	streamtest.Subscribe(t, c.Sub, wire.Quotes, "A|M|CI")
	if w.take(c); len(c.Raw) != 0 {
		t.Fatalf("got %v", c.Raw)
	}
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI")}})
	streamtest.Subscribe(t, c.Sub, wire.Quotes, "*|M|*")
	w.CommitOnce()
	w.take(c)
	if len(c.Raw) != 1 || !c.Raw[0].R || c.Raw[0].N != 1 {
		t.Errorf("got %+v", c.Raw)
	}
	if waits(c.Sub) {
		t.Errorf("left: %+v", c.Sub.Lag())
	}
}

// TestGapBehindHeldState checks that a gap is sent once even if it is committed together with a
// snapshot that is due. A snapshot does not show the gap.
func TestGapBehindHeldState(t *testing.T) {
	for _, instruments := range []int{1, 2*64 + 1} {
		w := newSlowHub(t, t.TempDir(), hub.Config{})
		handles := streamtest.DefineMany(t, w.Hub, instruments, nil)
		snapshot := func(h market.Handle) market.Event {
			return market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{streamtest.Level(10, 1)}, Asks: []market.Level{streamtest.Level(11, 1)}}
		}
		for _, h := range handles {
			streamtest.Publish(t, w.Hub, snapshot(h))
		}
		c := streamtest.NewClient(t, w.shard)
		streamtest.Subscribe(t, c.Sub, wire.OrderBook, "*|M|*")
		w.CommitOnce()
		w.take(c)
		lost := []market.Handle{handles[0], handles[len(handles)-1]}
		for _, h := range lost {
			streamtest.Publish(t, w.Hub, market.Event{Kind: market.KindGap, Handle: h, Reason: "line_lost"}, snapshot(h))
		}
		c.Sub.Resync([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("*|M|*")}}, new(subscription.Work))
		w.take(c)
		gaps := func() (n int) {
			for i := range c.Notes {
				if c.Notes[i].E == "gap" {
					n++
				}
			}
			return n
		}
		if n := gaps(); n > 0 {
			t.Fatalf("%d gaps that are not committed", n)
		}
		w.CommitOnce()
		for range 5 {
			w.take(c)
		}
		if n := gaps(); n != len(lost) {
			t.Errorf("%d instruments: %d gaps, want %d", instruments, n, len(lost))
		}
	}
}

// TestAwaitCommit checks that an answer waits only for the instruments that it covers, and no
// longer than its context allows.
func TestAwaitCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlowHub(t, t.TempDir(), hub.Config{})
		a := streamtest.Define(t, w.Hub, "A|M|CI", nil)
		streamtest.Define(t, w.Hub, "B|M|CI", nil)
		w.CommitOnce()
		_, before := w.Position()
		streamtest.Publish(t, w.Hub, streamtest.Trade(a, 1))
		end := w.StallCommit()
		_, _, quiet := w.Snapshot(nil, []hub.Wanted{{ID: streamtest.ID("B|M|CI"), Trades: true}})
		if err := w.AwaitCommit(t.Context(), streamtest.ID("B|M|CI")); err != nil || quiet != before {
			t.Errorf("of a quiet instrument: %v, at %s and not %s", err, quiet, before)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		begin := time.Now()
		if err := w.AwaitCommit(ctx, streamtest.ID("A|M|CI"), streamtest.ID("B|M|CI")); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		done := make(chan error)
		go func() { done <- w.AwaitCommit(t.Context(), streamtest.ID("A|M|CI")) }()
		synctest.Wait()
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, after := w.Position(); after == before {
			t.Error("nothing is committed")
		}
	})
}

// TestCommitModel checks random clients that connect, resume and change their sets while commits
// are slow and the process is killed. No client receives an N that the journal does not have. No
// client misses a trade or receives one twice.
func TestCommitModel(t *testing.T) {
	for seed := range uint64(streamtest.Soak(160)) {
		m := &commitModel{t: t, rng: rand.New(rand.NewPCG(seed, 5)), names: []string{"A|M|CI", "B|M|CI", "C|M|CI"}}
		m.begin(t.TempDir())
		for life := range 4 {
			if life > 0 {
				m.kill()
			}
			for range 150 {
				m.step()
			}
		}
		m.finish()
	}
}

// commitModel is a hub with its clients and the messages that each has received.
type commitModel struct {
	t       *testing.T
	rng     *rand.Rand
	names   []string
	w       *slowHub
	handles []market.Handle
	end     func() // of a slow commit; nil: none
	clients []*streamtest.Client
	n       int
}

func (m *commitModel) begin(folder string) {
	m.w = newSlowHub(m.t, folder, hub.Config{})
	m.handles = nil
	for _, name := range m.names {
		m.handles = append(m.handles, streamtest.Define(m.t, m.w.Hub, name, nil))
	}
}

func (m *commitModel) step() {
	switch k := m.rng.IntN(20); {
	case k < 8:
		for range 1 + m.rng.IntN(5) {
			m.publish()
		}
	case k < 10 && m.end == nil:
		m.end = m.w.StallCommit()
	case k < 11 && m.end == nil:
		m.w.CommitOnce()
	case k < 12 && m.end != nil:
		m.end()
		m.end = nil
	case k < 14:
		streamtest.Turn(m.w.shard)
	case k == 14 && len(m.clients) < 5:
		m.join(streamtest.NewClient(m.t, m.w.shard))
	case len(m.clients) == 0:
	default:
		c := m.clients[m.rng.IntN(len(m.clients))]
		switch k {
		case 15:
			m.subscribe(c)
		case 16:
			m.unsubscribe(c)
		default:
			m.took(c, c.Read(1+m.rng.IntN(2000), m.rng.IntN(2) == 0))
		}
	}
}

func (m *commitModel) publish() {
	i := m.rng.IntN(len(m.handles))
	h := m.handles[i]
	m.n++
	e := streamtest.Trade(h, m.n)
	switch m.rng.IntN(4) {
	case 0:
		e = market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{streamtest.Level(int64(10+m.n%3), 1)}, Asks: []market.Level{streamtest.Level(20, 1)}}
	case 1:
		e = market.Event{Kind: market.KindStatus, Handle: h, Phase: market.Halt + market.Phase(m.n%2)}
	}
	streamtest.Publish(m.t, m.w.Hub, e)
}

// subscribe resumes the trades of an instrument after the last one that the client received. It
// then subscribes to another channel, by the instrument or by a pattern.
func (m *commitModel) subscribe(c *streamtest.Client) {
	name := m.names[m.rng.IntN(len(m.names))]
	seen := &wire.Resume{Epoch: m.w.Epoch()}
	seen.Seen[wire.Trades] = map[string]uint64{name: c.Last[name]}
	if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(name)}}, subscription.Options{Resume: seen}); len(out.Lost[wire.Trades]) > 0 {
		m.t.Fatalf("lost %+v, the client has %d", out.Lost[wire.Trades], c.Last[name])
	}
	m.carry(c)
	ch := []wire.Channel{wire.Status, wire.Quotes, wire.OrderBook, wire.Summary}[m.rng.IntN(4)]
	streamtest.Subscribe(m.t, c.Sub, ch, []string{name, "*|M|*"}[m.rng.IntN(2)])
	m.carry(c)
}

// unsubscribe removes trades that the client can resume later, and quotes.
func (m *commitModel) unsubscribe(c *streamtest.Client) {
	name := m.names[m.rng.IntN(len(m.names))]
	c.Sub.Unsubscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(name)}, {Channel: wire.Quotes, ID: streamtest.ID("*|M|*")}, {Channel: wire.Quotes, ID: streamtest.ID(name)}})
	m.carry(c)
}

// carry reads the messages that are sent ahead of an answer.
func (m *commitModel) carry(c *streamtest.Client) {
	list := streamtest.Frames(m.t, c.Sub.TakeCarry(nil))
	for i := range list {
		c.Take(&list[i])
	}
	c.Raw = append(c.Raw, list...)
	m.took(c, list)
}

// took checks that trades have no gap after a client resumed by a position.
func (m *commitModel) took(c *streamtest.Client, list []streamtest.Message) {
	for i := range list {
		f := &list[i]
		if n, ok := c.Before[f.I]; ok && f.Type == "T" {
			delete(c.Before, f.I)
			if f.N > n+1 {
				m.t.Fatalf("%s: trade %d after %d", f.I, f.N, n)
			}
		}
	}
}

// join adds a client with all trades or with those of one instrument.
func (m *commitModel) join(c *streamtest.Client) {
	m.clients = append(m.clients, c)
	if m.rng.IntN(2) == 0 {
		seen := &wire.Resume{Epoch: m.w.Epoch(), Position: streamtest.PositionText(m.w.Hub, 0)}
		if c.Place != "" {
			// A position is safe, and so may lie before messages that were sent.
			seen.Position, c.Last, c.Before = c.Place, map[string]uint64{}, c.Follows
		}
		if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}, subscription.Options{Resume: seen}); len(out.Lost[wire.Trades]) > 0 {
			m.t.Fatalf("lost %+v", out.Lost[wire.Trades])
		}
		m.carry(c)
		return
	}
	m.subscribe(c)
}

// kill copies the journal, checks that it has all messages that were sent, and continues with the
// copy. The clients connect again.
func (m *commitModel) kill() {
	folder := m.w.killed(m.t)
	was := m.w.Epoch()
	if m.end != nil {
		m.end()
		m.end = nil
	}
	for _, c := range m.clients {
		_, c.Place = c.Sub.Position()
		c.Follows = map[string]uint64{}
		for _, name := range m.names {
			if n, ok := c.Last[name]; ok && covers(c.Sub, wire.Trades, streamtest.ID(name)) {
				c.Follows[name] = n
			}
		}
	}
	m.begin(folder)
	if m.w.Epoch() != was {
		m.t.Fatal("another epoch")
	}
	channels := map[string]wire.Channel{"T": wire.Trades, "H": wire.Status, "Q": wire.Quotes, "O": wire.OrderBook, "D": wire.Summary}
	old := m.clients
	m.clients = nil
	for _, c := range old {
		for _, f := range c.Raw {
			if n := m.w.Lookup(streamtest.ID(f.I)).Sequences[channels[f.Type]].N; f.N > n {
				m.t.Fatalf("%s %s: the client was sent %d, the journal ends at %d", f.Type, f.I, f.N, n)
			}
		}
		next := streamtest.NewClient(m.t, m.w.shard)
		next.Last, next.Trades, next.Place, next.Follows = c.Last, c.Trades, c.Place, c.Follows
		m.join(next)
	}
}

// finish commits everything and checks that a client with trades has all of them.
func (m *commitModel) finish() {
	if m.end != nil {
		m.end()
	}
	m.w.CommitOnce()
	for _, c := range m.clients {
		for range 3 {
			streamtest.Turn(m.w.shard)
			c.Read(1<<20, false)
		}
		for _, name := range m.names {
			got, ok := c.Last[name]
			if !ok {
				got, ok = c.Before[name]
			}
			if n := m.w.Lookup(streamtest.ID(name)).Trades.Last; ok && covers(c.Sub, wire.Trades, streamtest.ID(name)) && got != n {
				m.t.Errorf("%s: the client has trades up to %d of %d", name, got, n)
			}
		}
		if waits(c.Sub) {
			m.t.Errorf("left: %+v", c.Sub.Lag())
		}
	}
}

// TestCommitOfADefinition checks that AwaitCommit ends when only the definition of a market as a
// whole waits for a commit.
func TestCommitOfADefinition(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	streamtest.Publish(t, w.Hub, streamtest.Trade(streamtest.Define(t, w.Hub, "A|M|CI", nil), 1))
	w.CommitOnce()
	w.SetCommitting(false)
	w.CommitHere()
	streamtest.Define(t, w.Hub, "*|M|*", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.AwaitCommit(ctx); err != nil {
		t.Error(err)
	}
}

// TestAwaitCommitEndsWithRun checks that AwaitCommit returns when Run ends.
func TestAwaitCommitEndsWithRun(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	a := streamtest.Define(t, w.Hub, "A|M|CI", nil)
	streamtest.Publish(t, w.Hub, streamtest.Trade(a, 1))
	end := w.StallCommit()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- w.AwaitCommit(ctx) }()
	for waits := false; !waits; {
		w.Mu().Lock()
		waits = w.CommitAwaited()
		w.Mu().Unlock()
	}
	end()
	w.StartCommits(t.Context())()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLagCountsOnce checks that Lag counts the waiting bytes of an item once, even if messages come
// while the item waits for a commit.
func TestLagCountsOnce(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	a := streamtest.Define(t, w.Hub, "A|M|CI", streamtest.OwnQuotes)
	quote := func(n int64) market.Event {
		return market.Event{Kind: market.KindQuote, Handle: a, Bids: []market.Level{streamtest.Level(n, 1)}}
	}
	c := streamtest.NewClient(t, w.shard)
	x := hub.Item{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI")}
	c.Sub.Subscribe([]hub.Item{x}, subscription.Options{})
	w.CommitOnce()
	w.take(c)
	streamtest.Publish(t, w.Hub, quote(1))
	end := w.StallCommit()
	streamtest.Publish(t, w.Hub, quote(2))
	c.Sub.Resync([]hub.Item{x}, new(subscription.Work))
	w.take(c)
	before := c.Sub.Lag()
	if c.Sub.Pending() || before.Held == 0 {
		t.Fatalf("pending %v, %+v does not wait for a commit", c.Sub.Pending(), before)
	}
	end() // of the first quote; the snapshot shows the second
	streamtest.Turn(w.shard)
	if after := c.Sub.Lag(); after.Held != before.Held {
		t.Errorf("it holds %d bytes, then %d", before.Held, after.Held)
	}
	w.CommitOnce()
	w.take(c)
}

// TestSubscribeWhileACommitStalls checks how many instruments a large subscribe visits in one hold
// of the lock. Rows of all instruments wait for the disk at that time.
func TestSubscribeWhileACommitStalls(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	const instruments = 20 * hub.LockPiece
	var items []hub.Item
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		streamtest.Publish(t, w.Hub, streamtest.Trade(streamtest.Define(t, w.Hub, name, nil), i))
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
	}
	c := streamtest.NewClient(t, w.shard)
	most := &holds{}
	w.Mu().Watch(most)
	c.Sub.Subscribe(items[:300], subscription.Options{})
	w.Mu().Watch(nil)
	if most.visited > 2*hub.LockPiece+subscription.MaxPatterns {
		t.Errorf("%s visited %d in one hold", most.most, most.visited)
	}
	w.CommitOnce()
	w.take(c)
	if len(c.Trades) != 300 {
		t.Errorf("the first trades of %d instruments came", len(c.Trades))
	}
}

// TestPassingFromAReplay checks that a replay of a pattern continues with all other instruments
// when an exact identifier at another delay gets one of them.
func TestPassingFromAReplay(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{Delays: []time.Duration{time.Minute}})
	a, b := streamtest.Define(t, w.Hub, "A|M|CI", nil), streamtest.Define(t, w.Hub, "B|M|CI", nil)
	const rows = 1000
	for i := range rows {
		streamtest.Publish(t, w.Hub, streamtest.Trade(a, i), streamtest.Trade(b, i))
	}
	w.CommitOnce()
	c := streamtest.NewClient(t, w.shard)
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|CI")}}, subscription.Options{Resume: &wire.Resume{Epoch: w.Epoch(), Position: streamtest.PositionText(w.Hub, 0)}})
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`))})
	streamtest.Turn(w.shard)
	for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1000, wire.JSON, false)) {
		c.Take(&m)
	}
	c.Sub.Subscribe([]hub.Item{{wire.Trades, streamtest.ID("A|M|CI"), hub.Tier{Delay: 60}}}, subscription.Options{})
	for range 10 {
		w.take(c)
	}
	if n := len(c.Trades["B|M|CI"]); n != rows || c.Sub.Replaying() {
		t.Errorf("%d trades of %d, replaying %v", n, rows, c.Sub.Replaying())
	}
}

// waits reports whether anything waits for a subscriber.
func waits(s *subscription.Subscriber) bool {
	return s.Pending() || s.Replaying() || s.Lag() != subscription.Lag{}
}

// covers reports whether an identifier of the set covers a channel of an instrument.
func covers(s *subscription.Subscriber, c wire.Channel, id market.InstrumentID) bool {
	for x := range s.All {
		if x.Channel == c && x.ID.Matches(id) {
			return true
		}
	}
	return false
}

// TestConflatedSnapshotIsNotRepeated subscribes to a conflated book while its newest message waits
// for a commit that began before it: its rows are committed, those of another instrument are not.
// The snapshot contains the message, so that it must not come again.
func TestConflatedSnapshotIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSlowHub(t, t.TempDir(), hub.Config{})
		a, b := streamtest.Define(t, w.Hub, "A|M|CI", nil), streamtest.Define(t, w.Hub, "B|M|CI", nil)
		book := []hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5, Conflate: 100}}}
		update := func(price int64) {
			streamtest.Publish(t, w.Hub, market.Event{Kind: market.KindUpdate, Handle: a, Bids: []market.Level{streamtest.Level(price, 1)}})
		}
		flush := func() {
			time.Sleep(100 * time.Millisecond)
			w.Mu().Lock()
			w.SendDue(time.Now().UnixNano())
			w.Mu().Unlock()
			streamtest.Publish(t, w.Hub, streamtest.Trade(b, 1))
		}
		first := streamtest.NewClient(t, w.shard)
		first.Sub.Subscribe(book, subscription.Options{})
		streamtest.Publish(t, w.Hub, market.Event{Kind: market.KindSnapshot, Handle: a, Bids: []market.Level{streamtest.Level(10, 1)}, Asks: []market.Level{streamtest.Level(20, 1)}})
		flush()
		w.CommitOnce()
		w.take(first)
		update(11)
		w.CommitOnce()
		streamtest.Publish(t, w.Hub, streamtest.Trade(b, 1))
		flush()
		second := streamtest.NewClient(t, w.shard)
		second.Sub.Subscribe(book, subscription.Options{})
		w.take(second)
		w.CommitOnce()
		w.take(second)
		update(12)
		flush()
		w.CommitOnce()
		w.take(first)
		w.take(second)
		for _, c := range []*streamtest.Client{first, second} {
			if got := c.Books["A|M|CI"]; got == nil || got.N != 4 || got.Bids.Len(market.Buy) != 3 {
				t.Errorf("the book %+v", got)
			}
		}
	})
}

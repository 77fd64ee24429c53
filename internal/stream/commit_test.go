package stream

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

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// slowHub is a hub whose commits are made by the test. Rows are committed by commitOnce, or by a
// slow commit that stall begins.
type slowHub struct {
	*Hub
	folder  string
	journal *journal.Journal
	shard   *Shard
	woken   int
}

func newSlowHub(t *testing.T, folder string, cfg Config) *slowHub {
	t.Helper()
	j, err := journal.Open(journal.Config{Folder: folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal = j
	w := &slowHub{Hub: New(cfg), folder: folder, journal: j}
	if err := w.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.shard = w.NewShard(func(bool) { w.woken++ })
	w.running = true
	t.Cleanup(func() {
		w.running = false
		w.Commit()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// stall begins a slow commit and returns the function that ends it.
func (w *slowHub) stall() (end func()) {
	w.mu.Lock()
	b := w.beginCommit()
	w.writing = true
	w.mu.Unlock()
	return func() {
		if b != nil {
			w.cfg.Journal.Write(b)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writing = false
		if b != nil {
			w.cfg.Journal.Done(b)
		}
		w.endCommit()
	}
}

// take runs a turn and reads all messages that the client can receive.
func (w *slowHub) take(c *client) {
	turn(w.shard)
	c.read(1<<20, false)
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
	w := newSlowHub(t, t.TempDir(), Config{})
	a := define(t, w.Hub, "A|M|CI", nil)
	c := newClient(t, w.shard)
	subscribe(t, c.sub, wire.Trades, "A|M|CI", "*|M|*")
	publish(t, w.Hub, trade(a, 1))
	w.commitOnce()
	w.take(c)
	publish(t, w.Hub, trade(a, 2), trade(a, 3))
	c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}})
	for _, m := range frames(t, c.sub.TakeCarry(nil)) {
		c.take(&m)
	}
	seen := slices.Clone(c.trades["A|M|CI"])
	after := newSlowHub(t, w.killed(t), Config{})
	define(t, after.Hub, "A|M|CI", nil)
	if n := after.lookup(id("A|M|CI")).Trades.Last; len(seen) > int(n) || after.Epoch() != w.Epoch() {
		t.Errorf("the client has trades %v, the journal %d of them", seen, n)
	}
	w.commitOnce()
	publish(t, w.Hub, trade(a, 4))
	w.commitOnce()
	w.take(c)
	if !slices.Equal(c.trades["A|M|CI"], []uint64{1, 2, 3, 4}) {
		t.Errorf("trades %v", c.trades["A|M|CI"])
	}
}

// TestStalledWrite checks that clients do not receive the rows of a commit that has not ended, but
// receive everything else.
func TestStalledWrite(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	hot, quiet := define(t, w.Hub, "HOT|M|CI", nil), define(t, w.Hub, "QUIET|M|CI", nil)
	snapshot := func(h market.Handle) market.Event {
		return market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{level(10, 1)}, Asks: []market.Level{level(11, 1)}}
	}
	c := newClient(t, w.shard)
	subscribe(t, c.sub, wire.Trades, "HOT|M|CI", "QUIET|M|CI")
	publish(t, w.Hub, snapshot(hot), snapshot(quiet), trade(hot, 1), trade(quiet, 1))
	w.commitOnce()
	w.take(c)
	_, safe := c.sub.Position()
	publish(t, w.Hub, trade(hot, 2))
	end := w.stall()
	publish(t, w.Hub, trade(hot, 3), snapshot(hot))
	w.take(c)
	if _, now := c.sub.Position(); len(c.trades["HOT|M|CI"]) != 1 || now != safe {
		t.Fatalf("trades %v at %s, it was %s", c.trades["HOT|M|CI"], now, safe)
	}
	// A subscribe is answered at once, and the snapshots of the quiet instrument are sent.
	d := newClient(t, w.shard)
	for _, ch := range []wire.Channel{wire.Status, wire.OrderBook, wire.Summary} {
		subscribe(t, d.sub, ch, "QUIET|M|CI")
	}
	w.take(d)
	if len(d.notes) != 1 || d.books["QUIET|M|CI"] == nil {
		t.Errorf("notes %v, books %v", d.notes, d.books)
	}
	// The answer for the hot instrument covers its committed rows. The rest comes after the commit.
	for _, ch := range []wire.Channel{wire.Quotes, wire.OrderBook} {
		subscribe(t, d.sub, ch, "HOT|M|CI")
	}
	seen := &wire.Resume{Epoch: w.Epoch(), Seen: [wire.NumChannels]map[string]uint64{wire.Trades: {"HOT|M|CI": 0}}}
	out := d.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("HOT|M|CI")}}, Options{Resume: seen})
	if n := out.Resumed[wire.Trades]["HOT|M|CI"]; n != 1 || out.CaughtUp != safe {
		t.Errorf("resumed to %d, at %s and not %s", n, out.CaughtUp, safe)
	}
	w.take(d)
	if len(d.trades["HOT|M|CI"]) != 1 || d.books["HOT|M|CI"] != nil {
		t.Fatalf("trades %v, books %v", d.trades, d.books)
	}
	end()
	w.commitOnce()
	w.take(c)
	w.take(d)
	w.take(d)
	for _, x := range []*client{c, d} {
		if !slices.Equal(x.trades["HOT|M|CI"], []uint64{1, 2, 3}) {
			t.Errorf("trades %v", x.trades)
		}
	}
	if d.books["HOT|M|CI"] == nil {
		t.Error("no state of the hot book")
	}
	if w.woken == 0 {
		t.Error("the shard was not woken")
	}
}

// TestRecentRowsStayUntilCommitted checks that recent rows are not dropped before they are
// committed, however few rows the hub keeps.
func TestRecentRowsStayUntilCommitted(t *testing.T) {
	for _, cfg := range []Config{{TradesKept: 1}, {RecentBytes: 1}} {
		w := newSlowHub(t, t.TempDir(), cfg)
		a := define(t, w.Hub, "A|M|CI", nil)
		for i := range 3 * recent.ChunkRows {
			publish(t, w.Hub, trade(a, i))
		}
		w.commitOnce()
		for i := range 5 * recent.ChunkRows {
			publish(t, w.Hub, trade(a, i))
		}
		c := newClient(t, w.shard)
		seen := &wire.Resume{Epoch: w.Epoch()}
		seen.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 3 * recent.ChunkRows}
		c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Resume: seen})
		w.take(c)
		w.commitOnce()
		w.take(c)
		if n := len(c.trades["A|M|CI"]); n != 5*recent.ChunkRows {
			t.Errorf("%d trades", n)
		}
		for range 2 * recent.ChunkRows {
			publish(t, w.Hub, trade(a, 1))
			w.commitOnce()
		}
		if n := w.lookup(id("A|M|CI")).Trades.Stored; n > 3*recent.ChunkRows {
			t.Errorf("%d trades are kept", n)
		}
	}
}

// TestUnsubscribeWhatIsHeld checks that a snapshot that waits for a commit is not sent after its
// instrument was unsubscribed.
func TestUnsubscribeWhatIsHeld(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	a := define(t, w.Hub, "A|M|CI", ownQuotes)
	quote := func(n int64) market.Event {
		return market.Event{Kind: market.KindQuote, Handle: a, Bids: []market.Level{level(n, 1)}}
	}
	publish(t, w.Hub, quote(1))
	c := newClient(t, w.shard)
	subscribe(t, c.sub, wire.Quotes, "A|M|CI")
	if w.take(c); len(c.raw) != 0 {
		t.Fatalf("got %v", c.raw)
	}
	c.sub.Unsubscribe([]Item{{Channel: wire.Quotes, ID: id("A|M|CI")}})
	subscribe(t, c.sub, wire.Quotes, "*|M|*")
	w.commitOnce()
	w.take(c)
	if len(c.raw) != 1 || !c.raw[0].R || c.raw[0].N != 1 {
		t.Errorf("got %+v", c.raw)
	}
	if len(w.shard.gates) > 0 || c.sub.wait != nil {
		t.Errorf("left: %v, %+v", w.shard.gates, c.sub.wait)
	}
}

// TestGapBehindHeldState checks that a gap is sent once even if it is committed together with a
// snapshot that is due. A snapshot does not show the gap.
func TestGapBehindHeldState(t *testing.T) {
	for _, instruments := range []int{1, 2*stateBatch + 1} {
		w := newSlowHub(t, t.TempDir(), Config{})
		handles := defineMany(t, w.Hub, instruments, nil)
		snapshot := func(h market.Handle) market.Event {
			return market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{level(10, 1)}, Asks: []market.Level{level(11, 1)}}
		}
		for _, h := range handles {
			publish(t, w.Hub, snapshot(h))
		}
		c := newClient(t, w.shard)
		subscribe(t, c.sub, wire.OrderBook, "*|M|*")
		w.commitOnce()
		w.take(c)
		lost := []market.Handle{handles[0], handles[len(handles)-1]}
		for _, h := range lost {
			publish(t, w.Hub, market.Event{Kind: market.KindGap, Handle: h, Reason: "line_lost"}, snapshot(h))
		}
		c.sub.Resync([]Item{{Channel: wire.OrderBook, ID: id("*|M|*")}})
		w.take(c)
		gaps := func() (n int) {
			for i := range c.notes {
				if c.notes[i].E == "gap" {
					n++
				}
			}
			return n
		}
		if n := gaps(); n > 0 {
			t.Fatalf("%d gaps that are not committed", n)
		}
		w.commitOnce()
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
		w := newSlowHub(t, t.TempDir(), Config{})
		a := define(t, w.Hub, "A|M|CI", nil)
		define(t, w.Hub, "B|M|CI", nil)
		w.commitOnce()
		_, before := w.Position()
		publish(t, w.Hub, trade(a, 1))
		end := w.stall()
		_, _, quiet := w.Snapshot(nil, []Wanted{{ID: id("B|M|CI"), Trades: true}})
		if err := w.AwaitCommit(t.Context(), id("B|M|CI")); err != nil || quiet != before {
			t.Errorf("of a quiet instrument: %v, at %s and not %s", err, quiet, before)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		begin := time.Now()
		if err := w.AwaitCommit(ctx, id("A|M|CI"), id("B|M|CI")); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		done := make(chan error)
		go func() { done <- w.AwaitCommit(t.Context(), id("A|M|CI")) }()
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
	for seed := range uint64(soak(160)) {
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
	clients []*client
	n       int
}

func (m *commitModel) begin(folder string) {
	m.w = newSlowHub(m.t, folder, Config{})
	m.handles = nil
	for _, name := range m.names {
		m.handles = append(m.handles, define(m.t, m.w.Hub, name, nil))
	}
}

func (m *commitModel) step() {
	switch k := m.rng.IntN(20); {
	case k < 8:
		for range 1 + m.rng.IntN(5) {
			m.publish()
		}
	case k < 10 && m.end == nil:
		m.end = m.w.stall()
	case k < 11 && m.end == nil:
		m.w.commitOnce()
	case k < 12 && m.end != nil:
		m.end()
		m.end = nil
	case k < 14:
		turn(m.w.shard)
	case k == 14 && len(m.clients) < 5:
		m.join(newClient(m.t, m.w.shard))
	case len(m.clients) == 0:
	default:
		c := m.clients[m.rng.IntN(len(m.clients))]
		switch k {
		case 15:
			m.subscribe(c)
		case 16:
			m.unsubscribe(c)
		default:
			m.took(c, c.read(1+m.rng.IntN(2000), m.rng.IntN(2) == 0))
		}
	}
}

func (m *commitModel) publish() {
	i := m.rng.IntN(len(m.handles))
	h := m.handles[i]
	m.n++
	e := trade(h, m.n)
	switch m.rng.IntN(4) {
	case 0:
		e = market.Event{Kind: market.KindSnapshot, Handle: h, Bids: []market.Level{level(int64(10+m.n%3), 1)}, Asks: []market.Level{level(20, 1)}}
	case 1:
		e = market.Event{Kind: market.KindStatus, Handle: h, Phase: market.Halt + market.Phase(m.n%2)}
	}
	publish(m.t, m.w.Hub, e)
}

// subscribe resumes the trades of an instrument after the last one that the client received. It
// then subscribes to another channel, by the instrument or by a pattern.
func (m *commitModel) subscribe(c *client) {
	name := m.names[m.rng.IntN(len(m.names))]
	seen := &wire.Resume{Epoch: m.w.Epoch()}
	seen.Seen[wire.Trades] = map[string]uint64{name: c.last[name]}
	if out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id(name)}}, Options{Resume: seen}); len(out.Lost[wire.Trades]) > 0 {
		m.t.Fatalf("lost %+v, the client has %d", out.Lost[wire.Trades], c.last[name])
	}
	m.carry(c)
	ch := []wire.Channel{wire.Status, wire.Quotes, wire.OrderBook, wire.Summary}[m.rng.IntN(4)]
	subscribe(m.t, c.sub, ch, []string{name, "*|M|*"}[m.rng.IntN(2)])
	m.carry(c)
}

// unsubscribe removes trades that the client can resume later, and quotes.
func (m *commitModel) unsubscribe(c *client) {
	name := m.names[m.rng.IntN(len(m.names))]
	c.sub.Unsubscribe([]Item{{Channel: wire.Trades, ID: id(name)}, {Channel: wire.Quotes, ID: id("*|M|*")}, {Channel: wire.Quotes, ID: id(name)}})
	m.carry(c)
}

// carry reads the messages that are sent ahead of an answer.
func (m *commitModel) carry(c *client) {
	list := frames(m.t, c.sub.TakeCarry(nil))
	for i := range list {
		c.take(&list[i])
	}
	c.raw = append(c.raw, list...)
	m.took(c, list)
}

// took checks that trades have no gap after a client resumed by a position.
func (m *commitModel) took(c *client, list []message) {
	for i := range list {
		f := &list[i]
		if n, ok := c.before[f.I]; ok && f.Type == "T" {
			delete(c.before, f.I)
			if f.N > n+1 {
				m.t.Fatalf("%s: trade %d after %d", f.I, f.N, n)
			}
		}
	}
}

// join adds a client with all trades or with those of one instrument.
func (m *commitModel) join(c *client) {
	m.clients = append(m.clients, c)
	if m.rng.IntN(2) == 0 {
		seen := &wire.Resume{Epoch: m.w.Epoch(), Position: positionText(m.w.Hub, 0)}
		if c.place != "" {
			// A position is safe, and so may lie before messages that were sent.
			seen.Position, c.last, c.before = c.place, map[string]uint64{}, c.follows
		}
		if out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("*|M|*")}}, Options{Resume: seen}); len(out.Lost[wire.Trades]) > 0 {
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
		_, c.place = c.sub.Position()
		c.follows = map[string]uint64{}
		for _, name := range m.names {
			if n, ok := c.last[name]; ok && c.sub.owner(wire.Trades, id(name)) != nil {
				c.follows[name] = n
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
		for _, f := range c.raw {
			if n := m.w.lookup(id(f.I)).Sequences[channels[f.Type]].N; f.N > n {
				m.t.Fatalf("%s %s: the client was sent %d, the journal ends at %d", f.Type, f.I, f.N, n)
			}
		}
		next := newClient(m.t, m.w.shard)
		next.last, next.trades, next.place, next.follows = c.last, c.trades, c.place, c.follows
		m.join(next)
	}
}

// finish commits everything and checks that a client with trades has all of them.
func (m *commitModel) finish() {
	if m.end != nil {
		m.end()
	}
	m.w.commitOnce()
	for _, c := range m.clients {
		for range 3 {
			turn(m.w.shard)
			c.read(1<<20, false)
		}
		for _, name := range m.names {
			got, ok := c.last[name]
			if !ok {
				got, ok = c.before[name]
			}
			if n := m.w.lookup(id(name)).Trades.Last; ok && c.sub.owner(wire.Trades, id(name)) != nil && got != n {
				m.t.Errorf("%s: the client has trades up to %d of %d", name, got, n)
			}
		}
		if c.sub.wait != nil {
			m.t.Errorf("left: %+v", c.sub.wait)
		}
	}
}

// TestCommitOfADefinition checks that AwaitCommit ends when only the definition of a market as a
// whole waits for a commit.
func TestCommitOfADefinition(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	publish(t, w.Hub, trade(define(t, w.Hub, "A|M|CI", nil), 1))
	w.commitOnce()
	w.running = false
	w.commit()
	define(t, w.Hub, "*|M|*", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.AwaitCommit(ctx); err != nil {
		t.Error(err)
	}
}

// TestAwaitCommitEndsWithRun checks that AwaitCommit returns when Run ends.
func TestAwaitCommitEndsWithRun(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	a := define(t, w.Hub, "A|M|CI", nil)
	publish(t, w.Hub, trade(a, 1))
	end := w.stall()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- w.AwaitCommit(ctx) }()
	for waits := false; !waits; {
		w.mu.Lock()
		waits = w.advanced != nil
		w.mu.Unlock()
	}
	end()
	w.startCommits(t.Context())()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLagCountsOnce checks that Lag counts the waiting bytes of an item once, even if messages come
// while the item waits for a commit.
func TestLagCountsOnce(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	a := define(t, w.Hub, "A|M|CI", ownQuotes)
	quote := func(n int64) market.Event {
		return market.Event{Kind: market.KindQuote, Handle: a, Bids: []market.Level{level(n, 1)}}
	}
	c := newClient(t, w.shard)
	x := Item{Channel: wire.Quotes, ID: id("A|M|CI")}
	c.sub.Subscribe([]Item{x}, Options{})
	w.commitOnce()
	w.take(c)
	publish(t, w.Hub, quote(1))
	end := w.stall()
	publish(t, w.Hub, quote(2))
	c.sub.Resync([]Item{x})
	w.take(c)
	before := c.sub.Lag()
	if len(c.sub.wait.gated) != 1 || before.Held == 0 {
		t.Fatalf("%+v does not wait for a commit", c.sub.wait)
	}
	end() // of the first quote; the snapshot shows the second
	turn(w.shard)
	if after := c.sub.Lag(); after.Held != before.Held {
		t.Errorf("it holds %d bytes, then %d", before.Held, after.Held)
	}
	w.commitOnce()
	w.take(c)
}

// TestSubscribeWhileACommitStalls checks how many instruments a large subscribe visits in one hold
// of the lock. Rows of all instruments wait for the disk at that time.
func TestSubscribeWhileACommitStalls(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), Config{})
	const instruments = 20 * lockPiece
	var items []Item
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		publish(t, w.Hub, trade(define(t, w.Hub, name, nil), i))
		items = append(items, Item{Channel: wire.Trades, ID: id(name)})
	}
	c := newClient(t, w.shard)
	most := &holds{}
	w.mu.watch = most
	c.sub.Subscribe(items[:300], Options{})
	w.mu.watch = nil
	if most.visited > 2*lockPiece+maxPatterns {
		t.Errorf("%s visited %d in one hold", most.most, most.visited)
	}
	w.commitOnce()
	w.take(c)
	if len(c.trades) != 300 {
		t.Errorf("the first trades of %d instruments came", len(c.trades))
	}
}

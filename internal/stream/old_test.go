package stream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// longHouse returns a house with many more trades in its journal than in memory.
func longHouse(t *testing.T, instruments, trades int) *house {
	t.Helper()
	w := &house{t: t, folder: t.TempDir(), kept: 1}
	for i := range instruments {
		w.names = append(w.names, fmt.Sprintf("S%d|M|CI", i))
	}
	w.begin()
	rng := rand.New(rand.NewPCG(2, 8))
	for i := range trades {
		publish(t, w.hub, trade(w.handles[rng.IntN(instruments)], i))
	}
	w.hub.Commit()
	for i := range instruments * recent.ChunkRows * 2 { // so that each drops some recent rows
		publish(t, w.hub, trade(w.handles[i%instruments], i))
	}
	w.hub.Commit()
	return w
}

// replayed reads a client's replay to its end.
func (w *house) replayed(c *client) {
	w.t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; turn(w.shard) {
		c.read(1<<16, false)
		if !c.sub.Replaying() {
			break
		}
		if time.Now().After(until) {
			w.t.Fatal("a replay does not end")
		}
	}
}

// TestResumeByPositionFromJournal checks that exact identifiers and patterns that resume from any
// position receive every trade behind it and none before.
func TestResumeByPositionFromJournal(t *testing.T) { testResumeByPositionFromJournal(t, 6) }

// TestResumeByPositionFromJournalE2E checks the same as TestResumeByPositionFromJournal, from more
// positions and without the race detector.
func TestResumeByPositionFromJournalE2E(t *testing.T) { testResumeByPositionFromJournal(t, 24) }

func testResumeByPositionFromJournal(t *testing.T, positions int) {
	w := longHouse(t, 3, 9000)
	defer func() { w.leave(true) }()
	first := func(name string, pos uint64) (n uint64) { // of the trades behind pos
		err := w.journal.Read(t.Context(), journal.Series{Instrument: id(name), Channel: journal.Trades}, journal.Range{}, func(_ string, r *journal.Row) bool {
			n = r.N
			return r.Position <= pos
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range positions {
		if i == positions/2 {
			w.leave(true)
			w.begin()
		}
		pos := uint64(rng.IntN(9500))
		pattern := "*|M|CI"
		if i%2 == 0 {
			pattern = w.names[i/2%3]
		}
		c := newClient(t, w.shard)
		r := &wire.Resume{Epoch: w.hub.Epoch(), Position: positionText(w.hub, pos)}
		if out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id(pattern)}}, Options{Resume: r}); len(out.Lost[wire.Trades]) > 0 {
			t.Fatalf("lost %v", out.Lost)
		}
		w.replayed(c)
		for _, name := range w.names {
			if pattern != name && pattern != "*|M|CI" {
				continue
			}
			in := w.hub.lookup(id(name))
			if got := c.trades[name]; len(got) == 0 || got[0] != first(name, pos) || c.last[name] != in.Trades.Last {
				t.Errorf("%s behind %d: %d trades up to %d, want %d to %d", name, pos, len(got), c.last[name], first(name, pos), in.Trades.Last)
			}
		}
		c.sub.Close()
	}
}

// TestReplaysTakeTurns checks the replays of a client that does not read. The rows of two items are
// held and counted. The other items wait without being pending. When the client reads, it receives
// everything.
func TestReplaysTakeTurns(t *testing.T) {
	const items = 12
	w := longHouse(t, items, items*2*oldRows)
	defer w.leave(true)
	c := newClient(t, w.shard)
	r := &wire.Resume{Epoch: w.hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var list []Item
	for _, name := range w.names {
		r.Seen[wire.Trades][name] = 0
		list = append(list, Item{Channel: wire.Trades, ID: id(name)})
	}
	c.sub.Subscribe(list, Options{Resume: r})
	c.sub.Gather(nil, 1<<10, wire.JSON, false) // all items begin; none has a message yet
	if c.sub.Pending() || len(c.sub.wait.reading) != items || !c.sub.Replaying() {
		t.Fatalf("pending %v, %d waiting", c.sub.Pending(), len(c.sub.wait.reading))
	}
	held := 0
	for until := time.Now().Add(10 * time.Second); held < maxHolders && time.Now().Before(until); {
		turn(w.shard)
		held = 0
		for _, it := range c.sub.items {
			if len(it.late.replay.read) > 0 {
				held++
			}
		}
	}
	for range 100 {
		turn(w.shard)
	}
	if lag := c.sub.Lag(); held != maxHolders || len(c.sub.wait.reading) != items-maxHolders || c.sub.wait.holders != maxHolders ||
		lag.Held < maxHolders*oldRows*recent.RowBytes/2 || lag.Held > maxHolders*oldRows*2*recent.RowBytes {
		t.Errorf("%d items hold rows, %d wait; %+v", held, len(c.sub.wait.reading), lag)
	}
	// An unsubscribed item lets another one read.
	c.sub.Unsubscribe(list[:1])
	w.replayed(c)
	for _, name := range w.names[1:] {
		if got, want := c.trades[name], w.hub.lookup(id(name)).Trades.Last; uint64(len(got)) != want {
			t.Errorf("%s: %d trades of %d", name, len(got), want)
		}
	}
	if c.sub.wait != nil {
		t.Errorf("something waits: %+v", c.sub.wait)
	}
}

// TestNobodyReadsForThoseGone checks that the journal is not read further for a client that has
// closed, unsubscribed or moved to another delay.
func TestNobodyReadsForThoseGone(t *testing.T) {
	w := longHouse(t, 3, 3000)
	defer w.leave(true)
	w.end() // the test reads itself
	for _, goes := range []string{"closes", "unsubscribes", "moves to another delay"} {
		for _, begun := range []bool{false, true} {
			c := newClient(t, w.shard)
			pattern := Item{Channel: wire.Trades, ID: id("*|M|CI")}
			c.sub.Subscribe([]Item{pattern}, Options{Resume: &wire.Resume{Epoch: w.hub.Epoch(), Position: positionText(w.hub, 0)}})
			c.sub.Gather(nil, 1<<10, wire.JSON, false)
			stopped := false
			if begun {
				if _, ok := w.hub.nextFetch(func() { stopped = true }); !ok {
					t.Fatal("nothing to read")
				}
			}
			switch goes {
			case "closes":
				c.sub.Close()
			case "unsubscribes":
				c.sub.Unsubscribe([]Item{pattern})
			default:
				c.sub.shard.hub.mu.Lock()
				c.sub.items[0].drop()
				c.sub.shard.hub.mu.Unlock()
			}
			if len(w.hub.fetches) > 0 || stopped != begun {
				t.Errorf("%s: %d to read, stopped %v", goes, len(w.hub.fetches), stopped)
			}
		}
	}
}

// TestFailedReplayIsNotCaughtUp checks that a batch with rows that could not be read ends with one
// Error, and that no message states that it is complete.
func TestFailedReplayIsNotCaughtUp(t *testing.T) {
	w := longHouse(t, 3, 3000)
	defer w.leave(true)
	w.end() // the test reads itself
	c := newClient(t, w.shard)
	r := &wire.Resume{Epoch: w.hub.Epoch(), Position: positionText(w.hub, 0)}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id(w.names[0])}, {Channel: wire.Trades, ID: id(w.names[1])}}, Options{Resume: r})
	c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error","id":7}`))})
	c.sub.Gather(nil, 1<<10, wire.JSON, false)
	for f, ok := w.hub.nextFetch(nil); ok; f, ok = w.hub.nextFetch(nil) {
		f.err, f.done = errGone, 1
		f.r.stop = nil
		w.shard.fetched = append(w.shard.fetched, f)
	}
	turn(w.shard)
	var raw []byte
	for c.sub.Pending() {
		raw = append(raw, c.sub.Gather(nil, 1<<16, wire.JSON, false)...)
	}
	if s := string(raw); strings.Count(s, `{"type":"Error","id":7}`) != 1 || strings.Contains(s, "CaughtUp") || c.sub.Replaying() {
		t.Errorf("got %d Errors, %d CaughtUp", strings.Count(s, `"Error"`), strings.Count(s, "CaughtUp"))
	}
}

package subscription_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestResumeByPositionFromJournal checks that exact identifiers and patterns that resume from any
// position receive every trade behind it and none before.
func TestResumeByPositionFromJournal(t *testing.T) { testResumeByPositionFromJournal(t, 6) }

// TestResumeByPositionFromJournalE2E checks the same as TestResumeByPositionFromJournal, from more
// positions and without the race detector.
func TestResumeByPositionFromJournalE2E(t *testing.T) { testResumeByPositionFromJournal(t, 24) }

func testResumeByPositionFromJournal(t *testing.T, positions int) {
	w := streamtest.LongHouse(t, 3, 9000)
	defer func() { w.Leave(true) }()
	first := func(name string, pos uint64) (n uint64) { // of the trades behind pos
		err := w.Journal.Read(t.Context(), journal.Series{Instrument: streamtest.ID(name), Channel: journal.Trades}, journal.Range{}, func(_ string, r *journal.Row) bool {
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
			w.Leave(true)
			w.Begin()
		}
		pos := uint64(rng.IntN(9500))
		pattern := "*|M|CI"
		if i%2 == 0 {
			pattern = w.Names[i/2%3]
		}
		c := streamtest.NewClient(t, w.Shard)
		r := &wire.Resume{Epoch: w.Hub.Epoch(), Position: streamtest.PositionText(w.Hub, pos)}
		if out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(pattern)}}, subscription.Options{Resume: r}); len(out.Lost[wire.Trades]) > 0 {
			t.Fatalf("lost %v", out.Lost)
		}
		w.Replayed(c)
		for _, name := range w.Names {
			if pattern != name && pattern != "*|M|CI" {
				continue
			}
			in := lookup(w.Hub, streamtest.ID(name))
			if got := c.Trades[name]; len(got) == 0 || got[0] != first(name, pos) || c.Last[name] != in.Trades.Last {
				t.Errorf("%s behind %d: %d trades up to %d, want %d to %d", name, pos, len(got), c.Last[name], first(name, pos), in.Trades.Last)
			}
		}
		c.Sub.Close()
	}
}

// TestReplaysTakeTurns checks the replays of a client that does not read. The rows of two items are
// held and counted. The other items wait without being pending, and are not quiet. When the client
// reads, it receives everything.
func TestReplaysTakeTurns(t *testing.T) {
	const items = 12
	w := streamtest.LongHouse(t, items, items*2*subscription.OldRows)
	defer w.Leave(true)
	c := streamtest.NewClient(t, w.Shard)
	r := &wire.Resume{Epoch: w.Hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{}
	var list []hub.Item
	for _, name := range w.Names {
		r.Seen[wire.Trades][name] = 0
		list = append(list, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
	}
	c.Sub.Subscribe(list, subscription.Options{Resume: r})
	c.Sub.Gather(nil, 1<<10, wire.JSON, false) // all items begin; none has a message yet
	if c.Sub.Pending() || len(c.Sub.Reading()) != items || !c.Sub.Replaying() {
		t.Fatalf("pending %v, %d waiting", c.Sub.Pending(), len(c.Sub.Reading()))
	}
	c.Sub.Quiet(1<<62, new(subscription.QuietPlace), items, func(_ wire.Channel, id market.InstrumentID, n uint64) {
		t.Errorf("%s is quiet with N %d, and none of its replay was sent", id, n)
	})
	held := 0
	for until := time.Now().Add(10 * time.Second); held < subscription.MaxHolders && time.Now().Before(until); {
		streamtest.Turn(w.Shard)
		_, held = c.Sub.Holders()
	}
	for range 100 {
		streamtest.Turn(w.Shard)
	}
	counted, _ := c.Sub.Holders()
	if lag := c.Sub.Lag(); held != subscription.MaxHolders || len(c.Sub.Reading()) != items-subscription.MaxHolders || counted != subscription.MaxHolders ||
		lag.Held < subscription.MaxHolders*subscription.OldRows*recent.RowBytes/2 || lag.Held > subscription.MaxHolders*subscription.OldRows*2*recent.RowBytes {
		t.Errorf("%d items hold rows, %d wait; %+v", held, len(c.Sub.Reading()), lag)
	}
	// An unsubscribed item lets another one read.
	c.Sub.Unsubscribe(list[:1])
	w.Replayed(c)
	for _, name := range w.Names[1:] {
		if got, want := c.Trades[name], lookup(w.Hub, streamtest.ID(name)).Trades.Last; uint64(len(got)) != want {
			t.Errorf("%s: %d trades of %d", name, len(got), want)
		}
	}
	if c.Sub.Waits() {
		t.Errorf("something waits: %+v", c.Sub.Lag())
	}
}

// TestNobodyReadsForThoseGone checks that the journal is not read further for a client that has
// closed, unsubscribed or moved to another delay.
func TestNobodyReadsForThoseGone(t *testing.T) {
	w := streamtest.LongHouse(t, 3, 3000)
	defer w.Leave(true)
	w.End() // the test reads itself
	for _, goes := range []string{"closes", "unsubscribes", "moves to another delay"} {
		for _, begun := range []bool{false, true} {
			c := streamtest.NewClient(t, w.Shard)
			pattern := hub.Item{Channel: wire.Trades, ID: streamtest.ID("*|M|CI")}
			c.Sub.Subscribe([]hub.Item{pattern}, subscription.Options{Resume: &wire.Resume{Epoch: w.Hub.Epoch(), Position: streamtest.PositionText(w.Hub, 0)}})
			c.Sub.Gather(nil, 1<<10, wire.JSON, false)
			stopped := false
			var stops []chan struct{}
			if begun {
				job := c.Sub.Reading()[0]
				reads, ended := make(chan struct{}), make(chan struct{})
				job.Read = func(ctx context.Context) bool {
					close(reads)
					<-ctx.Done()
					stopped = true
					return false
				}
				go func() {
					defer close(ended)
					w.Shard.Port().Jobs().Next(t.Context(), readjob.Rows)
				}()
				<-reads
				stops = append(stops, ended)
			}
			switch goes {
			case "closes":
				c.Sub.Close()
			case "unsubscribes":
				c.Sub.Unsubscribe([]hub.Item{pattern})
			default:
				c.Sub.Drop()
			}
			for _, ended := range stops {
				<-ended
			}
			if n := w.Shard.Port().Jobs().Len(readjob.Rows); n > 0 || stopped != begun {
				t.Errorf("%s: %d to read, stopped %v", goes, n, stopped)
			}
		}
	}
}

// TestLostInReplay removes a segment while a gateway runs. Replays report its rows as lost, each
// with its range and before the row that follows, and have all other rows: at once, and after a
// restart, which notices the missing rows.
func TestLostInReplay(t *testing.T) {
	w := streamtest.LongHouse(t, 3, 12_000)
	defer func() { w.Leave(true) }()
	files, err := filepath.Glob(filepath.Join(w.Folder, "*", "*.seg"))
	if err != nil || len(files) < 4 {
		t.Fatalf("segments %v, %v", files, err)
	}
	var want []uint64 // first and last N of each instrument in the segment
	for _, name := range w.Names {
		n := tradesOf(t, files[1], name)
		want = append(want, n[0], n[len(n)-1])
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	epoch := w.Hub.Epoch()
	checkLost(t, w, want)
	w.Leave(true)
	w.Begin()
	if oldest := w.Journal.Oldest(journal.Series{Instrument: streamtest.ID(w.Names[0]), Channel: journal.Trades}); w.Hub.Epoch() != epoch || oldest <= want[1] {
		t.Fatalf("epoch %s after %s, complete from N %d", w.Hub.Epoch(), epoch, oldest)
	}
	checkLost(t, w, want)
}

// checkLost checks replays of all rows of a house that lacks some: want has the N of the first and
// the last missing trade of each instrument.
func checkLost(t *testing.T, w *streamtest.House, want []uint64) {
	t.Helper()
	for _, by := range []string{"N", "position"} {
		c := streamtest.NewClient(t, w.Shard)
		r := &wire.Resume{Epoch: w.Hub.Epoch(), Position: streamtest.PositionText(w.Hub, 0)}
		list := []hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|CI")}}
		if by == "N" {
			r.Position, list = "", nil
			r.Seen[wire.Trades] = map[string]uint64{}
			for _, name := range w.Names {
				r.Seen[wire.Trades][name] = 0
				list = append(list, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
			}
		}
		c.Sub.Subscribe(list, subscription.Options{Resume: r})
		c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error"}`))})
		last, lost := map[string]uint64{}, map[string]wire.Range{}
		end := ""
		for until := time.Now().Add(time.Minute); end == ""; streamtest.Turn(w.Shard) {
			if time.Now().After(until) {
				t.Fatal("the replay does not end")
			}
			for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1<<12, wire.JSON, false)) {
				switch m.Type {
				case "T":
					if m.N != last[m.I]+1 {
						t.Errorf("by %s: %s: N %d comes after %d", by, m.I, m.N, last[m.I])
					}
					last[m.I] = m.N
				case "Subscription":
					for name, l := range m.Lost["trades"] {
						if lost[name] = l; l.From != last[name]+1 || l.Reason != "buffer_exceeded" {
							t.Errorf("by %s: %s: %+v after %d", by, name, l, last[name])
						}
						last[name] = l.To
					}
				default:
					end = m.Type
				}
			}
		}
		if end != "CaughtUp" {
			t.Errorf("by %s: the replay ends with %s", by, end)
		}
		for i, name := range w.Names {
			if l := lost[name]; l.From != want[2*i] || l.To != want[2*i+1] || last[name] != lookup(w.Hub, streamtest.ID(name)).Trades.Last {
				t.Errorf("by %s: %s: lost %+v, want %d to %d; last N %d", by, name, l, want[2*i], want[2*i+1], last[name])
			}
		}
		c.Sub.Close()
	}
}

// tradesOf returns the N of the trades of an instrument in a segment.
func tradesOf(t *testing.T, file, name string) (list []uint64) {
	t.Helper()
	r, err := journal.OpenReader(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Read(t.Context(), journal.Series{Instrument: streamtest.ID(name), Channel: journal.Trades}, journal.Range{}, func(_ string, r *journal.Row) bool {
		list = append(list, r.N)
		return true
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("trades of %s: %v, %v", name, list, err)
	}
	return list
}

// TestFailedReplayIsNotCaughtUp checks that a batch with rows that could not be read ends with one
// Error, and that no message states that it is complete.
func TestFailedReplayIsNotCaughtUp(t *testing.T) {
	w := streamtest.LongHouse(t, 3, 3000)
	defer w.Leave(true)
	w.End() // the test reads itself
	c := streamtest.NewClient(t, w.Shard)
	r := &wire.Resume{Epoch: w.Hub.Epoch(), Position: streamtest.PositionText(w.Hub, 0)}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(w.Names[0])}, {Channel: wire.Trades, ID: streamtest.ID(w.Names[1])}}, subscription.Options{Resume: r})
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error","id":7}`))})
	c.Sub.Gather(nil, 1<<10, wire.JSON, false)
	ended, cancel := context.WithCancel(t.Context())
	cancel() // the journal cannot be read
	for _, job := range c.Sub.Reading() {
		job.Read(ended)
		job.End(nil)
	}
	streamtest.Turn(w.Shard)
	var raw []byte
	for c.Sub.Pending() {
		raw = append(raw, c.Sub.Gather(nil, 1<<16, wire.JSON, false)...)
	}
	if s := string(raw); strings.Count(s, `{"type":"Error","id":7}`) != 1 || strings.Contains(s, "CaughtUp") || c.Sub.Replaying() {
		t.Errorf("got %d Errors, %d CaughtUp", strings.Count(s, `"Error"`), strings.Count(s, "CaughtUp"))
	}
}

package streamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Replayed reads a client's replay to its end.
func (w *House) Replayed(c *Client) {
	w.T.Helper()
	for until := time.Now().Add(2 * time.Minute); ; Turn(w.Shard) {
		c.Read(1<<16, false)
		if !c.Sub.Replaying() {
			break
		}
		if time.Now().After(until) {
			w.T.Fatal("a replay does not end")
		}
	}
}

// House is a hub with a journal that is closed and opened again.
type House struct {
	T         testing.TB
	Folder    string
	Kept      int // rows in memory
	Names     []string
	Numbering string // of the sequences of all events; "": they have none
	Journal   *journal.Journal
	Hub       *hub.Hub
	Shard     *subscription.Shard
	Handles   []market.Handle
	End       func()
}

// Begin opens the journal and a hub with it.
func (w *House) Begin() {
	w.T.Helper()
	var err error
	if w.Journal, err = journal.Open(w.T.Context(), journal.Config{Folder: w.Folder, Segment: 64 << 10, BootID: "same"}); err != nil {
		w.T.Fatal(err)
	}
	w.Hub = hub.New(hub.Config{Journal: w.Journal, TradesKept: w.Kept, Markets: []market.Market{{ID: "M", Timezone: "America/Argentina/Buenos_Aires"}}})
	if err := w.Hub.Restore(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	w.Shard = subscription.NewShard(w.Hub, func(bool) {})
	w.Handles = w.Handles[:0]
	for _, name := range w.Names {
		w.Handles = append(w.Handles, Define(w.T, w.Hub, name, func(in *market.Instrument) { in.VirtualClock, in.Listed = true, 1 }))
		w.Hub.Number(w.Handles[len(w.Handles)-1], w.Numbering)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = w.Hub.Run(ctx) })
	w.End = func() {
		cancel()
		all.Wait()
	}
}

// Leave ends the hub, cleanly or as a killed process ends.
func (w *House) Leave(clean bool) {
	w.T.Helper()
	w.End()
	if !clean {
		// The file has the committed rows. The rest of the process's memory is lost.
		copied := filepath.Join(w.T.TempDir(), "journal")
		if err := os.CopyFS(copied, os.DirFS(w.Folder)); err != nil {
			w.T.Fatal(err)
		}
		w.Folder = copied
	}
	if err := w.Journal.Close(); err != nil {
		w.T.Fatal(err)
	}
}

// Received holds the payloads that a subscriber has received, by sequence.
type Received struct {
	T        testing.TB
	sub      *subscription.Subscriber
	Texts    map[string][]string
	position string
}

// Follow subscribes to all channels that replay, and resumes after the payloads in seen.
func (w *House) Follow(seen *Received) {
	w.T.Helper()
	seen.sub = Open(w.Shard)
	var items []hub.Item
	r := &wire.Resume{Epoch: w.Hub.Epoch(), Position: seen.position}
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		r.Seen[c] = map[string]uint64{}
		for _, name := range w.Names {
			items = append(items, hub.Item{Channel: c, ID: ID(name)})
			r.Seen[c][name] = uint64(len(seen.Texts[Key(c, name)]))
		}
	}
	out := seen.sub.Subscribe(items, subscription.Options{Resume: r, NoSnapshot: true})
	if out.Fault != nil || len(out.Rejected) > 0 {
		w.T.Fatalf("%+v", out)
	}
	for c := range out.Lost {
		if len(out.Lost[c]) > 0 {
			w.T.Fatalf("lost %v: %v", wire.Channel(c), out.Lost[c])
		}
	}
}

func Key(c wire.Channel, name string) string {
	return c.String() + " " + string(c.Append(nil, ID(name)))
}

// Read reads the messages that wait. If all is true, it also waits for the replay to end.
func (w *House) Read(seen *Received, all bool) {
	w.T.Helper()
	if all {
		w.Hub.Commit()
	}
	Turn(w.Shard)
	for until := time.Now().Add(2 * time.Minute); ; {
		for seen.sub.Pending() {
			b := seen.sub.Gather(nil, 1<<16, wire.JSON, false)
			for len(b) > 0 {
				size, head := int(b[1]), 2
				if size == 126 {
					size, head = int(b[2])<<8|int(b[3]), 4
				}
				seen.take(string(b[head : head+size]))
				b = b[head+size:]
			}
		}
		if !all || !seen.sub.Replaying() {
			return
		}
		if time.Now().After(until) {
			w.T.Fatal("a replay does not end")
		}
		Turn(w.Shard)
	}
}

func (x *Received) take(text string) {
	x.T.Helper()
	var m struct {
		Type, I, IV string
		N           uint64
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		x.T.Fatal(err)
	}
	c := wire.Trades
	switch m.Type {
	case "H":
		c = wire.Status
	case "K":
		i, ok := market.ParseInterval(m.IV)
		if !ok {
			x.T.Fatalf("interval %q", m.IV)
		}
		c = wire.BarsOf(i)
	}
	k := Key(c, m.I)
	if m.N != uint64(len(x.Texts[k]))+1 {
		x.T.Fatalf("%s: %d after %d: %s", k, m.N, len(x.Texts[k]), text)
	}
	x.Texts[k] = append(x.Texts[k], text)
}

// LongHouse returns a house with many more trades in its journal than in memory.
func LongHouse(t *testing.T, instruments, trades int) *House {
	t.Helper()
	w := &House{T: t, Folder: t.TempDir(), Kept: 1}
	for i := range instruments {
		w.Names = append(w.Names, fmt.Sprintf("S%d|M|CI", i))
	}
	w.Begin()
	rng := rand.New(rand.NewPCG(2, 8))
	for i := range trades {
		Publish(t, w.Hub, Trade(w.Handles[rng.IntN(instruments)], i))
	}
	w.Hub.Commit()
	for i := range instruments * recent.ChunkRows * 2 { // so that each drops some recent rows
		Publish(t, w.Hub, Trade(w.Handles[i%instruments], i))
	}
	w.Hub.Commit()
	return w
}

// Restarted is a hub with the journal of a folder, as a restarted process has it.
type Restarted struct {
	Hub   *hub.Hub
	Shard *subscription.Shard
	Leave func()
}

func Restart(t testing.TB, folder string, cfg hub.Config) *Restarted {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal = j
	h := hub.New(cfg)
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = h.Run(ctx) })
	return &Restarted{Hub: h, Shard: subscription.NewShard(h, func(bool) {}), Leave: func() {
		cancel()
		all.Wait()
		h.Commit()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}}
}

func OwnQuotes(in *market.Instrument) { in.QuotesFromFeed = true }

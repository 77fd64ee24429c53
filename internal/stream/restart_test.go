package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// house is a hub with a journal that is closed and opened again.
type house struct {
	t       testing.TB
	folder  string
	kept    int // rows in memory
	names   []string
	journal *journal.Journal
	hub     *Hub
	shard   *Shard
	handles []market.Handle
	end     func()
}

// begin opens the journal and a hub with it.
func (w *house) begin() {
	w.t.Helper()
	var err error
	if w.journal, err = journal.Open(journal.Config{Folder: w.folder, Segment: 64 << 10, BootID: "same"}); err != nil {
		w.t.Fatal(err)
	}
	w.hub = New(Config{Journal: w.journal, TradesKept: w.kept, Markets: []market.Market{{ID: "M", Timezone: "America/Argentina/Buenos_Aires"}}})
	if err := w.hub.Restore(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.shard = w.hub.NewShard(func(bool) {})
	w.handles = w.handles[:0]
	for _, name := range w.names {
		w.handles = append(w.handles, define(w.t, w.hub, name, func(in *market.Instrument) { in.VirtualClock, in.Listed = true, 1 }))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = w.hub.Run(ctx) })
	w.end = func() {
		cancel()
		all.Wait()
	}
}

// leave ends the hub, cleanly or as a killed process ends.
func (w *house) leave(clean bool) {
	w.t.Helper()
	w.end()
	if !clean {
		// The file has the committed rows. The rest of the process's memory is lost.
		copied := filepath.Join(w.t.TempDir(), "journal")
		if err := os.CopyFS(copied, os.DirFS(w.folder)); err != nil {
			w.t.Fatal(err)
		}
		w.folder = copied
	}
	if err := w.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// received holds the payloads that a subscriber has received, by sequence.
type received struct {
	t        testing.TB
	sub      *Subscriber
	texts    map[string][]string
	position string
}

// follow subscribes to all channels that replay, and resumes after the payloads in seen.
func (w *house) follow(seen *received) {
	w.t.Helper()
	seen.sub = open(w.shard)
	var items []Item
	r := &wire.Resume{Epoch: w.hub.Epoch(), Position: seen.position}
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		r.Seen[c] = map[string]uint64{}
		for _, name := range w.names {
			items = append(items, Item{Channel: c, ID: id(name)})
			r.Seen[c][name] = uint64(len(seen.texts[key(c, name)]))
		}
	}
	out := seen.sub.Subscribe(items, Options{Resume: r, NoSnapshot: true})
	if out.Fault != nil || len(out.Rejected) > 0 {
		w.t.Fatalf("%+v", out)
	}
	for c := range out.Lost {
		if len(out.Lost[c]) > 0 {
			w.t.Fatalf("lost %v: %v", wire.Channel(c), out.Lost[c])
		}
	}
}

func key(c wire.Channel, name string) string {
	return c.String() + " " + string(c.Append(nil, id(name)))
}

// read reads the messages that wait. If all is true, it also waits for the replay to end.
func (w *house) read(seen *received, all bool) {
	w.t.Helper()
	if all {
		w.hub.Commit()
	}
	turn(w.shard)
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
			w.t.Fatal("a replay does not end")
		}
		turn(w.shard)
	}
}

func (x *received) take(text string) {
	x.t.Helper()
	var m struct {
		Type, I, IV string
		N           uint64
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		x.t.Fatal(err)
	}
	c := wire.Trades
	switch m.Type {
	case "H":
		c = wire.Status
	case "K":
		i, ok := market.ParseInterval(m.IV)
		if !ok {
			x.t.Fatalf("interval %q", m.IV)
		}
		c = wire.BarsOf(i)
	}
	k := key(c, m.I)
	if m.N != uint64(len(x.texts[k]))+1 {
		x.t.Fatalf("%s: %d after %d: %s", k, m.N, len(x.texts[k]), text)
	}
	x.texts[k] = append(x.texts[k], text)
}

// happenings returns n random events: trades, cancels, corrections, references and statuses.
func happenings(n, instruments int, seed uint64) []market.Event {
	rng := rand.New(rand.NewPCG(seed, 3))
	at := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC).UnixNano()
	var done []market.Event
	var all []market.Event
	for i := range n {
		at += rng.Int64N(20e9)
		e := trade(market.Handle(rng.IntN(instruments)), i+1)
		e.Time, e.Price = at, market.Price(9000+rng.IntN(200))*market.Scale/100
		switch k := rng.IntN(60); {
		case k == 0 && len(done) > 0:
			was := done[len(done)-1-rng.IntN(min(len(done), 300))]
			e.Handle, e.Kind, e.TradeID, e.Price, e.Size = was.Handle, market.KindCancel, was.TradeID, was.Price, was.Size
		case k == 1 && len(done) > 0:
			was := done[len(done)-1-rng.IntN(min(len(done), 300))]
			e.Handle, e.Kind, e.TradeID, e.OldPrice, e.OldSize = was.Handle, market.KindCorrect, was.TradeID, was.Price, was.Size
		case k == 2:
			e = market.Event{Kind: market.KindReference, Handle: e.Handle, Time: at, PreviousClose: 88 * market.Scale}
		case k == 3:
			e = market.Event{Kind: market.KindStatus, Handle: e.Handle, Time: at, Phase: market.Halt + market.Phase(rng.IntN(2)), Reason: "volatility"}
		case k == 4:
			e.Time -= rng.Int64N(100e9) // late
			fallthrough
		default:
			done = append(done, e)
		}
		all = append(all, e)
	}
	return all
}

// TestRestart checks a hub that is closed many times, cleanly or not, and opened again. A client
// that resumes receives the same messages, bars and summaries as one without restarts. The journal
// has each message byte for byte.
func TestRestart(t *testing.T) {
	names := []string{"A|M|CI", "B|M|CI", "C|M|CI"}
	events := happenings(2500, len(names), 1)
	plain := &house{t: t, folder: t.TempDir(), names: names, kept: 10_000}
	plain.begin()
	want := &received{t: t, texts: map[string][]string{}}
	plain.follow(want)
	for _, e := range events {
		publish(t, plain.hub, e)
		plain.read(want, false)
	}
	plain.read(want, true)
	wantState := states(t, plain)
	for _, kept := range []int{1, 10_000} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, uint64(kept)))
			w := &house{t: t, folder: t.TempDir(), names: names, kept: kept}
			w.begin()
			got := &received{t: t, texts: map[string][]string{}}
			w.follow(got)
			follows := true
			for i, e := range events {
				publish(t, w.hub, e)
				if follows {
					w.read(got, false)
				}
				switch rng.IntN(400) {
				case 0:
					w.hub.Commit()
					w.leave(rng.IntN(2) == 0)
					w.begin()
					follows = false
				case 1, 2:
					if !follows {
						w.follow(got)
						follows = true
					}
				}
				_ = i
			}
			if !follows {
				w.follow(got)
			}
			w.read(got, true)
			for k, list := range want.texts {
				if !slices.Equal(list, got.texts[k]) {
					i := 0
					for i < min(len(list), len(got.texts[k])) && list[i] == got.texts[k][i] {
						i++
					}
					t.Fatalf("%s: %d messages, not %d; at %d\n%s\nand not\n%s", k, len(got.texts[k]), len(list), i, at(got.texts[k], i), at(list, i))
				}
			}
			if s := states(t, w); s != wantState {
				t.Errorf("summaries\n%s\nand not\n%s", s, wantState)
			}
			inJournal(t, w, got)
			w.leave(true)
		})
	}
	plain.leave(true)
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// states returns the summary of each instrument.
func states(t *testing.T, w *house) (all string) {
	t.Helper()
	for _, name := range w.names {
		w.hub.mu.Lock()
		b, ok := w.hub.lookup(id(name)).AppendSummary(nil)
		w.hub.mu.Unlock()
		all += fmt.Sprintln(ok, string(b))
	}
	return all
}

// inJournal checks that the journal has the messages that were sent.
func inJournal(t *testing.T, w *house, got *received) {
	t.Helper()
	w.hub.Commit()
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		for _, name := range w.names {
			in := w.hub.lookup(id(name))
			i := 0
			list := got.texts[key(c, name)]
			err := w.journal.Read(t.Context(), in.Series(c), journal.Range{Epoch: w.hub.Epoch()}, func(_ string, r *journal.Row) bool {
				text := string(recent.AppendRow(nil, in.Ident, r))
				if i >= len(list) || text != list[i] {
					t.Errorf("%s: row %d is\n%s\ntold was\n%s", key(c, name), i, text, at(list, i))
					return false
				}
				i++
				return true
			})
			if err != nil || i != len(list) {
				t.Fatalf("%s: %d rows of %d: %v", key(c, name), i, len(list), err)
			}
		}
	}
}

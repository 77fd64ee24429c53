package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// epochs is a hub with a journal that is closed and opened again, with or without its state.
type epochs struct {
	t   *testing.T
	cfg journal.Config
	hub *hub.Hub
	end func()
	log bytes.Buffer
}

func (w *epochs) begin() {
	w.t.Helper()
	w.log.Reset()
	j, err := journal.Open(w.t.Context(), w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.hub = hub.New(hub.Config{Journal: j, Delays: []time.Duration{time.Minute}, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	if err := w.hub.Restore(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.hub.Run(ctx) })
	run.Go(func() { _ = j.Run(ctx) })
	w.end = func() {
		w.hub.Commit()
		cancel()
		run.Wait()
		if err := j.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// beginEpoch ends the hub, and begins another epoch: without the file that names the present one.
func (w *epochs) beginEpoch() {
	w.t.Helper()
	was := w.hub.Epoch()
	w.end()
	if err := os.Remove(filepath.Join(w.cfg.Folder, "state")); err != nil {
		w.t.Fatal(err)
	}
	if w.begin(); w.hub.Epoch() == was {
		w.t.Fatal("the epoch goes on")
	}
}

func (w *epochs) listed() (symbols []string) {
	list, _ := w.hub.Instruments()
	for _, in := range list {
		symbols = append(symbols, in.ID.Symbol)
	}
	slices.Sort(symbols)
	return symbols
}

func (w *epochs) book(hd market.Handle, size int64) {
	streamtest.Publish(w.t, w.hub, market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(99, size)}})
}

// TestEarlierEpochs checks starts in a new epoch. The instruments with rows in stored days are
// listed without numbers, book and phase. Those are an instrument of a closed day, one that has
// only rows of its book there, and one of the open day. One whose days were removed is not listed.
func TestEarlierEpochs(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &epochs{t: t, cfg: journal.Config{Folder: folder, BootID: "same", Days: 2}}
		w.begin()
		define := func(name string) market.Handle { return streamtest.Define(t, w.hub, name+"|M|CI", nil) }
		gone, kept := define("GONE"), define("KEPT")
		book := streamtest.Define(t, w.hub, "BOOK|M|CI", streamtest.OwnQuotes)
		streamtest.Publish(t, w.hub, streamtest.Trade(gone, 1))
		w.book(gone, 1)
		for day := range 6 {
			streamtest.Publish(t, w.hub, streamtest.Trade(kept, day))
			if day == 4 {
				w.book(book, int64(day))
			}
			w.hub.Commit()
			time.Sleep(24 * time.Hour)
		}
		streamtest.Publish(t, w.hub, streamtest.Trade(define("TODAY"), 1))
		w.hub.Commit()
		time.Sleep(time.Hour)
		if days := w.hub.Journal().Days(); len(days) != 3 || !days[1].Closed || days[2].Closed {
			t.Fatalf("days %+v", days)
		}
		want := []string{"BOOK", "KEPT", "TODAY"}
		for _, again := range []string{"a new epoch", "a second start in it", "another epoch", "an epoch after one without rows"} {
			if again == "a second start in it" {
				w.end()
				w.begin()
			} else {
				w.beginEpoch()
			}
			if got := w.listed(); !slices.Equal(got, want) {
				t.Fatalf("%s: %v are listed, want %v", again, got, want)
			}
			for _, in := range w.hub.Listed() {
				if in.Counts() != (journal.Counts{}) || !in.Stale || in.Phase != market.NoPhase {
					t.Errorf("%s: %s has state: %+v, phase %v", again, in.ID(), in.Counts(), in.Phase)
				}
			}
			if _, err := w.hub.AppendBook(nil, streamtest.ID("KEPT|M|CI"), hub.Tier{Depth: 5}); !errors.Is(err, hub.ErrStale) {
				t.Errorf("%s: book: %v", again, err)
			}
			if n := w.hub.Figures().Position; n != 0 {
				t.Errorf("%s: rows up to position %d were published", again, n)
			}
		}
		w.takesOver()
		w.end()
	})
}

// takesOver checks what readers receive when a feed defines an instrument of an earlier epoch.
func (w *epochs) takesOver() {
	t := w.t
	sh := subscription.NewShard(w.hub, func(bool) {})
	c := streamtest.NewClient(t, sh)
	var items []hub.Item
	for ch := range wire.NumChannels {
		items = append(items, hub.Item{Channel: ch, ID: streamtest.ID("KEPT|M|CI"), Tier: hub.Tier{}})
	}
	items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID("*|M|*")})
	if out := c.Sub.Subscribe(items, subscription.Options{}); len(out.Rejected) > 0 || out.Fault != nil {
		t.Fatalf("refused: %+v", out)
	}
	for _, m := range c.Read(1<<20, false) {
		if m.N != 0 {
			t.Errorf("state of an earlier epoch: %+v", m)
		}
	}
	number, _ := w.hub.Journal().Lookup(streamtest.ID("KEPT|M|CI"))
	hd := streamtest.Define(t, w.hub, "KEPT|M|CI", func(in *market.Instrument) { in.Name = "new" })
	for range 2 {
		streamtest.Publish(t, w.hub, streamtest.Trade(hd, 1))
	}
	w.hub.Commit()
	streamtest.Turn(sh)
	phases, numbers := []string(nil), []uint64(nil)
	for _, m := range c.Read(1<<20, false) {
		switch m.Type {
		case "H":
			phases = append(phases, fmt.Sprint(m.E, m.N))
		case "T":
			numbers = append(numbers, m.N)
		}
	}
	def, _ := w.hub.Journal().Instrument(number)
	same, _ := w.hub.Journal().Lookup(streamtest.ID("KEPT|M|CI"))
	if !slices.Equal(phases, []string{"open1"}) || !slices.Equal(numbers, []uint64{1, 2}) {
		t.Errorf("statuses %v, trades %v", phases, numbers)
	}
	if number == 0 || same != number || w.hub.Lookup(streamtest.ID("KEPT|M|CI")).Number != number || def.Name != "new" || len(w.listed()) != 3 {
		t.Errorf("number %d, then %d; %+v; listed: %v", number, same, def, w.listed())
	}
	w.end()
	w.begin()
	if n := w.hub.Lookup(streamtest.ID("KEPT|M|CI")).Trades.Last; n != 2 || len(w.listed()) != 3 {
		t.Errorf("after a restart: N %d, listed: %v", n, w.listed())
	}
	err := w.hub.Journal().Restore(func(r *journal.Row) error {
		if r.Instrument != number {
			t.Errorf("the checkpoint has an instrument without messages in the epoch: %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEarlierEpochsDelayed checks a reader of delayed data in a new epoch: it has the instrument,
// and receives rows of the new epoch when they are as old as the delay.
func TestEarlierEpochsDelayed(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &epochs{t: t, cfg: journal.Config{Folder: folder, BootID: "same"}}
		w.begin()
		streamtest.Publish(t, w.hub, streamtest.Trade(streamtest.Define(t, w.hub, "A|M|CI", nil), 1))
		w.beginEpoch()
		sh := subscription.NewShard(w.hub, func(bool) {})
		c := streamtest.NewClient(t, sh)
		late := hub.Tier{Delay: 60}
		id := streamtest.ID("A|M|CI")
		out := c.Sub.Subscribe([]hub.Item{{wire.Trades, id, late}, {wire.Status, id, late}, {wire.OrderBook, id, hub.Tier{Delay: 60, Depth: 5}}}, subscription.Options{})
		if len(out.Rejected) > 0 || out.Fault != nil {
			t.Fatalf("refused: %+v", out)
		}
		hd := streamtest.Define(t, w.hub, "A|M|CI", nil)
		streamtest.Publish(t, w.hub, streamtest.Trade(hd, 1))
		got := func() (types string) {
			streamtest.Turn(sh)
			for _, m := range c.Read(1<<20, false) {
				types += fmt.Sprint(m.Type, m.N)
			}
			return types
		}
		if _, err := w.hub.AppendBook(nil, id, hub.Tier{Delay: 60, Depth: 5}); !errors.Is(err, hub.ErrStale) {
			t.Errorf("delayed book: %v", err)
		}
		time.Sleep(50 * time.Second)
		if s := got(); s != "" {
			t.Errorf("after 50 s: %s", s)
		}
		time.Sleep(20 * time.Second)
		if s := got(); !strings.Contains(s, "H1") || !strings.Contains(s, "T1") {
			t.Errorf("after 70 s: %s", s)
		}
		w.end()
	})
}

// TestManyOfEarlierEpochs checks that a new epoch lists at most 10,000 instruments of a market
// from earlier ones. They are those with the newest rows, and the log says how many are not listed.
func TestManyOfEarlierEpochs(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &epochs{t: t, cfg: journal.Config{Folder: folder, BootID: "same"}}
		w.begin()
		list := streamtest.DefineMany(t, w.hub, 10_007, nil)
		for i := range 3 {
			streamtest.Define(t, w.hub, fmt.Sprintf("S%d|OTHER|CI", i), nil)
		}
		w.hub.Commit()
		time.Sleep(24 * time.Hour)
		streamtest.Publish(t, w.hub, streamtest.Trade(list[10_006], 1)) // the others have their first status
		w.beginEpoch()
		if n := len(w.hub.Listed()); n != 10_003 {
			t.Errorf("%d instruments are listed", n)
		}
		for name, want := range map[string]bool{"S0|M|CI": true, "S9998|M|CI": true, "S9999|M|CI": false, "S10005|M|CI": false, "S10006|M|CI": true, "S2|OTHER|CI": true} {
			if _, ok := w.hub.Instrument(streamtest.ID(name)); ok != want {
				t.Errorf("%s is listed: %v", name, ok)
			}
		}
		if s := w.log.String(); !strings.Contains(s, "listed=10003 not_listed=7") {
			t.Errorf("logged: %s", s)
		}
		streamtest.Publish(t, w.hub, streamtest.Trade(streamtest.Define(t, w.hub, "S9999|M|CI", nil), 1))
		if n := len(w.hub.Listed()); n != 10_004 {
			t.Errorf("%d instruments are listed with one that a feed defined", n)
		}
		w.end()
	})
}

// follower is a hub of a cluster that follows the log, with a journal in a folder.
type follower struct {
	t      *testing.T
	folder string
	hub    *hub.Hub
}

// open opens the journal of a follower. The epoch of the log is that of the journal, or begins.
func (f *follower) open(epoch string) {
	f.t.Helper()
	if f.hub != nil {
		f.hub.Commit()
		if err := f.hub.Journal().Close(); err != nil {
			f.t.Fatal(err)
		}
	}
	j, err := journal.Open(f.t.Context(), journal.Config{Folder: f.folder, BootID: "same", Copy: true, Epoch: epoch})
	if err != nil {
		f.t.Fatal(err)
	}
	f.hub = hub.New(hub.Config{Journal: j, Following: true})
	if err := f.hub.Restore(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// TestEarlierEpochsOfACluster checks a node of a cluster that has instruments of an earlier epoch,
// and one that has none. The leader restored from the former numbers only what its feeds define, so
// that both nodes have the same rows of the new epoch, under the same numbers of instruments.
func TestEarlierEpochsOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, fresh := &follower{t: t, folder: t.TempDir()}, &follower{t: t, folder: t.TempDir()}
		a.open("e1")
		log := &sharedLog{}
		lead := func() *hub.Hub {
			t.Helper()
			log.journal, log.fresh, log.entries = a.hub.Journal(), map[market.InstrumentID]uint32{}, nil
			h := hub.New(hub.Config{Log: log})
			if err := h.RestoreFrom(t.Context(), log.journal); err != nil {
				t.Fatal(err)
			}
			h.Interrupted("sequencer_changed")
			return h
		}
		h := lead()
		for _, name := range []string{"A|M|CI", "B|M|CI"} {
			streamtest.Publish(t, h, streamtest.Trade(streamtest.Define(t, h, name, nil), 1))
		}
		log.deliver(t, a.hub, 0)
		a.open("e2")
		fresh.open("e2")
		if a.hub.Epoch() != "e2" || len(a.hub.Listed()) != 2 || a.hub.Lookup(streamtest.ID("B|M|CI")).Trades.Last != 0 {
			t.Fatalf("epoch %s, %d instruments", a.hub.Epoch(), len(a.hub.Listed()))
		}
		for trades := uint64(1); trades < 4; trades++ { // each time with another leader
			h := lead()
			for _, e := range log.entries {
				if e.number != 2 && e.row.Instrument != 2 {
					t.Errorf("leader %d publishes a row of an instrument without feed: %+v", trades, e)
				}
			}
			if n := len(log.entries); n > 0 != (trades > 1) {
				t.Errorf("leader %d begins with %d rows", trades, n)
			}
			streamtest.Publish(t, h, streamtest.Trade(streamtest.Define(t, h, "B|M|CI", nil), int(trades)))
			hashes := map[string]bool{}
			for _, f := range []*follower{a, fresh} {
				log.deliver(t, f.hub, 0)
				if trades == 2 {
					f.open("e2")
				}
				in := f.hub.Lookup(streamtest.ID("B|M|CI"))
				number, _ := f.hub.Journal().Lookup(in.ID())
				if in.Trades.Last != trades || in.Number != 2 || number != 2 {
					t.Errorf("leader %d: N %d, numbers %d and %d", trades, in.Trades.Last, in.Number, number)
				}
				hash, err := f.hub.Journal().Hash(t.Context(), "e2")
				if err != nil {
					t.Fatal(err)
				}
				hashes[hash] = true
			}
			if len(hashes) != 1 || len(a.hub.Listed()) != 2 || len(fresh.hub.Listed()) != 1 {
				t.Errorf("leader %d: the rows of the nodes have the hashes %v; %d and %d instruments are listed", trades, hashes, len(a.hub.Listed()), len(fresh.hub.Listed()))
			}
		}
		for _, f := range []*follower{a, fresh} {
			if err := f.hub.Journal().Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

package hub_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// logWorld is a log with a clock of its own, and an edge that follows it with another clock.
type logWorld struct {
	t        *testing.T
	rng      *rand.Rand
	skew     time.Duration // of the log's clock, as the clock of the edge sees it
	leader   *hub.Hub
	handles  []market.Handle
	defs     []market.Instrument
	numbered uint64 // position of the newest row of a batch
	batches  []logBatch
	made     map[string]int64 // time of the log at which a trade was numbered, by instrument and N

	edge   *hub.Hub
	folder string
	next   int   // batch that the edge gets next
	time   int64 // of the newest batch that it has
	shard  *subscription.Shard
	client *streamtest.Client
	last   map[string]uint64
	place  string
	end    func()
}

// logBatch is a batch of the log.
type logBatch struct {
	time int64
	rows []journal.Row
}

// logDelay is the delay of the reader.
const logDelay = 60 * time.Second

func (w *logWorld) now() int64 { return time.Now().Add(w.skew).UnixNano() }

// number numbers some trades, or none, and makes a batch of their rows.
func (w *logWorld) number() {
	from := w.numbered
	for range w.rng.IntN(3) {
		k := w.rng.IntN(len(w.handles))
		e := streamtest.Trade(w.handles[k], w.rng.IntN(1000))
		e.Time = w.now()
		streamtest.Publish(w.t, w.leader, e)
		w.leader.Mu().Lock()
		w.made[fmt.Sprint(w.defs[k].ID.String(), w.leader.At(w.handles[k]).Trades.Last)] = w.now()
		w.leader.Mu().Unlock()
	}
	w.leader.Commit()
	b := logBatch{time: w.now()}
	err := w.leader.Journal().Scan(w.t.Context(), journal.ScanStart{Position: from}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
		if r.Position > from {
			b.rows = append(b.rows, *r)
		}
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.numbered = w.leader.Newest()
	w.batches = append(w.batches, b)
}

// begin starts the edge.
func (w *logWorld) begin() {
	w.t.Helper()
	j, err := journal.Open(w.t.Context(), journal.Config{Folder: w.folder, BootID: "same", Segment: 1 << 15})
	if err != nil {
		w.t.Fatal(err)
	}
	w.edge = hub.New(hub.Config{Journal: j, Following: true, Delays: []time.Duration{logDelay}})
	if err := w.edge.Restore(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for i := range w.defs {
		number, _ := w.leader.Journal().Lookup(w.defs[i].ID)
		if err := streamtest.FollowDefinition(w.edge, number, w.defs[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = w.edge.Run(ctx) })
	w.end = func() {
		cancel()
		run.Wait()
		if err := j.Close(); err != nil {
			w.t.Error(err)
		}
	}
	w.shard = subscription.NewShard(w.edge, func(bool) {})
	w.client = streamtest.NewClient(w.t, w.shard)
	o := subscription.Options{}
	if w.place != "" {
		o.Resume = &wire.Resume{Epoch: w.edge.Epoch(), Position: w.place}
	}
	item := hub.Item{Channel: wire.Trades, ID: streamtest.ID("*|*|*"), Tier: hub.Tier{Delay: int(logDelay / time.Second)}}
	if out := w.client.Sub.Subscribe([]hub.Item{item}, o); len(out.Rejected) > 0 || len(out.Lost[wire.Trades]) > 0 {
		w.t.Fatalf("%+v", out)
	}
}

// follow gives the edge the batches that it does not have.
func (w *logWorld) follow() {
	w.t.Helper()
	for ; w.next < len(w.batches); w.next++ {
		b := &w.batches[w.next]
		w.edge.LogTime(b.time)
		if err := streamtest.Follow(w.edge, b.rows); err != nil {
			w.t.Fatal(err)
		}
		w.time = b.time
	}
}

// read requires that no trade comes before the log is as old as the delay, and that all come then.
func (w *logWorld) read() {
	w.t.Helper()
	for range 3 {
		synctest.Wait()
		streamtest.Turn(w.shard)
		for _, m := range w.client.Read(1<<20, false) {
			at := w.made[m.I+fmt.Sprint(m.N)]
			if m.Type != "T" || at == 0 {
				w.t.Fatalf("%+v", m)
			}
			if age := time.Duration(w.time - at); age < logDelay {
				w.t.Fatalf("%s %d came after %v by the log's clock", m.I, m.N, age)
			}
			if m.N != w.last[m.I]+1 {
				w.t.Fatalf("%s %d after %d", m.I, m.N, w.last[m.I])
			}
			w.last[m.I] = m.N
		}
	}
	if _, place := w.client.Sub.Position(); place != "" && !w.client.Sub.Pending() && !w.client.Sub.Replaying() {
		w.place = place
	}
}

// late requires that all trades have come that are two seconds older than the delay.
func (w *logWorld) late() {
	w.t.Helper()
	for _, def := range w.defs {
		name := def.ID.String()
		at, ok := w.made[name+fmt.Sprint(w.last[name]+1)]
		if age := time.Duration(w.time - at); ok && age > logDelay+2*time.Second {
			w.t.Fatalf("%s %d has not come after %v by the log's clock", name, w.last[name]+1, age)
		}
	}
}

// TestDelayByTheLogE2E requires that delayed data comes by the clock of the log, which differs from
// that of the edge by 10 minutes. The edge starts again now and then, and reads what it has missed.
func TestDelayByTheLogE2E(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			folder, own := t.TempDir(), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := &logWorld{t: t, rng: rand.New(rand.NewPCG(seed, 31)), folder: folder, made: map[string]int64{}, last: map[string]uint64{}}
				w.skew = []time.Duration{-10 * time.Minute, 10 * time.Minute}[seed%2]
				j, err := journal.Open(t.Context(), journal.Config{Folder: own, BootID: "same"})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = j.Close() }() // it is only read
				w.leader = hub.New(hub.Config{Journal: j, Now: w.now})
				if err := w.leader.Restore(t.Context()); err != nil {
					t.Fatal(err)
				}
				names := []string{"A|M|CI", "B|M|CI", "A|V|CI"}
				if seed >= 4 {
					names = names[:2] // rows of a virtual clock wait for the delay after a restart
				}
				for _, name := range names {
					def := market.Instrument{ID: streamtest.ID(name), PriceDecimals: 2, StartsEmpty: true, VirtualClock: name == "A|V|CI"}
					hd, err := w.leader.Define(def)
					if err != nil {
						t.Fatal(err)
					}
					w.handles, w.defs = append(w.handles, hd), append(w.defs, def)
				}
				w.begin()
				defer func() { w.end() }()
				for range 1500 {
					time.Sleep(250 * time.Millisecond)
					w.number()
					switch n := w.rng.IntN(200); {
					case n == 0: // the edge is away
						w.read()
						w.end()
						for range w.rng.IntN(500) {
							time.Sleep(250 * time.Millisecond)
							w.number()
						}
						w.begin()
					case n < 150:
						w.follow()
						time.Sleep(200 * time.Millisecond) // the replica looks again
						w.read()
						if seed >= 4 {
							w.late()
						}
					}
				}
				for range 2 * int(logDelay/(250*time.Millisecond)) {
					time.Sleep(250 * time.Millisecond)
					w.batches = append(w.batches, logBatch{time: w.now()})
					w.follow()
					w.read()
				}
				for i, hd := range w.handles {
					if n := w.leader.At(hd).Trades.Last; w.last[w.defs[i].ID.String()] != n || n == 0 {
						t.Errorf("%s: %d of %d have come", w.defs[i].ID, w.last[w.defs[i].ID.String()], n)
					}
				}
			})
		})
	}
}

// TestCutOff requires that a hub that is not current reports feed_down as a state of its markets,
// with the N of the newest message. Later it reports feed_up, and sends the books.
func TestCutOff(t *testing.T) {
	h := streamtest.DelayedHub(t, hub.Config{Following: true, Delays: []time.Duration{time.Minute}})
	var rows []journal.Row
	for number, def := range []market.Instrument{{ID: streamtest.ID("*|M|*")}, {ID: streamtest.ID("A|M|CI"), PriceDecimals: 2, StartsEmpty: true}} {
		if err := streamtest.FollowDefinition(h, uint32(number)+1, def); err != nil {
			t.Fatal(err)
		}
	}
	add := func(r journal.Row) {
		r.Position, r.At = uint64(len(rows))+1, time.Now().UnixNano()
		r.Time = r.At
		rows = append(rows, r)
		if err := streamtest.Follow(h, rows[len(rows)-1:]); err != nil {
			t.Fatal(err)
		}
	}
	add(journal.Row{Kind: journal.Status, Instrument: 1, N: 1, Phase: market.Open, Latency: -1})
	add(journal.Row{Kind: journal.Status, Instrument: 2, N: 1, Phase: market.Open, Latency: -1})
	add(journal.Row{Kind: journal.BookState, Instrument: 2, N: 1, Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}, Latency: -1})
	shard := subscription.NewShard(h, func(bool) {})
	subscribe := func(c wire.Channel) *streamtest.Client {
		x := streamtest.NewClient(t, shard)
		streamtest.Subscribe(t, x.Sub, c, "A|M|CI")
		return x
	}
	read := func(x *streamtest.Client) (text string) {
		streamtest.Turn(shard)
		for _, m := range x.Read(1<<20, false) {
			text += fmt.Sprint(m.Type, " ", m.I, " ", m.N, " ", m.R, " ", m.E, " ", m.Y, "\n")
		}
		return text
	}
	trades, book := subscribe(wire.Trades), subscribe(wire.OrderBook)
	read(trades)
	read(book)
	const down, up = "H *|M|* 1 true feed_down cut_off\n", "H *|M|* 1 true feed_up \n"
	for range 2 {
		h.SetCurrent(false)
	}
	if got := read(trades); got != down {
		t.Errorf("trades: %s", got)
	}
	if got := read(book); got != down {
		t.Errorf("book: %s", got)
	}
	if s, ok := h.MarketStatus("M"); !ok || s.Phase != market.FeedDown {
		t.Errorf("%+v", s)
	}
	late := subscribe(wire.Trades)
	if got := read(late); got != down {
		t.Errorf("a late subscriber: %s", got)
	}
	for range 2 {
		h.SetCurrent(true)
	}
	if got := read(trades); got != up {
		t.Errorf("trades: %s", got)
	}
	if got := read(book); got != "O A|M|CI 1 true  \n"+up && got != up+"O A|M|CI 1 true  \n" {
		t.Errorf("book: %s", got)
	}
	if s, ok := h.MarketStatus("M"); !ok || s.Phase != market.Open {
		t.Errorf("%+v", s)
	}
	add(journal.Row{Kind: journal.BookUpdate, Instrument: 2, N: 2, Bids: []market.Level{streamtest.Level(99, 3)}, Latency: -1})
	if got := read(book); got != "O A|M|CI 2 false  \n" {
		t.Errorf("the next change of the book: %s", got)
	}
	if n := h.Newest(); n != uint64(len(rows)) {
		t.Errorf("the hub is at position %d of %d", n, len(rows))
	}
}

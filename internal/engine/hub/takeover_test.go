package hub_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
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

// sharedLog is the log of a cluster in memory. It implements hub.RowLog for the hub that numbers.
type sharedLog struct {
	journal *journal.Journal // of the follower from which the numbering hub was restored
	fresh   map[market.InstrumentID]uint32
	entries []logEntry
}

// logEntry is a definition or a row.
type logEntry struct {
	number uint32 // of a definition; 0: a row
	def    market.Instrument
	row    journal.Row
}

func (l *sharedLog) Define(def market.Instrument) uint32 {
	number, ok := l.journal.Lookup(def.ID)
	if !ok {
		if number = l.fresh[def.ID]; number == 0 {
			number = l.journal.Numbers() + 1 + uint32(len(l.fresh)) // no follower defines meanwhile
			l.fresh[def.ID] = number
		}
	}
	l.entries = append(l.entries, logEntry{number: number, def: def})
	return number
}

func (l *sharedLog) Append(r *journal.Row) {
	x := *r
	x.Bids, x.Asks, x.TradeDetails = slices.Clone(r.Bids), slices.Clone(r.Asks), r.TradeDetails.Clone()
	l.entries = append(l.entries, logEntry{row: x})
}

// deliver passes the entries of the log to a hub that follows it.
func (l *sharedLog) deliver(t *testing.T, h *hub.Hub, from int) {
	t.Helper()
	for _, e := range l.entries[from:] {
		var err error
		if e.number > 0 {
			if !h.Journal().DefineAs(e.number, e.def) {
				t.Fatalf("%s has another number than %d", e.def.ID, e.number)
			}
			err = streamtest.FollowDefinition(h, e.number, e.def)
		} else {
			err = streamtest.Follow(h, []journal.Row{e.row})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Commit()
}

// takeover is a numbering hub that is replaced now and then, and two hubs that follow.
type takeover struct {
	replicas  // hubs[0] and hubs[1] follow
	numbering *hub.Hub
	log       *sharedLog
	given     int // entries that the followers have
}

// openFollowers opens the two hubs that follow.
func (r *takeover) openFollowers() {
	t := r.t
	t.Helper()
	for i := range r.hubs {
		j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same", Segment: 1 << 16, Copy: true, Epoch: "log"})
		if err != nil {
			t.Fatal(err)
		}
		r.hubs[i] = hub.New(hub.Config{Journal: j, Following: true, TradesKept: 600, Markets: []market.Market{{ID: "M"}, {ID: "V"}}})
		if err := r.hubs[i].Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.shards[i] = subscription.NewShard(r.hubs[i], func(bool) {})
	}
}

// lead replaces the numbering hub by one that is restored from the journal of a follower. Rows that
// were not delivered are lost, as those of a leader that ended.
func (r *takeover) lead() {
	t := r.t
	t.Helper()
	r.log.entries = r.log.entries[:r.given]
	r.log.journal, r.log.fresh = r.hubs[0].Journal(), map[market.InstrumentID]uint32{}
	r.numbering = hub.New(hub.Config{Log: r.log, TradesKept: 600, Markets: []market.Market{{ID: "M"}, {ID: "V"}}})
	if err := r.numbering.RestoreFrom(t.Context(), r.log.journal); err != nil {
		t.Fatal(err)
	}
	if a, b := r.numbering.Newest(), r.hubs[0].Newest(); a != b {
		t.Fatalf("a new leader begins at position %d, and the log ends at %d", a, b)
	}
	followed := r.hubs[0].Listed()
	for i, in := range r.numbering.Listed() {
		if a, b := in.Counts(), followed[i].Counts(); a != b {
			t.Fatalf("%s: a new leader has the counts %+v, the follower %+v", in.ID(), a, b)
		}
	}
	r.numbering.Interrupted("sequencer_changed")
	r.handles = r.handles[:0]
	for _, def := range r.defs {
		handle, err := r.numbering.Define(def)
		if err != nil {
			t.Fatal(err)
		}
		r.handles = append(r.handles, handle)
	}
}

// deliver delivers what was numbered to both followers, and compares what their readers receive.
func (r *takeover) deliver() {
	for _, h := range r.hubs {
		r.log.deliver(r.t, h, r.given)
	}
	r.given = len(r.log.entries)
	r.compare()
}

// TestTakeover checks that leaders which replace each other continue N and positions. Each is
// restored from the journal of a follower, and the last one may have numbered rows that it did not
// deliver. All followers send and store the same.
func TestTakeover(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &takeover{replicas: replicas{t: t, rng: rand.New(rand.NewPCG(seed, 11))}, log: &sharedLog{}}
				r.openFollowers()
				r.defs = definitions()
				r.lead()
				r.deliver()
				r.join(subscription.Options{})
				for round := range 40 {
					var events []market.Event
					for range r.rng.IntN(40) {
						events = append(events, r.event())
					}
					_ = r.numbering.Publish(events) // some are refused
					if round%5 == 4 {
						if r.rng.IntN(2) == 0 {
							r.deliver()
						}
						r.lead()
					}
					r.deliver()
					time.Sleep(time.Duration(r.rng.Int64N(int64(3 * time.Second))))
				}
				r.checkRows()
			})
		})
	}
}

// checkRows checks that the journals are equal and continuous.
func (r *takeover) checkRows() {
	t := r.t
	var hash [2]string
	for i, h := range r.hubs {
		last := uint64(0)
		err := h.Journal().Scan(t.Context(), journal.ScanStart{}, nil, ^journal.Checkpoints, func(row *journal.Row) bool {
			if row.Position != last+1 {
				t.Errorf("position %d comes after %d", row.Position, last)
			}
			last = row.Position
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if hash[i], err = h.Journal().Hash(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if err := h.Journal().Close(); err != nil {
			t.Fatal(err)
		}
	}
	if hash[0] != hash[1] {
		t.Errorf("journals differ: %s, %s", hash[0], hash[1])
	}
}

// TestTakeoverOfABook checks what readers of a book receive when another leader begins: a gap, the
// status that the book is not known, and the next snapshot.
func TestTakeoverOfABook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &takeover{replicas: replicas{t: t, rng: rand.New(rand.NewPCG(1, 11))}, log: &sharedLog{}}
		r.openFollowers()
		r.defs = []market.Instrument{{ID: streamtest.ID("A|M|CI"), PriceDecimals: 2}}
		r.lead()
		snapshot := market.Event{Kind: market.KindSnapshot, Handle: r.handles[0], Bids: []market.Level{streamtest.Level(99, 1)}, Asks: []market.Level{streamtest.Level(101, 1)}}
		if err := r.numbering.Publish([]market.Event{snapshot}); err != nil {
			t.Fatal(err)
		}
		r.deliver()
		sub := streamtest.Open(r.shards[1])
		sub.Subscribe([]hub.Item{{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5}}}, subscription.Options{})
		read := func() (out []byte) {
			streamtest.Turn(r.shards[1])
			for sub.Pending() {
				out = append(out, sub.Gather(nil, 1<<20, wire.JSON, false)...)
			}
			return out
		}
		read()
		r.lead()
		r.deliver()
		if out := read(); !bytes.Contains(out, []byte(`"sequencer_changed"`)) || !bytes.Contains(out, []byte(`"feed_down"`)) {
			t.Errorf("at the start of another leader: %q", out)
		}
		snapshot.Handle = r.handles[0]
		if err := r.numbering.Publish([]market.Event{snapshot}); err != nil {
			t.Fatal(err)
		}
		r.deliver()
		if out := read(); !bytes.Contains(out, []byte(`"feed_up"`)) || !bytes.Contains(out, []byte(`"R":true`)) {
			t.Errorf("at the next snapshot: %q", out)
		}
	})
}

package hub_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
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

// replicas is a hub that numbers random events and one that follows it, with the same subscribers.
type replicas struct {
	t       *testing.T
	rng     *rand.Rand
	handles []market.Handle
	defs    []market.Instrument
	hubs    [2]*hub.Hub // the second one follows
	folder  [2]string
	shards  [2]*subscription.Shard
	readers [2][]*subscription.Subscriber
	orders  int
	n       int
	resumed bool // the following hub was restarted
}

func (r *replicas) openHub(i int) {
	r.t.Helper()
	j, err := journal.Open(r.t.Context(), journal.Config{Folder: r.folder[i], BootID: "same", Segment: 1 << 16})
	if err != nil {
		r.t.Fatal(err)
	}
	r.hubs[i] = hub.New(hub.Config{Journal: j, Following: i == 1, TradesKept: 600, Markets: []market.Market{{ID: "M"}, {ID: "V"}}})
	if err := r.hubs[i].Restore(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.shards[i] = subscription.NewShard(r.hubs[i], func(bool) {})
}

// definitions returns instruments of all kinds, and a market as a whole.
func definitions() (list []market.Instrument) {
	for i, edit := range []func(*market.Instrument){
		nil,
		func(in *market.Instrument) { in.StartsEmpty = false },
		func(in *market.Instrument) { in.NoBook = true },
		func(in *market.Instrument) { in.QuotesFromFeed = true },
		func(in *market.Instrument) { in.ID.Market, in.VirtualClock = "V", true },
		func(in *market.Instrument) { in.ID = streamtest.ID("*|M|*") },
	} {
		def := market.Instrument{ID: streamtest.ID(fmt.Sprintf("S%d|M|CI", i)), PriceDecimals: 2, StartsEmpty: true}
		if edit != nil {
			edit(&def)
		}
		list = append(list, def)
	}
	return list
}

// define defines instruments of all kinds, and the markets as a whole.
func (r *replicas) define() {
	r.defs = definitions()
	for _, def := range r.defs {
		hd, err := r.hubs[0].Define(def)
		if err != nil {
			r.t.Fatal(err)
		}
		r.handles = append(r.handles, hd)
	}
}

func (r *replicas) defineFollowed() {
	for i := range r.defs {
		number, ok := r.hubs[0].Journal().Lookup(r.defs[i].ID)
		if err := streamtest.FollowDefinition(r.hubs[1], number, r.defs[i]); err != nil || !ok {
			r.t.Fatal(err, ok)
		}
	}
}

// event returns a random event of an instrument. Some are refused.
func (r *replicas) event() market.Event {
	r.n++
	k := r.rng.IntN(len(r.handles))
	e := market.Event{Handle: r.handles[k], Time: time.Now().UnixNano() - r.rng.Int64N(5e9)}
	if r.rng.IntN(10) == 0 {
		e.Time -= r.rng.Int64N(200e9) // late
	}
	if r.defs[k].ID.IsPattern() {
		e.Kind, e.Phase = market.KindStatus, []market.Phase{market.Open, market.Closed, market.FeedDown, market.FeedUp}[r.rng.IntN(4)]
		if r.rng.IntN(4) == 0 {
			e.Kind, e.Reason = market.KindGap, "lost"
		}
		return e
	}
	price := func() int64 { return 90 + r.rng.Int64N(20) }
	switch r.rng.IntN(16) {
	default:
		e.Kind, e.Price, e.Size = market.KindTrade, market.Price(price())*market.Scale, market.Size(1+r.rng.Int64N(9))*market.Scale
		e.TradeID, e.Side = fmt.Sprint(r.n), market.Buy
		if r.rng.IntN(5) == 0 {
			e.Conditions = []string{"late"}
		}
	case 0:
		e.Kind, e.TradeID, e.Size = market.KindCancel, fmt.Sprint(max(1, r.n-r.rng.IntN(60))), market.Scale
	case 1:
		e.Kind, e.TradeID, e.Price, e.Size = market.KindCorrect, fmt.Sprint(max(1, r.n-r.rng.IntN(60))), 77*market.Scale, 2*market.Scale
	case 2, 3, 4, 5:
		e.Kind, e.Bids, e.Asks = market.KindUpdate, []market.Level{streamtest.Level(price()-20, r.rng.Int64N(4))}, []market.Level{streamtest.Level(price()+20, r.rng.Int64N(4))}
	case 6:
		e.Kind, e.Bids, e.Asks = market.KindSnapshot, []market.Level{streamtest.Level(80, 3), streamtest.Level(79, 1)}, []market.Level{streamtest.Level(120, 2)}
		if r.rng.IntN(3) == 0 {
			e.Bids, e.Asks = nil, nil // a book of orders may begin
		}
	case 7:
		e.Kind, e.Bids, e.Asks = market.KindQuote, []market.Level{streamtest.Level(price()-30, 1)}, []market.Level{streamtest.Level(price()+30, 1)}
	case 8:
		e.Kind, e.Phase, e.Reason = market.KindStatus, []market.Phase{market.Open, market.Halt, market.Auction, market.FeedDown, market.FeedUp, market.Gap}[r.rng.IntN(6)], "why"
	case 9:
		if e.Kind, e.Reason = market.KindGap, "lost"; r.rng.IntN(3) == 0 {
			e.Reason = hub.ReplayRestarted
		}
	case 10:
		e.Kind, e.PreviousClose, e.OpenInterest = market.KindReference, market.Price(price())*market.Scale, market.Size(r.rng.Int64N(1000))*market.Scale
	case 11:
		r.orders++
		e.Kind, e.OrderID, e.Side, e.Price, e.Size = market.KindOrderAdd, uint64(r.orders), market.Buy, market.Price(price()-25)*market.Scale, market.Scale
	case 12:
		e.Kind, e.OrderID = market.KindOrderDelete, uint64(max(1, r.orders-r.rng.IntN(10)))
	}
	return e
}

// follow sends the second hub the rows of the first hub's journal that it does not have, in batches
// of random sizes. Some rows are sent twice.
func (r *replicas) follow() {
	r.t.Helper()
	a, b := r.hubs[0], r.hubs[1]
	a.Commit()
	from := b.Newest()
	if from > 3 && r.rng.IntN(4) == 0 {
		from -= r.rng.Uint64N(3)
	}
	var batch []journal.Row
	send := func() {
		if err := streamtest.Follow(b, batch); err != nil {
			r.t.Fatal(err)
		}
		batch = batch[:0]
	}
	all := ^journal.Checkpoints
	err := a.Journal().Scan(r.t.Context(), journal.ScanStart{Position: from}, nil, all, func(row *journal.Row) bool {
		x := *row
		x.Bids, x.Asks, x.Conditions = slices.Clone(row.Bids), slices.Clone(row.Asks), slices.Clone(row.Conditions)
		if batch = append(batch, x); r.rng.IntN(20) == 0 {
			send()
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	send()
	if a.Newest() != b.Newest() {
		r.t.Fatalf("at position %d, the other hub at %d", b.Newest(), a.Newest())
	}
}

// join opens the same subscriptions at both hubs.
func (r *replicas) join(o subscription.Options) {
	r.t.Helper()
	for i, h := range r.hubs {
		o := o
		if o.Resume != nil {
			resume := *o.Resume
			resume.Epoch = h.Epoch()
			resume.Position = streamtest.PositionText(h, uint64(len(o.Resume.Position)))
			o.Resume = &resume
		}
		for _, ident := range []string{"S0|M|CI", "S1|M|CI", "S2|M|CI", "S3|M|CI", "S4|V|CI", "*|M|*", "*|*|*"} {
			for c := range wire.NumChannels {
				if r.resumed && c == wire.Summary {
					continue // a restart counts the day again, without late trades
				}
				depths := []int{0}
				if c == wire.OrderBook {
					depths = []int{0, 1, 5}
				}
				for _, depth := range depths {
					sub := streamtest.Open(r.shards[i])
					sub.Subscribe([]hub.Item{{Channel: c, ID: streamtest.ID(ident), Tier: hub.Tier{Depth: depth}}}, o)
					if o.Resume != nil {
						sub.AfterReplay(subscription.ReplayEnd{})
					}
					r.readers[i] = append(r.readers[i], sub)
				}
			}
		}
	}
}

// compare checks that the subscribers of both hubs receive the same bytes.
func (r *replicas) compare() {
	r.t.Helper()
	for _, sh := range r.shards {
		streamtest.Turn(sh)
	}
	for k := range r.readers[0] {
		var got [2][]byte
		for i := range r.hubs {
			for sub := r.readers[i][k]; sub.Pending(); {
				got[i] = append(got[i], sub.Gather(nil, 1<<20, wire.JSON, false)...)
			}
		}
		if !bytes.Equal(got[0], got[1]) {
			r.t.Fatalf("the subscriber of %+v of the following hub received\n%s\nwant\n%s", slices.Collect(r.readers[0][k].All)[0], difference(got[1], got[0]), difference(got[0], got[1]))
		}
	}
}

// difference returns the part of a around the first byte that differs from b.
func difference(a, b []byte) []byte {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return a[max(0, i-200):min(len(a), i+400)]
}

// leave closes all subscribers.
func (r *replicas) leave() {
	for i := range r.hubs {
		for _, sub := range r.readers[i] {
			sub.Close()
		}
		r.readers[i] = nil
	}
}

// restart closes the following hub and opens it again from its journal.
func (r *replicas) restart() {
	r.leave()
	if err := r.hubs[1].Journal().Close(); err != nil {
		r.t.Fatal(err)
	}
	r.openHub(1)
	r.defineFollowed()
	r.resumed = true
	for i, in := range r.hubs[0].Listed() {
		if a, b := in.Counts(), r.hubs[1].Listed()[i].Counts(); a != b {
			r.t.Fatalf("%s: counts after a restart %+v, want %+v", in.ID(), b, a)
		}
	}
}

// TestFollow checks that a hub which follows the log of another one, in batches of random sizes and
// over restarts, sends its subscribers the same bytes and keeps the same journal.
func TestFollow(t *testing.T) { testFollow(t, 3) }

// TestFollowE2E checks the same as TestFollow, with more seeds and without the race detector.
func TestFollowE2E(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 200
	}
	testFollow(t, seeds)
}

func testFollow(t *testing.T, seeds uint64) {
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &replicas{t: t, rng: rand.New(rand.NewPCG(seed, 9))}
				for i := range r.hubs {
					r.folder[i] = t.TempDir()
					r.openHub(i)
				}
				r.define()
				r.defineFollowed()
				r.follow()
				r.join(subscription.Options{})
				for round := range 60 {
					var events []market.Event
					for range r.rng.IntN(40) {
						events = append(events, r.event())
					}
					_ = r.hubs[0].Publish(events) // some are refused
					r.follow()
					r.compare()
					switch r.rng.IntN(12) {
					case 0:
						r.leave()
						r.join(subscription.Options{})
					case 1:
						r.restart()
						r.join(subscription.Options{})
					}
					time.Sleep(time.Duration(r.rng.Int64N(int64(3 * time.Second))))
					if round%20 == 19 {
						time.Sleep(2 * time.Hour)
					}
				}
				r.compare()
				var hash [2]string
				for i, h := range r.hubs {
					var err error
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
			})
		})
	}
}

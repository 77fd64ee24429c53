package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

const (
	// Interval at which a waiting publisher checks again.
	lookAgain = 50 * time.Microsecond
)

// benchFeed is the feed.Source of a measurement.
type benchFeed struct {
	cfg     *Config
	board   *proc.Board      // nil: none
	gateway *gateway.Gateway // nil: not started
	work    chan pattern.Pattern
	done    chan pattern.Published
	stop    atomic.Bool
	listed  chan struct{} // closed when the instruments are listed
	listing sync.Once
	events  []market.Event // reused
	quote   [1]market.Level

	handles       []market.Handle
	ids           []string
	trades        []uint32 // newest N of each instrument
	byHand        map[market.Handle]int
	skipped       uint64 // messages on the board before this work
	skippedTrades uint64
}

func newFeed(cfg *Config) *benchFeed {
	return &benchFeed{cfg: cfg, work: make(chan pattern.Pattern), done: make(chan pattern.Published), listed: make(chan struct{}), byHand: map[market.Handle]int{}}
}

// Run implements feed.Source.
func (f *benchFeed) Run(ctx context.Context, sink feed.Sink) error {
	list := f.define
	if f.cfg.Market {
		list = f.defineMarket
	}
	if err := list(sink); err != nil {
		return err
	}
	f.listing.Do(func() { close(f.listed) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-f.work:
			f.done <- f.publish(ctx, sink, &p)
		}
	}
}

// list records an instrument that the sink has accepted.
func (f *benchFeed) list(h market.Handle, id market.InstrumentID) {
	if _, ok := f.byHand[h]; ok {
		return
	}
	f.byHand[h] = len(f.ids)
	f.handles, f.ids, f.trades = append(f.handles, h), append(f.ids, id.String()), append(f.trades, 0)
}

// level returns the i-th level of a side: direction is -1 for bids, 1 for asks.
func level(i, direction int64) market.Level {
	return market.Level{Price: market.Price(705_000_000_000 + direction*i*50_000_000), Size: market.Size(100_000_000 * (100 + i)), Orders: uint32(3 + i)}
}

// define lists the instruments, each with a book of five levels on each side.
func (f *benchFeed) define(sink feed.Sink) error {
	book := market.Event{Kind: market.KindSnapshot, Time: time.Now().UnixNano()}
	for i := range int64(5) {
		book.Bids = append(book.Bids, level(i+1, -1))
		book.Asks = append(book.Asks, level(i+1, 1))
	}
	for i := range max(1, f.cfg.Instruments) {
		in := market.Instrument{ID: pattern.ID(i), Currency: "ARS", PriceDecimals: 2, StartsEmpty: true}
		h, err := sink.Define(in)
		if err != nil {
			return fmt.Errorf("define %s: %w", in.ID, err)
		}
		f.list(h, in.ID)
		book.Handle = h
		if err := sink.Publish([]market.Event{book}); err != nil {
			return err
		}
	}
	return nil
}

// defineMarket lists the instruments of the simulated market, so that clients can subscribe before
// it starts.
func (f *benchFeed) defineMarket(sink feed.Sink) error {
	source, err := sim.New(sim.Config{Seed: 1, Instruments: f.cfg.Instruments})
	if err != nil {
		return err
	}
	for _, in := range source.Instruments() {
		h, err := sink.Define(in)
		if err != nil {
			return fmt.Errorf("define %s: %w", in.ID, err)
		}
		f.list(h, in.ID)
	}
	return nil
}

// publish does one work until it must stop.
func (f *benchFeed) publish(ctx context.Context, sink feed.Sink, p *pattern.Pattern) pattern.Published {
	// The publisher has its own thread, so that the kernel wakes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	out := pattern.Published{}
	if p.Kind == pattern.Market {
		m := &marketSink{feed: f, sink: sink, pattern: p, out: &out}
		if err := m.run(ctx); err != nil && !errors.Is(err, errStopped) {
			panic(err) // a bug in the measurement, which the supervisor reports
		}
	} else {
		f.repeat(ctx, sink, p, &out)
	}
	out.Seconds = time.Since(began).Seconds()
	out.Last = make(map[string]uint32, len(f.ids))
	for i, id := range f.ids {
		out.Last[id] = f.trades[i]
	}
	return out
}

// repeat publishes batches of trades.
func (f *benchFeed) repeat(ctx context.Context, sink feed.Sink, p *pattern.Pattern, out *pattern.Published) {
	batch, spread := max(1, p.Batch), min(max(1, p.Spread), len(f.handles))
	var pace *pattern.Pacer
	if p.Kind == pattern.Rate {
		pace = pattern.NewPacer(time.Now(), p.Rate/float64(batch), nil)
	}
	turn := 0
	for (p.Kind == pattern.Once || !f.stop.Load()) && ctx.Err() == nil {
		at := int64(0)
		if pace != nil {
			at = pace.Next()
		} else if !f.mayPublish(p, uint64(batch), out.Events) {
			continue
		}
		if at == 0 {
			at = time.Now().UnixNano()
		}
		f.events = f.events[:0]
		for range batch {
			i := turn % spread
			turn++
			f.trades[i]++
			e := market.Event{Kind: market.KindTrade, Handle: f.handles[i], Time: at}
			e.Price, e.Size, e.Side, e.TradeID = pattern.Trade(uint64(f.trades[i]))
			f.events = append(f.events, e)
			if p.Quotes {
				f.quote[0] = level(1, -1)
				f.quote[0].Size += market.Size(100_000_000 * (1 + int64(f.trades[i])%500))
				f.events = append(f.events, market.Event{Kind: market.KindUpdate, Handle: e.Handle, Time: at, Bids: f.quote[:]})
			}
		}
		if err := sink.Publish(f.events); err != nil {
			panic(err)
		}
		out.Events += uint64(batch)
		out.Batches++
		if p.Kind == pattern.Once {
			return
		}
	}
}

// mayPublish reports whether the next batch may be published; if not, it sleeps a little. published
// is the number of messages of this work.
func (f *benchFeed) mayPublish(p *pattern.Pattern, batch, published uint64) bool {
	free := true
	switch {
	case p.Kind == pattern.Lockstep:
		// A single full socket does not delay the others; the bare program also waits for that one
		// only.
		if s := f.gateway.Stats(); s.Backlogged > s.Open/10 {
			free = false
		} else {
			return f.awaitTurn(p.Ahead * p.Batch)
		}
	case f.board == nil:
	case p.Kind == pattern.Window && p.Fanout > 0:
		got := f.board.Received.Load() - f.skipped
		free = (published+batch)*uint64(p.Fanout) <= got+uint64(p.Window*p.Fanout)
	case p.Kind == pattern.Window:
		free = f.board.Through.Load()+uint64(p.Window) >= uint64(f.trades[0])+batch
	}
	if !free {
		proc.Nap(int64(lookAgain))
	}
	return free
}

// awaitTurn waits until each shard of the gateway is at most behind messages late. It returns false
// after 20 ms, so that the caller can check whether to stop.
func (f *benchFeed) awaitTurn(behind int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	return f.gateway.AwaitDelivery(ctx, behind) == nil
}

var errStopped = errors.New("stopped")

// marketSink lets the simulated market run as fast as its messages are received. It is between the
// simulator and the gateway.
type marketSink struct {
	feed    *benchFeed
	sink    feed.Sink
	pattern *pattern.Pattern
	out     *pattern.Published
	events  []market.Event
	ctx     context.Context
	due     uint64 // trades that single connections must receive
	readers []int  // by index of the instrument
}

func (m *marketSink) run(ctx context.Context) error {
	source, err := sim.New(sim.Config{Seed: 1, Instruments: m.feed.cfg.Instruments, Speed: math.Inf(1)})
	if err != nil {
		return err
	}
	m.ctx = ctx
	m.readers = make([]int, len(m.feed.ids))
	for i, id := range m.feed.ids {
		m.readers[i] = m.pattern.Readers[id]
	}
	return source.Run(ctx, m)
}

// Define lists an instrument with the real clock.
func (m *marketSink) Define(in market.Instrument) (market.Handle, error) {
	in.VirtualClock = false
	h, err := m.sink.Define(in)
	if err == nil && in.ID.Symbol != market.Any {
		m.feed.list(h, in.ID)
	}
	return h, err
}

// Publish sets the time of events to now.
func (m *marketSink) Publish(events []market.Event) error {
	for {
		if m.feed.stop.Load() || m.ctx.Err() != nil {
			return errStopped
		}
		if m.feed.board == nil || m.due <= m.feed.board.Trades.Load()-m.feed.skippedTrades+uint64(m.pattern.Window) {
			break
		}
		proc.Nap(int64(lookAgain))
	}
	m.events = append(m.events[:0], events...)
	now := time.Now().UnixNano()
	for i := range m.events {
		e := &m.events[i]
		e.Time, e.Receive = now, 0
		if e.Kind == market.KindTrade {
			i := m.feed.byHand[e.Handle]
			m.feed.trades[i]++
			m.due += uint64(m.readers[i])
		}
	}
	m.out.Events += uint64(len(events))
	m.out.Batches++
	return m.sink.Publish(m.events)
}

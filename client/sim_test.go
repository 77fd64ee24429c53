package client_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestSimKillsE2E follows all channels of a simulated market whose connection breaks again and
// again. Series are complete, the books that a program makes of the events never fail, and the
// trades are those of history.
func TestSimKillsE2E(t *testing.T) {
	t.Parallel()
	s := ruedatest.Start(t, ruedatest.Config{Sim: &sim.Config{Seed: 3, Instruments: 10, Speed: 40}})
	proxy := newBreaker(t, strings.TrimPrefix(s.URL, "http://"))
	c, err := client.New([]string{"http://" + proxy.listener.Addr().String()}, client.Options{
		Username: s.Username, Password: client.Secret(s.Password), Heartbeat: 400 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set := client.Set{
		Trades: []string{"*|*|*"}, Quotes: []string{"*|*|*"}, Status: []string{"*|*|*"}, Summary: []string{"*|*|*"}, Bars: []string{"*|*|*|1s"}, Depth: 10,
	}
	for in, err := range c.Instruments(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		set.Books = append(set.Books, in.ID.String())
	}
	if err := c.Subscribe(set); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := &follower{t: t, newest: map[stream.Series]uint64{}, books: map[market.InstrumentID]*client.Book{}, sizes: map[market.InstrumentID]map[uint64]market.Size{}}
	var killers sync.WaitGroup
	defer killers.Wait()
	left := 12
	for ev := range c.Events(ctx) {
		f.add(ev)
		if ev, ok := ev.(client.StateChange); !ok || ev.State != client.Live {
			continue
		}
		if left == 0 {
			break
		}
		left--
		after, way := 100*time.Millisecond+rand.N(200*time.Millisecond), kills[left%len(kills)]
		killers.Go(func() {
			time.Sleep(after)
			proxy.kill(way)
		})
	}
	if left > 0 || f.trades < 100 || f.updates < 100 || f.bars == 0 {
		t.Fatalf("%d kills left, %d trades, %d updates of books, %d bars", left, f.trades, f.updates, f.bars)
	}
	t.Logf("%d trades, %d updates of books, %d invalid, %d bars", f.trades, f.updates, f.invalid, f.bars)
	f.compare(connect(t, s, client.Options{}, client.Set{}))
}

// follower checks the events of all channels.
type follower struct {
	t      *testing.T
	newest map[stream.Series]uint64
	books  map[market.InstrumentID]*client.Book
	sizes  map[market.InstrumentID]map[uint64]market.Size // of trades

	trades, updates, invalid, bars int
}

func (f *follower) next(s stream.Series, n uint64) {
	f.t.Helper()
	if before := f.newest[s]; before != 0 && n != before+1 {
		f.t.Fatalf("%s: %d after %d", s, n, before)
	}
	f.newest[s] = n
}

func (f *follower) add(ev client.Event) {
	f.t.Helper()
	switch ev := ev.(type) {
	case *client.Trade:
		f.next(stream.Series{Instrument: ev.Instrument}, ev.N)
		if f.sizes[ev.Instrument] == nil {
			f.sizes[ev.Instrument] = map[uint64]market.Size{}
		}
		f.sizes[ev.Instrument][ev.N] = ev.Size
		f.trades++
	case *client.Bar:
		f.next(stream.Series{Channel: wire.BarsOf(ev.Interval), Instrument: ev.Instrument}, ev.N)
		f.bars++
	case *client.BookUpdate:
		if f.books[ev.Instrument] == nil {
			f.books[ev.Instrument] = &client.Book{}
		}
		if err := f.books[ev.Instrument].Apply(*ev); err != nil {
			f.t.Fatalf("%s: %v", ev.Instrument, err)
		}
		f.updates++
	case client.BookInvalid:
		f.invalid++
	case client.Lost:
		if ev.Reason != "not_replayed" { // a status whose snapshot skips numbers
			f.t.Fatal(ev)
		}
	}
}

// compare compares the trades with history.
func (f *follower) compare(c *client.Client) {
	f.t.Helper()
	for id, sizes := range f.sizes {
		found := 0
		for x, err := range c.Trades(f.t.Context(), id.String(), client.Range{}) {
			if err != nil {
				f.t.Fatal(err)
			}
			if size, ok := sizes[x.N]; ok {
				if found++; size != x.Size {
					f.t.Fatalf("%s: trade %d has size %s, and %s in history", id, x.N, size, x.Size)
				}
			}
		}
		if found != len(sizes) {
			f.t.Errorf("%s: history has %d of %d trades", id, found, len(sizes))
		}
	}
}

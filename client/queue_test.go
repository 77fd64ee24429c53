package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestQueueModel adds and takes random events under each policy. The order of the events of an
// instrument is kept, trades are complete or reported as lost, and the queue is bounded.
func TestQueueModel(t *testing.T) {
	for _, policy := range []Overflow{Conflate, Block, Drop} {
		random := rand.New(rand.NewPCG(uint64(policy), 3))
		const most, instruments = 50, 5
		q := newQueue(most, policy)
		var taken [instruments]int64           // step of the newest event of an instrument
		var sent, got [instruments]uint64      // newest N of its trades
		var quotes, quoted [instruments]uint64 // newest N of its quotes
		var series [2][instruments]*series
		id := func(i int) market.InstrumentID {
			return market.InstrumentID{Symbol: string(rune('A' + i)), Market: "M", Term: "CI"}
		}
		for i := range 2 * instruments {
			series[i%2][i/2] = seriesOf(wire.Channel(i%2), id(i/2))
		}
		lost := uint64(0)
		take := func() bool {
			e, ok := q.take()
			if !ok {
				return false
			}
			switch ev := e.event.(type) {
			case Lost:
				i := int(ev.Instrument.Symbol[0] - 'A')
				if policy != Drop || ev.From != got[i]+1 || ev.To < ev.From {
					t.Fatalf("policy %d: %v after %d", policy, ev, got[i])
				}
				lost += ev.To - ev.From + 1
				got[i] = ev.To
			case *Trade:
				i := int(ev.Instrument.Symbol[0] - 'A')
				if ev.N != got[i]+1 || ev.RefN <= uint64(taken[i]) {
					t.Fatalf("policy %d: trade %d after %d", policy, ev.N, got[i])
				}
				got[i], taken[i] = ev.N, int64(ev.RefN)
			case *Quote:
				i := int(ev.Instrument.Symbol[0] - 'A')
				if ev.N <= quoted[i] || policy == Block && ev.N != quoted[i]+1 || int64(ev.Delay) <= taken[i] {
					t.Fatalf("policy %d: quote %d after %d", policy, ev.N, quoted[i])
				}
				quoted[i], taken[i] = ev.N, int64(ev.Delay)
			}
			return true
		}
		for step := range int64(100_000) {
			i := random.IntN(instruments)
			switch random.IntN(5) {
			case 0, 1:
				ev := &Trade{Header: Header{Instrument: id(i), N: sent[i] + 1}, Trade: wire.Trade{RefN: uint64(step + 1)}}
				if q.data(&entry{event: ev, of: series[wire.Trades][i], n: ev.N}) {
					sent[i]++
				} else if policy == Drop || q.count < most {
					t.Fatalf("policy %d: refused with %d events", policy, q.count)
				}
			case 2:
				ev := &Quote{Header: Header{Instrument: id(i), N: quotes[i] + 1, Delay: time.Duration(step + 1)}}
				if q.data(&entry{event: ev, of: series[wire.Quotes][i], n: ev.N}) {
					quotes[i]++
				}
			default:
				take()
			}
			if random.IntN(500) == 0 {
				for take() {
				}
			}
			if policy != Block && step > 90_000 {
				checkOnce(t, &q)
			}
			if q.count > most+2*instruments+1 || len(q.waiting) > 8*most+4096 {
				t.Fatalf("policy %d: %d events, %d entries", policy, q.count, len(q.waiting))
			}
		}
		for take() {
		}
		if got != sent || quoted != quotes || policy == Drop != (lost > 0) {
			t.Errorf("policy %d: %v of %v trades, %v of %v quotes, %d lost", policy, got, sent, quoted, quotes, lost)
		}
	}
}

func seriesOf(c wire.Channel, id market.InstrumentID) *series {
	return &series{Series: stream.Series{Channel: c, Instrument: id}, waits: -1}
}

// TestFlushEnded ends the loop while the client waits for space. What it has received is there for
// the next loop, because the next connection resumes after it.
func TestFlushEnded(t *testing.T) {
	d := newDispatch(t, wire.Batch, 16)
	d.c.queue.most = 1
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.l.receive(ended, d.frames[0]); err != nil {
		t.Fatal(err)
	}
	if err := d.l.flush(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an error that ends the connection", err)
	}
	for i := range 16 {
		if ev, ok := d.c.take(); !ok || ev == nil {
			t.Fatalf("%d of 16 events", i)
		}
	}
}

// checkOnce checks that at most one quote of an instrument waits.
func checkOnce(t *testing.T, q *queue) {
	t.Helper()
	waiting := map[*series]bool{}
	for _, e := range q.waiting[q.head:] {
		if _, ok := e.event.(*Quote); ok && waiting[e.of] {
			t.Fatalf("policy %d: %s waits twice", q.policy, e.of.Series)
		} else if ok {
			waiting[e.of] = true
		}
	}
}

// TestSwap gives a queue lists of events and marks, and takes them at random moments. Nothing is
// lost, repeated or out of order, and the count is right.
func TestSwap(t *testing.T) {
	q := newQueue(64, Block)
	var list, taken []entry
	added, got, swaps := 0, 0, 0
	for range 20_000 {
		for range rand.N(64) {
			added++
			x := entry{event: Notice{Msg: strconv.Itoa(added)}, n: uint64(added)}
			if added%10 == 0 {
				x = entry{mark: &mark{}, n: uint64(added), own: true}
			}
			list = append(list, x)
		}
		var ok bool
		if list, ok = q.swap(list); ok {
			swaps++
		} else {
			for i := range list {
				q.add(list[i])
			}
			clear(list)
			list = list[:0]
		}
		for range rand.N(32) {
			clear(taken)
			taken = q.takeFew(taken[:0])
			for i := range taken {
				if got++; taken[i].n != uint64(got) {
					t.Fatalf("entry %d, want %d", taken[i].n, got)
				}
			}
		}
		if want := added - added/10 - (got - got/10); q.count != want {
			t.Fatalf("%d events, want %d", q.count, want)
		}
	}
	if swaps < 1000 || got < 100_000 {
		t.Errorf("%d swaps, %d entries", swaps, got)
	}
}

// TestHalfFull checks that the program is woken when the queue is half full, and not only when
// everything that has arrived is handled: with Drop, the rest would be lost.
func TestHalfFull(t *testing.T) {
	c, err := New([]string{"http://127.0.0.1:1"}, Options{Queue: 100, Overflow: Drop})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	trades := seriesOf(wire.Trades, market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"})
	for n := range uint64(51) {
		if len(c.queue.ready) > 0 {
			t.Fatalf("the program is woken for %d events", n)
		}
		c.engine.out = append(c.engine.out, entry{event: &Trade{}, of: trades, n: n + 1})
		if waited, err := c.engine.flush(t.Context()); waited || err != nil {
			t.Fatal(waited, err)
		}
	}
	if len(c.queue.ready) == 0 {
		t.Error("the program is not woken")
	}
}

package client

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestMergeModel takes the books of instruments at random while they change, are lost, and begin
// again. The program can apply all that it gets, and has the book of the gateway in the end.
func TestMergeModel(t *testing.T) {
	for _, policy := range []Overflow{Conflate, Drop} {
		c, err := New([]string{"http://127.0.0.1:1"}, Options{Queue: 200, Overflow: policy})
		if err != nil {
			t.Fatal(err)
		}
		l := &link{engine: &c.engine, sent: map[item]*subscribed{}, resynced: map[item]time.Time{}}
		random := rand.New(rand.NewPCG(9, uint64(policy)))
		var books [4]*reference
		var own [4]Book
		for i := range books {
			books[i] = &reference{random: random, depth: 10, price: 2}
		}
		send := func(i int, u BookUpdate) {
			m := stream.Message{
				Kind: stream.Book, ID: market.InstrumentID{Symbol: string(rune('A' + i)), Market: "M", Term: "CI"}, N: u.N,
				Snapshot: u.Snapshot, Depth: u.Depth, Previous: u.Previous, Checksum: u.Checksum, Bids: u.Bids, Asks: u.Asks,
			}
			if err := l.book(t.Context(), &m, frame{}); err != nil {
				t.Fatal(err)
			}
		}
		take := func() bool {
			ev, ok := c.take()
			if u, isBook := ev.(*BookUpdate); isBook {
				if err := own[u.Instrument.Symbol[0]-'A'].Apply(*u); err != nil && !errors.Is(err, ErrInvalidBook) {
					t.Fatalf("policy %d: %v, %+v", policy, err, u)
				}
			}
			return ok
		}
		trades := uint64(0)
		for range 100_000 {
			i := random.IntN(len(books))
			switch what := random.IntN(1000); {
			case what == 0:
				c.engine.disconnected()
			case what < 10:
				books[i].change() // lost on the way
			case what < 30:
				send(i, books[i].snapshot())
			case what < 300 && c.queue.count+len(l.out) < 150: // which takes space
				trades++
				m := stream.Message{Kind: stream.Trade, ID: market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}, N: trades}
				if err := l.handle(t.Context(), &m, frame{}); err != nil {
					t.Fatal(err)
				}
			case what < 990:
				send(i, books[i].change())
			case what == 999:
				for take() {
				}
			default:
				take()
			}
		}
		for i := range books {
			send(i, books[i].snapshot())
		}
		for take() {
		}
		for i := range books {
			if !own[i].Valid() || own[i].N() != books[i].n {
				t.Errorf("policy %d: book %d is at %d of %d, valid is %v", policy, i, own[i].N(), books[i].n, own[i].Valid())
			}
		}
	}
}

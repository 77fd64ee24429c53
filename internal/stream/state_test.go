package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// reader follows quotes and statuses of many instruments, and checks their order.
type reader struct {
	*client
	quotes, statuses map[string]message
}

func newReader(t *testing.T, sh *Shard) *reader {
	return &reader{newClient(t, sh), map[string]message{}, map[string]message{}}
}

// take checks all messages of one Gather.
func (r *reader) take(list []message) {
	r.t.Helper()
	for _, m := range list {
		switch m.Type {
		case "O":
			if b := r.books[m.I]; b == nil && !m.R {
				r.t.Fatalf("%s: book %d before any R:true", m.I, m.N)
			}
		case "Q":
			last, ok := r.quotes[m.I]
			if !ok && !m.R || m.N < last.N || m.N == last.N && !m.R {
				r.t.Fatalf("%s: quote %d (R %v) after %d", m.I, m.N, m.R, last.N)
			}
			r.quotes[m.I] = m
		case "H":
			last, ok := r.statuses[m.I]
			if !ok && !m.R || ok && m.N != last.N+1 && !(m.R && m.N == last.N) {
				r.t.Fatalf("%s: status %d (R %v) after %d", m.I, m.N, m.R, last.N)
			}
			r.statuses[m.I] = m
		}
		r.client.take(&m)
	}
}

// gather reads about most bytes at once and returns how many it has read.
func (r *reader) gather(most int, conflate bool) int {
	b := r.sub.Gather(nil, most, wire.JSON, conflate)
	n := len(b)
	r.take(frames(r.t, b))
	return n
}

// TestStatesInPieces checks that snapshots of hundreds of instruments are sent in pieces while the
// instruments change. The reader reads little, is conflated, or requests snapshots again. Each
// instrument begins with R:true, and none is left out. In the end the reader has the newest state
// of all.
func TestStatesInPieces(t *testing.T) { testStatesInPieces(t, 2) }

// TestStatesInPiecesE2E checks the same as TestStatesInPieces, with more seeds and without the race
// detector.
func TestStatesInPiecesE2E(t *testing.T) { testStatesInPieces(t, 8) }

func testStatesInPieces(t *testing.T, seeds uint64) {
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := New(Config{Epoch: "e1"})
		sh := h.NewShard(func(bool) {})
		const many = 5*stateBatch + 7
		handles := make([]market.Handle, many)
		for i := range handles {
			handles[i] = define(t, h, fmt.Sprintf("S%d|M|CI", i), ownQuotes)
		}
		change := func(hd market.Handle) {
			bid, ask := level(90+int64(rng.IntN(5)), 1+int64(rng.IntN(9))), level(100+int64(rng.IntN(5)), 1)
			switch rng.IntN(3) {
			case 0:
				publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{bid}, Asks: []market.Level{ask}})
			case 1:
				publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{bid}, Asks: []market.Level{ask}})
			case 2:
				publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Open + market.Phase(rng.IntN(2)), Reason: "why"})
			}
		}
		for range 40 {
			for _, hd := range handles {
				change(hd)
			}
		}
		channels := []wire.Channel{wire.Quotes, wire.OrderBook, wire.Status}
		r := newReader(t, sh)
		for _, c := range channels {
			subscribe(t, r.sub, c, "*|M|*")
		}
		for range 150 {
			for n, received := rng.IntN(40), rng.IntN(40); n >= 0; n-- { // the shard does not know changes after the turn
				if n == received {
					turn(sh)
				}
				change(handles[rng.IntN(many)])
			}
			switch rng.IntN(12) {
			case 0:
				r.sub.Resync([]Item{{Channel: channels[rng.IntN(3)], ID: id("*|M|*")}})
			case 1:
				r.sub.Collapse()
			case 2:
				subscribe(t, r.sub, channels[rng.IntN(3)], fmt.Sprintf("S%d|M|CI", rng.IntN(many)))
			}
			r.gather(1+rng.IntN(6<<10), rng.IntN(3) == 0)
		}
		for turn(sh); r.sub.Pending(); {
			r.gather(4<<10, false)
		}
		fresh := newReader(t, sh)
		for _, c := range channels {
			subscribe(t, fresh.sub, c, "*|M|*")
		}
		for fresh.sub.Pending() {
			if n := fresh.gather(2<<10, false); n > 40<<10 {
				t.Fatalf("%d bytes at once, where 2 KiB were asked for", n)
			}
		}
		for i := range handles {
			name := fmt.Sprintf("S%d|M|CI", i)
			a, b := r.books[name], fresh.books[name]
			if a == nil || b == nil || a.n != b.n || r.quotes[name].N != fresh.quotes[name].N || r.statuses[name].N != fresh.statuses[name].N ||
				r.quotes[name].BP != fresh.quotes[name].BP || r.statuses[name].N == 0 {
				t.Fatalf("seed %d: %s ends with book %+v, quote %+v, status %+v; it stands at %+v, %+v, %+v", seed, name,
					a, r.quotes[name], r.statuses[name], b, fresh.quotes[name], fresh.statuses[name])
			}
		}
	}
}

// TestStatesAreFair checks that the snapshot of each instrument is sent even if the reader is so
// slow that all snapshots are due again before each piece.
func TestStatesAreFair(t *testing.T) {
	h := New(Config{Epoch: "e1"})
	sh := h.NewShard(func(bool) {})
	const many = 5*stateBatch + 7
	var handles []market.Handle
	quote := func(hd market.Handle, n int) {
		publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{level(90, int64(n))}})
	}
	for i := range many {
		handles = append(handles, define(t, h, fmt.Sprintf("S%d|M|CI", i), ownQuotes))
		quote(handles[i], 1)
	}
	r := newReader(t, sh)
	subscribe(t, r.sub, wire.Quotes, "*|M|*")
	for n := range 2 * (many/stateBatch + 1) {
		r.gather(1, false)
		for _, hd := range handles {
			quote(hd, 2+n)
		}
		turn(sh)
		r.sub.Collapse()
	}
	if len(r.quotes) != many {
		t.Errorf("%d of %d instruments were told", len(r.quotes), many)
	}
}

// TestStatesInSlices checks that one Gather visits a limited number of instruments, although few of
// them have a state, and that the next calls continue.
func TestStatesInSlices(t *testing.T) {
	h := New(Config{})
	handles := defineMany(t, h, 5*maxVisited, nil)
	last := handles[len(handles)-1]
	publish(t, h, market.Event{Kind: market.KindUpdate, Handle: last, Bids: []market.Level{level(1, 1)}, Asks: []market.Level{level(2, 1)}})
	sh := h.NewShard(func(bool) {})
	sub := open(sh)
	sub.Subscribe([]Item{{Channel: wire.Quotes, ID: id("*|M|*")}}, Options{})
	empty, got := 0, []byte(nil)
	for len(got) == 0 {
		if got = sub.Gather(nil, 1<<20, wire.JSON, false); len(got) > 0 {
			break
		}
		if empty++; !sub.Unfinished() {
			t.Fatalf("%d calls gave nothing, and it is finished", empty)
		}
	}
	if empty < 4 || sub.Unfinished() || sub.Pending() {
		t.Errorf("%d calls without a state; unfinished %v, pending %v", empty, sub.Unfinished(), sub.Pending())
	}
}

package subscription_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// reader follows quotes and statuses of many instruments, and checks their order.
type reader struct {
	*streamtest.Client
	quotes, statuses map[string]streamtest.Message
}

func newReader(t *testing.T, sh *subscription.Shard) *reader {
	return &reader{streamtest.NewClient(t, sh), map[string]streamtest.Message{}, map[string]streamtest.Message{}}
}

// take checks all messages of one Gather.
func (r *reader) take(list []streamtest.Message) {
	r.T.Helper()
	for _, m := range list {
		switch m.Type {
		case "O":
			if b := r.Books[m.I]; b == nil && !m.R {
				r.T.Fatalf("%s: book %d before any R:true", m.I, m.N)
			}
		case "Q":
			last, ok := r.quotes[m.I]
			if !ok && !m.R || m.N < last.N || m.N == last.N && !m.R {
				r.T.Fatalf("%s: quote %d (R %v) after %d", m.I, m.N, m.R, last.N)
			}
			r.quotes[m.I] = m
		case "H":
			last, ok := r.statuses[m.I]
			if !ok && !m.R || ok && m.N != last.N+1 && !(m.R && m.N == last.N) {
				r.T.Fatalf("%s: status %d (R %v) after %d", m.I, m.N, m.R, last.N)
			}
			r.statuses[m.I] = m
		}
		r.Client.Take(&m)
	}
}

// gather reads about most bytes at once and returns how many it has read.
func (r *reader) gather(most int, conflate bool) int {
	b := r.Sub.Gather(nil, most, wire.JSON, conflate)
	n := len(b)
	r.take(streamtest.Frames(r.T, b))
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
		h := hub.New(hub.Config{Epoch: "e1"})
		sh := subscription.NewShard(h, func(bool) {})
		const many = 5*subscription.StateBatch + 7
		handles := make([]market.Handle, many)
		for i := range handles {
			handles[i] = streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), streamtest.OwnQuotes)
		}
		change := func(hd market.Handle) {
			bid, ask := streamtest.Level(90+int64(rng.IntN(5)), 1+int64(rng.IntN(9))), streamtest.Level(100+int64(rng.IntN(5)), 1)
			switch rng.IntN(3) {
			case 0:
				streamtest.Publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{bid}, Asks: []market.Level{ask}})
			case 1:
				streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{bid}, Asks: []market.Level{ask}})
			case 2:
				streamtest.Publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Open + market.Phase(rng.IntN(2)), Reason: "why"})
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
			streamtest.Subscribe(t, r.Sub, c, "*|M|*")
		}
		for range 150 {
			for n, received := rng.IntN(40), rng.IntN(40); n >= 0; n-- { // the shard does not know changes after the turn
				if n == received {
					streamtest.Turn(sh)
				}
				change(handles[rng.IntN(many)])
			}
			switch rng.IntN(12) {
			case 0:
				r.Sub.Resync([]hub.Item{{Channel: channels[rng.IntN(3)], ID: streamtest.ID("*|M|*")}}, new(subscription.Work))
			case 1:
				r.Sub.Collapse()
			case 2:
				streamtest.Subscribe(t, r.Sub, channels[rng.IntN(3)], fmt.Sprintf("S%d|M|CI", rng.IntN(many)))
			}
			r.gather(1+rng.IntN(6<<10), rng.IntN(3) == 0)
		}
		for streamtest.Turn(sh); r.Sub.Pending(); {
			r.gather(4<<10, false)
		}
		fresh := newReader(t, sh)
		for _, c := range channels {
			streamtest.Subscribe(t, fresh.Sub, c, "*|M|*")
		}
		for fresh.Sub.Pending() {
			if n := fresh.gather(2<<10, false); n > 40<<10 {
				t.Fatalf("%d bytes at once, where 2 KiB were asked for", n)
			}
		}
		for i := range handles {
			name := fmt.Sprintf("S%d|M|CI", i)
			a, b := r.Books[name], fresh.Books[name]
			if a == nil || b == nil || a.N != b.N || r.quotes[name].N != fresh.quotes[name].N || r.statuses[name].N != fresh.statuses[name].N ||
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
	h := hub.New(hub.Config{Epoch: "e1"})
	sh := subscription.NewShard(h, func(bool) {})
	const many = 5*subscription.StateBatch + 7
	var handles []market.Handle
	quote := func(hd market.Handle, n int) {
		streamtest.Publish(t, h, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(90, int64(n))}})
	}
	for i := range many {
		handles = append(handles, streamtest.Define(t, h, fmt.Sprintf("S%d|M|CI", i), streamtest.OwnQuotes))
		quote(handles[i], 1)
	}
	r := newReader(t, sh)
	streamtest.Subscribe(t, r.Sub, wire.Quotes, "*|M|*")
	for n := range 2 * (many/subscription.StateBatch + 1) {
		r.gather(1, false)
		for _, hd := range handles {
			quote(hd, 2+n)
		}
		streamtest.Turn(sh)
		r.Sub.Collapse()
	}
	if len(r.quotes) != many {
		t.Errorf("%d of %d instruments were told", len(r.quotes), many)
	}
}

// TestStatesInSlices checks that one Gather visits a limited number of instruments, although few of
// them have a state, and that the next calls continue.
func TestStatesInSlices(t *testing.T) {
	h := hub.New(hub.Config{})
	handles := streamtest.DefineMany(t, h, 5*subscription.MaxVisited, nil)
	last := handles[len(handles)-1]
	streamtest.Publish(t, h, market.Event{Kind: market.KindUpdate, Handle: last, Bids: []market.Level{streamtest.Level(1, 1)}, Asks: []market.Level{streamtest.Level(2, 1)}})
	sh := subscription.NewShard(h, func(bool) {})
	sub := streamtest.Open(sh)
	sub.Subscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("*|M|*")}}, subscription.Options{})
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

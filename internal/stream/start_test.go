package stream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestBeforeIsExact: whole chunks are passed over, and still a late trade is the one that counts.
func TestBeforeIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	tp := &tape{}
	at := int64(1000)
	for range 20 * chunkRows {
		at += rng.Int64N(3)
		r := row{time: at}
		if rng.IntN(700) == 0 {
			r.time -= rng.Int64N(9000)
		}
		tp.add(r, 12*chunkRows, false)
	}
	for from := int64(0); from < at+10; from += 7 {
		want, had := tp.first()-1, false
		for i := len(tp.chunks) - 1; i >= 0 && !had; i-- {
			for j := len(tp.chunks[i]) - 1; j >= 0 && !had; j-- {
				if had = tp.chunks[i][j].time < from; had {
					want = tp.first() + uint64(j)
					for _, c := range tp.chunks[:i] {
						want += uint64(len(c))
					}
				}
			}
		}
		if n, found := tp.before(from); n != want || found != had {
			t.Fatalf("before %d is %d, %v; want %d, %v", from, n, found, want, had)
		}
	}
}

// TestStartIsBounded: what is too much is refused before the journal is read, each sequence counts
// once however often it is named, and what is not taken counts for nothing.
func TestStartIsBounded(t *testing.T) {
	w := &house{t: t, folder: t.TempDir(), kept: 1}
	for i := range maxSearched + 1 {
		w.names = append(w.names, fmt.Sprintf("S%d|M|CI", i))
	}
	w.begin()
	defer w.leave(true)
	for i := range 2 * chunkRows {
		list := make([]market.Event, 0, len(w.handles))
		for _, hd := range w.handles {
			e := trade(hd, i)
			e.Time = int64(1e9 + i)
			list = append(list, e)
		}
		publish(t, w.hub, list...)
	}
	ask := func(start int64, names ...string) Outcome {
		var items []Item
		for _, name := range names {
			items = append(items, Item{Channel: wire.Trades, ID: id(name)})
		}
		sub := open(w.shard)
		defer sub.Close()
		return sub.Subscribe(items, Options{Start: Start{Time: start}})
	}
	if out := ask(1, "*|M|CI"); out.Fault == nil || out.Fault.Reason != wire.RangeTooLarge || !strings.Contains(out.Fault.Hint+out.Fault.Msg, "fewer instruments") {
		t.Errorf("more searches than one message may have: %+v", out.Fault)
	}
	if out := ask(1e9+2*chunkRows-5, "*|M|CI"); out.Fault != nil {
		t.Errorf("what is in memory needs no search: %+v", out.Fault)
	}
	if out := ask(1, w.names[:maxSearched]...); out.Fault != nil {
		t.Errorf("as many searches as one message may have: %+v", out.Fault)
	}
	most := make([]string, 0, 3*maxSearched)
	for range 3 {
		most = append(most, w.names[:maxSearched]...)
	}
	if out := ask(1, append(most, "S1|NOWHERE|CI")...); out.Fault != nil || len(out.Rejected) != 1 {
		t.Errorf("each named three times: %+v", out)
	}
	// Without a journal that could be read the rows in memory alone are too many.
	in := w.hub.lookup(id("S0|M|CI"))
	points := map[pointKey]uint64{{in, wire.Trades}: 0}
	in.trades.last += maxStarted
	if f := tooMany(points); f == nil || f.Reason != wire.RangeTooLarge {
		t.Errorf("a million rows: %+v", f)
	}
	in.trades.last -= maxStarted
}

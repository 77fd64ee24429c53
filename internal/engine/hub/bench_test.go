package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkPublishTrade measures a trade from feed to ring: it is numbered, kept, encoded and
// framed.
func BenchmarkPublishTrade(b *testing.B) {
	h := hub.New(hub.Config{TradesKept: 1000})
	hd := streamtest.Define(b, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	streamtest.Subscribe(b, streamtest.NewClient(b, sh).Sub, wire.Trades, "A|M|CI")
	e := []market.Event{streamtest.Trade(hd, 1)}
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Publish(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBars measures the cost per trade of all bars and the summary of an instrument. There are
// 200 trades in a second of market time, and nobody reads the bars.
func BenchmarkBars(b *testing.B) {
	h := hub.New(hub.Config{RecentBytes: 8 << 20})
	in := h.At(streamtest.Define(b, h, "A|M|CI", func(in *market.Instrument) { in.VirtualClock = true }))
	at := int64(1e18)
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		at += 5e6
		h.CountTrade(in, n, at)
	}
}

// BenchmarkRestore measures a start with a trade each of 10,000 instruments: after a clean end, and
// in a new epoch.
func BenchmarkRestore(b *testing.B) {
	for _, name := range []string{"clean", "new epoch"} {
		b.Run(name, func(b *testing.B) {
			folder := b.TempDir()
			r := streamtest.Restart(b, folder, hub.Config{})
			for _, hd := range streamtest.DefineMany(b, r.Hub, 10_000, nil) {
				streamtest.Publish(b, r.Hub, streamtest.Trade(hd, 1))
			}
			r.Leave()
			for b.Loop() {
				if name != "clean" {
					if err := os.Remove(filepath.Join(folder, "state")); err != nil {
						b.Fatal(err)
					}
				}
				r := streamtest.Restart(b, folder, hub.Config{})
				if n := r.Hub.Figures().Instruments; n != 10_000 {
					b.Fatalf("%d instruments", n)
				}
				r.Leave()
			}
		})
	}
}

// BenchmarkPublishBook measures a change of one level and of the quote derived from it. A tier of
// depth 5 and a tier of all levels have a reader each.
func BenchmarkPublishBook(b *testing.B) {
	h := hub.New(hub.Config{})
	hd := streamtest.Define(b, h, "A|M|CI", nil)
	sh := subscription.NewShard(h, func(bool) {})
	sub := streamtest.NewClient(b, sh).Sub
	sub.Subscribe([]hub.Item{{wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{Depth: 5}}}, subscription.Options{})
	streamtest.NewClient(b, sh).Sub.Subscribe([]hub.Item{{wire.OrderBook, streamtest.ID("A|M|CI"), hub.Tier{}}}, subscription.Options{})
	for i := range int64(30) {
		streamtest.Publish(b, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(100-i, 1)}, Asks: []market.Level{streamtest.Level(101+i, 1)}})
	}
	e := []market.Event{{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(99, 1)}}}
	b.ReportAllocs()
	size := market.Size(1)
	for b.Loop() {
		size++
		e[0].Bids[0].Size = size * market.Scale
		if err := h.Publish(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanout measures one trade to n subscribers: the Turn of their shard and the Gather of
// each, without sockets.
func BenchmarkFanout(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := hub.New(hub.Config{TradesKept: 1000})
			hd := streamtest.Define(b, h, "A|M|CI", nil)
			sh := subscription.NewShard(h, func(bool) {})
			for range n {
				streamtest.Subscribe(b, streamtest.NewClient(b, sh).Sub, wire.Trades, "A|M|CI")
			}
			e := []market.Event{streamtest.Trade(hd, 1)}
			buf := make([]byte, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Publish(e); err != nil {
					b.Fatal(err)
				}
				sh.Turn()
				for s := sh.Next(); s != nil; s = sh.Next() {
					s.Gather(buf[:0], 1<<16, wire.JSON, false)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delivery")
		})
	}
}

// BenchmarkSpread measures 100 trades of 100 instruments to 1,000 subscribers of 20 instruments
// each: one Turn and the Gather of each subscriber, without sockets.
func BenchmarkSpread(b *testing.B) {
	h := hub.New(hub.Config{TradesKept: 1000})
	sh := subscription.NewShard(h, func(bool) {})
	var batch []market.Event
	for i := range 100 {
		hd := streamtest.Define(b, h, fmt.Sprintf("S%d|M|CI", i), nil)
		batch = append(batch, streamtest.Trade(hd, i))
	}
	for i := range 1000 {
		var set []string
		for k := range 20 {
			set = append(set, fmt.Sprintf("S%d|M|CI", (i*7+k*5)%100))
		}
		streamtest.Subscribe(b, streamtest.NewClient(b, sh).Sub, wire.Trades, set...)
	}
	buf := make([]byte, 0, 1<<16)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Publish(batch); err != nil {
			b.Fatal(err)
		}
		sh.Turn()
		for s := sh.Next(); s != nil; s = sh.Next() {
			n += len(s.Gather(buf[:0], 1<<16, wire.JSON, false))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*20_000), "ns/delivery")
}

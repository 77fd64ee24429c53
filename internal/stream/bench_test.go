package stream

import (
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkPublishTrade measures a trade from feed to ring: it is numbered, kept, encoded and
// framed.
func BenchmarkPublishTrade(b *testing.B) {
	h := New(Config{TradesKept: 1000})
	hd := define(b, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	subscribe(b, newClient(b, sh).sub, wire.Trades, "A|M|CI")
	e := []market.Event{trade(hd, 1)}
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
	h := New(Config{RecentBytes: 8 << 20})
	in := h.handles[define(b, h, "A|M|CI", func(in *market.Instrument) { in.VirtualClock = true })]
	x := in.clock
	at := int64(1e18)
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		at += 5e6
		x.Advance(at, h.sendBar(at))
		in.Dated(at, at)
		in.CountTrade(bars.Trade{N: n, ID: h.shared.TradeID("1234567"), At: at, Price: market.Price(n % 1000), Size: market.Scale}, at, &h.shared, h.sendBar(at))
		h.sendSummary(in, n, state.Stamp{Time: at, Latency: -1}, at)
	}
}

// BenchmarkPublishBook measures a change of one level and of the quote derived from it. A tier of
// depth 5 and a tier of all levels have a reader each.
func BenchmarkPublishBook(b *testing.B) {
	h := New(Config{})
	hd := define(b, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	sub := newClient(b, sh).sub
	sub.Subscribe([]Item{{wire.OrderBook, id("A|M|CI"), Tier{Depth: 5}}}, Options{})
	newClient(b, sh).sub.Subscribe([]Item{{wire.OrderBook, id("A|M|CI"), Tier{}}}, Options{})
	for i := range int64(30) {
		publish(b, h, market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(100-i, 1)}, Asks: []market.Level{level(101+i, 1)}})
	}
	e := []market.Event{{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{level(99, 1)}}}
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
			h := New(Config{TradesKept: 1000})
			hd := define(b, h, "A|M|CI", nil)
			sh := h.NewShard(func(bool) {})
			for range n {
				subscribe(b, newClient(b, sh).sub, wire.Trades, "A|M|CI")
			}
			e := []market.Event{trade(hd, 1)}
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
	h := New(Config{TradesKept: 1000})
	sh := h.NewShard(func(bool) {})
	var batch []market.Event
	for i := range 100 {
		hd := define(b, h, fmt.Sprintf("S%d|M|CI", i), nil)
		batch = append(batch, trade(hd, i))
	}
	for i := range 1000 {
		var set []string
		for k := range 20 {
			set = append(set, fmt.Sprintf("S%d|M|CI", (i*7+k*5)%100))
		}
		subscribe(b, newClient(b, sh).sub, wire.Trades, set...)
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

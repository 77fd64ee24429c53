package client

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkFormats measures trades from their frames to the loop of the program: JSON, batches of
// 64 and MessagePack.
func BenchmarkFormats(b *testing.B) {
	for _, f := range []struct {
		format wire.Format
		batch  int
	}{{wire.JSON, 1}, {wire.Batch, 64}, {wire.Msgpack, 1}} {
		b.Run(f.format.Subprotocol(), func(b *testing.B) { benchmarkFormat(b, f.format, f.batch) })
	}
}

func benchmarkFormat(b *testing.B, format wire.Format, batch int) {
	c, err := New([]string{"http://127.0.0.1:1"}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := &link{engine: &c.engine, format: format, ready: true, sent: map[item]*subscribed{}}
	id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}
	header := &wire.Header{Ident: wire.MakeIdent(id), Time: 1795185000123456789, Latency: 184200}
	trade := &wire.Trade{Price: 7050 * market.Scale, Size: 120 * market.Scale, ID: "88123", Side: market.Buy}
	var data []byte
	for i := range batch {
		header.N = uint64(i + 1)
		if format == wire.Batch {
			data = append(data, "[,"[min(i, 1)])
		}
		data = wire.AppendTrade(data, header, trade)
	}
	switch format {
	case wire.Batch:
		data = append(data, ']')
	case wire.Msgpack:
		data = wire.AppendMsgpack(nil, data)
	}
	progress, now := l.cursor(item{Instrument: id}), time.Now()
	b.ReportAllocs()
	for got := batch; b.Loop(); got++ {
		if got == batch {
			progress.n, progress.known = 0, true
			if err := l.receive(b.Context(), frame{data: bytes.Clone(data), at: now}); err != nil {
				b.Fatal(err)
			}
			got = 0
		}
		e, ok := c.take(&entry{})
		if !ok {
			b.Fatal("no event")
		}
		c.processed(&e)
	}
	b.ReportMetric(float64(len(data))/float64(batch), "bytes/event")
}

// BenchmarkTrade measures a trade from its frame to the loop of the program.
func BenchmarkTrade(b *testing.B) {
	c, err := New([]string{"http://127.0.0.1:1"}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := &link{engine: &c.engine, ready: true, sent: map[item]*subscribed{}}
	head := []byte(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":`)
	tail := []byte(`,"T":"2026-11-20T14:30:00.123456789Z","D":184200,"P":7050,"Z":120,"X":"88123","G":"B"}`)
	now := time.Now()
	b.ReportAllocs()
	for n := int64(1); b.Loop(); n++ {
		data := append(strconv.AppendInt(append(make([]byte, 0, 160), head...), n, 10), tail...)
		if err := l.receive(b.Context(), frame{data: data, at: now}); err != nil {
			b.Fatal(err)
		}
		e, ok := c.take(&entry{})
		if !ok {
			b.Fatal("no event")
		}
		c.processed(&e)
	}
}

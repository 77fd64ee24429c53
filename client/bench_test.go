package client

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkDispatch measures trades and quotes of 100 instruments from their frames to the loop of
// the program: JSON, batches of 16 and MessagePack. An operation is an event.
func BenchmarkDispatch(b *testing.B) {
	for _, f := range []struct {
		format wire.Format
		batch  int
	}{{wire.JSON, 1}, {wire.Batch, 16}, {wire.Msgpack, 1}} {
		b.Run(f.format.Subprotocol(), func(b *testing.B) {
			d := newDispatch(b, f.format, f.batch)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += f.batch {
				d.frame()
			}
			b.ReportMetric(float64(d.bytes)/float64(d.events), "bytes/event")
		})
	}
}

// BenchmarkFrames measures how the WebSocket library reads the frames of BenchmarkDispatch from
// memory. An operation is an event.
func BenchmarkFrames(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) {
			format := wire.JSON
			if batch > 1 {
				format = wire.Batch
			}
			d := newDispatch(b, format, batch)
			m := &endless{}
			for _, f := range d.frames {
				m.all = append(binary.BigEndian.AppendUint16(append(m.all, 0x81, 126), uint16(len(f.data))), f.data...)
			}
			conn, _, err := websocket.Dial(b.Context(), "http://memory", &websocket.DialOptions{HTTPClient: &http.Client{Transport: m}})
			if err != nil {
				b.Fatal(err)
			}
			conn.SetReadLimit(maxMessage)
			l, forever := &link{conn: conn}, context.WithoutCancel(b.Context())
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				l.raw.Free(minFree)
				data, err := l.readFrame(forever)
				if want := d.frames[n/batch%len(d.frames)].data; err != nil || len(data) != len(want) {
					b.Fatalf("%d bytes, %v, want %d", len(data), err, len(want))
				}
			}
		})
	}
}

// endless is a connection on which the same frames come again and again.
type endless struct {
	all  []byte
	next int
}

// RoundTrip answers a handshake.
func (m *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	header := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])}}
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: header, Body: m}, nil
}

func (m *endless) Read(p []byte) (int, error) {
	n := copy(p, m.all[m.next:])
	m.next = (m.next + n) % len(m.all)
	return n, nil
}

func (m *endless) Write(p []byte) (int, error) { return len(p), nil }
func (m *endless) Close() error                { return nil }

// TestDispatchAllocations checks that trades and quotes cost the client no allocation of their own:
// hundreds of them share a few blocks of memory.
func TestDispatchAllocations(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack} {
		d := newDispatch(t, format, 16)
		for range 1000 { // until buffers have their size
			d.frame()
		}
		if n := testing.AllocsPerRun(1000, d.frame) / float64(d.batch); n > 0.1 {
			t.Errorf("%s: %v allocations for an event", format.Subprotocol(), n)
		}
	}
}

// dispatch is a client that gets frames from memory.
type dispatch struct {
	t      testing.TB
	c      *Client
	l      *link
	batch  int
	frames []frame
	next   int
	ids    []wire.Ident
	format wire.Format
	bytes  int
	events int
}

func newDispatch(t testing.TB, format wire.Format, batch int) *dispatch {
	t.Helper()
	c, err := New([]string{"http://127.0.0.1:1"}, Options{Overflow: Block})
	if err != nil {
		t.Fatal(err)
	}
	if format != wire.Batch {
		batch = 1
	}
	d := &dispatch{t: t, c: c, batch: batch, format: format}
	d.l = &link{engine: &c.engine, format: format, ready: true, sent: map[item]*subscribed{}}
	for i := range 100 {
		d.ids = append(d.ids, wire.MakeIdent(market.InstrumentID{Symbol: "S" + strconv.Itoa(100+i), Market: "BYMA", Term: "24hs"}))
	}
	for i := 0; i < 6400; {
		var data []byte
		for j := range batch {
			if format == wire.Batch {
				data = append(data, "[,"[min(j, 1)])
			}
			data = d.message(data, i)
			i++
		}
		switch format {
		case wire.Batch:
			data = append(data, ']')
		case wire.Msgpack:
			data = wire.AppendMsgpack(nil, data)
		}
		d.frames = append(d.frames, frame{data: bytes.Clone(data), at: time.Now()})
	}
	return d
}

// message appends a trade or a quote.
func (d *dispatch) message(b []byte, i int) []byte {
	k := i / 2
	h := &wire.Header{Ident: d.ids[k%len(d.ids)], N: uint64(k/len(d.ids)) + 1, Time: 1795185000123456789 + int64(i), Latency: 184200}
	price, size := market.Price(705000+k%1000)*market.Scale/100, market.Size(1+k%100)*market.Scale
	if i%2 == 0 {
		return wire.AppendTrade(b, h, &wire.Trade{Price: price, Size: size, ID: strconv.Itoa(88000 + i), Side: market.Buy})
	}
	return wire.AppendQuote(b, h, market.Level{Price: price, Size: size}, market.Level{Price: price + market.Scale, Size: size}, false)
}

// frame receives a frame, and takes its events.
func (d *dispatch) frame() {
	if d.next == len(d.frames) { // again from the first N
		for _, cur := range d.l.series {
			cur.n = 0
		}
		d.next = 0
	}
	f := d.frames[d.next]
	d.next++
	if err := d.l.receive(d.t.Context(), f); err != nil {
		d.t.Fatal(err)
	}
	if err := d.l.flush(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	for range d.batch {
		if ev, ok := d.c.take(); !ok || ev == nil {
			d.t.Fatal("no event")
		}
	}
	d.bytes += len(f.data)
	d.events += d.batch
}

package load

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

const now = int64(1_800_000_000_000_000_000)

func newTestChecker(frontier bool) *checker {
	return newChecker(1, frontier, func() int64 { return now + int64(3*time.Millisecond) })
}

func trade(instrument int, n uint64) []byte {
	return pattern.AppendMessage(nil, wire.MakeIdent(pattern.ID(instrument)), n, now, now+100)
}

// TestFaults checks that the checker finds faults, and nothing else.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		ns   []uint64 // of an instrument
		want Faults
	}{
		{"in order", []uint64{1, 2, 3}, Faults{}},
		{"from anywhere", []uint64{17, 18}, Faults{}},
		{"a hole", []uint64{1, 2, 6}, Faults{Lost: 3}},
		{"doubled", []uint64{1, 2, 2, 3}, Faults{Doubled: 1}},
		{"out of order", []uint64{1, 3, 2}, Faults{Lost: 1, Doubled: 1}},
		{"number 0", []uint64{0}, Faults{Doubled: 1}},
	} {
		k, conn := newTestChecker(false), &conn{}
		for _, n := range c.ns {
			msg := trade(0, max(n, 1))
			if n == 0 {
				msg = []byte(strings.Replace(string(msg), `"N":1,`, `"N":0,`, 1))
			}
			if !k.data(conn, msg) {
				t.Fatalf("%s: N %d is not taken for data", c.name, n)
			}
		}
		got := k.faults
		if got.Any() != (got.First != "") {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.First = ""; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if k.deliveries != uint64(len(c.ns)) || k.trades != k.deliveries {
			t.Errorf("%s: %d deliveries, %d trades", c.name, k.deliveries, k.trades)
		}
	}
}

// TestSequences checks that the sequences of connections, instruments and channels are separate.
func TestSequences(t *testing.T) {
	k, a, b := newTestChecker(false), &conn{number: 1}, &conn{number: 2}
	ident := wire.MakeIdent(pattern.ID(1))
	quote := func(n uint64, state bool) []byte {
		level := market.Level{Price: 100_000_000, Size: 100_000_000, Orders: 1}
		return wire.AppendQuote(nil, &wire.Header{Ident: ident, N: n, Time: now, Latency: 5}, level, level, state)
	}
	book := func(n, last uint64) []byte {
		h := &wire.Header{Ident: ident, N: n, Time: now, Latency: -1}
		if last == 0 {
			return wire.AppendBookState(nil, h, 5, nil, nil, 1)
		}
		return wire.AppendBookUpdate(nil, h, last, []market.Level{{Price: 1e8, Size: 1e8}}, nil, 1)
	}
	b.snapshots = 2
	for _, msg := range [][]byte{
		trade(0, 1), trade(1, 7), trade(0, 2), trade(1, 8),
		quote(4, true), quote(4, true), quote(9, false), // a snapshot may repeat numbers
		book(3, 0), book(5, 3), book(6, 5),
	} {
		if !k.data(a, msg) {
			t.Fatalf("not taken for data: %s", msg)
		}
	}
	if !k.data(b, quote(1, true)) || !k.data(b, book(1, 0)) || b.snapshots != 0 {
		t.Errorf("%d states are still to come", b.snapshots)
	}
	if k.faults.Any() {
		t.Fatalf("%+v", k.faults)
	}
	k.data(a, quote(9, false))
	k.data(a, book(9, 7))
	if k.faults.Doubled != 1 || k.faults.Lost != 1 {
		t.Errorf("a quote again and a book without its base give %+v", k.faults)
	}
	for _, text := range []string{`{"type":"Success","code":200,"msg":"Connected","version":"1.0","time":"2026-01-01T00:00:00Z"}`, `{"action":"ping"}`, ``} {
		if k.data(a, []byte(text)) {
			t.Errorf("%q is taken for data", text)
		}
	}
}

// TestSampleTime checks the parsing of T.
func TestSampleTime(t *testing.T) {
	k, c := newTestChecker(false), &conn{}
	k.data(c, trade(0, 1))
	if k.latency.Count() != 1 || k.latency.Max() != int64(3*time.Millisecond) {
		t.Errorf("%d samples, the longest %v", k.latency.Count(), time.Duration(k.latency.Max()))
	}
}

// TestFrontier checks the newest number that all connections have.
func TestFrontier(t *testing.T) {
	k, conns := newTestChecker(true), make([]conn, 3)
	for i := range conns {
		for n := range uint64(5 + i) {
			k.data(&conns[i], trade(0, n+1))
		}
	}
	if got := k.advance(len(conns)); got != 5 {
		t.Errorf("all have %d, want 5", got)
	}
	k.data(&conns[0], trade(0, 6))
	if got := k.advance(len(conns)); got != 6 {
		t.Errorf("all have %d, want 6", got)
	}
}

// TestLatencyBuckets checks quantiles up to the width of a bucket.
func TestLatencyBuckets(t *testing.T) {
	var l Latency
	for i := range 100_000 {
		l.Add(int64(i) * 1000)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999} {
		want := q * 100_000 * 1000
		if got := float64(l.At(q)); got < want || got > want*1.02+2000 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
	text, err := l.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back Latency
	if err := back.UnmarshalJSON(text); err != nil || back != l {
		t.Errorf("the histogram does not come back from JSON: %v", err)
	}
	back.Merge(&l)
	if back.Count() != 2*l.Count() || back.At(0.5) != l.At(0.5) {
		t.Error("merging with itself changes the median")
	}
}

// TestScans extracts messages from the streams of other protocols, divided anywhere.
func TestScans(t *testing.T) {
	var nats, mqtt []byte
	for n := range uint64(5) {
		m := trade(0, n+1)
		nats = append(nats, "MSG bench 1 "...)
		nats = append(append(appendInt(nats, len(m)), "\r\n"...), m...)
		nats = append(nats, "\r\n"...)
		body := append(appendMQTT(nil, "bench"), m...)
		mqtt = append(appendSizeMQTT(append(mqtt, 0x30), len(body)), body...)
	}
	for name, c := range map[string]struct {
		scan func(*loop, *conn, []byte) (int, error)
		all  []byte
	}{"nats": {scanNATS, nats}, "mqtt": {scanMQTT, mqtt}} {
		for step := 1; step <= len(c.all); step += 7 {
			l := &loop{check: newTestChecker(false)}
			conn := &conn{phase: phaseReady}
			var kept []byte
			for at := 0; at < len(c.all); at += step {
				kept = append(kept, c.all[at:min(at+step, len(c.all))]...)
				used, err := c.scan(l, conn, kept)
				if err != nil {
					t.Fatal(err)
				}
				kept = kept[used:]
			}
			if l.check.deliveries != 5 || l.check.faults.Any() || len(kept) > 0 {
				t.Fatalf("%s in pieces of %d: %d messages, %d bytes left, %+v", name, step, l.check.deliveries, len(kept), l.check.faults)
			}
		}
	}
}

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// BenchmarkCheck measures the cost of a message in the load, which the server does not have.
func BenchmarkCheck(b *testing.B) {
	k, c := newChecker(17, true, func() int64 { return now }), &conn{}
	var messages [][]byte
	for n := range uint64(1000) {
		messages = append(messages, wire.AppendText(nil, trade(0, n+1)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			c.seen, k.through = nil, 0
			k.faults = Faults{}
		}
		_, p, _ := frame.Split(messages[i%1000])
		k.data(c, p)
	}
	if k.faults.Any() {
		b.Fatal(k.faults)
	}
}

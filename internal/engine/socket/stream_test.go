package socket

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// publisher publishes trades of one instrument, numbered from 1.
type publisher struct {
	t      testing.TB
	hub    *hub.Hub
	handle market.Handle
	batch  []market.Event

	published uint64 // number of trades
}

const testInstrument = "GGAL|BYMA|24hs"

func newPublisher(t testing.TB) *publisher {
	t.Helper()
	hub := hub.New(hub.Config{Markets: []market.Market{{ID: "BYMA", Terms: []market.Term{{Name: "24hs", SettlementDays: 1}}}}})
	id, err := market.ParseInstrumentID(testInstrument)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := hub.Define(market.Instrument{ID: id, PriceDecimals: 2})
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{t: t, hub: hub, handle: handle}
}

func (p *publisher) config(c *Config) {
	raiseLimits(c)
	c.Hub = p.hub
}

func (p *publisher) publish(n int) {
	p.t.Helper()
	p.batch = p.batch[:0]
	for range n {
		p.batch = append(p.batch, market.Event{Kind: market.KindTrade, Handle: p.handle, Time: time.Now().UnixNano(),
			Price: 7050 * market.Scale, Size: 120 * market.Scale, Side: market.Buy})
	}
	if err := p.hub.Publish(p.batch); err != nil {
		p.t.Fatal(err)
	}
	p.published += uint64(n)
}

func (c *client) subscribe() {
	c.t.Helper()
	c.send(`{"action":"subscribe","trades":["` + testInstrument + `"],"snapshot":false}`)
	for {
		opcode, payload, err := c.next()
		switch {
		case err == nil && opcode == opText && payload == wire.Ping: // on a busy machine
			c.send(`{"action":"pong"}`)
		case err != nil || opcode != opText || !strings.Contains(payload, `"type":"Subscription"`):
			c.t.Fatalf("got opcode %d %q, %v, want the Subscription", opcode, payload, err)
		default:
			return
		}
	}
}

// trades reads the trades of a range, each once and in order, and answers pings.
func (c *client) trades(from, to int) error {
	for n := from; n <= to; {
		opcode, payload, err := c.next()
		switch {
		case err != nil:
			return fmt.Errorf("before trade %d: %w", n, err)
		case payload == `{"action":"ping"}`:
			c.send(`{"action":"pong"}`)
			continue
		case strings.HasPrefix(payload, `{"type":"H"`):
			continue // every subscription starts with the market's status
		case strings.HasPrefix(payload, `{"type":"Warning"`):
			continue // on a busy machine this client may itself be slow
		case opcode != opText || !strings.Contains(payload, fmt.Sprintf(`"N":%d,`, n)):
			return fmt.Errorf("got opcode %d %q, want trade %d", opcode, payload, n)
		}
		n++
	}
	return nil
}

// TestSlowReaders checks that clients which do not read cost one buffer each and are closed in the
// end, and that a reading client gets everything meanwhile.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		s := start(t, p.config)
		reader := dial(t, s)
		reader.auth("reader")
		reader.subscribe()
		const steps, each = 100, 30
		read := make(chan error, 1)
		go func() { read <- reader.trades(1, steps*each) }()
		slow := soak(1000)
		for range slow {
			c := dial(t, s)
			c.auth("lazy")
			c.subscribe()
		}
		synctest.Wait()
		before := heapBytes()
		for range steps {
			p.publish(each)
			advance(45 * time.Millisecond)
		}
		// 4.5 s of trades, about 600 KB, wait for each of them. Nobody is closed yet.
		if open := s.Stats().Open; open != slow+1 {
			t.Fatalf("%d connections open", open)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
		if grown, most := heapBytes()-before, int64(slow)*128<<10+8<<20; grown > most {
			t.Errorf("%d slow readers hold %d bytes, want at most %d", slow, grown, most)
		}
		go func() { read <- reader.trades(steps*each+1, steps*each+1) }()
		p.publish(1)
		if err := <-read; err != nil {
			t.Error(err)
		}
		advance(3 * time.Second) // trades of 5 s, and 2 s to read the close frame
		if open := s.Stats().Open; open != 1 {
			t.Errorf("%d connections open, want the reader's", open)
		}
	})
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowReaderIsClosed checks what a client receives that starts to read again just in time.
func TestSlowReaderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		s := start(t, p.config)
		c := dial(t, s)
		c.auth("lazy")
		c.subscribe()
		p.publish(2000)
		advance(5 * time.Second)
		code, last := c.skipTo()
		if code != 4507 || !strings.Contains(last, `"code":507,"reason":"slow_client"`) {
			t.Errorf("closed %d after %s", code, last)
		}
		c.write(closing(4507, ""))
		c.wantEnd()
	})
}

// TestProgress checks that the progress of a slow peer is reported to its session: it reads one
// buffer in longer than the session allows without progress.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t)
		s := start(t, p.config)
		c := dial(t, s)
		c.auth("lazy")
		c.subscribe()
		p.publish(64) // in one write
		synctest.Wait()
		for n := range 64 {
			advance(700 * time.Millisecond)
			if err := c.trades(n+1, n+1); err != nil {
				t.Fatal(err)
			}
		}
		c.send(`{"action":"pong"}`)
		p.publish(1)
		if err := c.trades(65, 65); err != nil && !strings.Contains(err.Error(), "slow_client") {
			t.Fatal(err)
		}
	})
}

// TestSlowReaderOverTCP checks the same with the buffers of the kernel.
func TestSlowReaderOverTCP(t *testing.T) { forAllTransports(t, testSlowReaderOverTCP) }

func testSlowReaderOverTCP(t *testing.T, tr transport) {
	p := newPublisher(t)
	s := openServer(t, tr, p.config)
	reader := s.connect("")
	reader.auth("reader")
	reader.subscribe()
	slow := s.connect("")
	slow.auth("lazy")
	slow.subscribe()
	if err := tcpConn(slow.nc).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	n := 0
	for s.Stats().Open == 2 {
		p.publish(1000)
		if err := reader.trades(n+1, n+1000); err != nil {
			t.Fatal(err)
		}
		n += 1000
	}
	reader.echo("1")
}

// TestMisbehavior checks that the clients of one shard do not disturb each other.
func TestMisbehavior(t *testing.T) { forEachTransport(t, testMisbehavior) }

func testMisbehavior(t *testing.T, tr transport) {
	p := newPublisher(t)
	s := openServer(t, tr, func(c *Config) {
		p.config(c)
		c.Shards = 1
	})
	reader := s.connect("")
	reader.auth("reader")
	reader.subscribe()
	stop, done := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-done }()
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				cycle(t, s, i)
			}
		}
	}()
	flood, err := s.tryDial()
	if err != nil {
		t.Fatal(err)
	}
	flooded := make(chan struct{})
	defer func() { flood.Close(); <-flooded }()
	go func() { // as fast as the server accepts it, without reading
		defer close(flooded)
		in := []byte(goodHandshake + "\r\n")
		for {
			if _, err := flood.Write(in); err != nil {
				return
			}
			in = []byte(strings.Repeat(frame(opPing, "flood"), 1000))
		}
	}()
	for n := range soak(2000) {
		p.publish(10)
		if err := reader.trades(n*10+1, n*10+10); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		const n = 4
		var clients []*client
		for range n {
			c := dial(t, s)
			c.auth("ana")
			clients = append(clients, c)
		}
		synctest.Wait()
		begin := time.Now()
		drained := make(chan error)
		go func() { drained <- s.Drain(t.Context(), 8*time.Second) }()
		ended := make(chan time.Duration)
		for _, c := range clients {
			c.want(`"type":"Warning"`, `"reason":"shutting_down"`, `"reconnect_in_ms":`)
			c.echo("served until then")
			go func() {
				c.want(`"code":503,"reason":"shutting_down"`)
				c.wantClose(4503, "shutting_down")
				c.write(closing(4503, ""))
				c.wantEnd()
				ended <- time.Since(begin)
			}()
		}
		if _, err := tryDial(t, s, Peer{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a new connection: %v", err)
		}
		for i := range n {
			if took, want := <-ended, time.Duration(i+1)*8*time.Second/n; took != want {
				t.Errorf("connection %d ended after %v, want %v", i, took, want)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if got, want := slotStats(s), (Stats{Draining: true}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

func TestDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		dial(t, s).auth("ana")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Drain(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

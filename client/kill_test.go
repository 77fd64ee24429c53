package client_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire/stream"
)

// breaker is a TCP proxy that breaks its connections.
type breaker struct {
	t        *testing.T
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
}

// pair is a connection of a client and the one to the gateway.
type pair struct {
	client, server *net.TCPConn
	mu             sync.Mutex
	silent         bool // nothing is forwarded any more
	cut            bool // half of what comes next is forwarded, then both are closed
}

func newBreaker(t *testing.T, target string) *breaker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{t: t, listener: listener, target: target, pairs: map[*pair]bool{}}
	b.group.Go(b.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		b.mu.Lock()
		for p := range b.pairs {
			_, _ = p.client.Close(), p.server.Close()
		}
		b.mu.Unlock()
		b.group.Wait()
	})
	return b
}

func (b *breaker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", b.target)
		if err != nil {
			_ = conn.Close()
			continue
		}
		p := &pair{client: conn.(*net.TCPConn), server: server.(*net.TCPConn)}
		b.mu.Lock()
		b.pairs[p] = true
		b.mu.Unlock()
		b.group.Go(func() { p.forward(p.server, p.client) })
		b.group.Go(func() { p.forward(p.client, p.server) })
	}
}

// forward copies in small pieces until the connection breaks.
func (p *pair) forward(to, from *net.TCPConn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		silent, cut := p.silent, p.cut
		p.mu.Unlock()
		switch {
		case silent:
			_, _ = io.Copy(io.Discard, from)
			return
		case cut && to == p.client && n > 1:
			_, _ = to.Write(buf[:n/2])
			_, _ = to.Close(), from.Close()
			return
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// kills are the ways in which a connection ends.
var kills = []string{"reset", "half-open", "stall", "cut"}

// kill breaks all connections in one way.
func (b *breaker) kill(way string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.pairs {
		p.mu.Lock()
		switch way {
		case "reset":
			_, _ = p.client.SetLinger(0), p.server.SetLinger(0)
			_, _ = p.client.Close(), p.server.Close()
		case "half-open": // the gateway is gone, and the client does not notice
			p.silent = true
			_ = p.server.Close()
		case "stall": // neither side notices
			p.silent = true
		case "cut":
			p.cut = true
		}
		p.mu.Unlock()
		if way == "reset" || way == "cut" {
			delete(b.pairs, p)
		}
	}
}

// account checks that each series is complete: every N once and in order, or reported as lost.
type account struct {
	t    *testing.T
	next map[stream.Series]uint64
	lost uint64
	got  uint64
}

func (a *account) add(ev client.Event) {
	a.t.Helper()
	switch ev := ev.(type) {
	case *client.Trade:
		s := stream.Series{Instrument: ev.Instrument}
		if want := a.next[s]; want != 0 && ev.N != want {
			a.t.Fatalf("%s: trade %d, want %d", ev.Instrument, ev.N, want)
		}
		if ev.Size != market.Size(ev.N*market.Scale) {
			a.t.Fatalf("%s: trade %d has size %s", ev.Instrument, ev.N, ev.Size)
		}
		a.next[s] = ev.N + 1
		a.got++
	case client.Lost:
		if ev.From != a.next[ev.Series] || ev.To < ev.From {
			a.t.Fatalf("%v, want from %d", ev, a.next[ev.Series])
		}
		a.lost += ev.To - ev.From + 1
		a.next[ev.Series] = ev.To + 1
	}
}

// publishTrades publishes trades whose size is their number, until ctx ends. It returns the number
// of trades of each instrument.
func publishTrades(ctx context.Context, s *ruedatest.Server, ids []string, pause time.Duration) uint64 {
	n := uint64(0)
	for ctx.Err() == nil {
		n++
		for _, id := range ids {
			s.Trade(id, "7050", strconv.FormatUint(n, 10))
		}
		time.Sleep(pause)
	}
	return n
}

// TestKillsE2E breaks the connection in four ways under load, at random moments. Each trade arrives
// once and in order, by an identifier and by a pattern.
func TestKillsE2E(t *testing.T) {
	t.Parallel()
	ids := []string{ggal, "AL30|BYMA|CI", "YPFD|BYMA|24hs", "SOJ|MATBA|CI", "MAI|MATBA|CI"}
	s := ruedatest.Start(t, ruedatest.Config{})
	for _, id := range ids {
		s.Define(instrument(t, id))
	}
	proxy := newBreaker(t, strings.TrimPrefix(s.URL, "http://"))
	c, err := client.New([]string{"http://" + proxy.listener.Addr().String()}, client.Options{
		Username: s.Username, Password: client.Secret(s.Password), Heartbeat: 400 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Subscribe(client.Set{Trades: []string{ids[0], ids[1], ids[2], "*|MATBA|*"}}); err != nil {
		t.Fatal(err)
	}
	var publisher sync.WaitGroup
	published, stop := context.WithCancel(t.Context())
	var total uint64
	publisher.Go(func() { total = publishTrades(published, s, ids, 2*time.Millisecond) })
	defer publisher.Wait()
	defer stop()

	left := 20
	if os.Getenv("RUEDA_SOAK") != "" {
		left = 1000
	}
	broken := left
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(left)*3*time.Second+time.Minute)
	defer cancel()
	a := &account{t: t, next: map[stream.Series]uint64{}}
	done, recovered := false, 0
	for ev := range c.Events(ctx) {
		a.add(ev)
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State != client.Live {
				break
			}
			if left == 0 {
				stop()
				publisher.Wait()
				done = true
				break
			}
			left--
			way := kills[left%len(kills)]
			after := rand.N(100 * time.Millisecond)
			publisher.Go(func() {
				time.Sleep(after)
				proxy.kill(way)
			})
		case client.Recovered:
			recovered++
		}
		if done && complete(a, total, len(ids)) {
			break
		}
	}
	if !done || !complete(a, total, len(ids)) {
		t.Fatalf("%d kills left, %d of %d trades, next %v", left, a.got, total*5, a.next)
	}
	t.Logf("figure: %d connections broken, %d trades of %d received, %d lost, %d ranges recovered", broken, a.got, total*5, a.lost, recovered)
	if a.lost > 0 {
		t.Errorf("%d trades were lost, and the gateway has them", a.lost)
	}
}

// complete reports whether everything up to the last trade was received.
func complete(a *account, total uint64, series int) bool {
	n := 0
	for _, next := range a.next {
		if next == total+1 {
			n++
		}
	}
	return n == series
}

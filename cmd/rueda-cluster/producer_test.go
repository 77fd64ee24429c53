package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// producer is a producer of JSON lines with source numbers. It sends trades to the sequencer, and
// connects to the next address when a connection ends.
type producer struct {
	addresses []string
	every     time.Duration // between two trades

	mu   sync.Mutex
	sent uint64 // SQ of the newest trade
}

// ownInstrument is the instrument of the producer.
const ownInstrument = "LINE|RIG|CI"

// produce starts a producer, until the context ends.
func (r *rig) produce(ctx context.Context, all *sync.WaitGroup) *producer {
	p := &producer{addresses: r.feeds, every: 10 * time.Millisecond}
	all.Go(func() {
		for turn := 0; ctx.Err() == nil; turn++ {
			p.connect(ctx, p.addresses[turn%len(p.addresses)])
			pause(ctx, 50*time.Millisecond)
		}
	})
	return p
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// connect sends trades until the connection ends.
func (p *producer) connect(ctx context.Context, address string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // this node is not the sequencer
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ended := make(chan struct{})
	go func() { // answers; the connection ends with them
		defer close(ended)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
		}
	}()
	defer func() { _ = conn.Close(); <-ended }()
	if _, err := fmt.Fprintf(conn, `{"type":"Hello","token":%q,"name":"rig"}`+"\n"+`{"type":"F","I":%q,"price_decimals":2,"size_decimals":0,"no_book":true}`+"\n", operator, ownInstrument); err != nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ended:
			return
		case <-time.After(p.every):
		}
		if p.send(conn) != nil {
			return
		}
	}
}

// send sends the next trade.
func (p *producer) send(conn net.Conn) error {
	p.mu.Lock()
	p.sent++
	n := p.sent
	p.mu.Unlock()
	text, err := json.Marshal(map[string]any{"type": "T", "I": ownInstrument, "P": 100, "Z": 1, "X": fmt.Sprint(n), "SQ": n})
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	return err
}

// check checks the trades of the producer in the log: none is there twice, and their order is that
// of the producer. It prints how many are missing.
func (p *producer) check(t *testing.T, log map[string]*logged) {
	t.Helper()
	l := log[ownInstrument]
	if l == nil {
		t.Fatal("the log has nothing of the producer")
	}
	last := uint64(0)
	for i, id := range l.ids {
		var n uint64
		if _, err := fmt.Sscan(id, &n); err != nil || n <= last {
			t.Errorf("trade %d of the producer has the id %q, after %d", i, id, last)
		}
		last = n
	}
	t.Logf("figure: the producer sent %d trades, the log has %d; the others were in flight when a sequencer ended", p.sent, len(l.ids))
}

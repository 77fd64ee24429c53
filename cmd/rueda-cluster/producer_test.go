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
// connects to the next address when a connection ends. It keeps the lines that are not
// acknowledged, and continues after those that the log has.
type producer struct {
	addresses []string
	every     time.Duration // between two trades
	resumes   bool          // the sequencers know the member resume

	mu    sync.Mutex
	sent  uint64      // SQ of the newest trade
	acked uint64      // SQ of the newest trade that the log has
	first []time.Time // of the first time that each trade was sent
	lost  []string
}

// ownInstrument is the instrument of the producer.
const ownInstrument = "LINE|RIG|CI"

// produce starts a producer, until the context ends.
func (r *rig) produce(ctx context.Context, all *sync.WaitGroup, every time.Duration, resumes bool) *producer {
	p := &producer{addresses: r.feeds, every: every, resumes: resumes}
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

// answer is a line of the sequencer.
type answer struct {
	Type string
	Last map[string]map[string]uint64
}

// connect sends trades until the connection ends.
func (p *producer) connect(ctx context.Context, address string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // this node is not the sequencer
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	hello := map[string]any{"type": "Hello", "token": operator, "name": "rig"}
	ready := make(chan struct{})
	if hello["resume"] = "one"; !p.resumes {
		delete(hello, "resume")
		close(ready)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				return // a part of a line
			}
			p.answered(&a)
			if a.Type == "Hello" {
				close(ready)
			}
		}
	}()
	defer func() { _ = conn.Close(); <-ended }()
	write := func(v any) error {
		text, err := json.Marshal(v)
		if err == nil {
			_, err = conn.Write(append(text, '\n'))
		}
		return err
	}
	if write(hello) != nil {
		return
	}
	select {
	case <-ready:
	case <-ended:
		return
	}
	if write(map[string]any{"type": "F", "I": ownInstrument, "price_decimals": 2, "size_decimals": 0, "no_book": true}) != nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ended:
			return
		case <-time.After(p.every):
		}
		p.mu.Lock()
		p.sent++
		n := p.sent
		if n > uint64(len(p.first)) {
			p.first = append(p.first, time.Now())
		}
		p.mu.Unlock()
		if write(map[string]any{"type": "T", "I": ownInstrument, "P": 100, "Z": 1, "X": fmt.Sprint(n), "SQ": n}) != nil {
			return
		}
	}
}

// sentAt returns when a trade was sent for the first time.
func (p *producer) sentAt(n uint64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first[n-1]
}

// answered handles a line of the sequencer. After a Hello, the trades that the log does not have are
// sent again.
func (p *producer) answered(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := a.Last[ownInstrument]["T"]
	switch a.Type {
	case "Hello":
		if last < p.acked || last > p.sent {
			p.lost = append(p.lost, fmt.Sprintf("the log ends at %d of %d sent, and %d were acknowledged", last, p.sent, p.acked))
		}
		p.sent = last
	case "Ack":
		p.acked = max(p.acked, last)
	}
}

// check checks the trades of the producer in the log: their order is that of the producer, and none
// is there twice. If it resumes, none is missing.
func (p *producer) check(t *testing.T, log map[string]*logged) {
	t.Helper()
	l := log[ownInstrument]
	if l == nil {
		t.Fatal("the log has nothing of the producer")
	}
	last := uint64(0)
	for i, id := range l.ids {
		var n uint64
		if _, err := fmt.Sscan(id, &n); err != nil || n <= last || p.resumes && n != last+1 {
			t.Errorf("trade %d of the producer has the id %q, after %d", i, id, last)
		}
		last = n
	}
	for _, text := range p.lost {
		t.Error(text)
	}
	if p.resumes && (p.acked == 0 || last < p.acked) {
		t.Errorf("the log has the trades up to %d of the producer, and %d were acknowledged", last, p.acked)
	}
	t.Logf("figure: the log has %d trades of the producer, which sent %d, %d of them acknowledged", len(l.ids), p.sent, p.acked)
}

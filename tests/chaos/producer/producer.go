// Package producer sends a market to a feed of JSON lines, and continues where the log of the
// gateway ends.
package producer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/market"
)

// Config says what a producer sends, and where.
type Config struct {
	Market    *market.Market
	Name      string        // of the Hello
	Resume    string        // name of the numbering
	Token     string        // empty for a feed without one
	Addresses []string      // tried in turn
	From      int64         // events before it were sent by an earlier producer, and acknowledged
	AckLimit  time.Duration // without an Ack for a line for so long, it connects to the next address; 0 is 10 s
}

// Producer sends events when their time has come. Its methods may be called at the same time.
type Producer struct {
	c Config

	mu      sync.Mutex
	conn    net.Conn
	end     int64 // first event that is not sent; 0 is none
	sent    []int64
	acked   []map[byte]int64 // by instrument and channel
	refused []string

	forgotten []map[byte]int64 // acked of instruments when the gateway did not know them any more
	lost      []string

	// Connections counts the Hellos that were accepted, Forgotten those whose answer knew no line
	// although lines were acknowledged. Lines were lost then, and N begins again.
	Connections, Forgotten atomic.Int64
}

// New returns a producer; Run starts it.
func New(c Config) *Producer {
	if c.AckLimit == 0 {
		c.AckLimit = 10 * time.Second
	}
	p := &Producer{c: c}
	for _, in := range c.Market.Instruments {
		acked := map[byte]int64{}
		for _, channel := range channels {
			acked[channel] = in.Count(channel, c.From-1)
		}
		p.sent, p.acked = append(p.sent, c.From-1), append(p.acked, acked)
		p.forgotten = append(p.forgotten, nil)
	}
	return p
}

// Drop closes the connection. The producer connects again.
func (p *Producer) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close()
	}
}

// StopAt ends the market: the producer stays connected and sends only events before this time. It
// returns the number of the first event that is not sent, of any instrument.
func (p *Producer) StopAt(t time.Time) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = max(int64(t.Sub(p.c.Market.Start)/p.c.Market.Step), 1)
	for _, sent := range p.sent {
		p.end = max(p.end, sent+1)
	}
	return p.end
}

// Continue ends the effect of StopAt.
func (p *Producer) Continue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = 0
}

// Drained reports whether all events before that of StopAt are acknowledged.
func (p *Producer) Drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end != 0 && p.behind(p.end-1) == ""
}

// Behind says what Drained waits for.
func (p *Producer) Behind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behind(p.end - 1)
}

// behind says what is not acknowledged of the events up to e.
func (p *Producer) behind(e int64) string {
	for i, in := range p.c.Market.Instruments {
		for _, channel := range channels {
			if want := in.Count(channel, e); p.acked[i][channel] < want {
				return fmt.Sprintf("%s %c: %d of %d", in.ID, channel, p.acked[i][channel], want)
			}
		}
	}
	return ""
}

// Lost says which lines were acknowledged that the log did not have at a later Hello.
func (p *Producer) Lost() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Refused returns errors with which the gateway answered lines. There should be none.
func (p *Producer) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

var channels = []byte{market.ChannelTrades, market.ChannelQuotes, market.ChannelBook, market.ChannelStatus, market.ChannelFigures}

// Run connects and sends until ctx is done.
func (p *Producer) Run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		p.connect(ctx, p.c.Addresses[i%len(p.c.Addresses)])
		Wait(ctx, 100*time.Millisecond)
	}
}

// Wait waits for a time, or until ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Until waits at most a minute for a condition, and reports whether it came.
func Until(ctx context.Context, is func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; Wait(ctx, 100*time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// answer is a line of the gateway.
type answer struct {
	Type   string
	Reason string
	Msg    string
	Last   map[string]map[string]int64
}

// connect sends to one address until the connection ends.
func (p *Producer) connect(ctx context.Context, address string) {
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	hello, _ := json.Marshal(map[string]string{"type": "Hello", "name": p.c.Name, "resume": p.c.Resume, "token": p.c.Token})
	_ = conn.SetDeadline(time.Now().Add(p.c.AckLimit))
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return
	}
	r := bufio.NewReaderSize(conn, 1<<20)
	next := make([]int64, len(p.sent))
	a, err := read(r)
	if err != nil || a.Type != "Hello" {
		p.refuse(a)
		return
	}
	p.begin(a, next)
	p.Connections.Add(1)
	_ = conn.SetDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		p.acks(conn, r)
	}()
	p.send(ctx, conn, next)
	_ = conn.Close()
	<-done
}

func read(r *bufio.Reader) (a answer, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

func (p *Producer) refuse(a answer) {
	if a.Type != "Error" && a.Type != "Warning" || a.Reason == "replaced" || a.Reason == "overloaded" || a.Reason == "auth_timeout" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < 20 {
		p.refused = append(p.refused, a.Type+" "+a.Reason+": "+a.Msg)
	}
}

// begin computes the next event of each instrument from the newest ones in the log.
func (p *Producer) begin(a answer, next []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	forgotten := false
	for i, in := range p.c.Market.Instruments {
		last := a.Last[in.ID]
		if len(last) == 0 && p.acked[i][market.ChannelBook] > 0 { // the first event is a book
			// The gateway does not know which lines it has: only new ones may follow.
			forgotten = true
			next[i] = p.sent[i] + 1
			p.acked[i] = map[byte]int64{}
			for _, channel := range channels {
				p.acked[i][channel] = in.Count(channel, p.sent[i])
			}
			p.forgotten[i] = maps.Clone(p.acked[i])
			continue
		}
		for _, channel := range channels {
			n := last[string(channel)]
			if n == 0 && p.acked[i][channel] == p.forgotten[i][channel] {
				continue // no line of the channel has come since
			}
			if acked := p.acked[i][channel]; n < acked && len(p.lost) < 20 {
				p.lost = append(p.lost, fmt.Sprintf("%s: the log has %c up to %d, and acknowledged %d", in.ID, channel, n, acked))
			}
			if n > 0 {
				next[i] = max(next[i], in.Nth(channel, n)+1)
			}
			p.acked[i][channel] = n
		}
	}
	if forgotten {
		p.Forgotten.Add(1)
	}
}

// acks reads answers until the connection ends.
func (p *Producer) acks(conn net.Conn, r *bufio.Reader) {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(p.c.AckLimit))
		a, err := read(r)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() && p.idle() {
				continue
			}
			return
		}
		p.refuse(a)
		if a.Type != "Ack" {
			continue
		}
		p.mu.Lock()
		for i, in := range p.c.Market.Instruments {
			for channel, n := range a.Last[in.ID] {
				p.acked[i][channel[0]] = n
			}
		}
		p.mu.Unlock()
	}
}

// idle reports whether all lines that were sent are acknowledged.
func (p *Producer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range p.c.Market.Instruments {
		for _, channel := range channels {
			if p.acked[i][channel] < in.Count(channel, p.sent[i]) {
				return false
			}
		}
	}
	return true
}

// send defines the instruments and sends events in order of time.
func (p *Producer) send(ctx context.Context, conn net.Conn, next []int64) {
	var b []byte
	whole := make([]bool, len(next))
	for i, in := range p.c.Market.Instruments {
		b = append(b, in.Definition()...)
		whole[i] = true
	}
	for ctx.Err() == nil {
		b = p.due(b, next, whole)
		if len(b) == 0 {
			Wait(ctx, 2*time.Millisecond)
			// The reader closes the connection when it ends.
			if _, err := conn.Write(nil); err != nil {
				return
			}
			continue
		}
		_ = conn.SetWriteDeadline(time.Now().Add(p.c.AckLimit))
		if _, err := conn.Write(b); err != nil {
			return
		}
		_ = conn.SetWriteDeadline(time.Time{})
		b = b[:0]
	}
}

// due appends the lines of events whose time has come: at most some thousand, an event of each
// instrument in turn.
func (p *Producer) due(b []byte, next []int64, whole []bool) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for more := true; more && len(b) < 200_000; {
		more = false
		for i, in := range p.c.Market.Instruments {
			e := next[i]
			if p.end != 0 && e >= p.end || in.Time(e).After(now) {
				continue
			}
			more = true
			next[i]++
			p.sent[i] = max(p.sent[i], e)
			switch in.Kind(e) {
			case 0:
				continue
			case market.ChannelBook:
				b = append(b, in.Line(e, whole[i])...)
				whole[i] = false
			default:
				b = append(b, in.Line(e, false)...)
			}
		}
	}
	return b
}

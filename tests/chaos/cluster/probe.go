//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Probe asks one node over REST, again and again. A node that does not run does not answer, one
// that serves no clients answers 503, and any other answer must be right.
type Probe struct {
	Node  *Node
	Token string
	Judge *check.Judge
	Every time.Duration

	mu sync.Mutex
	answers
}

// answers counts answers since the node was started.
type answers struct {
	began         time.Time
	rest, sockets int // right ones
	refused       int
	first         time.Time // of the right ones
}

// Routes that a probe asks.
const (
	trades      = "/market/trades"
	snapshot    = "/market/snapshot"
	instruments = "/market/instruments"
)

// Run asks until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		in := p.Judge.Market.Instruments[i/3%len(p.Judge.Market.Instruments)]
		switch i % 3 {
		case 0:
			p.ask(ctx, in, trades, url.Values{"instrument": {in.ID}, "order": {"desc"}, "limit": {"20"}})
		case 1:
			p.ask(ctx, in, snapshot, url.Values{"instruments": {in.ID}})
		case 2:
			p.ask(ctx, in, instruments, nil)
		}
		producer.Wait(ctx, p.Every)
	}
}

// Stream subscribes on connections of their own until ctx ends.
func (p *Probe) Stream(ctx context.Context) {
	for ctx.Err() == nil {
		wait := 20 * time.Millisecond
		if p.subscribe(ctx) {
			wait *= 10
		}
		producer.Wait(ctx, wait)
	}
}

// subscribe subscribes on one connection, asks for the subscriptions, and unsubscribes. It reports
// whether all answers came.
func (p *Probe) subscribe(ctx context.Context) bool {
	s, err := stream.Dial(ctx, p.Node.Address, stream.Options{})
	var refused *stream.Refused
	if errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable {
		p.Judge.Report.Violation("handshake", "%s: %v", p.Node.Name, refused)
	}
	if err != nil {
		return false // the node does not run, or serves no clients
	}
	defer s.Close()
	var list []string
	for _, in := range p.Judge.Market.Instruments {
		list = append(list, in.ID)
	}
	for _, m := range []map[string]any{
		{"action": "auth_token", "token": p.Token},
		{"action": "subscribe", "trades": list, "status": list},
		{"action": "subscriptions"},
		{"action": "unsubscribe", "trades": list, "status": list},
	} {
		if s.Send(m) != nil {
			return false
		}
	}
	wrong := func(what string, text any) { p.Judge.Report.Violation("stream "+what, "%s: %s", p.Node.Name, text) }
	right := true
	for answers := 0; answers < 3; {
		m, err := s.Read(time.Now().Add(10 * time.Second))
		switch {
		case errors.Is(err, stream.ErrProtocol):
			wrong("frame", err)
			return false
		case err != nil:
			return false // it was killed, or is too busy
		case m.Type == "Error" && (m.Reason == "overloaded" || m.Reason == "shutting_down"):
			p.note(&p.refused)
			return false
		case m.Type == "Error" || len(m.Rejected) > 0 || len(m.Removed) > 0:
			wrong(m.Reason, m.Text)
			right = false
			answers++
		case m.Epoch != "" && p.epoch(m.Epoch) != "":
			wrong("epoch", p.epoch(m.Epoch)+", in an answer: "+m.Msg)
			right = false
		}
		if err == nil && m.Type == "Subscription" {
			answers++
		}
	}
	if !right {
		return false
	}
	p.note(&p.sockets)
	return true
}

// answered is an answer of REST, in part.
type answered struct {
	Epoch       string
	Trades      []json.RawMessage
	Instruments []struct{ Instrument string }
}

// ask sends a request and judges the answer.
func (p *Probe) ask(ctx context.Context, in *market.Instrument, route string, query url.Values) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var a answered
	err := stream.Get(ctx, p.Node.Address, p.Token, route, query, &a)
	var refused *stream.Refused
	wrong := ""
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && strings.HasPrefix(refused.Reason, "unavailable:"):
		p.note(&p.refused)
		return
	case refused != nil:
		wrong = refused.Error()
	case err != nil:
		return // the node does not run, or was killed
	case route == instruments:
		if len(a.Instruments) != len(p.Judge.Market.Instruments) {
			wrong = fmt.Sprintf("%d instruments of %d", len(a.Instruments), len(p.Judge.Market.Instruments))
		}
	default:
		wrong = p.epoch(a.Epoch)
		for _, row := range a.Trades {
			m := &stream.Message{Text: row}
			if err := json.Unmarshal(row, m); err != nil {
				wrong = err.Error()
			} else if wrong == "" {
				p.Judge.Message(a.Epoch, m, market.Book{}, 0)
			}
		}
	}
	if wrong != "" {
		p.Judge.Report.Violation(route, "%s: %s", p.Node.Name, wrong)
		return
	}
	p.note(&p.rest)
}

// epoch says that an epoch is not that of the log.
func (p *Probe) epoch(name string) string {
	if log := p.Judge.First(); name != log {
		return fmt.Sprintf("epoch %s instead of %s", name, log)
	}
	return ""
}

// note counts an answer.
func (p *Probe) note(count *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *count++; count != &p.refused && p.first.IsZero() {
		p.first = time.Now()
	}
}

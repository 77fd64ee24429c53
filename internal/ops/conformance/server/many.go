package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longTrade adds a trade whose message has half a KiB and more, so that few of them fill a socket.
func (p *producer) longTrade(id string) {
	p.trades = append(p.trades, trade{"7050", "10"})
	words := make([]string, 8)
	for i := range words {
		words[i] = strings.Repeat(string(rune('a'+i)), 64)
	}
	p.add(map[string]any{
		"type": "T", "I": p.markets.Replace(id), "T": now(0), "P": 7050, "Z": 10, "X": strconv.Itoa(len(p.trades)), "C": words,
	})
}

// publishMany publishes long trades of an instrument in the background: "flood ID COUNT".
func (t *talk) publishMany(ctx context.Context, st step) error {
	id, count, _ := strings.Cut(st.Rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for range n {
		t.producer.longTrade(id)
	}
	t.flooding = true
	t.flood.Go(func() { t.flooded = t.producer.send(ctx) })
	return nil
}

// expectMany reads messages until one of another type comes. rest is what a conversation writes
// after "many": types such as "T Warning", or a type and a rate such as "T, at most 5000 bytes a
// second". The N of the trades of an instrument must have no gap.
func (t *talk) expectMany(c *peer, rest string) error {
	rest, limit, isLimited := strings.Cut(rest, ", at most ")
	types := strings.Fields(rest)
	rate, err := strconv.Atoi(strings.TrimSuffix(limit, " bytes a second"))
	if isLimited && err != nil {
		return err
	}
	first, bytes := time.Time{}, 0
	for {
		e, ok := c.peek(tolerance)
		if !ok {
			return errors.New("nothing came after them")
		}
		var m struct {
			Type, I string
			N       int64
		}
		if e.err != nil || json.Unmarshal([]byte(e.text), &m) != nil || !slices.Contains(types, m.Type) {
			return nil
		}
		c.drop()
		if m.Type != "T" {
			continue
		}
		if before := t.last[m.I]; before != 0 && m.N != before+1 {
			return fmt.Errorf("after N %d came %d of %s", before, m.N, m.I)
		}
		t.last[m.I] = m.N
		if bytes += len(e.text); first.IsZero() {
			first = e.at
		}
		if took := e.at.Sub(first).Seconds() + 1; isLimited && float64(bytes) > float64(rate)*(took+1) {
			return fmt.Errorf("%d bytes of trades came in %.1f s", bytes, took)
		}
	}
}

// peek waits for the next event and leaves it.
func (c *peer) peek(limit time.Duration) (event, bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if len(c.events) > 0 {
			e := c.events[0]
			c.mu.Unlock()
			return e, true
		}
		c.mu.Unlock()
		select {
		case <-c.more:
		case <-timer.C:
			return event{}, false
		}
	}
}

// drop removes the event that peek has returned.
func (c *peer) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = c.events[1:]
}

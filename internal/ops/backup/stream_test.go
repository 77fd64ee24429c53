package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func (c *client) get(path string, into any) error {
	req, err := http.NewRequest(http.MethodGet, c.g.rest+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.access)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// message has the fields of a message that the tests need.
type message struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Epoch  string `json:"epoch"`
	Lost   map[string]map[string]struct {
		Reason string `json:"reason"`
	} `json:"lost"`
	I string
	N uint64
}

// subscribe connects, subscribes to the trades, and calls got for each message until it returns
// false.
func (c *client) subscribe(ctx context.Context, resume any, got func(m *message, text []byte) bool) error {
	ws, _, err := websocket.Dial(ctx, c.g.wire, nil)
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 22)
	send := func(v any) error {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, text)
	}
	if err := send(map[string]any{"action": "auth_token", "token": c.access}); err != nil {
		return err
	}
	request := map[string]any{"action": "subscribe", "trades": instruments}
	if resume != nil {
		request["resume"] = resume
	}
	if err := send(request); err != nil {
		return err
	}
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if string(text) == `{"action":"ping"}` {
			if err := send(map[string]any{"action": "pong"}); err != nil {
				return err
			}
			continue
		}
		m := &message{}
		if err := json.Unmarshal(text, m); err != nil {
			return err
		}
		if m.Type == "Error" {
			return fmt.Errorf("the gateway sent %s", text)
		}
		if !got(m, text) {
			return nil
		}
	}
}

// follow records the trades until ctx ends.
func (c *client) follow(ctx context.Context) {
	err := c.subscribe(ctx, nil, func(m *message, text []byte) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch m.Type {
		case "Subscription":
			c.epoch = m.Epoch
		case "T":
			c.seen[m.I] = m.N
			if c.texts[m.I] == nil {
				c.texts[m.I] = map[uint64]string{}
			}
			c.texts[m.I][m.N] = string(text)
			select {
			case c.changed <- struct{}{}:
			default:
			}
		}
		return true
	})
	if ctx.Err() == nil {
		c.g.t.Errorf("follow: %v", err)
	}
}

// resume resumes with the old epoch and returns the reasons of what is lost, and the epoch.
func (c *client) resume(t *testing.T) (lost []string, epoch string) {
	t.Helper()
	err := c.subscribe(t.Context(), map[string]any{"epoch": c.epoch, "trades": c.seen}, func(m *message, text []byte) bool {
		if m.Type == "Subscription" {
			epoch = m.Epoch
			known := map[string]bool{}
			for _, l := range m.Lost["trades"] {
				if !known[l.Reason] {
					lost = append(lost, l.Reason)
				}
				known[l.Reason] = true
			}
		}
		return m.Type != "T" // and trades follow
	})
	if err != nil {
		t.Fatal(err)
	}
	return lost, epoch
}

func (c *client) newest(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[name]
}

func (c *client) epochOf() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

func (c *client) text(name string, n uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[name][n]
}

// await waits until the first instrument has a trade with number n.
func (c *client) await(t *testing.T, n uint64) {
	t.Helper()
	late := time.After(time.Minute)
	for c.newest(instruments[0]) < n {
		select {
		case <-c.changed:
		case <-late:
			t.Fatalf("no trade %d within a minute", n)
		}
	}
}

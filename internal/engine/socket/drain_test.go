package socket

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
)

// TestDrainSpreads drains all connections over a window while trades continue. Their close times
// are spread evenly, and each client that resumes on another server of the same stream gets every
// trade once and in order.
func TestDrainSpreads(t *testing.T) {
	count := soak(10_000)
	synctest.Test(t, func(t *testing.T) {
		hub := hub.New(hub.Config{Epoch: "e1"})
		hd, err := hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}})
		if err != nil {
			t.Fatal(err)
		}
		on := func(cfg *Config) {
			cfg.Hub = hub
			cfg.MaxUnauthenticated, cfg.MaxUnauthenticatedPerAddress = 2*count, 2*count
			cfg.Env.Connections = 2 * count
			cfg.Env.PingInterval = time.Hour
		}
		old, next := start(t, on), start(t, on)
		const window = 10 * time.Second
		const last = 60
		moves := make([]time.Duration, count)
		var clients sync.WaitGroup
		for i := range count {
			c := &movingClient{t: t, client: dial(t, old)}
			c.begin("")
			clients.Go(func() {
				moves[i] = c.follow(next, last)
				c.nc.Close()
			})
		}
		go func() {
			for n := range last {
				time.Sleep(window / (last - 10))
				e := market.Event{Kind: market.KindTrade, Handle: hd, Price: 7050 * market.Scale, Size: market.Scale, TradeID: strconv.Itoa(n)}
				if err := hub.Publish([]market.Event{e}); err != nil {
					t.Error(err)
				}
			}
		}()
		if err := old.Drain(t.Context(), window); err != nil {
			t.Error(err)
		}
		clients.Wait()
		var tenths [10]int
		for _, d := range moves {
			tenths[min(9, max(0, int((d-1)*10/window)))]++
		}
		for i, n := range tenths {
			if share := float64(n) / float64(count); share > 0.11 {
				t.Errorf("%.1f %% of the clients are sent away in tenth %d of the window", 100*share, i+1)
			}
		}
		t.Logf("figure: drain of %d connections, clients a tenth of the window: %v; every trade once and in order for all", count, tenths)
	})
}

// movingClient is a client that moves to another server when its server drains.
type movingClient struct {
	*client
	t    testing.TB
	seen int // N of the last trade
}

func (c *movingClient) begin(resume string) {
	c.auth("ana")
	c.send(`{"action":"subscribe","trades":["GGAL|BYMA|CI"]` + resume + `}`)
	c.want(`"type":"Subscription"`)
}

// follow reads trades up to N last, on the next server after this one closes, and returns the
// announced time until then.
func (c *movingClient) follow(next *Server, last int) (given time.Duration) {
	for c.seen < last {
		opcode, payload, err := c.next()
		if err == nil && opcode == opClose {
			if code := int(payload[0])<<8 | int(payload[1]); code != 4503 {
				c.t.Errorf("closed %d", code)
				return given
			}
			c.nc.Close()
			c.client = dial(c.t, next)
			c.begin(fmt.Sprintf(`,"resume":{"epoch":"e1","trades":{"GGAL|BYMA|CI":%d}}`, c.seen))
			continue
		}
		var m struct {
			Type   string
			N      int
			Reason string
			In     int `json:"reconnect_in_ms"`
		}
		if err != nil || json.Unmarshal([]byte(payload), &m) != nil {
			c.t.Errorf("%v in %q", err, payload)
			return given
		}
		switch {
		case m.Type == "T" && m.N != c.seen+1:
			c.t.Errorf("trade %d after %d", m.N, c.seen)
			return given
		case m.Type == "T":
			c.seen = m.N
		case m.Reason == "shutting_down" && m.In > 0:
			given = time.Duration(m.In) * time.Millisecond
		}
	}
	return given
}

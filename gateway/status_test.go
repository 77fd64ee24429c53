package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// TestStatusOnWeekend has a feed that is always open, for one market with hours and one without, on
// a Saturday. REST returns the same statuses as the stream.
func TestStatusOnWeekend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, err := sim.New(sim.Config{Seed: 1, Instruments: 2})
		if err != nil {
			t.Fatal(err)
		}
		client, at := run(t, gateway.Config{
			Listener: newPipes(),
			Markets: []market.Market{{ID: "BYMA", Schedule: market.Schedule{
				Sessions: []market.Session{{Start: 11 * time.Hour, End: 17 * time.Hour, Phase: market.Open}},
			}}},
			Feeds: []gateway.Feed{{Name: "sim", Source: source}},
		})
		c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.REST+"/market/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.access)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if text := string(body); err != nil || !strings.Contains(text, `"closed"`) || !strings.Contains(text, `"weekend"`) || strings.Count(text, `"open"`) != 1 {
			t.Errorf("status: %s %v", body, err)
		}
		b := connect(t, c)
		defer b.ws.CloseNow()
		b.send(map[string]any{"action": "subscribe", "status": []string{"*|BYMA|*", "*|SIM|*"}})
		ctx := t.Context()
		statuses := 0
		for statuses < 2 {
			msg, err := b.read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(msg); strings.Contains(text, `"type":"H"`) {
				statuses++
				if closed := strings.Contains(text, `|BYMA|`); strings.Contains(text, `"E":"closed"`) != closed {
					t.Errorf("stream: %s", text)
				}
			}
		}
	})
}

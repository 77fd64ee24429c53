package ruedatest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
)

func TestMain(m *testing.M) { os.Exit(openapitest.Main(m.Run)) }

const ggal = "GGAL|BYMA|24hs"

// BenchmarkStart measures the start and stop of a gateway.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		ruedatest.Start(b, ruedatest.Config{}).Stop()
	}
}

// events returns a client's events of a set, and a function that reads the next one of market data.
func events(t *testing.T, s *ruedatest.Server, set client.Set, on func(client.Event) (more bool)) {
	t.Helper()
	c, err := client.New([]string{s.URL}, client.Options{Username: s.Username, Password: client.Secret(s.Password)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Subscribe(set); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ev := range c.Events(ctx) {
		if !on(ev) {
			return
		}
	}
	t.Fatalf("the events ended: %v", c.Err())
}

// TestScript checks that a client receives what the test publishes, also after a restart.
func TestScript(t *testing.T) {
	s := ruedatest.Start(t, ruedatest.Config{})
	id, err := market.ParseInstrumentID(ggal)
	if err != nil {
		t.Fatal(err)
	}
	s.Define(market.Instrument{ID: id, PriceDecimals: 2, QuotesFromFeed: true})
	s.Define(market.Instrument{ID: id, PriceDecimals: 2, QuotesFromFeed: true, Currency: "ARS"})
	seen := map[string]bool{}
	events(t, s, client.Set{Trades: []string{ggal}, Quotes: []string{ggal}, Books: []string{ggal}}, func(ev client.Event) bool {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live {
				s.Trade(ggal, "7050", "10")
				s.Quote(ggal, "7049.5", "300", "7050", "1200")
				s.Book(ggal, "7049.5", "300", "7050", "1200")
			}
		case *client.Trade:
			seen["trade "+ev.Price.String()+" "+ev.Size.String()] = true
			if ev.N == 1 {
				s.Restart()
			}
		case *client.Quote:
			seen["quote "+ev.Bid.Price.String()] = true
		case *client.BookUpdate:
			seen["book"] = true
		case client.Lost:
			t.Errorf("%v", ev)
		}
		return len(seen) < 3
	})
}

// TestSim checks the simulated market.
func TestSim(t *testing.T) {
	s := ruedatest.Start(t, ruedatest.Config{Sim: &sim.Config{Seed: 7, Instruments: 5, Speed: 20}})
	events(t, s, client.Set{Trades: []string{"*|*|*"}}, func(ev client.Event) bool {
		_, isTrade := ev.(*client.Trade)
		return !isTrade
	})
}

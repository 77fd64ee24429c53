package client_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

// TestBooksOfPatterns subscribes to books by patterns, with other options for one instrument.
func TestBooksOfPatterns(t *testing.T) {
	t.Parallel()
	const other = "OTHR|BYMA|CI"
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Books: []string{"*|BYMA|CI"}})
	s.Define(instrument(t, other))
	if err := c.Subscribe(client.Set{Books: []string{al30}, Depth: 1}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ggal, al30, other} {
		s.Book(id, "10", "1", "11", "2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	depths := map[string]int{}
	rejected := map[string]wire.Reason{}
	connections, changed := 0, false
	for ev := range c.Events(ctx) {
		switch ev := ev.(type) {
		case *client.BookUpdate:
			depths[ev.Instrument.String()] = ev.Depth
		case client.Rejected:
			rejected[ev.Channel+" "+ev.Instrument] = ev.Reason
		case client.StateChange:
			if ev.State != client.Live {
				continue
			}
			if connections++; connections == 1 {
				s.Fault("disconnect", "")
			}
		}
		if connections == 2 && len(depths) == 2 && !changed {
			changed = true
			if err := c.Subscribe(client.Set{Books: []string{"*|NONE|*"}}); err != nil {
				t.Fatal(err)
			}
			depths = map[string]int{}
			if err := c.Unsubscribe(client.Set{Books: []string{al30}}); err != nil { // the pattern has it too
				t.Fatal(err)
			}
		}
		if len(rejected) > 0 && depths[al30] > 0 {
			break
		}
	}
	if depths[al30] != 5 || len(rejected) != 1 || rejected["order_book *|NONE|*"] != wire.UnknownInstrument {
		t.Errorf("%v %v", depths, rejected)
	}
	if got := c.Subscriptions().Books; !slices.Equal(got, []string{"*|BYMA|CI", "*|NONE|*"}) {
		t.Errorf("%v", got)
	}
}

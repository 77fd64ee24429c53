package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestExchangeFaults checks that the simulated exchange and the protocol have the same faults of
// the market.
func TestExchangeFaults(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range wire.SimFaults() {
		if !f.OwnConnection && f.Name != wire.SimKillLeader && f.Name != wire.SimSpeed { // of a cluster, and of gateway.Config.Speed
			known[simFault(f.Name)] = true
		}
	}
	for _, f := range sim.Faults() {
		if !known[f.Name] {
			t.Errorf("there is no word for %s", f.Name)
		}
		delete(known, f.Name)
	}
	for name := range known {
		t.Errorf("the exchange does not know %s", name)
	}
}

// held is a sink that accepts events when the test allows it.
type held struct {
	feed.Sink
	came chan struct{}
	next chan struct{} // closed: it accepts all events
}

func (h held) Define(market.Instrument) (market.Handle, error) { return 0, nil }

func (h held) Publish([]market.Event) error {
	select {
	case h.came <- struct{}{}:
		<-h.next
	case <-h.next:
	}
	return nil
}

func TestExchangeFaultErrors(t *testing.T) {
	t.Parallel()
	exchange, err := sim.New(sim.Config{Instruments: 2})
	if err != nil {
		t.Fatal(err)
	}
	cause := exchangeFaults(exchange)
	fake := market.InstrumentID{Symbol: "FAKE", Market: "SIM", Term: "CI"}
	if _, err := cause(wire.SimHalt, fake); !errors.Is(err, sim.ErrNotRunning) {
		t.Errorf("while nothing runs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sink := held{came: make(chan struct{}), next: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- exchange.Run(ctx, sink) }()
	// The exchange defines its instruments before it runs.
	<-sink.came
	msg, err := cause(wire.SimCrossedBook, fake)
	for range 10 {
		if errors.Is(err, sim.ErrNotRunning) {
			sink.next <- struct{}{}
			<-sink.came
			msg, err = cause(wire.SimCrossedBook, fake)
		}
	}
	if err != nil || !strings.HasPrefix(msg, "FAKE|SIM|CI: the book is crossed") {
		t.Errorf("got %q, %v", msg, err)
	}
	if _, err := cause(wire.SimHalt, market.InstrumentID{Symbol: "NOPE", Market: "SIM", Term: "CI"}); !errors.Is(err, market.ErrUnknownInstrument) {
		t.Errorf("an instrument that is not there: %v", err)
	}
	if _, err := cause("earthquake", fake); !errors.Is(err, sim.ErrUnknownFault) {
		t.Errorf("a fault that is not there: %v", err)
	}
	if msg, err := cause(wire.SimListing, fake); err != nil || !strings.HasPrefix(msg, "NEW1|SIM|CI: a new instrument is listed") {
		t.Errorf("a listing: %q, %v", msg, err)
	}
	for range 1000 {
		if _, err = cause(wire.SimFeedGap, fake); err != nil {
			break
		}
	}
	var f *wire.Fault
	if !errors.As(err, &f) || f.Reason != wire.RateLimited || f.RetryAfter == 0 {
		t.Errorf("too many at once: %v", err)
	}
	cancel()
	close(sink.next)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFaultNotNow checks the message for a correction without a trade to correct.
func TestFaultNotNow(t *testing.T) {
	t.Parallel()
	exchange, err := sim.New(sim.Config{Clock: sim.Virtual, Instruments: 2, Start: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := held{came: make(chan struct{}), next: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- exchange.Run(ctx, sink) }()
	<-sink.came
	close(sink.next)
	cause := exchangeFaults(exchange)
	id := exchange.Instruments()[1].ID // closed for several minutes
	for err = sim.ErrNotRunning; errors.Is(err, sim.ErrNotRunning); {
		_, err = cause(wire.SimCorrection, id)
	}
	var f *wire.Fault
	if !errors.As(err, &f) || f.Reason != wire.UnsupportedOption || !strings.Contains(f.Msg, "no trade to correct") || f.Hint == "" {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

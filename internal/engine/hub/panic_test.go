package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// panicEnv is an environment variable with a way to panic and the folder of a journal. It makes a
// test binary run a hub that panics.
const panicEnv = "RUEDA_TEST_PANIC"

// doomed is a hub with a journal and an instrument whose channels all have readers.
type doomed struct {
	hub    *hub.Hub
	handle market.Handle
	venue  market.Handle
	sub    *subscription.Subscriber
}

func newDoomed(t *testing.T, folder string) *doomed {
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	h := hub.New(hub.Config{Journal: j, Markets: []market.Market{{ID: "M"}}, Delays: []time.Duration{time.Hour},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := &doomed{hub: h, sub: streamtest.Open(subscription.NewShard(h, func(bool) {}))}
	d.venue = streamtest.Define(t, h, "*|M|*", nil)
	d.handle = streamtest.Define(t, h, "A|M|CI", streamtest.OwnQuotes)
	var items []hub.Item
	for c := range wire.NumChannels {
		items = append(items, hub.Item{Channel: c, ID: streamtest.ID("*|M|*")})
	}
	if out := d.sub.Subscribe(items, subscription.Options{}); len(out.Rejected) > 0 {
		t.Fatal(out.Rejected)
	}
	return d
}

// ways returns the ways in which an event is applied. Each of them must panic. If clocks is true,
// Run applies the event.
func (d *doomed) ways() map[string]func() (e *market.Event, clocks bool) {
	h, in := d.hub, d.hub.At(d.handle)
	of := func(c wire.Channel, e market.Event) func() (*market.Event, bool) {
		return func() (*market.Event, bool) {
			h.Poison(in, c)
			e.Handle = d.handle
			return &e, false
		}
	}
	fourth := streamtest.Trade(d.handle, 4)
	cancel := fourth
	cancel.Kind, cancel.TradeID = market.KindCancel, "3"
	correct := cancel
	correct.Kind, correct.OldPrice, correct.OldSize = market.KindCorrect, cancel.Price, cancel.Size
	bids := []market.Level{streamtest.Level(99, 1)}
	return map[string]func() (*market.Event, bool){
		"trade":     of(wire.Trades, fourth),
		"cancel":    of(wire.Trades, cancel),
		"correct":   of(wire.Trades, correct),
		"summary":   of(wire.Summary, fourth),
		"quote":     of(wire.Quotes, market.Event{Kind: market.KindQuote, Bids: bids}),
		"snapshot":  of(wire.OrderBook, market.Event{Kind: market.KindSnapshot, Bids: bids}),
		"update":    of(wire.OrderBook, market.Event{Kind: market.KindUpdate, Bids: bids}),
		"order":     of(wire.OrderBook, market.Event{Kind: market.KindOrderAdd, OrderID: 7, Side: market.Buy, Price: 99 * market.Scale, Size: market.Scale}),
		"status":    of(wire.Status, market.Event{Kind: market.KindStatus, Phase: market.Halt}),
		"gap":       of(wire.Status, market.Event{Kind: market.KindGap}),
		"reference": of(wire.Summary, market.Event{Kind: market.KindReference, PreviousClose: market.Scale}),
		"market status": func() (*market.Event, bool) {
			h.Poison(h.At(d.venue), state.MarketStatus)
			return &market.Event{Kind: market.KindStatus, Handle: d.venue, Phase: market.FeedDown}, false
		},
		"bars": func() (*market.Event, bool) {
			h.Poison(in, wire.BarsOf(market.Second))
			return nil, true
		},
		"conflation": func() (*market.Event, bool) {
			h.PoisonConflation()
			return nil, true
		},
		"delay": func() (*market.Event, bool) {
			d.sub.Subscribe([]hub.Item{{wire.Status, streamtest.ID("A|M|CI"), hub.Tier{Delay: 3600}}, {wire.Trades, streamtest.ID("A|M|CI"), hub.Tier{Delay: 3600}}}, subscription.Options{})
			h.Poison(in.AtDelay(3600), wire.Trades)
			h.AdvanceReplica(2 * time.Hour)
			return nil, false
		},
		"define": func() (*market.Event, bool) {
			h.PoisonTopic(streamtest.ID("*|M|*"))
			return nil, false
		},
	}
}

// TestPanicChild checks nothing itself. It is the process that TestPanicEndsTheProcessE2E starts
// and that must end.
func TestPanicChild(t *testing.T) {
	place, folder, ok := strings.Cut(os.Getenv(panicEnv), ":")
	if !ok {
		t.Skip("is run by another test, which sets RUEDA_TEST_PANIC")
	}
	d := newDoomed(t, folder)
	for n := range 3 {
		streamtest.Publish(t, d.hub, streamtest.Trade(d.handle, n+1))
	}
	d.hub.Commit()
	e, clocks := d.ways()[place]()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	func() {
		defer func() { _ = recover() }() // as the supervisor of a feed does
		switch {
		case clocks:
			_ = d.hub.Run(ctx)
		case e != nil:
			_ = d.hub.Publish([]market.Event{*e})
		default:
			_, _ = d.hub.Define(market.Instrument{ID: streamtest.ID("B|M|CI")})
		}
	}()
	fmt.Println("the process goes on")
}

// TestPanicEndsTheProcessE2E checks that the process ends when the hub panics while it applies
// events, even if the caller recovers. The log has the stack, and a restart continues from the
// journal.
func TestPanicEndsTheProcessE2E(t *testing.T) {
	for place := range newDoomed(t, t.TempDir()).ways() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicChild$", "-test.v")
			cmd.Env = append(os.Environ(), panicEnv+"="+place+":"+folder)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != hub.ExitPanic {
				t.Fatalf("the process ended with %v, want exit status %d\n%s", err, hub.ExitPanic, out)
			}
			for _, want := range []string{"the hub panicked", "nil pointer dereference", "internal/engine/hub.(*"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the log does not say %q:\n%s", want, out)
				}
			}
			d := newDoomed(t, folder)
			streamtest.Publish(t, d.hub, streamtest.Trade(d.handle, 4))
			if n := d.hub.Lookup(streamtest.ID("A|M|CI")).Trades.Last; n != 4 {
				t.Errorf("the trade after the restart is number %d, want 4", n)
			}
		})
	}
}

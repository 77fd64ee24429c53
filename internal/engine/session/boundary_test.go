package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/market"
)

// boundary is a client with a right to delayed data, whose right to real-time data begins or ends.
type boundary struct {
	*drive
	handle market.Handle
	last   uint64 // N of the last trade that came
}

func newBoundary(t *testing.T, rights entitlement.Set) *boundary {
	script, err := talk.Parse("drive", "# nothing\nset delay 15m")
	if err != nil {
		t.Fatal(err)
	}
	world, err := script.World()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = world.Hub.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &boundary{drive: &drive{t: t, world: world, now: time.Now(), shard: subscription.NewShard(world.Hub, func(bool) {})}}
	id := &session.Identity{User: "u", Family: "f", Expires: d.now.Add(24 * time.Hour), Grants: session.Grants{Scopes: []string{"marketdata:read"}, Rights: rights}}
	d.sess = new(session.Session)
	d.sess.Start(world.Env, session.Peer{Identity: id}, d.shard, d, d.now)
	t.Cleanup(d.sess.PeerGone)
	if d.handle, err = world.Hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, PriceDecimals: 2, StartsEmpty: true}); err != nil {
		t.Fatal(err)
	}
	d.take()
	return d
}

func (d *boundary) trade() {
	d.t.Helper()
	if err := d.world.Hub.Publish([]market.Event{{Kind: market.KindTrade, Handle: d.handle, Price: 100 * market.Scale, Size: market.Scale, TradeID: "x"}}); err != nil {
		d.t.Fatal(err)
	}
}

// read reads the pending messages. It returns control messages, and checks that trades follow the
// last one.
func (d *boundary) read() (control string) {
	d.t.Helper()
	d.world.Hub.Commit()
	for range 2 { // data that were not used for a while are loaded
		synctest.Wait()
		list := d.notices
		d.notices = nil
		for _, n := range list {
			d.sess.Handle(d.now, n)
		}
		d.turn()
	}
	for _, text := range d.take() {
		var n uint64
		if !strings.HasPrefix(text, `{"type":"T"`) {
			control += text + "\n"
		} else if _, err := fmt.Sscanf(text[strings.Index(text, `"N":`):], `"N":%d,`, &n); err != nil || n != d.last+1 {
			d.t.Errorf("trade %d after %d: %s", n, d.last, text)
		} else {
			d.last = n
		}
	}
	return control
}

// TestRequestsAtTheBeginningOfARight sends each request when a right has begun or ended, before the
// session has checked it. The move is reported, and no trade is lost or sent twice.
func TestRequestsAtTheBeginningOfARight(t *testing.T) {
	const identifiers = `"trades":["GGAL|BYMA|24hs"]`
	for _, request := range []string{"subscribe", "resync", "unsubscribe", "subscriptions"} {
		for _, begins := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				at := time.Now().Add(time.Hour)
				real := broker.Entitlement{Market: "BYMA", Trades: true, From: at}
				if !begins {
					real = broker.Entitlement{Market: "BYMA", Trades: true, Until: at}
				}
				d := newBoundary(t, entitlement.Set{{Market: "BYMA", Trades: true, Delay: 900}, real})
				time.Sleep(30 * time.Minute)
				d.now = time.Now()
				d.text(`{"action":"subscribe",` + identifiers + `}`)
				d.read()
				time.Sleep(time.Until(at) - time.Second)
				for range 5 {
					d.trade() // up to 5, delayed and not sent yet
				}
				d.now = time.Now()
				d.read()
				time.Sleep(time.Second + 3*time.Millisecond)
				d.now = time.Now()
				text := `{"action":"` + request + `"}`
				if request != "subscriptions" {
					text = `{"action":"` + request + `",` + identifiers + `}`
				}
				d.text(text)
				delay := `"delay":0`
				if !begins {
					delay = `"delay":900`
				}
				if got := d.read(); !strings.Contains(got, `"moved"`) || !strings.Contains(got, delay) {
					t.Errorf("%s, begins %v: %s", request, begins, got)
				}
				d.sess.Handle(d.now, session.Event{Kind: session.Timer})
				d.trade()
				time.Sleep(20 * time.Minute)
				d.now = time.Now()
				d.read()
				if want := uint64(6); d.last != want && request != "unsubscribe" {
					t.Errorf("%s, begins %v: has trades up to %d, want %d", request, begins, d.last, want)
				}
			})
		}
	}
}

// TestSubscribeWithQuota subscribes again to a delayed instrument after real-time quota became
// available. The answer reports the move, and the trades within the delay are sent at once.
func TestSubscribeWithQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBoundary(t, entitlement.Set{{Market: "BYMA", Trades: true, Delay: 900}, {Market: "BYMA", Trades: true, Instruments: 1}})
		if _, err := d.world.Hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "24hs"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		d.now = time.Now()
		d.text(`{"action":"subscribe","trades":["AL30|BYMA|24hs"]}`) // takes the seat
		d.text(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
		d.read()
		for range 5 {
			d.trade()
		}
		d.text(`{"action":"unsubscribe","trades":["AL30|BYMA|24hs"]}`)
		d.text(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
		if got := d.read(); !strings.Contains(got, `"moved":[{"channel":"trades","instrument":"GGAL|BYMA|24hs","delay":0}]`) || d.last != 5 {
			t.Errorf("has trades up to %d: %s", d.last, got)
		}
	})
}

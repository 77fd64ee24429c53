package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkConnect measures a session from its start to the end of its first output, with a cached
// token and a subscription to trades, quotes and a book.
func BenchmarkConnect(b *testing.B) {
	d := newDrive(b, "")
	id, _ := d.world.Env.Verify(context.Background(), "demo")
	d.world.Env.Known = func(string) (*session.Identity, *wire.Fault, bool) { return id, nil, true }
	auth := []byte(`{"action":"auth_token","token":"demo"}`)
	subscribe := []byte(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"quotes":["GGAL|BYMA|24hs"],"order_book":["GGAL|BYMA|24hs"]}`)
	buf := make([]byte, 0, 64<<10)
	d.text(string(auth))
	d.text(string(subscribe)) // so that the topics are there
	b.ReportAllocs()
	for b.Loop() {
		var s session.Session
		s.Start(d.world.Env, session.Peer{}, d.shard, d, d.now)
		for _, msg := range [][]byte{auth, subscribe} {
			s.Handle(d.now, session.Event{Kind: session.Text, Message: msg})
			for out := s.Output(d.now, buf, 64<<10); len(out) > 0; out = s.Output(d.now, buf, 64<<10) {
				s.Sent(d.now, len(out), len(out))
			}
		}
		s.PeerGone()
	}
}

// TestDeliveryAllocatesNothing delivers trades to a thousand sessions that are caught up. The
// recent rows of the hub grow sometimes; the delivery itself does not allocate.
func TestDeliveryAllocatesNothing(t *testing.T) {
	const clients = 1000
	d := newDrive(t, "demo")
	d.text(`{"action":"subscribe","trades":["GGAL|BYMA|CI"],"quotes":["GGAL|BYMA|24hs"]}`)
	d.take()
	d.world.Env.Connections = clients + 1
	for range clients - 1 {
		d.another()
	}
	h, err := d.world.Hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}})
	if err != nil {
		t.Fatal(err)
	}
	e := []market.Event{{Kind: market.KindTrade, Handle: h, Price: 7050 * market.Scale, Size: market.Scale}}
	buf := make([]byte, 0, 64<<10)
	delivered := 0
	got := testing.AllocsPerRun(500, func() {
		if err := d.world.Hub.Publish(e); err != nil {
			t.Fatal(err)
		}
		d.shard.Turn()
		for sub := d.shard.Next(); sub != nil; sub = d.shard.Next() {
			s := sub.Key().(*drive).sess
			if n := len(s.Output(d.now, buf, 64<<10)); n > 0 {
				s.Sent(d.now, n, n)
				delivered++
			}
		}
	})
	if delivered < 500*clients {
		t.Fatalf("%d deliveries", delivered)
	}
	if got > 10 {
		t.Errorf("%v allocations for a trade to %d sessions", got, clients)
	}
}

// BenchmarkUnknownIdentifiers measures a message with 600 identifiers that do not exist, which is
// among the most expensive ones for its length.
func BenchmarkUnknownIdentifiers(b *testing.B) {
	for _, action := range []string{"subscribe", "unsubscribe"} {
		b.Run(action, func(b *testing.B) {
			d := newDrive(b, "demo")
			names := make([]string, 600)
			for i := range names {
				names[i] = fmt.Sprintf(`"S%dXABCDEFGHIJKLMNOPQRS|BENCH|CI"`, i)
			}
			buf := make([]byte, 0, 64<<10)
			msg := fmt.Appendf(nil, `{"action":%q,"quotes":[%s]}`, action, strings.Join(names, ","))
			b.ReportAllocs()
			for b.Loop() {
				d.now = d.now.Add(time.Minute) // for the rate limit
				d.sess.Handle(d.now, session.Event{Kind: session.Text, Message: msg})
				out := d.sess.Output(d.now, buf, 64<<10)
				if len(out) == 0 {
					b.Fatal("no answer")
				}
				d.sess.Sent(d.now, len(out), len(out))
			}
		})
	}
}

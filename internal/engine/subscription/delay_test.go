package subscription_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestDelay checks that a client with a delay of 15 minutes receives the same messages with the
// same N as a live client, and none of them early.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{15 * time.Minute}})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		venue := streamtest.Define(t, h, "*|M|*", nil)
		sh := subscription.NewShard(h, func(bool) {})
		live, late := streamtest.NewClient(t, sh), streamtest.NewClient(t, sh)
		for _, c := range []*streamtest.Client{live, late} {
			delay := 0
			if c == late {
				delay = 900
			}
			for _, x := range []hub.Item{
				{Channel: wire.Trades, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: delay}}, {Channel: wire.Quotes, ID: streamtest.ID("*|M|*"), Tier: hub.Tier{Delay: delay}},
				{Channel: wire.OrderBook, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Depth: 5, Delay: delay}}, {Channel: wire.Status, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: delay}},
			} {
				if out := c.Sub.Subscribe([]hub.Item{x}, subscription.Options{NoSnapshot: true}); len(out.Rejected) > 0 {
					t.Fatal(out)
				}
			}
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var sent, got []streamtest.Message
		begin := time.Now()
		for i := range 400 {
			e := streamtest.Trade(hd, i)
			switch rng.IntN(8) {
			case 0, 1, 2, 3:
				e = market.Event{Kind: market.KindUpdate, Handle: hd, Bids: []market.Level{streamtest.Level(90+int64(rng.IntN(9)), int64(rng.IntN(4)))}, Asks: []market.Level{streamtest.Level(110-int64(rng.IntN(9)), int64(rng.IntN(4)))}}
			case 4:
				e = market.Event{Kind: market.KindGap, Handle: hd}
				if i%3 == 0 {
					e = market.Event{Kind: market.KindStatus, Handle: venue, Phase: []market.Phase{market.FeedDown, market.FeedUp}[i%2]}
				}
			case 5:
				e = market.Event{Kind: market.KindSnapshot, Handle: hd, Bids: []market.Level{streamtest.Level(95, 5)}, Asks: []market.Level{streamtest.Level(105, 5)}}
			}
			e.Time = time.Now().UnixNano()
			streamtest.Publish(t, h, e)
			time.Sleep(time.Duration(rng.IntN(5)) * time.Second)
			streamtest.Turn(sh)
			sent = append(sent, live.Read(1<<20, false)...)
			got = append(got, late.Read(1<<20, false)...)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		streamtest.Turn(sh)
		got = append(got, late.Read(1<<20, false)...)
		// Messages are compared by channel, since no order is promised between channels. Number 1
		// of status and book belongs to the listing. The live client subscribed after it.
		comparable := func(list []streamtest.Message) map[string][]string {
			all := make(map[string][]string)
			for _, m := range list {
				if m.I == "*|M|*" || m.N == 1 && (m.Type == "H" || m.Type == "O") {
					continue // of the market as a whole, sent without delay
				}
				m.D = nil
				all[m.Type] = append(all[m.Type], fmt.Sprintf("%+v", m))
			}
			return all
		}
		for _, m := range got {
			at, err := time.Parse(time.RFC3339Nano, m.T)
			if err != nil || m.I != "*|M|*" && m.D != nil && *m.D < int64(15*time.Minute) || at.Before(begin) {
				t.Fatalf("early: %+v", m)
			}
		}
		a, b := comparable(sent), comparable(got)
		for kind := range a {
			for i := range min(len(a[kind]), len(b[kind])) {
				if a[kind][i] != b[kind][i] {
					t.Fatalf("message %d\nlive %s\nlate %s", i, a[kind][i], b[kind][i])
				}
			}
			if len(a[kind]) != len(b[kind]) || len(a[kind]) < 10 {
				t.Errorf("%s: %d messages live, %d late", kind, len(a[kind]), len(b[kind]))
			}
		}
	})
}

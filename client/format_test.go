package client_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

// TestFormats checks that trades, books and raw messages are the same in each format, also after a
// reconnect.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, f := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack} {
		t.Run(f.Subprotocol(), func(t *testing.T) {
			t.Parallel()
			o := client.Options{Format: f, Compress: f == wire.Batch}
			s, c := start(t, ruedatest.Config{}, o, client.Set{Trades: []string{ggal}, Books: []string{ggal}})
			p, a := &trades{s: s}, newAccount(t)
			live := 0
			follow(t, c, a, 200, func(ev client.Event) {
				switch ev := ev.(type) {
				case client.StateChange:
					if ev.State == client.Live {
						live++
						s.Book(ggal, "7049", "10", "7050", "20")
						p.upTo(100 * min(live, 2))
					}
				case *client.Trade:
					raw := string(ev.Raw())
					if !json.Valid(ev.Raw()) || !strings.HasPrefix(raw, `{"type":"T","S":"GGAL"`) {
						t.Errorf("raw message %s", raw)
					}
					if ev.N == 100 {
						s.Fault(wire.SimDisconnect, "")
					}
				}
			}, func() bool {
				b, err := c.Book(ggal)
				return err == nil && len(b.Bids(0)) == 1
			})
			if live < 2 || a.lost > 0 || a.got != 200 {
				t.Errorf("%d times live, %d received, %d lost", live, a.got, a.lost)
			}
		})
	}
	if _, err := client.New([]string{"http://127.0.0.1:1"}, client.Options{Format: wire.Deflate}); err == nil {
		t.Error("an unknown format was accepted")
	}
}

// TestFormatScript checks that a client gets JSON from a gateway that does not know its format.
func TestFormatScript(t *testing.T) {
	for _, format := range []wire.Format{wire.Batch, wire.Msgpack} {
		f := &fake{format: format, scripts: []func(*fakeConn){func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(1))
			c.drain()
		}}}
		var s seen
		play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
			s.add(ev)
			return !s.has("trade 1")
		})
		if want := []string{"connecting", "authenticating", "syncing", "live", "trade 1"}; !slices.Equal(s.list, want) {
			t.Errorf("%s: %q", format.Subprotocol(), s.list)
		}
	}
}

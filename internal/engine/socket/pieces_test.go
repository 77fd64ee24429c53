package socket

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
)

// defineMany lists n instruments and returns their names.
func defineMany(t *testing.T, h *hub.Hub, n int) (names []string) {
	t.Helper()
	for i := range n {
		id := market.InstrumentID{Symbol: fmt.Sprintf("W%d", i), Market: "BYMA", Term: "CI"}
		if _, err := h.Define(market.Instrument{ID: id}); err != nil {
			t.Fatal(err)
		}
		names = append(names, id.String())
	}
	return names
}

// TestLongMessages sends messages of 300 identifiers and others on each path, all at once. They are
// answered in order, although the long ones are handled in pieces.
func TestLongMessages(t *testing.T) {
	h := hub.New(hub.Config{})
	list := `["` + strings.Join(defineMany(t, h, 300), `","`) + `"]`
	change := func(c *Config) { c.Hub = h }
	onEachPath(t, change, func(t *testing.T, dial func() (net.Conn, error)) {
		nc, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := upgradeOn(t, nc, "")
		c.auth("ana")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i, msg := range []string{
				`{"action":"subscribe","id":%d,"trades":` + list + `}`, `{"action":"ping","id":%d}`,
				`{"action":"subscribe","id":%d,"replace":true,"quotes":` + list + `,"snapshot":false}`, `{"action":"ping","id":%d}`,
				`{"action":"unsubscribe","id":%d,"quotes":` + list + `}`, `{"action":"subscriptions","id":%d}`,
			} {
				if _, err := nc.Write([]byte(frame(opText, fmt.Sprintf(msg, i)))); err != nil {
					t.Error(err)
				}
			}
		}()
		for i, want := range []string{`"trades":300`, `"pong"`, `"quotes":300`, `"pong"`, `"quotes":0`, `"trades":0`} {
			c.want(fmt.Sprintf(`"id":%d,`, i), want)
		}
		<-sent
	})
}

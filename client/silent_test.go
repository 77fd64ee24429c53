package client_test

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
)

// TestSilentScript cuts a connection on which nothing has come for seven seconds, as proxies do.
func TestSilentScript(t *testing.T) {
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			time.Sleep(7 * time.Second)
		},
	}}
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		change, ok := ev.(client.StateChange)
		if !ok || change.State != client.Waiting {
			return true
		}
		if change.Silent.Round(time.Second) != 7*time.Second {
			t.Errorf("silent for %v", change.Silent)
		}
		return false
	})
}

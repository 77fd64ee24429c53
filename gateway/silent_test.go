package gateway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/gateway"
)

// TestThreat09SilentSocket uses a user base that does not report changes, such as a login service
// or a directory. The socket of a disabled user closes within a minute even if its client sends
// nothing.
func TestThreat09SilentSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		client, at := run(t, gateway.Config{Listener: newPipes(), Data: data, Users: struct{ broker.Users }{data.Users}})
		c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		b := connect(t, c)
		defer b.ws.CloseNow()
		closed := make(chan error, 1)
		go func() {
			for {
				m, err := b.next(t.Context())
				if err != nil {
					closed <- err
					return
				}
				if m.Action == "ping" {
					b.send(map[string]string{"action": "pong"})
				}
			}
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed, though nothing changed: %v", err)
		default:
		}
		began := time.Now()
		if err := data.Users.Disable(t.Context(), "demo"); err != nil {
			t.Fatal(err)
		}
		if code := websocket.CloseStatus(<-closed); code != 4401 || time.Since(began) > time.Minute {
			t.Errorf("closed with %d after %v", code, time.Since(began))
		}
	})
}

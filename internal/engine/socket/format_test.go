package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestFormats checks on each path that all frames of a connection have the negotiated format, and
// that the messages are equal in all formats.
func TestFormats(t *testing.T) {
	pub := newPublisher(t)
	onEachPath(t, pub.config, func(t *testing.T, dial func() (net.Conn, error)) {
		want := ""
		for _, f := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack, wire.Deflate, wire.Batch | wire.Deflate, wire.Msgpack | wire.Deflate} {
			t.Run(fmt.Sprintf("%s+%d", f.Subprotocol(), f&wire.Deflate), func(t *testing.T) {
				c := openAs(t, dial, f)
				defer c.Close()
				c.ask(`{"action":"auth_token","token":"ana"}`, `{"type":"Success"`)
				c.ask(`{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`, `{"type":"Subscription"`)
				pub.publishLong()
				got := comparable(c.until(`"Z":777`))
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	})
}

// TestCloseAllInFormat checks that the Error of a server that ends has the negotiated format.
func TestCloseAllInFormat(t *testing.T) {
	for _, w := range transports() {
		s := newServer(raiseLimits)
		ctx, cancel := context.WithCancel(t.Context())
		pl, l := listenOn(t, s, w)
		serveHTTP(t, s, l)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		var clients []*formatClient
		for _, f := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack | wire.Deflate} {
			c := openAs(t, pl.tryDial, f)
			defer c.Close()
			c.ask(`{"action":"auth_token","token":"ana"}`, `{"type":"Success"`)
			clients = append(clients, c)
		}
		cancel()
		for _, c := range clients {
			c.until(`{"type":"Error","code":503,"reason":"shutting_down"`)
			var closed *talk.Closed
			if _, err := c.Receive(); !errors.As(err, &closed) || closed.Code != 4503 {
				t.Errorf("%s: format %d: got %v", w.name, c.format, err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// publishLong publishes a trade whose message is long in every format.
func (p *publisher) publishLong() {
	p.t.Helper()
	e := market.Event{Kind: market.KindTrade, Handle: p.handle, Time: time.Now().UnixNano(),
		Price: 7050 * market.Scale, Size: 777 * market.Scale, TradeID: strings.Repeat("1234", 8)}
	for i := range 8 {
		e.Conditions = append(e.Conditions, fmt.Sprintf("a_condition_of_trades_%d", i))
	}
	if err := p.hub.Publish([]market.Event{e}); err != nil {
		p.t.Fatal(err)
	}
}

// comparable returns the part of a trade that is equal in two runs.
func comparable(text string) string {
	_, rest, _ := strings.Cut(text, `"P":`)
	return rest
}

// openAs connects with format f.
func openAs(t *testing.T, dial func() (net.Conn, error), f wire.Format) *formatClient {
	t.Helper()
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := greet(nc, talk.Offer{Format: f}, new(sharedCompressor))
	if err != nil {
		t.Fatal(err)
	}
	c := conn.(*formatClient)
	c.t = t
	if err := nc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a message and reads until an answer begins with answer.
func (c *formatClient) ask(msg, answer string) {
	c.t.Helper()
	text, packed := true, []byte(msg)
	if c.format&^wire.Deflate == wire.Msgpack {
		text, packed = false, wire.AppendMsgpack(nil, packed)
	}
	if err := c.Send(text, packed); err != nil {
		c.t.Fatal(err)
	}
	c.until(answer)
}

// until reads until a message contains part, and returns it.
func (c *formatClient) until(part string) string {
	c.t.Helper()
	for {
		first, payload, err := c.frame()
		if err != nil {
			c.t.Fatalf("read: %v, want %s", err, part)
		}
		all, err := talk.Unpack(c.format, first, []byte(payload))
		if err != nil {
			c.t.Fatal(err)
		}
		for _, text := range all {
			if strings.Contains(text, part) {
				return text
			}
		}
	}
}

// TestNothingAgreed checks the responses to offers that are not accepted, and that the connection
// works without them.
func TestNothingAgreed(t *testing.T) {
	address := listen(t, start(t, raiseLimits))
	for _, header := range []string{
		"Sec-WebSocket-Protocol: rueda.v9.cbor, chat",
		"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9",
		"Sec-WebSocket-Extensions: x-webkit-deflate-frame",
	} {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		c := newClient(t, nc)
		c.write(goodHandshake + header + "\r\n\r\n")
		r, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != 101 || r.Header["Sec-Websocket-Protocol"] != nil || r.Header["Sec-Websocket-Extensions"] != nil {
			t.Errorf("%s: answered %s %v", header, r.Status, r.Header)
		}
		c.auth("ana")
		c.write(compressedFrame(opText, "\x00"))
		c.wantClose(codeProtocolError, "reserved bits set")
	}
}

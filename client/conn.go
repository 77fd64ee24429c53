package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/engine/readahead"
	"github.com/ruedahq/rueda/wire"
)

// Conn is an open stream on which the program speaks the protocol itself, for example to test a
// gateway. Events needs none. Read and Write may be called at the same time, each by one goroutine.
type Conn struct{ conn *websocket.Conn }

// Dial opens the stream of the URL in use. It is not authenticated: the first message is an
// auth_token. The error is an *Error if the gateway refused the handshake.
func (c *Client) Dial(ctx context.Context) (*Conn, error) {
	conn, _, err := c.dial(ctx, c.url(0))
	if err != nil {
		return nil, err
	}
	return &Conn{conn}, nil
}

// Read returns the next message. isText is false for a binary one. After a close of the gateway the
// error is an *Error with its code and reason, otherwise that of the network.
func (c *Conn) Read(ctx context.Context) (message []byte, isText bool, err error) {
	kind, message, err := c.conn.Read(ctx)
	if err != nil {
		return nil, false, closeError(err, nil)
	}
	return message, kind == websocket.MessageText, nil
}

// Write sends a message of text.
func (c *Conn) Write(ctx context.Context, message []byte) error {
	if err := c.conn.Write(ctx, websocket.MessageText, message); err != nil {
		return closeError(err, nil)
	}
	return nil
}

// Close ends the connection without a closing handshake.
func (c *Conn) Close() {
	_ = c.conn.CloseNow() // it may be closed already
}

// dial opens the stream of a gateway, which is not authenticated yet. network is its connection,
// as options.go opens all of them.
func (c *Client) dial(ctx context.Context, base *url.URL) (_ *websocket.Conn, network *readahead.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { network = readahead.Of(i.Conn) }})
	o := &websocket.DialOptions{HTTPClient: c.socket, HTTPHeader: http.Header{"User-Agent": {c.agent}}}
	if c.opts.Format != wire.JSON {
		o.Subprotocols = []string{c.opts.Format.Subprotocol()}
	}
	if c.opts.Compress {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	conn, resp, err := websocket.Dial(ctx, base.JoinPath("stream").String(), o)
	if err != nil {
		if resp != nil && resp.StatusCode >= http.StatusBadRequest {
			body, _ := io.ReadAll(resp.Body) // the part that the library kept
			return nil, nil, responseError(resp, body)
		}
		return nil, nil, plain(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, network, nil
}

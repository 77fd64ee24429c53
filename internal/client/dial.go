package client

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
)

// maxMessage bounds a message of the stream: a whole book is the largest.
const maxMessage = 16 << 20

// Dial opens the stream. Nobody is logged in there yet.
func (a *API) Dial(ctx context.Context) (*websocket.Conn, error) {
	opts := &websocket.DialOptions{HTTPHeader: http.Header{"User-Agent": {a.Agent}}}
	conn, _, err := websocket.Dial(ctx, a.Stream(), opts) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, Plain(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

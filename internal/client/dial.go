package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/coder/websocket"
)

// maxMessage bounds a message of the stream: a whole book is the largest.
const maxMessage = 16 << 20

// Ended says of a socket that ended what happened, like Plain.
func Ended(err error) error {
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return fmt.Errorf("closed by the server: %d %s", closed.Code, closed.Reason)
	case errors.Is(err, io.EOF):
		return errors.New("connection broken")
	}
	return Plain(err)
}

// Dial opens the stream. Nobody is logged in there yet. The error is a *Refusal where the server answered with one.
func (a *API) Dial(ctx context.Context) (*websocket.Conn, error) {
	opts := &websocket.DialOptions{HTTPHeader: http.Header{"User-Agent": {a.Agent}}}
	conn, resp, err := websocket.Dial(ctx, a.Stream(), opts) //nolint:bodyclose // the library closes it
	if err != nil && resp != nil && resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body) // as much as the library kept of it
		return nil, refusal(resp, text)
	}
	if err != nil {
		return nil, Plain(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

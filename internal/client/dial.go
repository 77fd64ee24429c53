package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/coder/websocket"
)

// maxMessage is the maximum size of a message of the stream; a book snapshot is the largest.
const maxMessage = 16 << 20

// CloseError describes why a socket ended, like PlainError.
func CloseError(err error) error {
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return fmt.Errorf("closed by the server: %d %s", closed.Code, closed.Reason)
	case errors.Is(err, io.EOF):
		return errors.New("connection broken")
	}
	return PlainError(err)
}

// Dial opens the stream, which is not authenticated yet. It returns a *ResponseError if the server
// rejects the request.
func (a *API) Dial(ctx context.Context) (*websocket.Conn, error) {
	opts := &websocket.DialOptions{HTTPClient: &http.Client{CheckRedirect: stay}, HTTPHeader: http.Header{"User-Agent": {a.Agent}}}
	conn, resp, err := websocket.Dial(ctx, a.Stream(), opts) //nolint:bodyclose // the library closes it
	if err != nil && resp != nil && resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(resp.Body) // the part that the library kept
		return nil, responseError(resp, text)
	}
	if err != nil {
		return nil, PlainError(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

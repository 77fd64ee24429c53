package client

import "net/http"

// Wrap replaces the transports of a client, for tests.
func (c *Client) Wrap(wrap func(http.RoundTripper) http.RoundTripper) {
	c.http.Transport, c.socket.Transport = wrap(c.http.Transport), wrap(c.socket.Transport)
}

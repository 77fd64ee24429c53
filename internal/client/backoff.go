package client

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 500 * time.Millisecond
	backoffMax   = 30 * time.Second
)

// Backoff computes the time between attempts: a random part of a limit that doubles, so that the
// clients of a server that was down do not all reconnect at once.
type Backoff struct{ bound time.Duration }

// Next returns the time to wait before the next attempt, plus the time that the server requested.
func (b *Backoff) Next(cause error) time.Duration {
	b.bound = min(max(2*b.bound, backoffFirst), backoffMax)
	wait := rand.N(b.bound)
	var r *ResponseError
	if errors.As(cause, &r) {
		wait += r.Wait
	}
	return wait
}

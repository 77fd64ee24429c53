package client

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
)

// Backoff paces attempts: a random part of a bound that doubles, so that the clients of a
// server that came back do not all come at once.
type Backoff struct{ bound time.Duration }

// Next is the pause before the next attempt, or longer where the server asked for it.
func (b *Backoff) Next(cause error) time.Duration {
	b.bound = min(max(2*b.bound, backoffFirst), backoffMost)
	wait := rand.N(b.bound)
	var r *Refusal
	if errors.As(cause, &r) {
		wait += r.Wait
	}
	return wait
}

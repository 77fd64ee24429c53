package jetstream

import (
	"context"
	"errors"
	"time"
)

// firstAttempt is the time limit of the first request of attempt. It doubles with each one.
const firstAttempt = 250 * time.Millisecond

// attempt sends a request that may be repeated, until it is answered or ctx ends. When the leader
// of a JetStream stream ends, the NATS servers drop requests for some seconds.
func attempt[T any](ctx context.Context, request func(context.Context) (T, error)) (answer T, err error) {
	for limit := firstAttempt; ; limit *= 2 {
		once, cancel := context.WithTimeout(ctx, limit)
		answer, err = request(once)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return answer, err
		}
	}
}

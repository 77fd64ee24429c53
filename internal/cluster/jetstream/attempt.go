package jetstream

import (
	"context"
	"errors"
	"time"
)

// firstAttempt bounds the first attempt of attempt. Each one may take twice as long as the one
// before.
const firstAttempt = 250 * time.Millisecond

// attempt sends a request that may be repeated, until it is answered or ctx ends. While the servers
// choose a leader they drop requests without an answer, which takes seconds after the end of one.
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

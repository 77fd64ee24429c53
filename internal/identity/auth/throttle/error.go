package throttle

import (
	"fmt"
	"time"
)

// Reasons of an Error: words of the protocol.
const (
	RateLimited     = "rate_limited"      // this address, network or family tries too often
	TooManyFailures = "too_many_failures" // this account had too many wrong passwords
	Unavailable     = "unavailable"       // too many attempts wait, or the user base does not answer
)

// Error refuses an attempt. RetryAfter is the time until the next one may succeed.
type Error struct {
	Reason     string
	RetryAfter time.Duration
	Err        error // the cause; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// unavailableRetry is the RetryAfter of Unavailable if the wait is not known.
const unavailableRetry = 2 * time.Second

func unavailable(cause error) *Error {
	return &Error{Reason: Unavailable, RetryAfter: unavailableRetry, Err: cause}
}

package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/auth/throttle"
)

// Reasons of an Error: the words of the wire contract.
const (
	InvalidRequest      = "invalid_request"       // a field is missing, too long or has control characters
	InvalidCredentials  = "invalid_credentials"   // unknown user, wrong password, disabled user
	MFARequired         = "mfa_required"          // the password is right, and a one-time password is needed too
	InvalidRefreshToken = "invalid_refresh_token" // garbled, unknown, expired, dead or revoked, or its user may not log in any more
	InvalidToken        = "invalid_token"
	TokenExpired        = "token_expired"
	TokenRevoked        = "token_revoked"
	NotFound            = "not_found"              // the user has no such session, or there is no such user
	RateLimited         = throttle.RateLimited     // this address, or this family, asks too often
	TooManyFailures     = throttle.TooManyFailures // this account had too many wrong passwords
	Unavailable         = throttle.Unavailable     // the user base or the Store is down, or the login queue is full
)

// Error is the one error type of Service. What is said to a client follows from
// Reason and RetryAfter alone; Err is for the log and never holds a secret.
type Error struct {
	Reason     string
	RetryAfter time.Duration // with RateLimited, TooManyFailures and Unavailable
	Err        error         // what caused it; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

func refuse(reason string, cause error) *Error { return &Error{Reason: reason, Err: cause} }

// IsReason says whether err is an Error with this reason.
func IsReason(err error, reason string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Reason == reason
}

// unavailableRetry is how long a client should wait for a dependency to come back.
const unavailableRetry = 2 * time.Second

func unavailable(cause error) *Error {
	return &Error{Reason: Unavailable, RetryAfter: unavailableRetry, Err: cause}
}

// refusal returns the error for a refused attempt; nil: it was not refused.
func refusal(e *throttle.Error) *Error {
	if e == nil {
		return nil
	}
	return &Error{Reason: e.Reason, RetryAfter: e.RetryAfter, Err: e.Err}
}

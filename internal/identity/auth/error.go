package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// Reasons of an Error: words of the protocol.
const (
	InvalidRequest         = "invalid_request"          // a field is missing, too long or has control characters
	InvalidCredentials     = "invalid_credentials"      // unknown user, wrong password, disabled user
	MFARequired            = "mfa_required"             // the password is correct, and a one-time password is needed too
	EnrolmentRequired      = "mfa_enrolment_required"   // the password is correct, and the user must enrol a second factor
	PasswordChangeRequired = "password_change_required" // the credentials are correct, and the user must change the password
	SecondFactorLocked     = "second_factor_locked"     // the password is correct, and many one-time passwords before were wrong
	AddressNotAllowed      = "address_not_allowed"      // the credentials are correct, and the client is in none of the user's networks
	Forbidden              = "forbidden"
	InvalidRefreshToken    = "invalid_refresh_token" // malformed, unknown, expired, dead or revoked, or its user may not log in any more
	InvalidToken           = "invalid_token"
	TokenExpired           = "token_expired"
	TokenRevoked           = "token_revoked"
	InvalidEnrolment       = "invalid_enrolment" // malformed, too old, used, or the user has changed since
	InvalidOTP             = "invalid_otp"       // wrong one-time password of a new second factor
	WeakPassword           = "weak_password"     // the cause is a *broker.PasswordError
	Unsupported            = "unsupported_option"
	NotFound               = "not_found"              // the user has no such session, or there is no such user
	RateLimited            = throttle.RateLimited     // too many requests of this address or family
	TooManyFailures        = throttle.TooManyFailures // too many wrong passwords of this account
	Unavailable            = throttle.Unavailable     // the user base or the Store is down, or the login queue is full
)

// Error is the only error type of Service. Reason and RetryAfter alone determine what a client
// receives. Err is for the log and never contains a secret.
type Error struct {
	Reason     string
	RetryAfter time.Duration // with RateLimited, TooManyFailures and Unavailable
	Err        error         // the cause; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func refuse(reason string, cause error) *Error { return &Error{Reason: reason, Err: cause} }

// IsReason reports whether err is an Error with this reason.
func IsReason(err error, reason string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Reason == reason
}

// unavailableRetry is the RetryAfter of Unavailable if the wait is not known.
const unavailableRetry = 2 * time.Second

func unavailable(cause error) *Error {
	return &Error{Reason: Unavailable, RetryAfter: unavailableRetry, Err: cause}
}

// refusal returns the error for a refused attempt, or nil if it was not refused.
func refusal(e *throttle.Error) *Error {
	if e == nil {
		return nil
	}
	return &Error{Reason: e.Reason, RetryAfter: e.RetryAfter, Err: e.Err}
}

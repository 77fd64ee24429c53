package broker

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Errors of SelfService.
var (
	ErrEnrolment = errors.New("the enrolment is not valid any more")
	ErrAddress   = errors.New("the client's address is not in the networks of the user")
	ErrOTP       = errors.New("wrong one-time password")
	ErrNoFactor  = errors.New("the user has no second factor")
	ErrFactor    = errors.New("a group of the user requires a second factor")
)

// PasswordError means that a new password does not conform to the policy.
type PasswordError struct {
	Problem string // such as "must have at least 10 characters"
}

func (e *PasswordError) Error() string { return "password " + e.Problem }

// Caller is the client that changes its user's credentials, for the audit log.
type Caller struct {
	Address netip.Addr // zero: unknown
	Client  string     // the User-Agent, printable; "": unknown
}

// SelfService is an optional interface of Users whose users change their own password and second
// factor. The caller has authenticated the user just before, with the second factor if there is
// one. user is the result of Authenticate. For BeginEnrolment its error may be
// ErrEnrolmentRequired, for ChangePassword ErrPasswordChange. If the user has changed since,
// nothing is changed and the error is ErrInvalidCredentials. Other errors: ErrUnavailable.
type SelfService interface {
	// CheckPassword returns what is wrong with a new password, as a *PasswordError.
	CheckPassword(username, password string) error

	// ChangePassword sets the password. It raises the version, which ends all tokens, and returns
	// the user with it. Errors: also *PasswordError, and ErrEnrolmentRequired if the password has
	// changed and the user must enrol a second factor before logging in.
	ChangePassword(ctx context.Context, user User, password string, by Caller) (User, error)

	// BeginEnrolment returns the secret of a new second factor, and changes nothing.
	// ConfirmEnrolment stores it for the user.
	BeginEnrolment(ctx context.Context, user User) (Enrolment, error)

	// ConfirmEnrolment makes the secret of an enrolment the second factor of its user, whom nobody
	// needs to authenticate again. otp is a one-time password of that secret. It raises the
	// version and returns the user with new recovery codes. Errors: ErrEnrolment, ErrOTP,
	// ErrAddress, ErrUnavailable.
	ConfirmEnrolment(ctx context.Context, token, otp string, by Caller) (User, []string, error)

	// RenewRecoveryCodes replaces the recovery codes. Errors: also ErrNoFactor.
	RenewRecoveryCodes(ctx context.Context, user User, by Caller) ([]string, error)

	// RemoveSecondFactor removes the second factor. Errors: also ErrNoFactor and ErrFactor.
	RemoveSecondFactor(ctx context.Context, user User, by Caller) error
}

// Enrolment is the secret of a second factor that is not confirmed yet. Its texts are secrets.
type Enrolment struct {
	Token  string        // for ConfirmEnrolment
	Secret string        // base32, for an authenticator app
	URL    string        // otpauth://totp/..., for a QR code
	Life   time.Duration // until the token ends
}

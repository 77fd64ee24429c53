// Package broker is the contract between Rueda and a broker's own user base: who may log in, what
// they may see, and which accounts they have.
//
// A user base implements Users and Accounts. brokertest.Run checks an implementation against these
// rules.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Errors that an implementation returns, possibly wrapped. Any other error is a fault of the user
// base and is treated as ErrUnavailable.
var (
	ErrInvalidCredentials = errors.New("wrong username or password") // unknown user, wrong password or disabled user, without distinction
	ErrNotFound           = errors.New("no such user or account")
	ErrDisabled           = errors.New("user is disabled")
	ErrUnavailable        = errors.New("user base unavailable") // down, or its login queue is full; never a failed login

	// ErrBadUser means that the record of one user cannot be read. It is not a failed login, and
	// not an outage for other users. A user whose record stays unreadable for some minutes is
	// logged out.
	ErrBadUser = errors.New("the user's record cannot be read")

	// ErrSecondFactor means that the password is right and a one-time password is missing.
	ErrSecondFactor = errors.New("a one-time password is needed")

	// ErrNotAsked means that no user can have this password, so that nobody was asked about it. It
	// is also ErrInvalidCredentials. It does not count as a wrong password of a directory that
	// locks accounts.
	ErrNotAsked = fmt.Errorf("%w: no user can have this password", ErrInvalidCredentials)

	// ErrWrongOTP means that the password is right and the one-time password is wrong. It is also
	// ErrInvalidCredentials, because a client must not learn that the password is right.
	ErrWrongOTP = fmt.Errorf("%w: the one-time password is wrong", ErrInvalidCredentials)

	// ErrFactorLocked means that the password is right, and that so many one-time passwords in a
	// row were wrong that no further one is checked. Somebody may know the password. It is also
	// ErrWrongOTP.
	ErrFactorLocked = fmt.Errorf("%w, as many before it were", ErrWrongOTP)

	// ErrPasswordChange means that the password and the second factor are right, and that the user
	// must change the password before logging in.
	ErrPasswordChange = errors.New("the user must change the password first")

	// ErrEnrolmentRequired means that the user must have a second factor and has none. At a login
	// it also means that the password is right.
	ErrEnrolmentRequired = errors.New("the user must enrol a second factor first")
)

// Users authenticates and reads users.
type Users interface {
	// Authenticate checks a password. It takes the same time for an unknown user and for a wrong
	// password. Errors: ErrInvalidCredentials, ErrSecondFactor, ErrBadUser, ErrUnavailable. With
	// the first two it may return a User that has only its ID, for the audit log. A SelfService
	// may also return ErrEnrolmentRequired and ErrPasswordChange, with the whole User.
	Authenticate(ctx context.Context, login Login) (User, error)

	// User reads a user by id, at refreshes and to update rights. Errors: ErrNotFound, ErrDisabled,
	// ErrEnrolmentRequired, which has the same effect, ErrBadUser, ErrUnavailable.
	User(ctx context.Context, id string) (User, error)
}

// BatchUsers is an optional interface of Users. With it, changes are found sooner when there are
// many users.
type BatchUsers interface {
	// UsersByID reads at most 500 users with one query and returns their results in the order of
	// ids. Its error is that of the query; then there are no results.
	UsersByID(ctx context.Context, ids []string) ([]UserResult, error)
}

// UserResult is the result of Users.User.
type UserResult struct {
	User User
	Err  error
}

// Accounts lists trading accounts.
type Accounts interface {
	// ListAccounts returns the accounts of a user in a stable order; none is an empty list.
	ListAccounts(ctx context.Context, userID string) ([]Account, error)
}

// Login is an attempt to log in. Its secrets are not printed or logged.
type Login struct {
	Username string     // 1 to 128 bytes
	Password string     // 1 to 1,024 bytes, exactly as sent
	OTP      string     // of the second factor; "": none
	Address  netip.Addr // of the client; zero: unknown
	Client   string     // the User-Agent; "": unknown
}

// String returns the address only, because people type passwords into the username field.
func (l Login) String() string { return "login from " + l.Address.String() }

// GoString returns the same as String.
func (l Login) GoString() string { return l.String() }

// LogValue returns the same as String.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

// User is a person or program that may log in.
type User struct {
	ID           string // stable, opaque, never reused; up to 64 bytes
	Username     string // the login name
	Scopes       []string
	Entitlements []Entitlement
	Limits       Limits
	Networks     []netip.Prefix // of the clients that may use the account; none: any client
	Expires      time.Time      // when the account ends: then User returns ErrDisabled; zero: never
	Version      int64          // rises when the password or status changes, not with rights; ends older tokens
}

// Ended reports whether the account of a user has ended. A user base treats it as a disabled one.
func (u *User) Ended(now time.Time) bool { return !u.Expires.IsZero() && !now.Before(u.Expires) }

// Scopes (protocol section 10).
const (
	ScopeAccounts = "accounts:read"
	ScopeRead     = "marketdata:read"
	ScopeDepth    = "marketdata:depth"
	ScopeWildcard = "marketdata:wildcard"
	ScopeHistory  = "marketdata:history"
	ScopeAdmin    = "admin"
)

// Entitlement is a right to the data of a market. Entitlements add up; everything else is refused.
type Entitlement struct {
	Market string `toml:"market" json:"market"` // "*": all markets
	Trades bool   `toml:"trades" json:"trades"`
	Quotes bool   `toml:"quotes" json:"quotes"`
	Depth  int    `toml:"depth" json:"depth"`           // largest order_book depth: 0 none, -1 all levels
	Delay  int    `toml:"delay" json:"delay,omitempty"` // of the data in seconds, one that the gateway serves; 0: realtime

	// Instruments limits the concurrent instruments of a connection under this right, which then
	// excludes patterns. 0: no limit.
	Instruments int `toml:"instruments" json:"instruments,omitempty"`

	From  time.Time `toml:"from" json:"from,omitzero"`   // start of the right; zero: none
	Until time.Time `toml:"until" json:"until,omitzero"` // end of the right; zero: none
}

// Valid reports whether the right holds at a time.
func (e *Entitlement) Valid(at time.Time) bool {
	return !at.Before(e.From) && (e.Until.IsZero() || at.Before(e.Until))
}

// Limits of a user; 0 means the default of the gateway.
type Limits struct {
	Connections       int `toml:"connections" json:"connections,omitempty"`
	Subscriptions     int `toml:"subscriptions" json:"subscriptions,omitempty"`
	MessagesPerSecond int `toml:"messages_per_second" json:"messages_per_second,omitempty"`
	RequestsPerMinute int `toml:"requests_per_minute" json:"requests_per_minute,omitempty"`
}

// Account is a trading account (protocol section 9). Clients do not get fields that are unknown: an
// empty name, a nil list, a zero time.
type Account struct {
	ID          string    `json:"account_id"`
	Number      string    `json:"number"`
	Name        string    `json:"name,omitempty"`
	Type        string    `json:"type"`   // cash, margin
	Status      string    `json:"status"` // active, restricted, closed
	Currency    string    `json:"currency"`
	Currencies  []string  `json:"currencies,omitzero"`
	Roles       []string  `json:"roles,omitzero"`
	Permissions []string  `json:"permissions,omitzero"`
	IsDefault   bool      `json:"is_default"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
}

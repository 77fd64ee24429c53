// Package broker is the contract between Rueda and a broker's own user base:
// who may log in, what they may see, which accounts are theirs.
//
// A user base is a Users and an Accounts. brokertest.Run checks an
// implementation against the rules written here.
package broker

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"
)

// Errors an implementation returns, wrapped or bare. Any other error is a fault
// of the user base and treated as ErrUnavailable.
var (
	ErrInvalidCredentials = errors.New("wrong username or password") // unknown user, wrong password, disabled user: one error
	ErrNotFound           = errors.New("no such user or account")
	ErrDisabled           = errors.New("user is disabled")
	ErrUnavailable        = errors.New("user base unavailable") // down, or its login queue is full; never counted as a failed login

	// ErrBadUser is for a user whose own record cannot be read, in a base that is well otherwise. Like an outage it is no
	// failed login; unlike one it says nothing about others. Who stays unreadable for some minutes loses what is open.
	ErrBadUser = errors.New("the user's record cannot be read")

	// ErrSecondFactor is for a right password without the one-time password that the user needs too. A wrong
	// one-time password is ErrInvalidCredentials.
	ErrSecondFactor = errors.New("a one-time password is needed")
)

// Users is the user base.
type Users interface {
	// Authenticate checks a password. It takes the same time for an unknown
	// user as for a wrong password. Errors: ErrInvalidCredentials, ErrSecondFactor, ErrBadUser, ErrUnavailable. Beside the first
	// two may come a User that has an ID and nothing else, for the audit log, where there is such a user.
	Authenticate(ctx context.Context, login Login) (User, error)

	// User reads a user by id, for the checks at refresh and for current rights.
	// Errors: ErrNotFound, ErrDisabled, ErrBadUser, ErrUnavailable.
	User(ctx context.Context, id string) (User, error)
}

// ManyUsers is what a Users may have beside its methods, so that a change is known sooner where many users are in use.
type ManyUsers interface {
	// UsersByID reads users as User does, in one question to the base, and answers in the order of ids. At most 500 are
	// asked for. The error is that of the question: then there are no answers.
	UsersByID(ctx context.Context, ids []string) ([]Answer, error)
}

// Answer is what Users.User returns.
type Answer struct {
	User User
	Err  error
}

// Accounts are the broker's trading accounts.
type Accounts interface {
	// ListAccounts returns the accounts of a user, by stable order; none is an empty list.
	ListAccounts(ctx context.Context, userID string) ([]Account, error)
}

// Login is an attempt to log in. It prints and logs without its secrets.
type Login struct {
	Username string     // 1 to 128 bytes
	Password string     // 1 to 1,024 bytes, as it was sent: nothing trimmed
	OTP      string     // one-time password of the second factor; "": none was given
	Address  netip.Addr // of the client; the zero Addr: unknown
	Client   string     // its User-Agent; "": unknown
}

// String is the address alone: people type passwords into the field for their name.
func (l Login) String() string { return "login from " + l.Address.String() }

// GoString is String.
func (l Login) GoString() string { return l.String() }

// LogValue is String.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

// User is a person or program that may log in.
type User struct {
	ID           string // stable, opaque, never used again for another user; up to 64 bytes
	Username     string // the login name
	Scopes       []string
	Entitlements []Entitlement
	Limits       Limits
	Version      int64 // rises when the password or status changes, not with rights; tokens of an older version die
}

// Scopes of protocol section 10.
const (
	ScopeAccounts = "accounts:read"
	ScopeRead     = "marketdata:read"
	ScopeDepth    = "marketdata:depth"
	ScopeWildcard = "marketdata:wildcard"
	ScopeHistory  = "marketdata:history"
	ScopeAdmin    = "admin"
)

// Entitlement is a right to a market's data. Entitlements add up; what none grants is refused.
type Entitlement struct {
	Market string `toml:"market" json:"market"` // "*": every market
	Trades bool   `toml:"trades" json:"trades"`
	Quotes bool   `toml:"quotes" json:"quotes"`
	Depth  int    `toml:"depth" json:"depth"`           // deepest order_book tier: 0 none, -1 all levels
	Delay  int    `toml:"delay" json:"delay,omitempty"` // seconds that the data come late, one of those the gateway serves; 0: at once

	// Instruments bounds the instruments at a time, on a connection, that the right is used for; a pattern is refused
	// then. 0: as many as there are.
	Instruments int `toml:"instruments" json:"instruments,omitempty"`

	From  time.Time `toml:"from" json:"from,omitzero"`   // the right begins; zero: it has begun
	Until time.Time `toml:"until" json:"until,omitzero"` // the right ends; zero: it does not
}

// Valid says whether the right holds at a moment.
func (e *Entitlement) Valid(at time.Time) bool {
	return !at.Before(e.From) && (e.Until.IsZero() || at.Before(e.Until))
}

// Limits of a user; 0 means the gateway's default.
type Limits struct {
	Connections       int `toml:"connections" json:"connections,omitempty"`
	Subscriptions     int `toml:"subscriptions" json:"subscriptions,omitempty"`
	MessagesPerSecond int `toml:"messages_per_second" json:"messages_per_second,omitempty"`
	RequestsPerMinute int `toml:"requests_per_minute" json:"requests_per_minute,omitempty"`
}

// Account is a trading account, in the words of protocol section 9. What is not known of it, an empty name, a nil list, a zero
// time, is left out where clients are told.
type Account struct {
	ID          string    `json:"account_id"`
	Number      string    `json:"number"`
	Name        string    `json:"name"`
	Type        string    `json:"type"`   // cash, margin
	Status      string    `json:"status"` // active, restricted, closed
	Currency    string    `json:"currency"`
	Currencies  []string  `json:"currencies"`
	Roles       []string  `json:"roles"`
	Permissions []string  `json:"permissions"`
	IsDefault   bool      `json:"is_default"`
	CreatedAt   time.Time `json:"created_at"`
}

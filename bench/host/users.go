package host

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// users is a user base of all names that begin with u; the password is the name. It hashes nothing,
// because logins are not measured here.
type users struct{}

func (users) Authenticate(_ context.Context, login broker.Login) (broker.User, error) {
	name := login.Username
	if name != login.Password || !strings.HasPrefix(name, "u") {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	return userOf(name), nil
}

func (users) User(_ context.Context, id string) (broker.User, error) {
	if !strings.HasPrefix(id, "u") {
		return broker.User{}, broker.ErrNotFound
	}
	return userOf(id), nil
}

// quotesOnly is the name prefix of users with a right to quotes only.
const quotesOnly = "uq"

// delayedUser is the name prefix of users with delayed data. Their delay in seconds follows.
const delayedUser = "ud"

// DelayedUser returns the name of a user whose data are delayed.
func DelayedUser(delay time.Duration) string {
	return delayedUser + strconv.Itoa(int(delay/time.Second))
}

func userOf(name string) broker.User {
	if seconds, ok := strings.CutPrefix(name, delayedUser); ok {
		n, _ := strconv.Atoi(seconds) // only names of DelayedUser log in
		return broker.User{ID: name, Username: name, Scopes: []string{broker.ScopeRead, broker.ScopeWildcard},
			Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Delay: n}}}
	}
	if strings.HasPrefix(name, quotesOnly) {
		return broker.User{ID: name, Username: name, Scopes: []string{broker.ScopeRead},
			Entitlements: []broker.Entitlement{{Market: "*", Quotes: true}}}
	}
	return broker.User{
		ID: name, Username: name,
		Scopes:       []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
	}
}

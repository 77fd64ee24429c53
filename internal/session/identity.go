package session

import (
	"cmp"
	"time"

	"github.com/ruedahq/rueda/internal/entitlement"
)

// Identity is who a token stands for and what its user may do. It is shared between
// sessions and never changed.
type Identity struct {
	User     string    // stable id
	Username string    // for people
	Family   string    // of the token's refresh family
	KeyID    string    // of the key that signed the token
	Expires  time.Time // of the token, by the wall clock
	Grants
}

// Scopes that a session asks for.
const (
	scopeRead     = "marketdata:read"
	scopeDepth    = "marketdata:depth"
	scopeWildcard = "marketdata:wildcard"
	scopeAdmin    = "admin"
)

// Limits of a user. 0 stands for the gateway's own.
type Limits struct {
	Connections       int
	Subscriptions     int
	MessagesPerSecond int
}

// or fills what is 0 from d.
func (l Limits) or(d Limits) Limits {
	return Limits{
		Connections:       cmp.Or(l.Connections, d.Connections),
		Subscriptions:     cmp.Or(l.Subscriptions, d.Subscriptions),
		MessagesPerSecond: cmp.Or(l.MessagesPerSecond, d.MessagesPerSecond),
	}
}

// Grants are the part of an Identity that may change under an open connection.
type Grants struct {
	Scopes []string
	Rights entitlement.Set
	Limits Limits
}

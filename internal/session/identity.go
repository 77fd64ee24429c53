package session

import (
	"cmp"
	"slices"
	"time"
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

// Rights are what a user may see. They add up; what none grants is refused. They
// are shared between sessions and never changed in place.
type Rights []Right

// Right is to the data of one market, or of every market that is or will be.
type Right struct {
	Market      string // "*": every market
	Trades      bool
	Quotes      bool
	Depth       int       // deepest order_book tier: 0 none, -1 all levels
	Delay       int       // seconds that the data come late; 0: at once
	Instruments int       // at most so many at a time, of a connection; 0: as many as there are
	From        time.Time // it begins, by the wall clock; zero: it has begun
	Until       time.Time // it ends; zero: it does not
}

// holds says whether a right is valid at a moment.
func (r *Right) holds(at time.Time) bool {
	return !at.Before(r.From) && (r.Until.IsZero() || at.Before(r.Until))
}

// next is when the next of the rights begins or ends after a moment; zero: none does.
func (r Rights) next(at time.Time) (next time.Time) {
	for i := range r {
		for _, t := range [...]time.Time{r[i].From, r[i].Until} {
			if t.After(at) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// limited says whether one of the rights has a limit of instruments.
func (r Rights) limited() bool {
	return slices.ContainsFunc(r, func(one Right) bool { return one.Instruments > 0 })
}

// Grants are the part of an Identity that may change under an open connection.
type Grants struct {
	Scopes []string
	Rights Rights
	Limits Limits
}

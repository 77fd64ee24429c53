package auth

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
)

// ErrNotFound is returned by a Store for a token or family that it does not have.
var ErrNotFound = errors.New("no such token or family")

// Store keeps families and their tokens. Each method is atomic, and durable when
// it returns nil. Every error but ErrNotFound means that the Store is unavailable
// and that nothing changed, or that it is not known whether it did; each call may be repeated.
// Times are kept to the nanosecond, those of events to the microsecond.
//
// What changes something appends its audit event in the same transaction: both are there, or neither.
type Store interface {
	// CreateFamily stores a new family with its first token, and the event Family.LoginEvent.
	CreateFamily(ctx context.Context, family Family, first RefreshToken) error

	// Lookup reads a token and its family.
	Lookup(ctx context.Context, hash Hash) (RefreshToken, Family, error)

	// Rotate applies Rotation.Decide to the rows of the presented token, of the
	// successor and of the family; a token that is not there is Refused.
	//
	// Granted stores the successor, or moves the end of the one that is there to
	// r.Expires if that is later; makes the presented token's parent dead as of
	// r.Now, and in a strict rotation the presented token too, unless they are
	// dead already; and notes Now, Address and Client in the family.
	// Reused revokes the family. Both append the event Rotation.Event. Other outcomes change nothing.
	Rotate(ctx context.Context, r Rotation) (Outcome, error)

	// RevokeFamily ends a family as of e.Time, and appends e with the family and its user filled in. One that is over
	// already keeps its time and reason, one that is not there is not an error, and neither appends anything.
	RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error

	// RevokeUser ends all live families of a user as of e.Time, appends e, with the user filled in, even where there are
	// none, and returns their ids.
	RevokeUser(ctx context.Context, userID, reason string, e audit.Event) ([]string, error)

	// Revoked returns what was revoked at since or later.
	Revoked(ctx context.Context, since time.Time) ([]Revocation, error)

	// Families reads those of the families with these ids that are there, in no order. At most 1,000 are asked for.
	Families(ctx context.Context, ids []string) ([]Family, error)

	// Sessions are the families of a user that are not revoked and have a token which is neither dead nor ended at now; the
	// last used comes first.
	Sessions(ctx context.Context, userID string, now time.Time) ([]Family, error)

	// Append adds events that go with no other change.
	Append(ctx context.Context, events ...audit.Event) error

	// Watch calls tell with families revoked from now on, by other processes that have the same database and perhaps by
	// this one too, soon after: within 500 ms on one machine, 1 s over the network, 5 s where the database was gone
	// for a while. One may be told more than once. It returns nil when ctx ends.
	Watch(ctx context.Context, tell func([]Revocation)) error

	// Expire deletes the tokens that ended at now or before, and then the
	// families that were revoked before keepRevoked, with their tokens, and the
	// families that are live and have no token left. It returns how many families went.
	Expire(ctx context.Context, now, keepRevoked time.Time) (int, error)
}

// Revocation is the end of a family.
type Revocation struct {
	Family string
	At     time.Time
}

// LoginEvent is the audit event of a family's creation.
func (f *Family) LoginEvent() audit.Event {
	return audit.Event{
		Time: f.Created, Kind: audit.Login, Actor: "client",
		User: f.UserID, Family: f.ID, Address: f.Address, Client: f.Client,
	}
}

// Event is the audit event of a rotation that was Granted or Reused.
func (r *Rotation) Event(outcome Outcome, family *Family) audit.Event {
	kind := audit.Refresh
	if outcome == Reused {
		kind = audit.Reuse
	}
	return audit.Event{
		Time: r.Now, Kind: kind, Actor: "client",
		User: family.UserID, Family: family.ID, Address: r.Address, Client: r.Client,
	}
}

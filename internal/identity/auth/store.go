package auth

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// ErrNotFound is returned by a Store for a token or family that it does not have.
var ErrNotFound = errors.New("no such token or family")

// Store stores families and their tokens. Each method is atomic, and its changes are durable when
// it returns nil. Every error except ErrNotFound means that the Store is unavailable: either
// nothing changed, or the outcome is unknown. Each call may be repeated. Times are stored with
// nanoseconds, those of events with microseconds.
//
// A method that changes something appends its audit event in the same transaction.
type Store interface {
	// CreateFamily stores a new family with its first token, and the event Family.LoginEvent.
	CreateFamily(ctx context.Context, family Family, first RefreshToken) error

	// Lookup returns a token and its family.
	Lookup(ctx context.Context, hash Hash) (RefreshToken, Family, error)

	// Rotate reads the rows of the presented token, its parent and their family, applies
	// Rotation.Apply and writes the changes. If the outcome is Granted or Reused, it
	// appends the event Rotation.Event.
	Rotate(ctx context.Context, r Rotation) (Outcome, error)

	// RevokeFamily ends a family as of e.Time, and appends e with the family and its user filled
	// in. For a family that has already ended or does not exist, it changes nothing, appends
	// nothing and returns nil.
	RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error

	// RevokeUser ends the live families of a user that were created by a time, or all if it is zero,
	// as of e.Time and returns their ids. It appends e with the user filled in, even if there are
	// none.
	RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) ([]string, error)

	// Revoked returns the revocations since a time, inclusive.
	Revoked(ctx context.Context, since time.Time) ([]Revocation, error)

	// Families returns the existing families with these ids, in any order. ids has at most 1,000
	// entries.
	Families(ctx context.Context, ids []string) ([]Family, error)

	// Sessions returns the families of a user that are not revoked and have a token that is neither
	// dead nor expired at now, or a successor that was not used yet. The last used comes first.
	Sessions(ctx context.Context, userID string, now time.Time) ([]Family, error)

	// Append adds events that belong to no other change.
	Append(ctx context.Context, events ...audit.Event) error

	// Watch calls report with families that other processes of the same database revoke, and perhaps
	// with those of this process. It does so within 500 ms on one machine, 1 s over the network,
	// and 5 s after an outage of the database. It may report a family more than once. It returns
	// nil when ctx ends.
	Watch(ctx context.Context, report func([]Revocation)) error

	// ReserveFailure counts a wrong password of an account before it is checked, unless the account
	// has had most of them, each less than window after the previous one. In that case wait is the
	// time until one more is allowed.
	ReserveFailure(ctx context.Context, account Hash, most int, window time.Duration, now time.Time) (wait time.Duration, err error)

	// SettleFailure reverts a ReserveFailure: Succeeded removes all failures of the account,
	// Refunded only this one.
	SettleFailure(ctx context.Context, account Hash, how throttle.Settlement) error

	// TrustLocation stores that an account has logged in at a location. It keeps the
	// throttle.MaxLocations last used ones of the account.
	TrustLocation(ctx context.Context, l throttle.TrustedLocation) error

	// TrustedLocations returns the locations that were used since a time, inclusive, the last used
	// first. It returns at most the number most.
	TrustedLocations(ctx context.Context, since time.Time, most int) ([]throttle.TrustedLocation, error)

	// Expire deletes the tokens that are kept until now or less. Then it deletes the families that
	// were revoked before keepRevoked, with their tokens, and the live families without a token. It
	// returns the number of deleted families.
	Expire(ctx context.Context, now, keepRevoked time.Time) (int, error)
}

// Revocation is the end of a family.
type Revocation struct {
	Family string
	At     time.Time
}

// LoginEvent returns the audit event of a family's creation.
func (f *Family) LoginEvent() audit.Event {
	return audit.Event{
		Time: f.Created, Kind: audit.Login, Actor: "client",
		User: f.UserID, Family: f.ID, Address: f.Address, Client: f.Client,
	}
}

// Event returns the audit event of a rotation that was Granted or Reused.
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

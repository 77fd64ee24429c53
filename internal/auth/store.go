package auth

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound is returned by a Store for a token or family that it does not have.
var ErrNotFound = errors.New("no such token or family")

// Store keeps families and their tokens. Each method is atomic, and durable when
// it returns nil. Every error but ErrNotFound means that the Store is unavailable
// and that nothing changed, or that it is not known whether it did; each call may be repeated.
// Times are kept to the nanosecond.
type Store interface {
	// CreateFamily stores a new family with its first token.
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
	// Reused revokes the family. Other outcomes change nothing.
	Rotate(ctx context.Context, r Rotation) (Outcome, error)

	// RevokeFamily ends a family. One that is over already keeps its time and
	// reason, and one that is not there is not an error.
	RevokeFamily(ctx context.Context, id, reason string, now time.Time) error

	// RevokeUser ends all live families of a user and returns their ids.
	RevokeUser(ctx context.Context, userID, reason string, now time.Time) ([]string, error)

	// Revoked returns what was revoked at since or later.
	Revoked(ctx context.Context, since time.Time) ([]Revocation, error)

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

package auth

import "time"

// Hash is the SHA-256 of a refresh token's 32 bytes: the only form that is stored.
// The input has 256 bits of entropy, so that a slow hash would add nothing.
type Hash [32]byte

// RefreshToken is what is stored of a refresh token.
type RefreshToken struct {
	Hash    Hash
	Parent  Hash // the token it succeeds; zero: the first of its family
	Family  string
	Issued  time.Time
	Expires time.Time
	Dead    time.Time // zero: alive
}

// Family is one login and all tokens that descend from it.
type Family struct {
	ID          string
	UserID      string
	UserVersion int64    // of the user at login; a family of an older version is over
	KeyID       string   // names the KeySet's secret that derives successors
	Seed        [32]byte // random; goes into every derivation
	Created     time.Time
	Used        time.Time // last grant
	Address     string    // of the last grant; "" unknown
	Client      string    // of the last grant: its User-Agent
	Revoked     time.Time // zero: live
	RevokedFor  string    // one of the Revoked words
}

// Why a family was revoked.
const (
	RevokedLogout  = "logout"        // by a client that presented one of its tokens
	RevokedReuse   = "reuse"         // a dead token was presented late
	RevokedSession = "session"       // by its user, from another session or this one
	RevokedUser    = "administrator" // all families of a user at once
	RevokedLimit   = "limit"         // the user has logged in more often since than may be at a time
)

// Rotation is a refresh: a token is presented and its successor asked for.
type Rotation struct {
	Presented Hash
	Successor Hash
	Now       time.Time
	Expires   time.Time     // of the successor, from this answer on
	Strict    bool          // the presented token dies now, not at the successor's first use
	Grace     time.Duration // how long after its death a token is late, not stolen
	Address   string        // kept with the family
	Client    string        // kept with the family
}

// Outcome is what becomes of a Rotation.
type Outcome int

// Outcomes. Only Granted and Reused change what is stored.
const (
	Refused Outcome = iota // unknown, expired, or of a revoked family
	Late                   // dead within the grace period: refused, and no more
	Reused                 // dead for longer: the family is revoked
	Granted
)

func (o Outcome) String() string {
	return [...]string{"refused", "late", "reused", "granted"}[o]
}

// Decide is the rule of rotation. A Store calls it inside the transaction that
// applies its outcome, with the rows of that transaction. successor is nil while
// none was given out.
//
// A token ends at its own expiry whether dead or not: an expired one proves
// nothing about a theft, and its row may be gone.
func (r Rotation) Decide(presented RefreshToken, successor *RefreshToken, family Family) Outcome {
	switch {
	case !family.Revoked.IsZero() || !r.Now.Before(presented.Expires):
		return Refused
	case presented.Dead.IsZero():
		return Granted
	case r.Now.Sub(presented.Dead) > r.Grace:
		return Reused
	case r.Strict && successor != nil && successor.Dead.IsZero():
		return Granted // a repeat in the retry window: the answer was lost
	}
	return Late
}

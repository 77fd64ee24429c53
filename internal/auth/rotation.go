package auth

import "time"

// Hash is the SHA-256 of the 32 bytes of a refresh token. Only the hash is stored. The input has
// 256 bits of entropy, so a slow hash would not add security.
type Hash [32]byte

// RefreshToken is the stored state of a refresh token.
type RefreshToken struct {
	Hash    Hash
	Parent  Hash // the previous token; zero: this is the first token of its family
	Family  string
	Issued  time.Time
	Expires time.Time
	Dead    time.Time // zero: alive
}

// Family is one login with all its tokens.
type Family struct {
	ID          string
	UserID      string
	UserVersion int64    // of the user at login; when the user has a newer version, the family has ended
	KeyID       string   // id of the keyset secret that derives successors
	Seed        [32]byte // random, used in every derivation
	Created     time.Time
	Used        time.Time // last grant
	Address     string    // of the last grant; "" unknown
	Client      string    // of the last grant: its User-Agent
	Revoked     time.Time // zero: live
	RevokedFor  string    // one of the Revoked words
}

// Reasons for the end of a family.
const (
	RevokedLogout  = "logout"        // a client presented one of its tokens to log out
	RevokedReuse   = "reuse"         // a dead token was presented after the grace period
	RevokedSession = "session"       // the user ended it from this or another session
	RevokedUser    = "administrator" // an administrator ended all families of the user
	RevokedLimit   = "limit"         // the user had too many newer logins
)

// Rotation is a refresh: a client presents a token and asks for its successor.
type Rotation struct {
	Presented Hash
	Successor Hash
	Now       time.Time
	Expires   time.Time     // of the successor, if it is answered now
	Strict    bool          // the presented token dies now, not when its successor is first used
	Grace     time.Duration // how long after its death a token is refused without ending the family
	Address   string        // kept with the family
	Client    string        // kept with the family
}

// Outcome is the result of a Rotation.
type Outcome int

// Outcomes. Only Granted and Reused change stored state.
const (
	Refused Outcome = iota // unknown, expired, or of a revoked family
	Late                   // dead within the grace period: refused only
	Reused                 // dead for longer: the family is revoked
	Granted
)

func (o Outcome) String() string {
	return [...]string{"refused", "late", "reused", "granted"}[o]
}

// Decide returns the outcome of a rotation. A Store calls it in the transaction that applies the
// outcome, with the rows of that transaction. successor is nil if the token has none.
//
// An expired token is Refused, dead or not: it does not prove theft, and its row may already be
// deleted.
func (r Rotation) Decide(presented RefreshToken, successor *RefreshToken, family Family) Outcome {
	switch {
	case !family.Revoked.IsZero() || !r.Now.Before(presented.Expires):
		return Refused
	case presented.Dead.IsZero():
		return Granted
	case r.Now.Sub(presented.Dead) > r.Grace:
		return Reused
	case r.Strict && successor != nil && successor.Dead.IsZero():
		return Granted // a retry: the client did not receive the answer
	}
	return Late
}

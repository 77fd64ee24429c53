package auth

import (
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

// Hash is the SHA-256 of a refresh token. Only the hash is stored. The input has
// 160 random bits or more, so a slow hash would not add security.
type Hash [32]byte

// RefreshToken is the row of a refresh token. The first token of a login has one from the
// beginning, a successor from its first use.
type RefreshToken struct {
	Hash      Hash
	Parent    Hash // the token it succeeds; zero: the first of its family
	Successor Hash // the first of its successors that was used; zero: none
	Family    string
	Issued    time.Time
	Expires   time.Time
	Kept      time.Time // when the row may be deleted: Expires, or the end of its last successor
	Dead      time.Time // zero: alive
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
	RevokedSession = "session"       // its user or an administrator ended it alone
	RevokedUser    = "administrator" // an administrator ended all families of the user
	RevokedLimit   = "limit"         // the user had too many newer logins
	RevokedRestore = "restore"       // a backup was restored
)

// Rotation is a refresh: a client presents a token and receives a new successor.
type Rotation struct {
	Presented Hash
	Parent    Hash      // of a successor; zero: Presented has a row
	Issued    time.Time // of a successor
	Expires   time.Time // of a successor

	Now     time.Time
	End     time.Time     // of the new successor
	Strict  bool          // the presented token dies now, not at the first use of a successor
	Grace   time.Duration // how long after its death a token may be an accident
	Address string        // kept with the family
	Client  string        // kept with the family
}

// Outcome is the result of a Rotation.
type Outcome int

// Outcomes. Only Granted and Reused change stored state.
const (
	Refused Outcome = iota // unknown, expired, or of a revoked family
	Late                   // dead, but perhaps by accident: refused without consequences
	Reused                 // somebody else has the token: the family is revoked
	Granted
)

func (o Outcome) String() string {
	return [...]string{"refused", "late", "reused", "granted"}[o]
}

// Rows are the rows that a Rotation reads and changes.
type Rows struct {
	Presented *RefreshToken // nil: a successor that was not used yet
	Parent    *RefreshToken // of the presented token; nil: it is the first, or the row is gone
	Family    *Family       // nil: unknown
}

// Apply decides about a rotation and changes the rows accordingly. A Store calls it in the
// transaction that reads the rows, and writes all three when the outcome is Granted, or the family
// when it is Reused.
func (r *Rotation) Apply(rows *Rows) Outcome {
	outcome := r.decide(rows)
	family := rows.Family
	switch outcome {
	case Granted:
		if rows.Presented == nil {
			rows.Presented = &RefreshToken{
				Hash: r.Presented, Parent: r.Parent, Family: family.ID, Issued: r.Issued, Expires: r.Expires, Kept: r.Expires,
			}
		}
		presented, parent := rows.Presented, rows.Parent
		if r.End.After(presented.Kept) {
			presented.Kept = r.End
		}
		if parent != nil && parent.Successor == (Hash{}) {
			parent.Successor, parent.Dead = r.Presented, r.Now
		}
		if r.Strict && presented.Dead.IsZero() {
			presented.Dead = r.Now
		}
		family.Used, family.Address, family.Client = r.Now, r.Address, r.Client
	case Reused:
		family.Revoked, family.RevokedFor = r.Now, RevokedReuse
	}
	return outcome
}

// decide applies the rule of rotation. A token is valid until one of its successors is used; in
// strict mode until it is used itself, and it can be used again within the grace period. The first
// successor that is used continues the family, and the others are dead.
//
// A dead token shows a theft, unless it comes within the grace period from the network that used
// the family last: processes that share a file of tokens have such accidents. A token that has
// expired proves nothing, dead or not.
func (r *Rotation) decide(rows *Rows) Outcome {
	presented, parent, family := rows.Presented, rows.Parent, rows.Family
	if family == nil || presented == nil && parent == nil || !family.Revoked.IsZero() {
		return Refused
	}
	expires := r.Expires
	if presented != nil {
		expires = presented.Expires
	}
	if !r.Now.Before(expires) {
		return Refused
	}
	var died time.Time
	switch {
	case parent != nil && parent.Successor != (Hash{}) && parent.Successor != r.Presented:
		died = parent.Dead // another successor continues the family
	case presented == nil || presented.Dead.IsZero():
		return Granted
	case r.Strict && presented.Successor == (Hash{}) && r.Now.Sub(presented.Dead) <= r.Grace:
		return Granted // the answer was lost
	default:
		died = presented.Dead
	}
	if r.Now.Sub(died) <= r.Grace && sameNetwork(r.Address, family.Address) {
		return Late
	}
	return Reused
}

// sameNetwork reports whether two addresses belong to one network. Unknown addresses do not.
func sameNetwork(a, b string) bool {
	first, _ := netip.ParseAddr(a) // the zero Addr has no network
	second, _ := netip.ParseAddr(b)
	network := clientaddr.Network(first)
	return network.IsValid() && network == clientaddr.Network(second)
}

package session

import (
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
)

// Identity is the user of a token and their rights. It is shared between sessions and not changed.
type Identity struct {
	User     string    // stable id
	Username string    // for people
	Family   string    // of the token's refresh family
	KeyID    string    // of the key that signed the token
	Expires  time.Time // of the token, by the wall clock
	Grants
}

// Grants are the part of an Identity that may change during a connection.
type Grants struct {
	Scopes []string
	Rights entitlement.Set
	Limits broker.Limits // 0: the default of Env

	Networks []netip.Prefix // of the clients that may use the account; none: any client
}

// Allows reports whether a client with an address may use the account.
func (g *Grants) Allows(address netip.Addr) bool {
	return broker.AddressAllowed(g.Networks, address)
}

package session

import (
	"time"

	"github.com/ruedahq/rueda/broker"
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

// Grants are the part of an Identity that may change under an open connection.
type Grants struct {
	Scopes []string
	Rights entitlement.Set
	Limits broker.Limits // 0: the default of Env
}

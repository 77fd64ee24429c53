package gateway

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

const (
	maxCached = 1 << 16 // identities
	maxShared = 64      // rights that are compared with those of new identities
)

// identityCache keeps the identities of tokens in use, so that all connections of a token share
// one. The zero identityCache is empty. It is safe for concurrent use.
type identityCache struct {
	mu      sync.Mutex
	byToken map[string]*cachedIdentity
	rights  []entitlement.Set // the newest, each once, because many users have equal rights
}

// cachedIdentity is an identity with the version of its user.
type cachedIdentity struct {
	id      session.Identity
	version int64
}

// identity returns the session identity of a verified token.
func (c *identityCache) identity(id *auth.Identity) *session.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byToken[id.TokenID]; known != nil && known.id.KeyID == id.KeyID && known.isOf(&id.User) {
		return &known.id
	}
	own := grants(id.User)
	own.Rights = c.share(own.Rights)
	fresh := &cachedIdentity{
		id: session.Identity{
			User: id.User.ID, Username: id.User.Username,
			Family: id.Family, KeyID: id.KeyID, Expires: id.Expires,
			Grants: own,
		},
		version: id.User.Version,
	}
	if c.byToken == nil || len(c.byToken) >= maxCached {
		c.byToken = make(map[string]*cachedIdentity) // tokens in use are added again
	}
	c.byToken[id.TokenID] = fresh
	return &fresh.id
}

// share returns the equal rights of another user, if there are any. Rights are never modified.
func (c *identityCache) share(rights entitlement.Set) entitlement.Set {
	for _, known := range c.rights {
		if slices.Equal(known, rights) {
			return known
		}
	}
	if len(c.rights) == maxShared {
		c.rights = slices.Delete(c.rights, 0, 1)
	}
	c.rights = append(c.rights, rights)
	return rights
}

// isOf reports whether the identity was made from u.
func (c *cachedIdentity) isOf(u *broker.User) bool {
	return c.id.User == u.ID && c.id.Username == u.Username && c.version == u.Version && c.id.Limits == u.Limits &&
		slices.Equal(c.id.Scopes, u.Scopes) && slices.Equal(c.id.Rights, u.Entitlements) && slices.Equal(c.id.Networks, u.Networks)
}

// tokenFault returns the error message for a token that was not verified because of err.
func tokenFault(err error) *wire.Fault {
	var e *auth.Error
	if !errors.As(err, &e) {
		return &wire.Fault{Reason: wire.Overloaded}
	}
	switch e.Reason {
	case auth.TokenExpired:
		return &wire.Fault{Reason: wire.TokenExpired}
	case auth.TokenRevoked:
		return &wire.Fault{Reason: wire.TokenRevoked}
	case auth.InvalidToken:
		return &wire.Fault{Reason: wire.InvalidToken}
	case auth.AddressNotAllowed:
		return &wire.Fault{Reason: wire.AddressNotAllowed}
	}
	// The user base is down and the user is not cached: the client retries.
	return &wire.Fault{Reason: wire.Overloaded, RetryAfter: int((e.RetryAfter + time.Second - 1) / time.Second)}
}

// grants returns a user's rights and limits for sessions.
func grants(u broker.User) session.Grants {
	return session.Grants{Scopes: u.Scopes, Rights: u.Entitlements, Limits: u.Limits, Networks: u.Networks}
}

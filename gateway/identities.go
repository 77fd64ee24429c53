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

// identityCache keeps the identities of tokens in use, so that all connections with the same token
// share one identity. The zero identityCache is empty. It is safe for concurrent use.
type identityCache struct {
	mu      sync.Mutex
	byToken map[string]*cachedIdentity
	rights  []entitlement.Set // the newest, each once, because many users have equal rights
}

// cachedIdentity is an identity together with the version of the user that it was made from.
type cachedIdentity struct {
	id      session.Identity
	version int64
}

// identity returns the session's identity for a verified token. It returns the cached one if the
// user has not changed since.
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

// share returns a slice that equals rights. It reuses the slice of another user if possible, which
// saves memory. Callers must not modify the result.
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

// isOf reports whether the identity was made from u in its current version.
func (c *cachedIdentity) isOf(u *broker.User) bool {
	return c.id.User == u.ID && c.id.Username == u.Username && c.version == u.Version && c.id.Limits == u.Limits &&
		slices.Equal(c.id.Scopes, u.Scopes) && slices.Equal(c.id.Rights, u.Entitlements) && slices.Equal(c.id.Networks, u.Networks)
}

// tokenFault converts the error of a token check to an error message for the stream.
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

// grants returns the rights and limits of a user in the form that sessions need.
func grants(u broker.User) session.Grants {
	return session.Grants{Scopes: u.Scopes, Rights: u.Entitlements, Limits: u.Limits, Networks: u.Networks}
}

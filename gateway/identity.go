package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/entitlement"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// throttle are the bounds of logins as auth takes them.
func (l *Limits) throttle() auth.Throttle {
	return auth.Throttle{
		AddressPerMinute: l.LoginsPerMinute, AddressBurst: l.LoginBurst,
		NetworkPerMinute: l.Logins.NetworkPerMinute, NetworkBurst: l.Logins.NetworkBurst,
		GlobalPerMinute: l.Logins.GlobalPerMinute, GlobalBurst: l.Logins.GlobalBurst,
		AccountFree:     l.Logins.AccountFree,
		FamilyPerMinute: l.Logins.RefreshesPerMinute, FamilyBurst: l.Logins.RefreshBurst,
	}
}

// expiring are the families of open sockets that close soon, unless they were refreshed at another node.
func (g *Gateway) expiring() []string {
	return g.registry.Expiring(time.Now().Add(auth.DeadlineNear))
}

// verify and known are where the way of a trade asks something of the way of a
// login: whether a token is good, and for whom.
func (g *Gateway) verify(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
	id, err := g.auth.Verify(ctx, token)
	if err != nil {
		return nil, tokenFault(err)
	}
	return g.bearers.of(&id), nil
}

// known is verify where nothing has to be waited for.
func (g *Gateway) known(token string) (*session.Identity, *wire.Fault, bool) {
	id, ok, err := g.auth.Known(token)
	switch {
	case !ok:
		return nil, nil, false
	case err != nil:
		return nil, tokenFault(err), true
	}
	return g.bearers.of(&id), nil, true
}

// maxBearers bounds the identities remembered.
const maxBearers = 1 << 16

// bearers are the identities of tokens in use, so that all the connections of a
// token share one.
type bearers struct {
	mu      sync.Mutex
	byToken map[string]*bearer
	rights  []entitlement.Set // the newest, each once: most users have those of some others
}

// maxRights bounds the rights that new bearers share.
const maxRights = 64

// bearer is an identity, and by what to know that the user was not read again since it was
// made: a reading makes new slices.
type bearer struct {
	id           session.Identity
	entitlements []broker.Entitlement
	limits       broker.Limits
	version      int64
}

func (b *bearers) of(id *auth.Identity) *session.Identity {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.byToken[id.TokenID]; known != nil && known.id.KeyID == id.KeyID && known.is(&id.User) {
		return &known.id
	}
	grants := grantsOf(id.User)
	grants.Rights = b.share(grants.Rights)
	fresh := &bearer{
		id: session.Identity{
			User: id.User.ID, Username: id.User.Username,
			Family: id.Family, KeyID: id.KeyID, Expires: id.Expires,
			Grants: grants,
		},
		entitlements: id.User.Entitlements, limits: id.User.Limits, version: id.User.Version,
	}
	if b.byToken == nil || len(b.byToken) >= maxBearers {
		b.byToken = make(map[string]*bearer) // those in use come back
	}
	b.byToken[id.TokenID] = fresh
	return &fresh.id
}

// share gives the rights of another user where they are the same. Nobody changes them.
func (b *bearers) share(rights entitlement.Set) entitlement.Set {
	for _, known := range b.rights {
		if slices.Equal(known, rights) {
			return known
		}
	}
	if len(b.rights) == maxRights {
		b.rights = slices.Delete(b.rights, 0, 1)
	}
	b.rights = append(b.rights, rights)
	return rights
}

func (b *bearer) is(u *broker.User) bool {
	return b.id.User == u.ID && b.id.Username == u.Username && b.version == u.Version && b.limits == u.Limits &&
		same(b.id.Scopes, u.Scopes) && same(b.entitlements, u.Entitlements)
}

// same says whether two slices are of the same memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// tokenFault is what a client is told of a token that did not verify.
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
	}
	// The user base is down and the user unknown here: waiting helps.
	return &wire.Fault{Reason: wire.Overloaded, RetryAfter: int((e.RetryAfter + time.Second - 1) / time.Second)}
}

// grantsOf are a user's rights as sessions take them.
func grantsOf(u broker.User) session.Grants {
	return session.Grants{
		Scopes: u.Scopes,
		Rights: u.Entitlements,
		Limits: session.Limits{
			Connections:       u.Limits.Connections,
			Subscriptions:     u.Limits.Subscriptions,
			MessagesPerSecond: u.Limits.MessagesPerSecond,
		},
	}
}

// noAccounts is a user base whose users have no accounts.
type noAccounts struct{}

func (noAccounts) ListAccounts(context.Context, string) ([]broker.Account, error) { return nil, nil }

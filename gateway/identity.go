package gateway

import (
	"context"
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/wire"
)

// throttle returns the limits of logins and refreshes in the form that package auth needs.
func (l *Limits) throttle() throttle.Config {
	return throttle.Config{
		AddressPerMinute: l.LoginsPerMinute, AddressBurst: l.LoginBurst,
		NetworkPerMinute: l.Logins.NetworkPerMinute, NetworkBurst: l.Logins.NetworkBurst,
		GlobalPerMinute: l.Logins.GlobalPerMinute, GlobalBurst: l.Logins.GlobalBurst,
		AccountFree:     l.Logins.AccountFree,
		FamilyPerMinute: l.Logins.RefreshesPerMinute, FamilyBurst: l.Logins.RefreshBurst,
		UserPerMinute: l.Logins.UserRefreshesPerMinute, UserBurst: l.Logins.UserRefreshBurst,
		LoginsPerMinute: l.Logins.AccountLoginsPerMinute, LoginsBurst: l.Logins.AccountLoginBurst,
	}
}

// oldIssuer returns another issuer whose tokens are accepted: the default of earlier versions,
// which did not use the public URL. It returns "" if no other issuer is accepted.
func (g *Gateway) oldIssuer() string {
	if g.cfg.Auth.Issuer == "" && g.cfg.PublicURL != "" {
		return "rueda"
	}
	return ""
}

// expiring returns the families of the open sockets whose tokens expire soon. Package auth checks
// whether another node has refreshed these families.
func (g *Gateway) expiring() []string {
	return g.registry.Expiring(time.Now().Add(auth.DeadlineNear))
}

// verify returns the identity of a token for a session, or the error message for the client. It may
// read from the user base. Only here does the stream depend on logins.
func (g *Gateway) verify(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
	if f := g.waits(); f != nil {
		return nil, f
	}
	id, err := g.auth.Verify(ctx, token)
	if err != nil {
		f := tokenFault(err)
		g.monitor.checked(f)
		return nil, f
	}
	g.monitor.checked(nil)
	return g.identities.identity(&id), nil
}

// known returns the same as verify, but only if that is possible without blocking. Otherwise it
// returns false, and the session must call verify.
func (g *Gateway) known(token string) (*session.Identity, *wire.Fault, bool) {
	if f := g.waits(); f != nil {
		return nil, f, true
	}
	id, ok, err := g.auth.Known(token)
	switch {
	case !ok:
		return nil, nil, false
	case err != nil:
		f := tokenFault(err)
		g.monitor.checked(f)
		return nil, f, true
	}
	g.monitor.checked(nil)
	return g.identities.identity(&id), nil, true
}

// waits returns the error message for clients of the stream while this node of a cluster may not
// show rows. It returns nil if the node may.
func (g *Gateway) waits() *wire.Fault {
	err := g.node.Serves()
	if err == nil {
		return nil
	}
	f := &wire.Fault{Reason: wire.Overloaded, Msg: "Serves no clients: " + err.Error(), RetryAfter: 1}
	g.monitor.checked(f)
	return f
}

// admit returns an error message if the client's address is in none of the user's networks. It
// records the refusal in the audit log, which may block.
func (g *Gateway) admit(ctx context.Context, id *session.Identity, client netip.Addr) *wire.Fault {
	if err := auth.CheckAddress(ctx, g.auth, id.User, id.Family, id.Networks, auth.Origin{Address: client}); err != nil {
		return tokenFault(err)
	}
	return nil
}

// noAccounts is a user base without accounts.
type noAccounts struct{}

// ListAccounts implements broker.Accounts.
func (noAccounts) ListAccounts(context.Context, string) ([]broker.Account, error) { return nil, nil }

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

// throttle returns the limits of logins in the form of package auth.
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

// oldIssuer returns the issuer of tokens from before the public URL became the default.
func (g *Gateway) oldIssuer() string {
	if g.cfg.Auth.Issuer == "" && g.cfg.PublicURL != "" {
		return "rueda"
	}
	return ""
}

// expiring returns the families of open sockets that close soon, unless another node refreshed
// them.
func (g *Gateway) expiring() []string {
	return g.registry.Expiring(time.Now().Add(auth.DeadlineNear))
}

// verify returns the identity of a token. It is the only place where the stream depends on logins.
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

// known is like verify but never blocks. It reports false if the token must be verified.
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

// waits returns the refusal of a client of the stream while this node of a cluster may not show
// rows, or nil.
func (g *Gateway) waits() *wire.Fault {
	err := g.node.Serves()
	if err == nil {
		return nil
	}
	f := &wire.Fault{Reason: wire.Overloaded, Msg: "Serves no clients: " + err.Error(), RetryAfter: 1}
	g.monitor.checked(f)
	return f
}

// admit checks the client of a verified token. It records refusals, which may block.
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

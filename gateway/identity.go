package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// verify is the one function by which the way of a trade asks something of the
// way of a login: whether a token is good, and for whom.
func (g *Gateway) verify(ctx context.Context, token string) (session.Identity, *wire.Fault) {
	id, err := g.auth.Verify(ctx, token)
	if err != nil {
		return session.Identity{}, tokenFault(err)
	}
	grants := grantsOf(id.User)
	return session.Identity{
		User: id.User.ID, Username: id.User.Username,
		Family: id.Family, Expires: id.Expires,
		Scopes: grants.Scopes, Rights: grants.Rights, Limits: grants.Limits,
	}, nil
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
	rights := make(session.Rights, 0, len(u.Entitlements))
	for _, e := range u.Entitlements {
		rights = append(rights, session.Right{Market: e.Market, Trades: e.Trades, Quotes: e.Quotes, Depth: e.Depth})
	}
	return session.Grants{
		Scopes: u.Scopes,
		Rights: rights,
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

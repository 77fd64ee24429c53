package guard

import (
	"context"

	"github.com/ruedahq/rueda/broker"
)

// Users returns base with its calls guarded by g.
func Users(g *Guard, base broker.Users) broker.Users { return &users{g, base} }

// Guard returns the guard of the calls, for its state.
func (u *users) Guard() *Guard { return u.guard }

type users struct {
	guard *Guard
	base  broker.Users
}

func (u *users) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	return Call(ctx, u.guard, func(ctx context.Context) (broker.User, error) { return u.base.Authenticate(ctx, login) })
}

func (u *users) User(ctx context.Context, id string) (broker.User, error) {
	return Call(ctx, u.guard, func(ctx context.Context) (broker.User, error) { return u.base.User(ctx, id) })
}

// Accounts returns base with its calls guarded by g.
func Accounts(g *Guard, base broker.Accounts) broker.Accounts { return &accounts{g, base} }

// Guard returns the guard of the calls, for its state.
func (a *accounts) Guard() *Guard { return a.guard }

type accounts struct {
	guard *Guard
	base  broker.Accounts
}

func (a *accounts) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	return Call(ctx, a.guard, func(ctx context.Context) ([]broker.Account, error) { return a.base.ListAccounts(ctx, userID) })
}

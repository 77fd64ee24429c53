package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// ownsUsers reports whether a user base is that of a dev server: it is empty, or demo has the
// password that no other command sets. Users with a known password would open any other user base
// to everyone.
func ownsUsers(ctx context.Context, users *local.Base) (bool, error) {
	all, err := users.List(ctx)
	if err != nil || len(all) == 0 {
		return err == nil, err
	}
	_, err = users.Authenticate(ctx, broker.Login{Username: command.DemoUser, Password: command.DemoUser})
	if errors.Is(err, broker.ErrInvalidCredentials) {
		return false, nil
	}
	return err == nil, err
}

// addDemo adds the demo users, unless the user base has other users.
func addDemo(ctx context.Context, std command.Streams, users *local.Base, folder string) (added bool, err error) {
	if added, err = ownsUsers(ctx, users); err != nil {
		return false, err
	}
	if !added {
		fmt.Fprintf(std.Err, "%s has other users: %s and %s are not added.\n", folder, command.DemoUser, command.BasicUser)
		return false, nil
	}
	return true, AddDemoUsers(ctx, users)
}

// AddDemoUsers adds missing users of a dev server: demo with all rights and two accounts, and basic
// with quotes only.
func AddDemoUsers(ctx context.Context, users *local.Base) error {
	all := []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin}
	for _, u := range []local.NewUser{
		{
			Username: command.DemoUser, Password: command.DemoUser, WeakPassword: true, Scopes: all,
			Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
			// Experiments leave many connections open.
			Limits: broker.Limits{Connections: 100},
		},
		{
			Username: command.BasicUser, Password: command.BasicUser, WeakPassword: true,
			Scopes:       []string{broker.ScopeRead},
			Entitlements: []broker.Entitlement{{Market: "*", Quotes: true}},
		},
	} {
		if _, err := users.Add(ctx, u); err != nil && !errors.Is(err, local.ErrExists) {
			return fmt.Errorf("add user %s: %w", u.Username, err)
		}
	}
	for _, a := range []broker.Account{
		{
			Number: "100001", Name: "Juan Perez", Type: "cash", IsDefault: true, Currencies: []string{"ARS", "USD"},
			CreatedAt: time.Date(2021, time.March, 2, 0, 0, 0, 0, time.UTC),
		},
		{
			Number: "100002", Name: "Juan Perez", Type: "margin",
			CreatedAt: time.Date(2023, time.August, 14, 0, 0, 0, 0, time.UTC),
		},
	} {
		if _, err := users.AddAccount(ctx, command.DemoUser, a); err != nil && !errors.Is(err, local.ErrExists) {
			return fmt.Errorf("add account %s: %w", a.Number, err)
		}
	}
	return nil
}

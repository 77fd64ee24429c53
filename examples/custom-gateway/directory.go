package main

import (
	"context"
	"crypto/subtle"

	"github.com/ruedahq/rueda/broker"
)

// directory is a user base with a single user, ana, who may see every market. A real user base
// would query the broker's database and not contain a password.
type directory struct{}

var _ broker.Users = directory{}

// Authenticate implements broker.Users.
func (d directory) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	right := subtle.ConstantTimeCompare([]byte(login.Username+"\x00"+login.Password), []byte("ana\x00secret"))
	if right != 1 {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	return d.User(ctx, "1")
}

// User implements broker.Users.
func (directory) User(_ context.Context, id string) (broker.User, error) {
	if id != "1" {
		return broker.User{}, broker.ErrNotFound
	}
	return broker.User{
		ID: "1", Username: "ana", Version: 1,
		Scopes:       []string{broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true}},
	}, nil
}

package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// userBase is what the commands about users and groups change: the user base in a database
// (*local.Base), or that of a running gateway (*servedUsers). The methods are those of local.Base.
type userBase interface {
	List(ctx context.Context) ([]local.Entry, error)
	Entry(ctx context.Context, username string) (local.Entry, error)
	RecoveryCodes(ctx context.Context, userID string) (int, error)
	CheckPassword(username, password string) error

	Add(ctx context.Context, n local.NewUser) (broker.User, error)
	SetPassword(ctx context.Context, username, password string) error
	SetTemporaryPassword(ctx context.Context, username, password string) error
	Disable(ctx context.Context, username string) error
	Enable(ctx context.Context, username string) error
	Logout(ctx context.Context, username string) error
	SetExpiry(ctx context.Context, username string, at time.Time) (changed bool, err error)
	DisableSecondFactor(ctx context.Context, username string) (was bool, err error)
	EditRights(ctx context.Context, username string, edit func(*local.Rights) error) (changed bool, err error)

	Groups(ctx context.Context) ([]local.Group, error)
	AddGroup(ctx context.Context, name string, r local.Rights) error
	EditGroup(ctx context.Context, name string, edit func(*local.Rights) error) (changed bool, err error)
	RequireFactor(ctx context.Context, group string, required bool) (changed bool, err error)
	RemoveGroup(ctx context.Context, name string) (members int, err error)
	Join(ctx context.Context, username, group string) (changed bool, err error)
	Leave(ctx context.Context, username, group string) (changed bool, err error)

	ListAccounts(ctx context.Context, userID string) ([]broker.Account, error)
	AddAccount(ctx context.Context, username string, a broker.Account) (broker.Account, error)
}

// inDatabase returns the user base of a database, for commands that a gateway has no route for.
func inDatabase(users userBase, what string) (*local.Base, error) {
	base, ok := users.(*local.Base)
	if !ok {
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("a gateway has no route to %s", what),
			"Use --config FILE or --data DIR on its machine, without --admin and --token-file. It may run meanwhile.")
	}
	return base, nil
}

// users returns the user base that the flags name, and a function that closes it. It is that of the
// gateway if a flag or the environment says so. If the gateway does not answer, and a database is
// named, it is that of the database. Before users opens a database, it calls check with the user
// base of the gateway, or nil if there is none. If check is nil, no database is created.
func (o *userOptions) users(ctx context.Context, std command.Streams, check func(users userBase) error) (userBase, func() error, error) {
	served, err := o.served(ctx, std, "identity")
	if err != nil {
		return nil, nil, err
	}
	var users userBase
	if served {
		users = &servedUsers{&o.gateway}
	}
	if check != nil {
		if err := check(users); err != nil {
			return nil, nil, err
		}
	}
	if served {
		return users, func() error { return nil }, nil
	}
	data, err := o.open(ctx, std, check != nil)
	if err != nil {
		return nil, nil, err
	}
	return data.Users, data.Close, nil
}

// served reports whether the command uses a running gateway, which then answers. role is the one
// that the token needs.
func (o *userOptions) served(ctx context.Context, std command.Streams, role string) (bool, error) {
	database := o.config != "" || o.data != ""
	if !o.gateway.Wanted(database) {
		return false, nil
	}
	if o.config != "" {
		s, err := command.LoadConfig(ctx, std, o.config)
		if err != nil {
			return false, err
		}
		o.serves = servedBy(&s.Gateway)
		o.gateway.At(s.Gateway.Admin.Listen, s.Gateway.Admin.TLS.Certificate != "")
		if err := s.Users.Close(); err != nil {
			return false, err
		}
	}
	err := o.gateway.Open(ctx, role)
	if err == nil {
		return true, nil
	}
	if status, text, _ := command.Outcome(ctx, err); database && status == command.ExitUnreachable {
		fmt.Fprintf(std.Err, "Note: %s; the database is used instead.\n", command.Printable(text))
		return false, nil
	}
	return false, err
}

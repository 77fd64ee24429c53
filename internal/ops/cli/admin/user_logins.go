package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
)

// logins returns the command user logins.
func (o *userOptions) logins(std command.Streams) *cobra.Command {
	return o.rows(&cobra.Command{
		Use:   "logins NAME",
		Short: "List the logins of a user",
		Long: `Logins prints each login of a user that has not ended, the last used first: its id, when it began
and last received tokens, the client address, the open sockets, and the program. Of a database
the sockets are not known (-). rueda user logout ends all logins, or one by its id.`,
		Example: `  rueda user logins ana --config rueda/rueda.toml
  rueda user logins ana --token-file eva.token`,
		Args: command.ExactArgs("name of the user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := o.out.Open(std, "login", "since", "used", "address", "sockets", "client")
			if err != nil {
				return err
			}
			served, err := o.served(cmd.Context(), std, "identity")
			if err != nil {
				return err
			}
			list := o.storedLogins
			if served {
				list = o.servedLogins
			}
			sessions, err := list(cmd.Context(), std, args[0])
			if err != nil {
				return explainUser(err, args[0])
			}
			if len(sessions) == 0 {
				fmt.Fprintf(std.Err, "%s is not logged in.\n", args[0])
			}
			for _, s := range sessions {
				sockets := "-"
				if s.Connections >= 0 {
					sockets = strconv.Itoa(s.Connections)
				}
				if err := w.Row(s, printable(s.ID), shortTime(s.Created), shortTime(s.Used), printable(s.Address), sockets, printable(s.Client)); err != nil {
					return err
				}
			}
			return w.Close()
		},
	})
}

// logoutCommand returns the command user logout.
func (o *userOptions) logoutCommand(std command.Streams) *cobra.Command {
	all := o.command(std, "logout [NAME]", "End the tokens and sockets of a user, or of one login",
		command.MaxArgs(1, "name of the user"), o.logout)
	all.Long = `Logout ends all logins of a user with their tokens and sockets. With --login it ends only the login
with that id, which rueda user logins and rueda connections --output json print. Over a running
gateway, --login needs a token with the role operate only.`
	all.Example = `  rueda user logout ana --config rueda/rueda.toml
  rueda user logout --login NNr2nHkoTKcs1qD0 --token-file eva.token`
	var login string
	all.Flags().StringVar(&login, "login", "", "end only the login with this id")
	logout := all.RunE
	all.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case (len(args) == 1) == cmd.Flags().Changed("login"):
			return command.Fail(command.ExitUsage, errors.New("give the name of a user, or --login"), "rueda user logins NAME prints the ids of the logins.")
		case len(args) == 1:
			return logout(cmd, args)
		}
		return o.endLogin(cmd.Context(), std, login)
	}
	return all
}

// endLogin ends one login of a running gateway or a database.
func (o *userOptions) endLogin(ctx context.Context, std command.Streams, id string) error {
	served, err := o.served(ctx, std, "operate")
	if err != nil {
		return err
	}
	end := o.endStoredLogin
	if served {
		end = o.endServedLogin
	}
	if err := end(ctx, std, id); err != nil {
		return err
	}
	return done(std, "Ended the login %s: its tokens and sockets have ended", id)
}

// endServedLogin ends a login of a running gateway.
func (o *userOptions) endServedLogin(ctx context.Context, _ command.Streams, id string) error {
	if !adminapi.Addressable(id) || id == "" { // no path has it
		return noLogin(id)
	}
	err := o.gateway.Send(ctx, http.MethodDelete, "/admin/sessions/"+url.PathEscape(id), nil, &struct{}{})
	var refused *operation.Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return noLogin(id)
	}
	return err
}

// endStoredLogin ends a login of a database.
func (o *userOptions) endStoredLogin(ctx context.Context, std command.Streams, id string) (err error) {
	data, err := o.open(ctx, std, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if err := data.EndLogin(ctx, id); !errors.Is(err, database.ErrNoLogin) {
		return err
	}
	return noLogin(id)
}

func noLogin(id string) error {
	return command.Fail(command.ExitNotFound, fmt.Errorf("no login has the id %q, or it has ended", id), "rueda user logins NAME prints the ids.")
}

// servedLogins returns the logins of a user of a running gateway.
func (o *userOptions) servedLogins(ctx context.Context, _ command.Streams, username string) ([]adminapi.Session, error) {
	users := servedUsers{&o.gateway}
	u, err := users.find(ctx, username)
	if err != nil {
		return nil, err
	}
	var answer adminapi.Sessions
	err = o.gateway.Send(ctx, http.MethodGet, "/admin/users/"+url.PathEscape(u.ID)+"/sessions", nil, &answer)
	return answer.Sessions, err
}

// storedLogins returns the logins of a user of a database. Their sockets are -1: not known.
func (o *userOptions) storedLogins(ctx context.Context, std command.Streams, username string) (list []adminapi.Session, err error) {
	data, err := o.open(ctx, std, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	u, err := data.Users.Entry(ctx, username)
	if err != nil || u.Disabled {
		return nil, err
	}
	families, err := data.Store.Sessions(ctx, u.ID, time.Now())
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		if f.UserVersion == u.Version { // a change of the password ended older ones
			list = append(list, adminapi.Session{ID: f.ID, Created: f.Created, Used: f.Used, Address: f.Address, Client: f.Client, Connections: -1})
		}
	}
	return list, nil
}

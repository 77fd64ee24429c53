package login

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/wire"
)

// NewAuth returns the command auth.
func NewAuth(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Log in to a gateway once for all commands",
		Long: `Auth keeps the login of a context: the tokens, not the password. Commands renew them, and
several commands may run at the same time. The file of the tokens is in the folder of the
contexts (see rueda context), and only you can read it.

A password is never an argument: enter it at the prompt, or use --password-stdin or
$RUEDA_PASSWORD.

Exit status: 0 done; 1 other errors; 2 a mistake on the command line, or no context;
3 credentials refused, or the login has ended; 5 no gateway there.`,
		Example: `  rueda auth login
  rueda auth login --context prod --password-stdin < secret
  rueda auth status
  curl -H "$(rueda auth token --header)" $RUEDA_URL/broker/accounts`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogin(std), newLogout(std), newStatus(std), newToken(std))
	return cmd
}

// errNoContext returns the failure for a command that needs a context.
func errNoContext(t *command.Target) error {
	return command.Fail(command.ExitUsage, errors.New("there is no context to keep the login in"),
		"Add one: rueda context add NAME --use --url "+command.QuoteShell(t.URL)+" --user "+command.QuoteShell(t.User))
}

func newLogin(std command.Streams) *cobra.Command {
	var o command.Login
	cmd := &cobra.Command{
		Use:     "login",
		Short:   "Log in with a password and keep the tokens",
		Example: "  rueda auth login\n  rueda auth login --context prod --password-stdin < secret",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := o.Target()
			if err != nil {
				return err
			}
			if t.Context == "" {
				return errNoContext(t)
			}
			c, err := t.Fresh(std)
			if err != nil {
				return err
			}
			defer c.Close()
			now, err := c.Login(cmd.Context())
			if err != nil {
				return t.Explain(err)
			}
			fmt.Fprintf(std.Err, "Logged in as %s at %s. The login lasts until %s if it is not used.\n", t.User, t.URL, minute(now.RefreshExpires))
			return nil
		},
	}
	o.Flags(cmd)
	return cmd
}

func minute(at time.Time) string { return at.Local().Format("2006-01-02 15:04") }

func newLogout(std command.Streams) *cobra.Command {
	var o command.Login
	var local bool
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "End the login of a context",
		Long: `Logout revokes the login at the gateway, which closes its streams, and removes the tokens
from this machine.`,
		Example: "  rueda auth logout\n  rueda auth logout --context prod",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := o.Target()
			if err != nil {
				return err
			}
			c, err := t.Stored(std)
			if err != nil {
				return err
			}
			if c == nil {
				fmt.Fprintln(std.Err, "There is no login to end.")
				return nil
			}
			defer c.Close()
			if !local {
				_, err = c.Login(cmd.Context()) // loads the tokens
				if err == nil {
					err = c.Logout(cmd.Context())
				}
				if err != nil && client.ReasonOf(err) != wire.InvalidRefreshToken {
					return advise(cmd.Context(), t.Explain(err), "To only remove the tokens from this machine: rueda auth logout --local")
				}
			}
			if err := t.Forget(); err != nil {
				return err
			}
			fmt.Fprintf(std.Err, "The login of %s in context %s is removed.\n", t.User, t.Context)
			return nil
		},
	}
	o.Flags(cmd)
	cmd.Flags().BoolVar(&local, "local", false, "only remove the tokens from this machine")
	return cmd
}

// advise adds another advice to a failure.
func advise(ctx context.Context, err error, advice string) error {
	status, _, first := command.Outcome(ctx, err)
	if first != "" {
		advice = first + "\n" + advice
	}
	return command.Fail(status, err, advice)
}

func newStatus(std command.Streams) *cobra.Command {
	var o command.Login
	var out output.Options
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the gateway, the user and how long the login lasts",
		Example: "  rueda auth status\n  rueda auth status --context prod -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := out.Open(std, "context", "url", "user", "access_until", "login_until", "scope")
			if err != nil {
				return err
			}
			t, err := o.Target()
			if err != nil {
				return err
			}
			c, err := t.Client(std, nil)
			if err != nil {
				return err
			}
			defer c.Close()
			if err = c.Get(cmd.Context(), "/market/time", nil, nil); err != nil { // the gateway may have ended the login
				return t.Explain(err)
			}
			now, err := c.Login(cmd.Context())
			if err != nil {
				return t.Explain(err)
			}
			row := map[string]any{"context": t.Context, "url": t.URL, "user": t.User, "access_until": now.Expires.UTC(), "login_until": now.RefreshExpires.UTC(), "scope": now.Scope}
			if err := w.Row(row, t.Context, t.URL, t.User, minute(now.Expires), minute(now.RefreshExpires), now.Scope); err != nil {
				return err
			}
			return w.Close()
		},
	}
	o.Flags(cmd)
	out.Flags(cmd)
	return cmd
}

func newToken(std command.Streams) *cobra.Command {
	var o command.Login
	var header bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a valid access token, for other programs",
		Long: `Token prints the access token of the login. It first renews a token that is about to expire.
Keep the token secret: until it expires, it gives full access to your account.`,
		Example: "  TOKEN=$(rueda auth token)\n  curl -H \"$(rueda auth token --header)\" http://127.0.0.1:8080/broker/accounts",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := o.Target()
			if err != nil {
				return err
			}
			c, err := t.Client(std, nil)
			if err != nil {
				return err
			}
			defer c.Close()
			now, err := c.Login(cmd.Context())
			if err != nil {
				return t.Explain(err)
			}
			before := ""
			if header {
				before = "Authorization: Bearer "
			}
			_, err = fmt.Fprintf(std.Out, "%s%s\n", before, string(now.Access))
			return err
		},
	}
	o.Flags(cmd)
	cmd.Flags().BoolVar(&header, "header", false, "print a header for curl -H")
	return cmd
}

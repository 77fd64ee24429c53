package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// userOptions are the flags that the user commands share.
type userOptions struct {
	config    string
	data      string
	fromStdin bool
	rights    string
	delay     time.Duration
}

func newUser(std streams) *cobra.Command {
	var o userOptions
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Add, change and list the users of a database",
		Long: `User works on the database of a configuration or data folder, also while a gateway
has it open: a running gateway notices within half a second. A disabled user,
or one with a new password, loses tokens and open sockets at once.

A password is asked for at the terminal, or read from standard input; it is
never an argument, which other users of the machine could read.`,
		Example: `  rueda user add ana --config rueda/rueda.toml
  pass show ana | rueda user passwd ana --config rueda/rueda.toml --password-stdin
  rueda user account add ana 100001 --config rueda/rueda.toml
  rueda user disable ana --data /var/lib/rueda
  rueda user list --data /var/lib/rueda`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.config, "config", "", "configuration that names the database")
	f.StringVar(&o.data, "data", "", "data folder with the database")

	add := o.command(std, "add NAME", "Add a user; makes the database where there is none", named("name of the user"), o.add)
	add.Flags().StringVar(&o.rights, "rights", "all", "all, or quotes: best bid and offer, no wildcards")
	add.Flags().DurationVar(&o.delay, "delay", 0, "data come so late; one of stream.delays of the configuration, such as 15m")
	passwd := o.command(std, "passwd NAME", "Give a user a new password", named("name of the user"), o.passwd)
	for _, c := range []*cobra.Command{add, passwd} {
		c.Flags().BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input")
	}
	cmd.AddCommand(add, passwd,
		o.command(std, "disable NAME", "Keep a user out, and end tokens and sockets", named("name of the user"), o.disable),
		o.command(std, "enable NAME", "Let a disabled user in again", named("name of the user"), o.enable),
		o.command(std, "list", "List the users", cobra.NoArgs, o.list),
		o.accounts(std))
	return cmd
}

// userCommand does something to the user base. args are those of the command line, the
// user's name first.
type userCommand func(ctx context.Context, std streams, users *local.Base, args []string) error

func (o *userOptions) command(std streams, use, short string, args cobra.PositionalArgs, do userCommand) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			data, err := o.open(cmd.Context(), std, cmd.Name() == "add" && cmd.Parent().Name() == "user")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, data.Close()) }()
			err = do(cmd.Context(), std, data.Users, args)
			if errors.Is(err, broker.ErrNotFound) {
				return fail(exitNotFound, fmt.Errorf("there is no user %q", args[0]), "See rueda user list.")
			}
			return err
		},
	}
}

// open opens the database. Where there is none it is made if the command may do that:
// looking for a user in a folder of a mistyped name must not make it.
func (o *userOptions) open(ctx context.Context, std streams, create bool) (*gateway.Data, error) {
	if (o.config == "") == (o.data == "") {
		return nil, fail(exitUsage, errors.New("which database?"), "Name it with --config FILE or with --data DIR.")
	}
	s := &settings{data: gateway.DataConfig{Folder: o.data}}
	if o.config != "" {
		var err error
		if s, err = loadConfig(ctx, std, o.config); err != nil {
			return nil, err
		}
	}
	there, err := s.data.Exists()
	if err != nil {
		return nil, fmt.Errorf("look for a database: %w", err)
	}
	if !there && !create {
		return nil, fail(exitUsage, fmt.Errorf("there is no database in %s", filepath.Clean(s.data.Folder)),
			"rueda user add makes one with its first user.")
	}
	data, err := s.openData(ctx)
	if err == nil && !there {
		fmt.Fprintf(std.talk, "New database in %s\n", filepath.Clean(s.data.Folder))
	}
	return data, err
}

// done tells what was done.
func done(std streams, format string, args ...any) error {
	_, err := fmt.Fprintf(std.out, format+"\n", args...)
	return err
}

func (o *userOptions) add(ctx context.Context, std streams, users *local.Base, args []string) error {
	name := args[0]
	u := local.NewUser{Username: name, Scopes: []string{broker.ScopeRead}}
	switch o.rights {
	case "all":
		u.Scopes = append(u.Scopes, broker.ScopeAccounts, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory)
		u.Entitlements = []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}}
	case "quotes":
		u.Entitlements = []broker.Entitlement{{Market: "*", Quotes: true}}
	default:
		return fail(exitUsage, fmt.Errorf("rights %q are neither all nor quotes", o.rights), "")
	}
	if o.delay < 0 || o.delay%time.Second != 0 || o.delay > time.Duration(longestDelay) {
		return fail(exitUsage, fmt.Errorf("a delay is of whole seconds, up to %v, not %v", time.Duration(longestDelay), o.delay), "")
	}
	u.Entitlements[0].Delay = int(o.delay / time.Second)
	var err error
	if u.Password, err = readPassword(std, "Password of "+name, o.fromStdin, true); err != nil {
		return err
	}
	if _, err = users.Add(ctx, u); err != nil {
		return err
	}
	if o.delay > 0 {
		return done(std, "Added %s, with rights %s to data %v late", name, o.rights, o.delay)
	}
	return done(std, "Added %s, with rights %s", name, o.rights)
}

func (o *userOptions) passwd(ctx context.Context, std streams, users *local.Base, args []string) error {
	name := args[0]
	password, err := readPassword(std, "New password of "+name, o.fromStdin, true)
	if err != nil {
		return err
	}
	if err := users.SetPassword(ctx, name, password); err != nil {
		return err
	}
	return done(std, "New password for %s; logins of before are over", name)
}

func (o *userOptions) disable(ctx context.Context, std streams, users *local.Base, args []string) error {
	if err := users.Disable(ctx, args[0]); err != nil {
		return err
	}
	return done(std, "Disabled %s; logins of before are over", args[0])
}

func (o *userOptions) enable(ctx context.Context, std streams, users *local.Base, args []string) error {
	if err := users.Enable(ctx, args[0]); err != nil {
		return err
	}
	return done(std, "Enabled %s", args[0])
}

// list prints a table for people, and rows with tabs and no heading for programs.
func (o *userOptions) list(ctx context.Context, std streams, users *local.Base, _ []string) error {
	all, err := users.List(ctx)
	if err != nil {
		return err
	}
	var table strings.Builder
	for _, u := range all {
		status := "active"
		if u.Disabled {
			status = "disabled"
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\t%s\n", u.Username, status, u.Created.Format("2006-01-02"), strings.Join(u.Scopes, " "))
	}
	if len(all) == 0 {
		fmt.Fprintln(std.talk, "No users yet: rueda user add NAME adds one.")
		return nil
	}
	return printTable(std, "USER\tSTATUS\tSINCE\tSCOPES\n", table.String())
}

// printTable prints rows of cells that end in tabs, for people under a heading.
func printTable(std streams, heading, rows string) error {
	if !isTerminal(std.out) {
		_, err := fmt.Fprint(std.out, rows)
		return err
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, heading+rows)
	return w.Flush()
}

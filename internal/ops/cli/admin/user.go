package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// userOptions are the flags that the user commands share.
type userOptions struct {
	config     string
	data       string
	fromStdin  bool
	mustChange bool // the user must change the password before logging in

	gateway operation.Client // flags of a running one
	out     output.Options   // of commands that list something

	kind   string  // the type in [users] of the configuration, if it is not the built-in one
	serves *served // what the configuration serves; nil: no configuration
}

// presetFlags has the rights that new users get.
type presetFlags struct {
	rights string
	delay  time.Duration
	groups []string
}

func (p *presetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.rights, "rights", "", "all; quotes: the best bid and offer, without wildcards; or none")
	f.DurationVar(&p.delay, "delay", 0, "delay of the data, one of stream.delays of the configuration, such as 15m")
	f.StringArrayVar(&p.groups, "group", nil, "group to join; may be repeated")
}

func NewUser(std command.Streams) *cobra.Command {
	var o userOptions
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Add, change and list the users of a database",
		Long: `User manages the database of a configuration or data folder. A gateway may use it
meanwhile, and notices changes within half a second. A disabled user, or one with a
new password, loses tokens and open sockets at once. A change of rights applies to
open sockets without closing them.

With --token-file or --admin, the commands send requests to the listener for administrators of
a running gateway, also from another machine. The audit log then has the operator's name. The
token needs the role identity. If nothing answers, and --config or --data is given too, they use
the database.

A password is entered at the terminal or read from standard input. It is never an
argument, because other users of the machine could read it.`,
		Example: `  rueda user add ana --config rueda/rueda.toml
  pass show ana |
    rueda user password ana --config rueda/rueda.toml --password-stdin
  rueda user grant ana --market BYMA --trades --quotes --until 2027-01-01 \
    --config rueda/rueda.toml
  rueda user show ana --config rueda/rueda.toml
  rueda user account add ana 100001 --config rueda/rueda.toml
  rueda user disable ana --data /var/lib/rueda
  rueda user list --data /var/lib/rueda
  rueda user disable ana --token-file eva.token`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o.places(cmd)
	name := command.ExactArgs("name of the user")
	var p presetFlags
	add := o.creating(std, "add NAME", "Add a user; creates the database if it does not exist", name,
		func(user string, _ userBase) error { return o.checkNew(std, user, &p) },
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			return o.add(ctx, std, users, args[0], &p)
		})
	p.add(teach(add, addHelp, addExample))
	add.Flags().Lookup("rights").Usage += " (default: none with --group; otherwise it asks at a terminal)"
	password := o.command(std, "password NAME", "Set a user's password, and end earlier logins", name, o.password)
	password.Aliases = []string{"passwd"}
	for _, c := range []*cobra.Command{add, password} {
		c.Flags().BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input")
		c.Flags().BoolVar(&o.mustChange, "must-change", false, "the user must change the password before logging in (default true at a terminal, false with --password-stdin)")
		c.PreRun = func(cmd *cobra.Command, _ []string) {
			if !cmd.Flags().Changed("must-change") {
				o.mustChange = !o.fromStdin
			}
		}
	}
	cmd.AddCommand(add, password,
		o.command(std, "disable NAME", "Disable a user, and end tokens and sockets", name, o.disable),
		o.command(std, "enable NAME", "Enable a disabled user", name, o.enable),
		o.logoutCommand(std),
		o.logins(std), o.rows(o.command(std, "list", "List the users", cobra.NoArgs, o.list)),
		o.rows(o.command(std, "show NAME", "Show a user's rights and where each comes from", name, o.show)),
		o.set(std), o.grant(std), o.revoke(std), o.otp(std), o.imports(std),
		newUserCheck(std, &o), o.accounts(std),
		&cobra.Command{Use: "remove NAME", Aliases: []string{"delete", "rm"}, Hidden: true, Args: name,
			RunE: func(_ *cobra.Command, args []string) error { return cannotRemove(args[0]) }})
	return cmd
}

// places adds the flags that name the database or a running gateway.
func (o *userOptions) places(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&o.config, "config", "", "configuration file that names the database")
	f.StringVar(&o.data, "data", "", "data folder with the database")
	o.gateway.Flags(cmd)
}

// userCommand changes or reads the user base. args are the arguments, the user's name first.
type userCommand func(ctx context.Context, std command.Streams, users userBase, args []string) error

// checkCommand finds mistakes in a command before a database is created. name is the first
// argument. users is the user base of a running gateway; nil: the command works on a database.
type checkCommand func(name string, users userBase) error

// command returns a command for an existing database.
func (o *userOptions) command(std command.Streams, use, short string, args cobra.PositionalArgs, do userCommand) *cobra.Command {
	return o.on(std, use, short, args, nil, do)
}

// creating returns a command that creates the database if it does not exist. It calls check first.
func (o *userOptions) creating(std command.Streams, use, short string, args cobra.PositionalArgs, check checkCommand, do userCommand) *cobra.Command {
	return o.on(std, use, short, args, check, do)
}

func (o *userOptions) on(std command.Streams, use, short string, args cobra.PositionalArgs, check checkCommand, do userCommand) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var before func(userBase) error
			if check != nil {
				before = func(users userBase) error { return check(args[0], users) }
			}
			users, shut, err := o.users(cmd.Context(), std, before)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, shut()) }()
			if o.kind != "" {
				fmt.Fprintf(std.Err, "[users] of %s has type %q: these users cannot log in there.\n", o.config, o.kind)
			}
			err = do(cmd.Context(), std, users, args)
			user := "" // the first argument, or the second after a group
			for n, arg := range args {
				if n == 0 || cmd.Parent().Name() == "group" {
					user = arg
				}
			}
			return explainUser(err, user)
		},
	}
}

// explainUser adds advice to an error of the user base.
func explainUser(err error, user string) error {
	var f *command.Failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, broker.ErrNotFound):
		return command.Fail(command.ExitNotFound, fmt.Errorf("there is no user %q", user), "See rueda user list.")
	case errors.Is(err, local.ErrNoGroup):
		return command.Fail(command.ExitNotFound, err, "See rueda group list; rueda group add creates one.")
	case errors.Is(err, local.ErrNoSecret):
		return command.Fail(command.ExitError, err, "It is stored with the signing keys: use the configuration or data folder that has them.")
	}
	return err
}

// open opens the database. It creates a missing one only if create is set, so that a mistyped
// folder name does not create one.
func (o *userOptions) open(ctx context.Context, std command.Streams, create bool) (*database.DB, error) {
	s, there, err := o.settings(ctx, std, create)
	if err != nil {
		return nil, err
	}
	data, err := s.OpenDatabase(ctx)
	if err != nil {
		return nil, command.ExplainKeys(err, o.config, o.data)
	}
	if !there {
		fmt.Fprintf(std.Err, "New database in %s\n", filepath.Clean(s.Data.Folder))
	}
	return data, nil
}

// settings returns the settings of the database, and whether it exists.
func (o *userOptions) settings(ctx context.Context, std command.Streams, create bool) (s *config.Settings, there bool, err error) {
	if (o.config == "") == (o.data == "") {
		return nil, false, command.Fail(command.ExitUsage, errors.New("which database?"), "Use --config FILE or --data DIR, or --token-file FILE for a running gateway.")
	}
	s = &config.Settings{Data: database.Config{Folder: o.data}}
	if o.config != "" {
		if s, err = command.LoadConfig(ctx, std, o.config); err != nil {
			return nil, false, err
		}
		o.serves = servedBy(&s.Gateway)
		if !s.Users.BuiltIn() {
			o.kind = s.Users.Type
			fmt.Fprintf(std.Err, "Note: the users of this configuration are of type %s; the built-in users are not used.\n", o.kind)
		}
		if err := s.Users.Close(); err != nil { // this command works on the built-in users of the gateway, whatever serve uses
			return nil, false, err
		}
	}
	there, err = s.Data.Exists()
	if err != nil {
		_, setting := command.DatabaseFlags(o.config, o.data)
		return nil, false, command.ExplainFolder(fmt.Errorf("look for a database: %w", err), "", setting)
	}
	if !there && !create {
		return nil, false, command.Fail(command.ExitUsage, fmt.Errorf("there is no database in %s", filepath.Clean(s.Data.Folder)),
			"rueda user add creates it with the first user.")
	}
	if parent := filepath.Dir(filepath.Clean(o.data)); !there && o.data != "" {
		if _, err := os.Stat(parent); err != nil {
			return nil, false, command.Fail(command.ExitUsage, fmt.Errorf("there is no folder %s for %s", parent, filepath.Base(o.data)),
				"Create it first, if --data is correct.")
		}
	}
	s.Data.Actor, s.Data.KeysMustExist = commandLine(), !create
	return s, there, nil
}

// commandLine returns the actor for the audit log.
func commandLine() string {
	uid := os.Getuid()
	if uid < 0 { // a system without user ids
		return "command line"
	}
	if person := os.Getenv("SUDO_USER"); sudoUser.MatchString(person) {
		return fmt.Sprintf("command line (uid %d, sudo by %s)", uid, person)
	}
	return fmt.Sprintf("command line (uid %d)", uid)
}

// sudoUser matches the names that sudo sets.
var sudoUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$`)

// done prints what was done.
func done(std command.Streams, format string, args ...any) error {
	return command.WriteText(std.Out, fmt.Sprintf(format+"\n", args...))
}

// checkNew checks the arguments for a new user before the database is opened, and stores the chosen
// rights in p.
func (o *userOptions) checkNew(std command.Streams, name string, p *presetFlags) error {
	if err := local.CheckNewUsername(name); err != nil {
		return err
	}
	rights, err := o.chooseRights(std, name, p)
	if err != nil {
		return err
	}
	p.rights = rights
	if _, err := p.own(rights); err != nil {
		return err
	}
	return command.CheckPasswordSource(std, o.fromStdin)
}

func (o *userOptions) add(ctx context.Context, std command.Streams, users userBase, name string, p *presetFlags) error {
	own, err := p.own(p.rights)
	if err != nil {
		return err
	}
	for _, e := range own.Entitlements {
		if err := o.checkServed(std, e); err != nil {
			return err
		}
	}
	if err := p.checkGroups(ctx, users); err != nil { // before the user is created
		return err
	}
	u := local.NewUser{Username: name, Scopes: own.Scopes, Entitlements: own.Entitlements, Groups: p.groups, MustChange: o.mustChange}
	if u.Password, err = command.ReadPassword(std, "Password of "+name, o.fromStdin, func(p string) error { return users.CheckPassword(name, p) }); err != nil {
		return err
	}
	if _, err = users.Add(ctx, u); err != nil {
		return err
	}
	what := "with rights " + p.rights
	if p.delay > 0 {
		what += fmt.Sprintf(" to data %v late", p.delay)
	}
	if len(p.groups) > 0 {
		what += ", in " + strings.Join(p.groups, ", ")
	}
	return done(std, "Added %s, %s%s", name, what, o.then())
}

// chooseRights returns the rights of a new user: those of --rights, none with --group alone, and
// otherwise what is typed at a terminal. Without a terminal that is an error.
func (o *userOptions) chooseRights(std command.Streams, name string, p *presetFlags) (string, error) {
	switch {
	case p.rights != "":
		return p.rights, nil
	case len(p.groups) > 0:
		return "none", nil
	case o.fromStdin || !command.IsTerminal(std.In):
		return "", command.Fail(command.ExitUsage, fmt.Errorf("no rights are given for %s", name),
			"Use --rights all, --rights quotes or --rights none, or --group NAME. rueda user add --help describes them.")
	}
	return command.Ask(std, "Rights of "+name+" (all, quotes: best bid and offer, or none): ")
}

// then says what the user of a new password must do.
func (o *userOptions) then() string {
	if o.mustChange {
		return "; the password must be changed before the first login"
	}
	return ""
}

// own returns the rights of a preset name and of --delay.
func (p *presetFlags) own(rights string) (own local.Rights, err error) {
	own.Scopes = []string{broker.ScopeRead}
	switch rights {
	case "all":
		own.Scopes = append(own.Scopes, broker.ScopeAccounts, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory)
		own.Entitlements = []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}}
	case "quotes":
		own.Entitlements = []broker.Entitlement{{Market: "*", Quotes: true}}
	case "none":
		own.Scopes = nil
	default:
		return own, command.Fail(command.ExitUsage, fmt.Errorf("rights must be all, quotes or none, not %q", rights), "")
	}
	delay, err := delaySeconds(p.delay)
	for i := range own.Entitlements {
		own.Entitlements[i].Delay = delay
	}
	return own, err
}

// checkGroups returns an error if a group does not exist.
func (p *presetFlags) checkGroups(ctx context.Context, users userBase) error {
	if len(p.groups) == 0 {
		return nil
	}
	groups, err := users.Groups(ctx)
	if err != nil {
		return err
	}
	for _, name := range p.groups {
		if !slices.ContainsFunc(groups, func(g local.Group) bool { return g.Name == name }) {
			return fmt.Errorf("%w: %q", local.ErrNoGroup, name)
		}
	}
	return nil
}

func (o *userOptions) password(ctx context.Context, std command.Streams, users userBase, args []string) error {
	name := args[0]
	password, err := command.ReadPassword(std, "New password of "+name, o.fromStdin, func(p string) error { return users.CheckPassword(name, p) })
	if err != nil {
		return err
	}
	set := users.SetPassword
	if o.mustChange {
		set = users.SetTemporaryPassword
	}
	if err := set(ctx, name, password); err != nil {
		return err
	}
	return done(std, "New password for %s; earlier logins have ended%s", name, o.then())
}

func (o *userOptions) disable(ctx context.Context, std command.Streams, users userBase, args []string) error {
	if u, err := users.Entry(ctx, args[0]); err == nil && u.Disabled {
		fmt.Fprintf(std.Err, "%s is already disabled.\n", args[0])
		return nil
	}
	if err := users.Disable(ctx, args[0]); err != nil {
		return err
	}
	return done(std, "Disabled %s; earlier logins have ended", args[0])
}

func (o *userOptions) enable(ctx context.Context, std command.Streams, users userBase, args []string) error {
	if u, err := users.Entry(ctx, args[0]); err == nil && !u.Disabled {
		fmt.Fprintf(std.Err, "%s is not disabled.\n", args[0])
		return nil
	}
	if err := users.Enable(ctx, args[0]); err != nil {
		return err
	}
	return done(std, "Enabled %s", args[0])
}

func (o *userOptions) logout(ctx context.Context, std command.Streams, users userBase, args []string) error {
	if err := users.Logout(ctx, args[0]); err != nil {
		return err
	}
	return done(std, "Logged out %s: earlier tokens and sockets have ended", args[0])
}

// rows adds the flags of the output format to a command that lists something.
func (o *userOptions) rows(cmd *cobra.Command) *cobra.Command {
	o.out.Piped = cmp.Or(o.out.Piped, output.Tabs)
	o.out.Flags(cmd)
	return cmd
}

// list prints a row for each user, with a note if names look alike.
func (o *userOptions) list(ctx context.Context, std command.Streams, users userBase, _ []string) error {
	w, err := o.out.Open(std, "user", "status", "since", "scopes", "groups", "id")
	if err != nil {
		return err
	}
	all, err := users.List(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Username
	}
	twins := local.Twins(names)
	if len(all) == 0 {
		fmt.Fprintln(std.Err, "No users yet: rueda user add NAME adds one.")
	}
	if len(twins) > 0 {
		fmt.Fprintln(std.Err, "Note: a twin is a user whose name looks like another one, perhaps with characters that are not shown.")
	}
	for _, u := range all {
		state := status(&u)
		if twins[u.Username] {
			state += ", twin"
		}
		groups := make([]string, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = g.Name
		}
		err := w.Row(adminapi.NewUser(&u, time.Now()), u.Username, state, u.Created.Format(time.DateOnly), strings.Join(u.Scopes, " "), strings.Join(groups, " "), u.ID)
		if err != nil {
			return err
		}
	}
	return w.Close()
}

func status(u *local.Entry) string {
	if u.Disabled {
		return "disabled"
	}
	if !u.Expires.IsZero() && !time.Now().Before(u.Expires) {
		return "expired"
	}
	return "active"
}

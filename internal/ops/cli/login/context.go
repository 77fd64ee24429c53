package login

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/contexts"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
)

// NewContext returns the command context.
func NewContext(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Save gateways by name, and choose one of them",
		Long: `A context is a name for a gateway and a user. The current context is the default of
all commands that use a gateway as a client, such as watch, quote and record. Without a
context they use rueda dev on this machine, as demo.

Contexts and logins are in the folder rueda of your configuration, or in $RUEDA_CONTEXTS.
Only you can read them. rueda auth login adds the login of a context.

A flag (--url, --user, --context) comes before the environment (RUEDA_URL, RUEDA_USERNAME,
RUEDA_PASSWORD, RUEDA_CONTEXT), and the environment before the current context. A login is
used only with the URL and the user of its context.

Exit status: 0 done; 1 the folder cannot be read or written; 2 a mistake on the command
line, or there is no such context.`,
		Example: `  rueda context add prod --url https://api.broker.example --user ana
  rueda auth login
  rueda context list
  rueda context use prod`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newContextList(std), newContextAdd(std), newContextUse(std), newContextRemove(std))
	return cmd
}

func newContextList(std command.Streams) *cobra.Command {
	var o output.Options
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the contexts",
		Example: "  rueda context list\n  rueda context list -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := contexts.Read()
			if err != nil {
				return err
			}
			w, err := o.Open(std, "current", "name", "url", "user", "login")
			if err != nil {
				return err
			}
			for _, c := range l.Contexts {
				current, stored := "", "no"
				if c.Name == l.Current {
					current = "*"
				}
				if l.LoggedIn(c.Name) {
					stored = "yes"
				}
				row := struct {
					contexts.Context
					Current bool `json:"current"`
					Login   bool `json:"login"`
				}{c, current != "", stored == "yes"}
				if err := w.Row(row, current, c.Name, c.URL, c.User, stored); err != nil {
					return err
				}
			}
			if len(l.Contexts) == 0 {
				fmt.Fprintln(std.Err, "There are no contexts. Add one: rueda context add NAME --url https://api.broker.example --user ana")
			}
			return w.Close()
		},
	}
	o.Flags(cmd)
	return cmd
}

func newContextAdd(std command.Streams) *cobra.Command {
	var c contexts.Context
	var use bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a context, or replace it",
		Long: `Add adds a context. The first one becomes the current one, others with --use. A context of
that name is replaced, and its login is forgotten if the gateway or the user is another one.`,
		Example: "  rueda context add prod --url https://api.broker.example --user ana\n  rueda context add local --url http://127.0.0.1:8080 --user demo --use",
		Args:    command.ExactArgs("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			c.Name = args[0]
			return addContext(std, c, use)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.URL, "url", command.DefaultURL, "address of the gateway")
	f.StringVar(&c.User, "user", command.DemoUser, "username")
	f.BoolVar(&use, "use", false, "make it the current context")
	return cmd
}

func addContext(std command.Streams, c contexts.Context, use bool) error {
	if err := contexts.CheckName(c.Name); err != nil {
		return command.Fail(command.ExitUsage, err, "")
	}
	if _, err := command.CheckURL(c.URL); err != nil {
		return err
	}
	l, err := contexts.Read()
	if err != nil {
		return err
	}
	if old, err := l.Find(c.Name); err == nil && old != c {
		if err := l.Forget(c.Name); err != nil {
			return err
		}
	}
	l.Put(c)
	if use || l.Current == "" {
		l.Current = c.Name
	}
	if err := l.Save(); err != nil {
		return err
	}
	fmt.Fprintf(std.Err, "Context %s is %s at %s.\n", c.Name, c.User, c.URL)
	if l.Current != c.Name {
		fmt.Fprintf(std.Err, "The current context is %s. Change that: rueda context use %s\n", l.Current, c.Name)
	}
	if !l.LoggedIn(c.Name) {
		fmt.Fprintf(std.Err, "Log in: rueda auth login --context %s\n", c.Name)
	}
	return nil
}

func newContextUse(std command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           "  rueda context use prod",
		Args:              command.ExactArgs("name"),
		ValidArgsFunction: oneContext,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := contexts.Read()
			if err != nil {
				return err
			}
			c, err := command.FindContext(l, args[0])
			if err != nil {
				return err
			}
			l.Current = c.Name
			if err := l.Save(); err != nil {
				return err
			}
			fmt.Fprintf(std.Err, "The current context is %s: %s at %s.\n", c.Name, c.User, c.URL)
			return nil
		},
	}
}

func newContextRemove(std command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Remove a context and the tokens of its login",
		Long: `Remove removes a context and the tokens of its login from this machine. The login stays
valid at the gateway until it expires: end it before with rueda auth logout.`,
		Example:           "  rueda auth logout --context old && rueda context remove old",
		Args:              command.ExactArgs("name"),
		ValidArgsFunction: oneContext,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := contexts.Read()
			if err != nil {
				return err
			}
			c, err := command.FindContext(l, args[0])
			if err != nil {
				return err
			}
			if err := l.Remove(c.Name); err != nil {
				return err
			}
			fmt.Fprintf(std.Err, "Context %s is removed.\n", c.Name)
			return nil
		},
	}
}

// oneContext completes the name of a context as the only argument.
func oneContext(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return command.CompleteContexts(cmd, args, word)
}

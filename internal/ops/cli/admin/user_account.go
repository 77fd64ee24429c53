package admin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// accounts returns the commands of user account.
func (o *userOptions) accounts(std command.Streams) *cobra.Command {
	var a broker.Account
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Add and list the accounts of a user",
		Long: `Account adds and lists the accounts that GET /broker/accounts returns to a user. Numbers are the
broker's own, and no two accounts have the same one.`,
		Example: `  rueda user account add ana 100001 --config rueda/rueda.toml
  rueda user account add ana 100002 --type margin --currency USD \
    --config rueda/rueda.toml
  rueda user account list ana --config rueda/rueda.toml`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	add := o.command(std, "add NAME NUMBER", "Give a user an account", command.ExactArgs("name of the user", "number of the account"),
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			return addAccount(ctx, std, users, args[0], args[1], a)
		})
	f := teach(add, accountHelp, accountExample).Flags()
	f.StringVar(&a.Type, "type", "cash", "cash or margin")
	f.StringVar(&a.Currency, "currency", "ARS", "currency of the account")
	f.StringVar(&a.Name, "holder", "", "name of the holder (default: the user's)")
	f.BoolVar(&a.IsDefault, "default", false, "make this the default account; the first account is the default")
	cmd.AddCommand(add, o.rows(o.command(std, "list NAME", "List the accounts of a user", command.ExactArgs("name of the user"), o.listAccounts)))
	return cmd
}

func addAccount(ctx context.Context, std command.Streams, users userBase, name, number string, a broker.Account) error {
	if a.Type != "cash" && a.Type != "margin" {
		return command.Fail(command.ExitUsage, fmt.Errorf("type %q is neither cash nor margin", a.Type), "")
	}
	a.Number = number
	made, err := users.AddAccount(ctx, name, a)
	if err != nil {
		return err
	}
	return done(std, "Added account %s to %s: %s, %s", made.Number, name, made.Type, made.Currency)
}

// listAccounts prints a row for each account of a user.
func (o *userOptions) listAccounts(ctx context.Context, std command.Streams, users userBase, args []string) error {
	w, err := o.out.Open(std, "number", "type", "currency", "status", "holder")
	if err != nil {
		return err
	}
	u, err := users.Entry(ctx, args[0])
	if err != nil {
		return err
	}
	list, err := users.ListAccounts(ctx, u.ID)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(std.Err, "%s has no accounts: rueda user account add %s NUMBER adds one.\n", args[0], command.QuoteShell(args[0]))
	}
	for _, a := range list {
		if err := w.Row(a, a.Number, a.Type, a.Currency, a.Status, a.Name); err != nil {
			return err
		}
	}
	return w.Close()
}

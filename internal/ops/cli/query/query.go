package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

const exitStatuses = `

Exit status: 0 done, or the output was closed; 1 other errors; 2 a mistake on the command line;
3 credentials or rights refused; 4 not found; 5 no gateway there; 130 interrupted.`

// query is a command that prints rows of a gateway.
type query struct {
	std   command.Streams
	login command.Login
	out   output.Options
}

// flags adds the common flags and completions to a command.
func (q *query) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Long += exitStatuses
	q.login.Flags(cmd)
	q.out.Flags(cmd)
	return cmd
}

// run opens the client and the output, and closes both.
func (q *query) run(columns []string, print func(c *client.Client, w *output.Writer) error) error {
	w, err := q.out.Open(q.std, columns...)
	if err != nil {
		return err
	}
	t, err := q.login.Target()
	if err != nil {
		return err
	}
	c, err := t.Client(q.std, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if err = t.Explain(print(c, w)); err == nil || w.Started() {
		err = errors.Join(err, w.Close()) // rows before an error are printed
	}
	return err
}

// named adds the instrument to the error of a gateway that does not know it.
func named(id string, err error) error {
	var e *client.Error
	if errors.As(err, &e) && e.Reason == wire.UnknownInstrument {
		return notFound([]string{id}, e.Hint)
	}
	return err
}

// NewAccounts returns the command accounts.
func NewAccounts(std command.Streams) *cobra.Command {
	q := query{std: std}
	cmd := &cobra.Command{
		Use:     "accounts [ID]",
		Short:   "List your accounts",
		Long:    `Accounts lists the accounts of the user, or the one with an id.`,
		Example: "  rueda accounts\n  rueda accounts -o csv > accounts.csv",
		Args:    command.MaxArgs(1, "the id of an account"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run([]string{"account_id", "number", "name", "type", "status", "currency", "default"}, func(c *client.Client, w *output.Writer) error {
				if len(args) > 0 {
					a, err := c.Account(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					return printAccount(w, a)
				}
				for a, err := range c.Accounts(cmd.Context()) {
					if err == nil {
						err = printAccount(w, a)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	return q.flags(cmd)
}

func printAccount(w *output.Writer, a client.Account) error {
	first := ""
	if a.Default {
		first = "*"
	}
	return w.Row(a, a.ID, a.Number, a.Name, a.Type, a.Status, strings.Join(a.Currencies, " "), first)
}

// NewInstruments returns the command instruments.
func NewInstruments(std command.Streams) *cobra.Command {
	q := query{std: std}
	var f client.Filter
	cmd := &cobra.Command{
		Use:   "instruments [TEXT]",
		Short: "Find instruments",
		Long: `Instruments lists the instruments of the gateway. TEXT is a part of the symbol, name or ISIN,
in any case. The tick is that of the lowest prices; JSON has all of them.`,
		Example: "  rueda instruments galicia\n  rueda instruments --market BYMA --term CI -o csv\n  rueda instruments ggal -o jsonl | jq .tick",
		Args:    command.MaxArgs(1, "a text to find"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				f.Text = args[0]
			}
			if id, err := market.ParseInstrumentID(f.Text); err == nil {
				f.Text, f.Market, f.Term = id.Symbol, id.Market, id.Term
			}
			return q.run([]string{"instrument", "name", "kind", "currency", "tick", "lot", "status"}, func(c *client.Client, w *output.Writer) (err error) {
				defer func() {
					if err == nil && !w.Started() {
						fmt.Fprintln(q.std.Err, command.Printable(noInstrument(&f)))
					}
				}()
				for in, err := range c.Instruments(cmd.Context(), f) {
					if err != nil {
						return err
					}
					tick := ""
					if len(in.Ticks) > 0 {
						tick = in.Ticks[0].Step.String()
					}
					if err := w.Row(in.Raw, in.ID.String(), in.Name, in.Kind, in.Currency, tick, in.Lot.String(), in.Status.String()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&f.Market, "market", "", "only this market")
	cmd.Flags().StringVar(&f.Term, "term", "", "only this settlement term")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "only this kind, such as equity")
	return q.flags(cmd)
}

// noInstrument returns a message that names the conditions of a filter that finds nothing.
func noInstrument(f *client.Filter) string {
	text := "No instrument"
	if f.Text != "" {
		text += fmt.Sprintf(" with %q in its symbol, name or ISIN", f.Text)
	}
	for _, part := range [][2]string{{"market", f.Market}, {"term", f.Term}, {"kind", f.Kind}} {
		if part[1] != "" {
			text += " of " + part[0] + " " + part[1]
		}
	}
	return text + ". rueda instruments lists all."
}

// NewMarket returns the command market.
func NewMarket(std command.Streams) *cobra.Command {
	q := query{std: std}
	cmd := &cobra.Command{
		Use:   "market [MARKET]",
		Short: "Show the trading status of the markets",
		Long: `Market shows whether each market is open, until when, and the instruments in another phase,
such as a halt or an auction.`,
		Example: "  rueda market\n  rueda market BYMA -o json",
		Args:    command.MaxArgs(1, "a market"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run([]string{"market", "instrument", "status", "reason", "next_change"}, func(c *client.Client, w *output.Writer) error {
				return markets(cmd.Context(), c, w, args)
			})
		},
	}
	return q.flags(cmd)
}

// phase is the status of a market or an instrument.
type phase struct {
	Status, Reason string
	Next           string `json:"next_change"`
}

func markets(ctx context.Context, c *client.Client, w *output.Writer, only []string) error {
	var answer struct{ Markets []json.RawMessage }
	if err := c.Get(ctx, "/market/status", url.Values{}, &answer); err != nil {
		return err
	}
	var names []string
	found := false
	for _, raw := range answer.Markets {
		var m struct {
			Market string
			phase
			Instruments []struct {
				Instrument string
				phase
			}
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		if names = append(names, m.Market); len(only) > 0 && m.Market != only[0] {
			continue
		}
		if err := w.Row(raw, m.Market, "", m.Status, m.Reason, m.Next); err != nil {
			return err
		}
		for _, in := range m.Instruments {
			if err := w.Cells(m.Market, in.Instrument, in.Status, in.Reason, in.Next); err != nil {
				return err
			}
		}
		found = true
	}
	if len(only) > 0 && !found {
		return command.Fail(command.ExitNotFound, fmt.Errorf("there is no market %q", only[0]), "The markets are "+strings.Join(names, ", ")+".")
	}
	return nil
}

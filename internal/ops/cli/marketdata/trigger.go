package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/internal/ops/cli/query"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// NewTrigger returns the command trigger.
func NewTrigger(std command.Streams) *cobra.Command {
	var o command.Login
	var list bool
	out := output.Options{Piped: output.Table}
	cmd := &cobra.Command{
		Use:   "trigger FAULT [INSTRUMENT | SPEED]",
		Short: "Inject a fault into a dev gateway",
		Long: `Trigger injects a fault into a gateway of rueda dev, to test how a client handles it: a
halt, a gap, a cancelled trade, a lost connection. Faults of the exchange affect one
instrument (by default FAKE|SIM|CI) and end by themselves. Faults of connections affect
the open connections of the user. A client can also request them on its own socket, with
{"action":"sim","fault":NAME}. See docs/faults.md.

The fault speed takes a number of market seconds per second instead of an instrument. It lasts
until the next one. Without a number it prints the current speed.

Gateways for real clients refuse all of them.

Exit status: 0 the fault was injected; 1 it is not possible now, such as a correction without
a trade; 2 no such fault; otherwise as of rueda watch.`,
		Example: `  rueda trigger --list
  rueda trigger halt
  rueda trigger cancel 'GGAL|BYMA|24hs'
  rueda trigger speed 10
  rueda trigger disconnect --url http://127.0.0.1:9000`,
		Args: command.MaxArgs(2, "a fault and an instrument or a speed"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				var names []string
				for _, f := range wire.SimFaults() {
					names = append(names, f.Name+"\t"+f.Description)
				}
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return query.CompleteInstruments(cmd, args[1:], word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list:
				return listFaults(std, &out)
			case len(args) == 0:
				return command.Fail(command.ExitUsage, errors.New("no fault is named"), "See rueda trigger --list")
			}
			return trigger(cmd.Context(), std, o, args)
		},
	}
	o.Flags(cmd)
	out.Flags(cmd)
	cmd.Flags().BoolVar(&list, "list", false, "print all faults and exit")
	return cmd
}

func listFaults(std command.Streams, out *output.Options) error {
	w, err := out.Open(std, "fault", "description")
	if err != nil {
		return err
	}
	for _, f := range wire.SimFaults() {
		row := struct {
			Fault       string `json:"fault"`
			Description string `json:"description"`
		}{f.Name, f.Description}
		if err := w.Row(row, row.Fault, row.Description); err != nil {
			return err
		}
	}
	return w.Close()
}

// findFault returns the fault of a name. The error for an unknown one suggests another.
func findFault(name string) (wire.SimFault, error) {
	known, f := wire.FindSimFault(name)
	if f == nil {
		return known, nil
	}
	var names []string
	for _, f := range wire.SimFaults() {
		names = append(names, f.Name)
	}
	advice := "See rueda trigger --list"
	if near, ok := spell.Nearest(name, names); ok {
		advice = "Did you mean " + near + "?"
	}
	return known, command.Fail(command.ExitUsage, fmt.Errorf("there is no fault %q", name), advice)
}

const answerTimeout = 15 * time.Second

// trigger requests a fault and prints the answer.
func trigger(ctx context.Context, std command.Streams, o command.Login, args []string) error {
	known, err := findFault(args[0])
	if err != nil {
		return err
	}
	request := map[string]any{"action": "sim", "id": 1, "fault": known.Name}
	if known.OwnConnection { // exclude this program's own connection
		request["others"] = true
	}
	switch {
	case len(args) == 1:
	case known.Name == wire.SimSpeed:
		speed, err := market.ParseSize(args[1])
		if err != nil || speed < wire.SimSlowest || speed > wire.SimFastest {
			return command.Fail(command.ExitUsage, fmt.Errorf("%q is not a speed", args[1]), fmt.Sprintf("It is market seconds per second, from %v to %v.", wire.SimSlowest, wire.SimFastest))
		}
		request["speed"] = json.RawMessage(speed.String())
	default:
		if err := command.CheckInstruments("rueda trigger halt 'GGAL|BYMA|24hs'", false, args[1]); err != nil {
			return err
		}
		request["instrument"] = args[1]
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
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errors.New("no answer in time"))
	defer cancel()
	answer, err := ask(ctx, c, request)
	if err != nil {
		return t.Unreached(err)
	}
	if text(answer, "type") == "Error" {
		return refusedFault(answer)
	}
	_, err = fmt.Fprintf(std.Out, "%s\n", text(answer, "msg"))
	return err
}

// refusedFault returns the failure for a refused fault.
func refusedFault(answer *wire.Value) error {
	advice := text(answer, "hint")
	status := command.ExitError
	switch reason := wire.Reason(text(answer, "reason")); reason {
	case wire.UnknownAction, wire.Forbidden:
		if advice == "" {
			advice = "Only rueda dev injects faults, for users with the scope admin."
		}
		status = command.ExitRefused
	case wire.UnknownInstrument:
		status = command.ExitNotFound
	}
	return command.Fail(status, fmt.Errorf("%s: %s", text(answer, "reason"), text(answer, "msg")), advice)
}

// ask logs in, opens a stream, sends an action with id 1 and returns its answer.
func ask(ctx context.Context, c *client.Client, request map[string]any) (*wire.Value, error) {
	now, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, m := range []map[string]any{{"action": "auth_token", "token": string(now.Access)}, request} {
		msg, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if err := conn.Write(ctx, msg); err != nil {
			return nil, err
		}
	}
	for {
		msg, _, err := conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		v, err := wire.ParseJSON(msg)
		if err != nil {
			return nil, fmt.Errorf("message of the server: %w", err)
		}
		kind := text(&v, "type")
		if kind == "Error" || kind != "Success" && text(&v, "id") == "1" {
			return &v, nil
		}
	}
}

func text(v *wire.Value, name string) string {
	m := v.Get(name)
	return command.Printable(m.Text)
}

package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
	"github.com/ruedahq/rueda/internal/ops/conformance/server"
)

// serverOptions are the flags of conformance server.
type serverOptions struct {
	login    command.Login
	operator operation.Client
	basic    string
	feed     string
	cases    []string
	list     bool
	parallel int
	output   string
}

func newServer(std command.Streams) *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use:   "server [URL]",
		Short: "Run the conversations of the protocol against a gateway",
		Long: `Server tests a gateway of any make. It connects as clients do, and runs the conversations of
docs/conversations.md: what a client says, and what the gateway must answer. It compares the
members of each message, and ignores further ones and texts for people. Waits of a conversation
pass in real time; all together take about ten minutes.

The user needs the rights to all data and to patterns. Some conversations need a second user,
with quotes only and without patterns: --basic NAME, with the password in $RUEDA_BASIC_PASSWORD.
At a gateway of rueda dev the users are demo and basic.

Most conversations need events of the market. With --feed they publish them to a JSON-lines feed of
the gateway, for instruments in markets of their own; $RUEDA_FEED_TOKEN has its token. Conversations
about rights and limits need users of their own. With --admin they add them, and the users stay.
Use both only with a gateway that serves nobody else.

A conversation that needs what the gateway lacks is not run. The end of the list says why.
"rueda conformance server --list" prints all conversations.

Each line of the result is a conversation: passed, or failed with the line and what came instead.
Exit status: 0 all that were run have passed; 8 one has failed; 2 a mistake on the command line;
3 credentials refused; 5 no gateway there; 130 interrupted.`,
		Example: `  rueda conformance server http://127.0.0.1:8080
  rueda dev --ndjson 127.0.0.1:9100 --admin 127.0.0.1:8081
  rueda conformance server --feed 127.0.0.1:9100 \
    --admin http://127.0.0.1:8081 --token-file admin.token
  rueda conformance server --case auth-success,rate-limit
  rueda conformance server https://api.broker.example --user tester
  rueda conformance server -o json | jq 'select(.result == "failed")'`,
		Args: command.MaxArgs(1, "the address of a gateway"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.login.At(args[0])
			}
			chosen, err := o.check()
			if err != nil {
				return err
			}
			if o.list {
				return listConversations(std, chosen)
			}
			return o.run(cmd.Context(), std, chosen)
		},
	}
	o.login.Flags(cmd)
	o.operator.Flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.feed, "feed", "", "address of a JSON-lines feed of the gateway, for events of the market")
	f.StringVar(&o.basic, "basic", "", "a user with quotes only and without patterns (default basic, on this machine)")
	f.StringSliceVar(&o.cases, "case", nil, "run only these conversations, separated by commas")
	f.BoolVar(&o.list, "list", false, "print the conversations and their rules")
	f.IntVar(&o.parallel, "parallel", 6, "conversations that wait at the same time")
	f.StringVarP(&o.output, "output", "o", "table", "table or json (an object a line)")
	return cmd
}

// check checks the flags and returns the conversations to run.
func (o *serverOptions) check() ([]server.Conversation, error) {
	all, err := server.Conversations()
	switch {
	case err != nil:
		return nil, err
	case o.parallel < 1 || o.parallel > 100:
		return nil, command.Fail(command.ExitUsage, errors.New("--parallel must be from 1 to 100"), "")
	case o.output != "table" && o.output != "json":
		return nil, command.Fail(command.ExitUsage, fmt.Errorf("--output %q is not table or json", o.output), "")
	case len(o.cases) == 0:
		return all, nil
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	var chosen []server.Conversation
	for _, name := range o.cases {
		i := slices.Index(names, name)
		if i < 0 {
			advice := "rueda conformance server --list prints all conversations"
			if near, ok := spell.Nearest(name, names); ok {
				advice = "did you mean " + near + "?"
			}
			return nil, command.Fail(command.ExitUsage, fmt.Errorf("there is no conversation %q", name), advice)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func listConversations(std command.Streams, all []server.Conversation) error {
	for i := range all {
		if _, err := fmt.Fprintf(std.Out, "%-34s %s\n", all[i].Name, all[i].Rule); err != nil {
			return err
		}
	}
	return nil
}

// open logs in at the gateway.
func (o *serverOptions) open(ctx context.Context, std command.Streams) (*server.Gateway, error) {
	t, err := o.login.Target()
	if err != nil {
		return nil, err
	}
	c := server.Config{
		URL: t.URL, Demo: func() (*client.Client, error) { return t.Separate(std) },
		Feed: o.feed, FeedToken: os.Getenv("RUEDA_FEED_TOKEN"),
		Login: func(name, password string) (*client.Client, error) {
			return client.New([]string{t.URL}, client.Options{Username: name, Password: client.Secret(password)})
		},
	}
	if o.operator.Wanted(false) {
		if err := o.operator.Open(ctx, "identity"); err != nil {
			return nil, err
		}
		if err := o.operator.Send(ctx, http.MethodGet, "/admin/users?limit=1", nil, &struct{}{}); err != nil {
			return nil, err
		}
		c.Users = users{&o.operator}
	}
	if name, password := o.basic, os.Getenv("RUEDA_BASIC_PASSWORD"); name != "" || t.IsDemo() {
		name = cmp.Or(name, command.BasicUser)
		if password == "" && name == command.BasicUser && t.IsDemo() {
			password = command.BasicUser
		}
		if password == "" {
			return nil, command.Fail(command.ExitUsage, errors.New("there is no password for "+name), "Set RUEDA_BASIC_PASSWORD.")
		}
		c.Basic = func() (*client.Client, error) { return c.Login(name, password) }
	}
	g, err := server.Open(ctx, c)
	if err != nil {
		return nil, t.Unreached(err)
	}
	return g, nil
}

// run runs the conversations, and prints each result as soon as it is there.
func (o *serverOptions) run(ctx context.Context, std command.Streams, all []server.Conversation) error {
	g, err := o.open(ctx, std)
	if err != nil {
		return err
	}
	counts, missing := map[string]int{}, map[string][]string{}
	err = server.RunAll(ctx, g, all, o.parallel, func(r server.Result) error {
		counts[r.Word]++
		if r.Word == server.NotRun && o.output == "table" {
			missing[r.Why] = append(missing[r.Why], r.Name)
			return nil
		}
		return o.print(std, &r)
	})
	if err == nil {
		err = printMissing(std, missing)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Err, "%d passed, %d failed, %d not run.\n", counts[server.Passed], counts[server.Failed], counts[server.NotRun])
	if counts[server.Failed] > 0 {
		return command.Fail(command.ExitBadData, errors.New(command.Count(counts[server.Failed], "conversation")+" failed"), "docs/conversations.md has each conversation")
	}
	return nil
}

// printMissing prints what was not run, by reason.
func printMissing(std command.Streams, missing map[string][]string) error {
	var b strings.Builder
	for _, why := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(&b, "not run  %d: %s\n        ", len(missing[why]), why)
		width := 0
		for _, name := range missing[why] {
			if width += len(name) + 1; width > 72 {
				b.WriteString("\n        ")
				width = len(name) + 1
			}
			b.WriteString(" " + name)
		}
		b.WriteByte('\n')
	}
	return command.WriteText(std.Out, b.String())
}

// print prints a result.
func (o *serverOptions) print(std command.Streams, r *server.Result) error {
	if o.output == "json" {
		return json.NewEncoder(std.Out).Encode(r)
	}
	var b strings.Builder
	switch r.Word {
	case server.Passed:
		fmt.Fprintf(&b, "%-8s %-34s %s", r.Word, r.Name, r.Took.Round(100*time.Millisecond))
	default:
		fmt.Fprintf(&b, "%-8s %s\n         %s\n", r.Word, r.Name, r.Rule)
		if r.Line > 0 {
			fmt.Fprintf(&b, "         line %d: %s\n", r.Line, r.Step)
		}
		b.WriteString("         " + r.Why)
	}
	return command.WriteText(std.Out, b.String()+"\n")
}

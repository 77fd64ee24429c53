package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
)

// connectionOptions are the flags of connections.
type connectionOptions struct {
	user, sort string
	limit      int
	out        output.Options
}

// maxConnections is the largest list of a gateway.
const maxConnections = 1000

// NewConnections returns the command connections.
func NewConnections(std command.Streams) *cobra.Command {
	var s source
	o := connectionOptions{out: output.Options{Piped: output.Table}}
	orders := []string{"backlog", "age", "user", "bytes"}
	cmd := &cobra.Command{
		Use:   "connections",
		Short: "List or close the connections of a running gateway",
		Long: `Connections prints the open connections of the stream of one gateway, those with the largest
backlog first. Each shard has 50 ms to look through its connections. If one takes longer, a line on
standard error says that some are missing. It needs the token of an operator; the role read is
enough.`,
		Example: `  rueda connections --token-file ana.token
  rueda connections --user eva --sort age --token-file ana.token
  rueda connections close 0-17-3 --token-file ana.token`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			usage := func(text string) error { return command.Fail(command.ExitUsage, errors.New(text), "") }
			switch {
			case !slices.Contains(orders, o.sort):
				return usage(fmt.Sprintf("--sort %q is not one of %s", o.sort, strings.Join(orders, ", ")))
			case o.limit < 1 || o.limit > maxConnections:
				return usage(fmt.Sprintf("--limit must be from 1 to %d", maxConnections))
			}
			w, err := o.out.Open(std, "id", "user", "session", "address", "via", "state", "age", "subscriptions", "backlog", "sent")
			if err != nil {
				return err
			}
			if err := s.open("read"); err != nil {
				return err
			}
			return o.list(cmd.Context(), std, &s, w)
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.user, "user", "", "only connections of the user with this name or id")
	f.StringVar(&o.sort, "sort", "backlog", "order: backlog, age, user or bytes")
	f.IntVar(&o.limit, "limit", 50, "print at most so many connections")
	o.out.Flags(cmd)
	cmd.AddCommand(newClose(std))
	return cmd
}

// newClose returns the command connections close.
func newClose(std command.Streams) *cobra.Command {
	var s source
	var user string
	cmd := &cobra.Command{
		Use:   "close [ID]",
		Short: "Close a connection, or those of a user",
		Long: `Close ends the connection with an id, or all connections of a user. The clients get Error 503
overloaded and the close code 4503, and connect again: rueda user disable keeps a user away. Each
close has a row in the audit log. It needs the token of an operator with the role operate.`,
		Example: `  rueda connections close 0-17-3 --token-file ana.token
  rueda connections close --user eva --token-file ana.token`,
		Args: command.MaxArgs(1, "an id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (user != "") {
				return command.Fail(command.ExitUsage, errors.New("give an id, or --user"), "rueda connections prints the ids.")
			}
			path := "/admin/connections?user=" + url.QueryEscape(user)
			if len(args) == 1 {
				path = "/admin/connections/" + url.PathEscape(args[0])
			}
			if err := s.open("operate"); err != nil {
				return err
			}
			text, _, err := s.send(cmd.Context(), http.MethodDelete, path, "")
			if err != nil {
				return err
			}
			var answer struct{ Data struct{ Closed *int } }
			if json.Unmarshal(text, &answer) != nil || answer.Data.Closed == nil {
				return notGateway()
			}
			_, err = fmt.Fprintln(std.Out, "Closed "+command.Count(*answer.Data.Closed, "connection"))
			return err
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&user, "user", "", "all connections of the user with this name or id")
	return cmd
}

// connection is a connection in an answer.
type connection struct {
	ID, User, Username, Session, Address, Transport, State string

	Since         time.Time
	Subscriptions int
	Backlog       float64 `json:"backlog_bytes"`
	Sent          float64 `json:"sent_bytes"`
	Slow          bool

	raw json.RawMessage
}

// list prints the list of a gateway.
func (o *connectionOptions) list(ctx context.Context, std command.Streams, s *source, w *output.Writer) error {
	query := url.Values{"sort": {o.sort}, "limit": {strconv.Itoa(o.limit)}}
	if o.user != "" {
		query.Set("user", o.user)
	}
	text, header, err := s.send(ctx, http.MethodGet, "/admin/connections?"+query.Encode(), "")
	if err != nil {
		return err
	}
	var answer struct{ Data json.RawMessage }
	var list struct {
		Connections []json.RawMessage
		Matching    int
		Stale       []int `json:"stale_shards"`
	}
	if json.Unmarshal(text, &answer) != nil || json.Unmarshal(answer.Data, &list) != nil || list.Connections == nil {
		return notGateway()
	}
	if o.out.Format(std) == "json" { // with the members besides the rows
		_, err = fmt.Fprintf(std.Out, "%s\n", command.EscapeControls(answer.Data))
		return err
	}
	now := time.Now()
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		now = at // by the clock of the gateway, as since is
	}
	rows := make([]connection, len(list.Connections))
	for i, raw := range list.Connections {
		if json.Unmarshal(raw, &rows[i]) != nil {
			return notGateway()
		}
		rows[i].raw = raw
	}
	if err := printConnections(w, now, rows); err != nil {
		return err
	}
	if n := len(list.Connections); n < list.Matching {
		fmt.Fprintf(std.Err, "The first %d of %d connections; --limit prints more.\n", n, list.Matching)
	}
	if len(list.Stale) > 0 {
		fmt.Fprintf(std.Err, "Some connections are missing: shards %s have not answered in time.\n", strings.Trim(fmt.Sprint(list.Stale), "[]"))
	}
	return nil
}

func printConnections(w *output.Writer, now time.Time, list []connection) error {
	text := func(s string) string {
		if s == "" {
			return "-"
		}
		return command.Printable(s)
	}
	for _, c := range list {
		state := c.State
		if c.Slow {
			state += ", slow"
		}
		if err := w.Row(c.raw, text(c.ID), text(c.Username), text(c.Session), text(c.Address), text(c.Transport), text(state),
			span(max(0, now.Sub(c.Since))), strconv.Itoa(c.Subscriptions), size(c.Backlog), size(c.Sent)); err != nil {
			return err
		}
	}
	return w.Close()
}

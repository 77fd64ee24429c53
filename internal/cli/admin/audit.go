package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auditlog"
	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/database"
	"github.com/ruedahq/rueda/internal/progress"
	"github.com/ruedahq/rueda/internal/spell"
)

// auditOptions are the flags of the audit commands.
type auditOptions struct {
	place  userOptions // config and data
	expect string
	lines  int
	follow bool
	json   bool
	user   string
	kind   string
}

func NewAudit(std command.Streams) *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read and check the log of what was done to identities",
		Long: `The audit log holds logins, refreshes, refusals, revocations, and changes of users,
rights and keys. Each row is written in the transaction of what it tells, and holds
a hash, under a key that is kept with the signing keys, of itself and of the row before.`,
		Example: `  rueda audit verify --config rueda/rueda.toml
  rueda audit tail -f --config rueda/rueda.toml`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.place.config, "config", "", "configuration that names the database")
	f.StringVar(&o.place.data, "data", "", "data folder with the database")
	cmd.AddCommand(newAuditVerify(std, &o), newAuditTail(std, &o))
	return cmd
}

func newAuditVerify(std command.Streams, o *auditOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no row was changed, taken out or put in",
		Long: `Verify checks every row, and prints how many there are, of which time, and the head:
the newest row with its hash. Also while a gateway runs.

Rows that were taken off the end leave no gap. Note the head elsewhere, out of reach of
who can write the database, and give it to a later run with --expect: the row must be there,
and be what it was.

Exit status: 0 nothing is wrong; 8 a row is not what was written, or missing: it is named.`,
		Example: `  rueda audit verify --config rueda/rueda.toml
  rueda audit verify --data /var/lib/rueda --expect 1234:9f86d081...`,
		Args: cobra.NoArgs,
		RunE: o.run(std, o.verify),
	}
	cmd.Flags().StringVar(&o.expect, "expect", "", "a head noted earlier, SEQ:HASH")
	return cmd
}

func newAuditTail(std command.Streams, o *auditOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest rows, and those to come",
		Long: `Tail prints the newest rows of the log: time, kind, who did it, the user by id, address,
and what is to be said of it. With -f it goes on with those to come, until Ctrl-C.`,
		Example: `  rueda audit tail -n 50 --config rueda/rueda.toml
  rueda audit tail -f --kind login_refused --json --data /var/lib/rueda`,
		Args: cobra.NoArgs,
		RunE: o.run(std, o.tail),
	}
	f := cmd.Flags()
	f.IntVarP(&o.lines, "lines", "n", 20, "rows to begin with")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with the rows to come")
	f.BoolVar(&o.json, "json", false, "print a JSON object a row")
	f.StringVar(&o.user, "user", "", "only rows about the user of this name or id")
	f.StringVar(&o.kind, "kind", "", "only rows of this kind, such as login_refused")
	return cmd
}

// run opens the database for a command.
func (o *auditOptions) run(std command.Streams, do func(context.Context, command.Streams, *database.DB) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) (err error) {
		data, err := o.place.open(cmd.Context(), std, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, data.Close()) }()
		return do(cmd.Context(), std, data)
	}
}

func (o *auditOptions) verify(ctx context.Context, std command.Streams, data *database.DB) error {
	var noted audit.Head
	if o.expect != "" {
		var err error
		if noted, err = audit.ParseHead(o.expect); err != nil {
			return command.Fail(command.ExitUsage, fmt.Errorf("--expect: %w", err), "It is what an earlier run printed as head.")
		}
	}
	shown := command.NewProgress(&std)
	var read atomic.Int64
	stop := shown.During(ctx, func() string { return progress.Thousands(read.Load()) + " rows" })
	report, err := auditlog.Verify(ctx, data.Store, noted, read.Store)
	stop()
	if err == nil && report.Rows == 0 {
		err = data.CheckEmptyAudit(ctx)
	}
	if errors.Is(err, audit.ErrBroken) {
		advice := "Keep a copy of the database as it is, and compare with a backup."
		if report.Good > 0 {
			advice = fmt.Sprintf("Rows up to %d are good. ", report.Good) + advice
		} else if report.Rows == 1 {
			advice = "If not even the first row fits, this may be another key file than the gateway's."
		}
		return command.Fail(command.ExitBadData, err, advice)
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "rows  %d", report.Rows)
	if report.Start.Seq > 0 {
		fmt.Fprintf(&text, ", from row %d on; those before were pruned", report.Start.Seq+1)
	}
	if report.Rows > 0 {
		fmt.Fprintf(&text, "\nfrom  %s\nto    %s", report.From.Format(time.RFC3339), report.To.Format(time.RFC3339))
	}
	return done(std, "%s\nhead  %s", text.String(), report.Head)
}

// tailEvery is how often new rows are looked for.
const tailEvery = 250 * time.Millisecond

func (o *auditOptions) tail(ctx context.Context, std command.Streams, data *database.DB) error {
	log := data.Store
	if o.lines < 0 {
		return command.Fail(command.ExitUsage, fmt.Errorf("-n %d is no number of rows", o.lines), "")
	}
	if err := knownKind(o.kind); err != nil {
		return err
	}
	if u, err := data.Users.Entry(ctx, o.user); err == nil { // a name; rows have ids
		o.user = u.ID
	} else if !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	newest, err := log.AuditLast(ctx, 1, "", "")
	if err != nil {
		return err
	}
	last := int64(0)
	if len(newest) > 0 {
		last = newest[0].Seq
	}
	list, err := log.AuditLast(ctx, o.lines, o.user, audit.Kind(o.kind))
	if err != nil {
		return err
	}
	if n := len(list); n > 0 {
		last = max(last, list[n-1].Seq)
	}
	if len(list) == 0 && !o.follow {
		about := ""
		if o.user != "" {
			about = fmt.Sprintf(" about a user with the name or id %q", o.user)
		}
		fmt.Fprintf(std.Err, "No rows%s.\n", about)
	}
	if err := o.print(std.Out, list); err != nil || !o.follow {
		return err
	}
	return o.followFrom(ctx, std, log, last)
}

func knownKind(kind string) error {
	var names []string
	for _, k := range audit.Kinds() {
		if kind == "" || kind == string(k) {
			return nil
		}
		names = append(names, string(k))
	}
	advice := "Kinds are " + strings.Join(names, ", ") + "."
	if near, ok := spell.Nearest(kind, names); ok {
		advice = "Did you mean " + near + "?"
	}
	return command.Fail(command.ExitUsage, fmt.Errorf("there is no kind %q", kind), advice)
}

// followFrom prints the rows after one, as they come.
func (o *auditOptions) followFrom(ctx context.Context, std command.Streams, log auditlog.Log, last int64) error {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // as it was asked to
		case <-tick.C:
		}
		var list []audit.Row
		for row, err := range log.AuditRows(ctx, last) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			last = row.Seq
			if (o.user == "" || row.User == o.user) && (o.kind == "" || string(row.Kind) == o.kind) {
				list = append(list, row)
			}
		}
		if err := o.print(std.Out, list); err != nil {
			return err
		}
	}
}

// print prints rows in columns of fixed width, so that those that come later fit under them.
func (o *auditOptions) print(out io.Writer, list []audit.Row) error {
	if o.json {
		for i := range list {
			if err := list[i].WriteJSON(out); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 10, 0, 2, ' ', 0)
	for _, r := range list {
		cells := []string{
			strconv.FormatInt(r.Seq, 10), r.Time.Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-15s", r.Kind),
			printable(r.Actor), printable(r.User), printable(r.Address), printable(r.Detail),
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// printable is text that comes from others, on one line and without what a terminal obeys.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

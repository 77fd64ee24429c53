package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
)

// auditOptions are the flags of the audit commands.
type auditOptions struct {
	place  userOptions // config and data
	expect string
	lines  int
	follow bool
	rows   *output.Writer // of tail
	user   string
	kind   string
	anchor bool
}

func NewAudit(std command.Streams) *cobra.Command {
	var o auditOptions
	o.place.out.Piped = output.Table
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read and verify the log of changes to identities",
		Long: `The audit log has logins, refreshes, refusals, revocations, and changes of users, rights
and keys. Each row is written in the transaction of its change. It has a keyed hash of
itself and the previous row. The key is stored with the signing keys.`,
		Example: `  rueda audit verify --config rueda/rueda.toml
  rueda audit tail -f --config rueda/rueda.toml`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.place.config, "config", "", "configuration file that names the database")
	f.StringVar(&o.place.data, "data", "", "data folder with the database")
	o.place.gateway.Flags(cmd)
	cmd.AddCommand(newAuditVerify(std, &o), newAuditTail(std, &o), newAuditExports(std, &o))
	return cmd
}

func newAuditVerify(std command.Streams, o *auditOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify that no row was changed, removed or added",
		Long: `Verify checks every row. It prints the number of rows, their time span, and the head:
the newest row with its hash. A gateway may run meanwhile.

Rows that were removed from the end leave no gap. A gateway stores the head with the keys
once an hour: that row must still exist unchanged, and so must the newest row that was sent
to each receiver. Store the head too where nobody who can write the database and the keys
can change it, and pass it to a later run with --expect. The newest row of a receiver is
such a head.

--anchor stores the head of a valid log with the keys, after an older database was
restored.

Exit status: 0 all rows are valid; 8 a row was changed or is missing; the output names it.`,
		Example: `  rueda audit verify --config rueda/rueda.toml
  rueda audit verify --data /var/lib/rueda --expect 1234:9f86d081...`,
		Args: cobra.NoArgs,
		RunE: o.run(std, o.verify),
	}
	cmd.Flags().StringVar(&o.expect, "expect", "", "a head that an earlier run printed, SEQ:HASH")
	cmd.Flags().BoolVar(&o.anchor, "anchor", false, "store the head with the keys, instead of checking the stored one")
	return cmd
}

func newAuditTail(std command.Streams, o *auditOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest rows, and new ones as they are added",
		Long: `Tail prints the newest rows of the log: time, kind, actor, the id of the user, address
and details. With -f it prints new rows as they are added, until Ctrl-C. With --token-file or
--admin it asks a running gateway for them; the token needs the role operate.`,
		Example: `  rueda audit tail -n 50 --config rueda/rueda.toml
  rueda audit tail -f --kind login_refused -o jsonl --data /var/lib/rueda`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.rows, err = o.place.out.Open(std, "seq", "time", "kind", "actor", "user", "address", "detail"); err != nil {
				return err
			}
			served, err := o.place.served(cmd.Context(), std, "operate")
			switch {
			case err != nil:
				return err
			case served:
				err = o.tailServed(cmd.Context(), std)
			default:
				err = o.run(std, o.tail)(cmd, args)
			}
			if err == nil && o.place.out.Format(std) != output.Table || o.rows.Started() { // no empty table
				err = errors.Join(err, o.rows.Close())
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.lines, "lines", "n", 20, "number of rows to print first")
	f.BoolVarP(&o.follow, "follow", "f", false, "print new rows as they are added")
	f.StringVar(&o.user, "user", "", "only rows about the user with this name or id")
	f.StringVar(&o.kind, "kind", "", "only rows of this kind, such as login_refused")
	o.place.out.Older(cmd, "json", "jsonl")
	return o.place.rows(cmd)
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
			return command.Fail(command.ExitUsage, fmt.Errorf("--expect: %w", err), "It is the head that an earlier run printed.")
		}
	}
	keys, err := data.OperatorKeys(ctx)
	if err != nil {
		return err
	}
	var anchored audit.Head
	if !o.anchor {
		if anchored, err = keys.Anchored(); err != nil {
			return err
		}
	}
	shown := command.NewProgress(&std)
	var read atomic.Int64
	stop := shown.During(ctx, func() string { return progress.Thousands(read.Load()) + " rows" })
	report, err := auditlog.Verify(ctx, data.Store, noted, read.Store)
	if err == nil {
		err = auditlog.Contains(ctx, data.Store, report.Head, anchored)
	}
	if err == nil {
		err = checkExports(ctx, data.Store, report.Head)
	}
	stop()
	if err == nil && report.Rows == 0 {
		err = data.CheckEmptyAudit(ctx)
	}
	if errors.Is(err, audit.ErrBroken) {
		advice := "Keep a copy of the database, and compare it with a backup."
		if report.Good > 0 {
			advice = fmt.Sprintf("Rows up to %d are valid. ", report.Good) + advice
		} else if report.Rows == 1 {
			advice = "If the first row does not match, this may not be the gateway's key file."
		}
		return command.Fail(command.ExitBadData, err, advice)
	}
	if err != nil {
		return err
	}
	if o.anchor {
		if err := keys.Reanchor(ctx, report.Head); err != nil {
			return err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "rows  %d", report.Rows)
	if report.Start.Seq > 0 {
		fmt.Fprintf(&text, ", from row %d on; earlier rows were pruned", report.Start.Seq+1)
	}
	if report.Rows > 0 {
		fmt.Fprintf(&text, "\nfrom  %s\nto    %s", report.From.Format(time.RFC3339), report.To.Format(time.RFC3339))
	}
	return done(std, "%s\nhead  %s", text.String(), report.Head)
}

// tailEvery is the interval between two queries for new rows.
const tailEvery = 250 * time.Millisecond

// checkTail checks the flags of tail.
func (o *auditOptions) checkTail() error {
	if o.lines < 0 {
		return command.Fail(command.ExitUsage, fmt.Errorf("-n %d must be 1 or more", o.lines), "")
	}
	return knownKind(o.kind)
}

func (o *auditOptions) tail(ctx context.Context, std command.Streams, data *database.DB) error {
	log := data.Store
	if err := o.checkTail(); err != nil {
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
	if err := o.printNewest(std, list); err != nil || !o.follow {
		return err
	}
	return o.followFrom(ctx, log, last)
}

// printNewest prints the newest rows, or that there are none.
func (o *auditOptions) printNewest(std command.Streams, list []audit.Row) error {
	if len(list) == 0 && !o.follow {
		about := ""
		if o.user != "" {
			about = fmt.Sprintf(" about a user with the name or id %q", o.user)
		}
		fmt.Fprintf(std.Err, "No rows%s.\n", about)
	}
	return o.print(list)
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

// followFrom prints the rows after a row, as they are added.
func (o *auditOptions) followFrom(ctx context.Context, log auditlog.Log, last int64) error {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // interrupted
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
		if err := o.print(list); err != nil {
			return err
		}
	}
}

// print prints rows, and flushes them.
func (o *auditOptions) print(list []audit.Row) error {
	for i := range list {
		r := &list[i]
		var text bytes.Buffer
		if err := r.WriteJSON(&text); err != nil {
			return err
		}
		err := o.rows.Row(json.RawMessage(bytes.TrimSpace(text.Bytes())), strconv.FormatInt(r.Seq, 10), r.Time.Format("2006-01-02 15:04:05.000"),
			printable(string(r.Kind)), printable(r.Actor), printable(r.User), printable(r.Address), printable(r.Detail))
		if err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	return o.rows.Flush()
}

// printable returns a foreign text on one line, without control characters.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

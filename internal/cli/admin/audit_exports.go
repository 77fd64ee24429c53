package admin

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auditlog"
	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/database"
)

func newAuditExports(std command.Streams, o *auditOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "exports",
		Short: "Print how far the log was sent to each receiver",
		Long: `Exports prints a line for each receiver of [audit.syslog] and [audit.webhook]: the newest row
that was sent, the number of rows that wait, when the last one was sent, and the process
that sends. Without rows to send, nothing is sent.`,
		Example: `  rueda audit exports --config rueda/rueda.toml`,
		Args:    cobra.NoArgs,
		RunE:    o.run(std, o.exports),
	}
}

func (o *auditOptions) exports(ctx context.Context, std command.Streams, data *database.DB) error {
	list, err := data.Store.AuditExports(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(std.Err, "The log was never sent to a receiver.")
		return nil
	}
	head, err := auditlog.Newest(ctx, data.Store)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RECEIVER\tSENT\tWAITING\tLAST SENT\tSENDER")
	for _, e := range list {
		last, sender := "never", "none"
		if !e.At.IsZero() {
			last = e.At.Format(time.RFC3339)
		}
		if e.Until.After(time.Now()) {
			sender = printable(e.Holder)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", e.Name, e.Sent.Seq, max(0, head.Seq-e.Sent.Seq), last, sender)
	}
	return w.Flush()
}

// checkExports returns audit.ErrBroken if the newest row that was sent to a receiver is not in the
// log.
func checkExports(ctx context.Context, log database.Store, head audit.Head) error {
	list, err := log.AuditExports(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := auditlog.Contains(ctx, log, head, e.Sent); err != nil {
			return fmt.Errorf("compare with what %s has: %w", e.Name, err)
		}
	}
	return nil
}

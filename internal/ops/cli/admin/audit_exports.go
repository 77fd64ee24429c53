package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func newAuditExports(std command.Streams, o *auditOptions) *cobra.Command {
	return o.place.rows(&cobra.Command{
		Use:   "exports",
		Short: "Print how far the log was sent to each receiver",
		Long: `Exports prints a line for each receiver of [audit.syslog] and [audit.webhook]: the newest row
that was sent, the number of rows that wait, when the last one was sent, and the process
that sends. Without rows to send, nothing is sent.`,
		Example: `  rueda audit exports --config rueda/rueda.toml`,
		Args:    cobra.NoArgs,
		RunE:    o.run(std, o.exports),
	})
}

func (o *auditOptions) exports(ctx context.Context, std command.Streams, data *database.DB) error {
	w, err := o.place.out.Open(std, "receiver", "sent", "waiting", "last_sent", "sender")
	if err != nil {
		return err
	}
	list, err := data.Store.AuditExports(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(std.Err, "The log was never sent to a receiver.")
	}
	head, err := auditlog.Newest(ctx, data.Store)
	if err != nil {
		return err
	}
	for _, e := range list {
		row := struct {
			Receiver string    `json:"receiver"`
			Sent     int64     `json:"sent"`
			Waiting  int64     `json:"waiting"`
			Last     time.Time `json:"last_sent_at,omitzero"`
			Sender   string    `json:"sender,omitempty"`
		}{Receiver: e.Name, Sent: e.Sent.Seq, Waiting: max(0, head.Seq-e.Sent.Seq), Last: e.At}
		last, sender := "never", "none"
		if !e.At.IsZero() {
			last = e.At.Format(time.RFC3339)
		}
		if e.Until.After(time.Now()) {
			sender, row.Sender = printable(e.Holder), e.Holder
		}
		if err := w.Row(row, e.Name, strconv.FormatInt(row.Sent, 10), strconv.FormatInt(row.Waiting, 10), last, sender); err != nil {
			return err
		}
	}
	return w.Close()
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

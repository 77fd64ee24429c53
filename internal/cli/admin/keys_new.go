package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/database"
)

func (o *keysOptions) newNew(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Begin with new keys where the keys are lost",
		Long: `New makes keys for a database whose keys are lost and are in no backup either. Stop all
gateways first. It refuses where the keys are there: rotate and revoke are for those.

All logins end. One-time passwords of users who have them can be checked no more: they stay out until
rueda user otp NAME --disable. No row of the audit log can be checked any more: the rows are written
to a file as they are, and the log begins anew with a row that says so.`,
		Example: `  rueda keys new --config rueda/rueda.toml
  rueda keys new --archive audit-2026.jsonl --config rueda/rueda.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.makeNew(cmd.Context(), std) },
	}
	cmd.Flags().StringVar(&o.archive, "archive", "", "new file for the audit log before (default audit-TIME.jsonl in the data folder, or here)")
	return cmd
}

func (o *keysOptions) makeNew(ctx context.Context, std command.Streams) error {
	s, _, err := o.place.settings(ctx, std, false)
	if err != nil {
		return err
	}
	name := o.archive
	if name == "" {
		name = filepath.Join(s.Data.Folder, time.Now().UTC().Format("audit-20060102T150405Z.jsonl"))
		if s.Data.Postgres != "" {
			name = filepath.Base(name)
		}
	}
	report, err := database.NewKeys(ctx, s.Data, name)
	switch {
	case errors.Is(err, database.ErrKeysExist):
		return command.Fail(command.ExitUsage, err, "Replace the one that signs with rueda keys rotate --now --revoke KID.")
	case errors.Is(err, fs.ErrExist):
		return command.Fail(command.ExitUsage, err, "Name another with --archive FILE.")
	case err != nil:
		return err
	}
	if report.Rows > 0 {
		fmt.Fprintf(std.Err, "The audit log before, which can be checked no more, is in %s: %d rows.\n", name, report.Rows)
	}
	if len(report.Factors) > 0 {
		fmt.Fprintf(std.Err, "These cannot log in until rueda user otp NAME --disable: %s\n", strings.Join(report.Factors, ", "))
	}
	return done(std, "%s signs now; all logins of before are over", report.ID)
}

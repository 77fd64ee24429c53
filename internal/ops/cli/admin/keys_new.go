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

	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func (o *keysOptions) newNew(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Create new keys after the keys were lost",
		Long: `New creates keys for a database whose keys are lost and in no backup. Stop all gateways
first. It refuses if the keys exist: use rotate and revoke for those.

All logins end. The one-time passwords of users can no longer be checked: these users cannot log in until
rueda user otp NAME --disable. No row of the audit log can be verified any more. The rows are
written to a file, and a new log begins with a row about this.`,
		Example: `  rueda keys new --config rueda/rueda.toml
  rueda keys new --archive audit-2026.jsonl --config rueda/rueda.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.makeNew(cmd.Context(), std) },
	}
	cmd.Flags().StringVar(&o.archive, "archive", "", "new file for the previous audit log (default audit-TIME.jsonl in the data folder, or here)")
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
		return command.Fail(command.ExitUsage, err, "To replace the signing key, use rueda keys rotate --now --revoke KID.")
	case errors.Is(err, fs.ErrExist):
		return command.Fail(command.ExitUsage, err, "Choose another file with --archive FILE.")
	case err != nil:
		return err
	}
	if report.Rows > 0 {
		fmt.Fprintf(std.Err, "The previous audit log, which can no longer be verified, is in %s: %d rows.\n", name, report.Rows)
	}
	if len(report.Factors) > 0 {
		fmt.Fprintf(std.Err, "These cannot log in until rueda user otp NAME --disable: %s\n", strings.Join(report.Factors, ", "))
	}
	return done(std, "%s signs now; all earlier logins have ended", report.ID)
}

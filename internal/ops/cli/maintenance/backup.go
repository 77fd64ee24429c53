package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/backup"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// options are the flags of backup and restore.
type options struct {
	config string
	data   string
	json   bool

	check       bool
	keepLogins  bool
	acceptOlder bool
}

func (o *options) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration file that names the database and the journal")
	f.StringVar(&o.data, "data", "", "data folder, with the journal in its folder journal")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
}

// settings returns the database and the folder of the journal.
func (o *options) settings(ctx context.Context, std command.Streams) (*config.Settings, error) {
	if (o.config == "") == (o.data == "") {
		return nil, command.Fail(command.ExitUsage, errors.New("which installation?"), "Use --config FILE or --data DIR.")
	}
	s := &config.Settings{Data: database.Config{Folder: o.data}}
	s.Gateway.Journal.Folder = filepath.Join(o.data, "journal")
	if o.config != "" {
		var err error
		if s, err = command.LoadConfig(ctx, std, o.config); err != nil {
			return nil, err
		}
		if err := s.Users.Close(); err != nil { // not used here
			return nil, err
		}
	}
	s.Data.Actor = "command line"
	return s, nil
}

// NewBackup returns the command backup.
func NewBackup(std command.Streams) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy database, keys and journal while the gateway runs",
		Long: `Backup copies the database, the keys and the journal into the new folder DIR, while the gateway
runs or not. Everything that clients were answered before the command began is in it. DIR
appears when it is complete and on disk; after an error nothing is left.

With PostgreSQL the database is not in DIR: use pg_dump before this command. The keys and
the journal are.

Not in DIR: the configuration, the encryption key of the keys, and the pepper. Keep copies of
these in another place: without them the backup cannot be used, and with them it can.`,
		Example: `  rueda backup /backup/rueda-2026-11-23 --config /etc/rueda/rueda.toml
  rueda restore --check /backup/rueda-2026-11-23`,
		Args: command.ExactArgs("folder of the backup"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.backup(cmd.Context(), std, args[0]) },
	}
	o.flags(cmd)
	return cmd
}

func (o *options) backup(ctx context.Context, std command.Streams, folder string) error {
	s, err := o.settings(ctx, std)
	if err != nil {
		return err
	}
	there, err := s.Data.Exists()
	if err != nil || !there {
		_, setting := command.DatabaseFlags(o.config, o.data)
		if err != nil {
			return command.ExplainFolder(fmt.Errorf("look for a database: %w", err), "", setting)
		}
		return command.Fail(command.ExitUsage, fmt.Errorf("there is no database in %s", filepath.Clean(s.Data.Folder)), "Check "+setting+".")
	}
	shown := command.NewProgress(&std)
	stop := shown.During(ctx, func() string { return "Copying into " + folder })
	m, err := backup.Create(ctx, backup.Source{Data: s.Data, Journal: s.Gateway.Journal.Folder, Program: command.ReadBuild().Version}, folder)
	stop()
	if err != nil {
		return o.explainBackup(err, folder)
	}
	if m.Database == "postgres" {
		fmt.Fprintln(std.Err, "Note: the PostgreSQL database is not in this backup; use pg_dump or your provider's backups.")
	}
	if m.Journal != nil && m.Journal.Damage > 0 {
		fmt.Fprintf(std.Err, "Warning: %s of the journal cannot be read, in the original either.\n", command.Count(m.Journal.Damage, "part"))
	}
	return o.print(std, m, "backed up", folder)
}

// explainBackup adds the next step to an error of backup.
func (o *options) explainBackup(err error, folder string) error {
	switch {
	case errors.Is(err, backup.ErrExists):
		return command.Fail(command.ExitUsage, err, "Choose a folder that does not exist, such as "+command.QuoteShell(folder+"-2")+".")
	case errors.Is(err, backup.ErrRunning):
		return command.Fail(command.ExitError, err, "Wait for it, or choose another folder.")
	case errors.Is(err, backup.ErrEarlier):
		return command.Fail(command.ExitError, err, "Back up another node, or wait until rueda status on this one prints no earlier days.")
	case isFull(err):
		return command.Fail(command.ExitError, err, "The disk is full. Nothing was kept. Free space, or choose a folder on another disk.")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return command.Fail(command.ExitError, err, "Run it as the gateway's user, and choose a folder that this user can create.")
	case errors.Is(err, fs.ErrNotExist):
		return command.Fail(command.ExitUsage, err, "Create the parent folder first, if its name is correct.")
	}
	return command.ExplainKeys(err, o.config, o.data)
}

// isFull reports whether a disk, or a quota, is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) ||
		strings.Contains(err.Error(), "disk is full")
}

// print prints a manifest.
func (o *options) print(std command.Streams, m *backup.Manifest, what, folder string) error {
	if o.json {
		text, err := json.Marshal(m)
		if err == nil {
			_, err = std.Out.Write(append(command.EscapeControls(text), '\n'))
		}
		return err
	}
	_, err := fmt.Fprintf(std.Out, "%s %s: %s, %s, of %s\n", folder, what, command.Count(len(m.Files), "file"), progress.Bytes(m.Bytes()), m.Created.Format(time.RFC3339))
	if err == nil && m.Journal != nil {
		_, err = fmt.Fprintf(std.Out, "journal: %s, up to position %d of epoch %s\n", command.Count(m.Journal.Days, "day"), m.Journal.Position, command.Printable(m.Journal.Epoch))
	}
	return err
}

// NewRestore returns the command restore.
func NewRestore(std command.Streams) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore a backup; the gateway must be stopped",
		Long: `Restore puts the content of a backup in place. Stop the gateway first. Previous files are kept
in folders before-restore-TIME; remove them when you no longer need them. If the command is
interrupted, the gateway does not start until the same command has completed.

The next start begins a new epoch: clients that resume get lost with epoch_changed, and
request the state again. All logins end, and all signing keys are revoked, because logins
that ended after the backup would be valid again. --keep-logins keeps both.

If keys were changed after the backup, the keys in it are older than those in place. The
gateway also saves the keys when the audit log has grown, for example by a new user. Restore
refuses them without --accept-older, because they may include a key that was stolen and
revoked since. With it, all revocations that the replaced audit log names are made again.

With PostgreSQL, restore its database first (pg_restore).`,
		Example: `  rueda restore /backup/rueda-2026-11-23 --config /etc/rueda/rueda.toml
  rueda restore --check /backup/rueda-2026-11-23     compare with the manifest`,
		Args: command.ExactArgs("folder of the backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.check {
				return o.checkBackup(cmd.Context(), std, args[0])
			}
			return o.restore(cmd.Context(), std, args[0])
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.check, "check", false, "only check the backup, without an installation")
	f.BoolVar(&o.keepLogins, "keep-logins", false, "keep the logins of the backup, also those that have ended since")
	f.BoolVar(&o.acceptOlder, "accept-older", false, "accept keys that are older than those in place")
	return cmd
}

func (o *options) checkBackup(ctx context.Context, std command.Streams, folder string) error {
	if o.data != "" || o.keepLogins || o.acceptOlder {
		return command.Fail(command.ExitUsage, errors.New("--check cannot be combined with other flags than --json"), "")
	}
	shown := command.NewProgress(&std)
	stop := shown.During(ctx, func() string { return "Reading " + folder })
	m, err := backup.Read(folder)
	if err == nil {
		err = m.Check(ctx, folder)
	}
	stop()
	if err != nil {
		return o.explainRestore(err)
	}
	return o.print(std, m, "is complete", folder)
}

func (o *options) restore(ctx context.Context, std command.Streams, folder string) error {
	s, err := o.settings(ctx, std)
	if err != nil {
		return err
	}
	s.Data.AcceptOlderKeys = o.acceptOlder
	shown := command.NewProgress(&std)
	stop := shown.During(ctx, func() string { return "Restoring " + folder })
	r, err := backup.Restore(ctx, folder, backup.Target{Data: s.Data, Journal: s.Gateway.Journal.Folder, KeepLogins: o.keepLogins})
	stop()
	if err != nil {
		return o.explainRestore(err)
	}
	if r.NoJournal {
		fmt.Fprintln(std.Err, "Note: the journal of the backup was not restored, because the configuration has none.")
	}
	if r.Unknown != nil {
		fmt.Fprintf(std.Err, "Warning: the replaced data could not be read (%s): keys that were revoked since the backup are not known.\n", command.Printable(r.Unknown.Error()))
	}
	for _, folder := range r.Previous {
		fmt.Fprintf(std.Err, "The previous files are in %s.\n", folder)
	}
	if err := o.print(std, r.Manifest, "restored", folder); err != nil || o.json {
		return err
	}
	text := "logins were kept"
	if !o.keepLogins {
		text = fmt.Sprintf("all logins ended (%d in the backup), and users log in again", r.Ended)
	}
	_, err = fmt.Fprintf(std.Out, "the next start begins a new epoch; %s\n", text)
	return err
}

// explainRestore adds the next step to an error of restore.
func (o *options) explainRestore(err error) error {
	switch {
	case errors.Is(err, backup.ErrIncomplete):
		return command.Fail(command.ExitUsage, err, "Name the folder that rueda backup has printed; one that was interrupted cannot be used.")
	case errors.Is(err, backup.ErrNewer):
		return command.Fail(command.ExitUsage, err, "Restore it with that version of rueda, or a newer one.")
	case errors.Is(err, backup.ErrDamaged):
		return command.Fail(command.ExitBadData, err, "Nothing was changed. Use another backup, or another copy of this one.")
	case errors.Is(err, backup.ErrInUse):
		return command.Fail(command.ExitError, err, "Stop it first: systemctl stop rueda. Nothing was changed.")
	case errors.Is(err, database.ErrOther):
		return command.Fail(command.ExitUsage, err, "Nothing was changed. Choose an empty folder, or move the present files away yourself.")
	case errors.Is(err, backup.ErrOtherDatabase):
		return command.Fail(command.ExitUsage, err, "Nothing was changed. Use a configuration with the same kind of database.")
	case errors.Is(err, backup.ErrOwner):
		return command.Fail(command.ExitUsage, err, "Run the command as that user: sudo -u rueda rueda restore ...")
	case errors.Is(err, keyset.ErrOlder):
		return command.Fail(command.ExitUsage, errors.New("the keys in the backup are older than those in place, and may include a key that was revoked since"),
			"Nothing was changed. If you trust the backup, add --accept-older: known revocations are made again.")
	case isFull(err):
		return command.Fail(command.ExitError, err, "The disk is full. The present files are unchanged, or kept: free space, and run the command again.")
	}
	return command.ExplainKeys(err, o.config, o.data)
}

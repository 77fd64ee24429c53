package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/operation"
)

// keysOptions are the flags of the keys commands.
type keysOptions struct {
	place   userOptions // config and data
	alg     string
	now     bool
	revoke  string
	newFile string
	archive string
}

func NewKeys(std command.Streams) *cobra.Command {
	var o keysOptions
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate, revoke and encrypt the keys that sign access tokens",
		Long: `Keys manages the signing keys of a configuration or data folder. Gateways may run
meanwhile. They notice changes within a second on one machine, within five over the network.
With --token-file or --admin, list and rotate use the listener for administrators of a running
gateway. The token needs the role read, or operate to rotate.

A key is first published, so that everybody who checks tokens has read it before it signs.
Then it is the only key that signs. Then it only verifies, until the last token that it
signed has expired. Then it is deleted. A running gateway does these steps itself, every
30 days unless [keys] rotate has another interval.`,
		Example: `  rueda keys list --config rueda/rueda.toml
  rueda keys rotate --config rueda/rueda.toml
  rueda keys rotate --now --revoke KID --config rueda/rueda.toml   if stolen
  rueda keys init-encryption rueda/keys.key
  rueda keys new --config rueda/rueda.toml                         if lost`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.place.config, "config", "", "configuration file that names the database")
	f.StringVar(&o.place.data, "data", "", "data folder with the keys")
	o.place.gateway.Flags(cmd)
	cmd.AddCommand(o.newList(std), o.newRotate(std), o.newReseal(std), o.newNew(std), o.newAcceptOlder(std), newInitEncryption(std))
	return cmd
}

func (o *keysOptions) newList(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys with their states",
		Long: `List prints each key, the newest first: its id, algorithm, state, the beginning of the
state, and its end if it is known. Revoked keys are listed until their tokens would have expired.`,
		Example: `  rueda keys list --config rueda/rueda.toml -o json`,
		Args:    cobra.NoArgs,
		RunE:    o.either(std, "read", o.listServed, o.list),
	}
	o.place.out.Older(cmd, "json", "json")
	return o.place.rows(cmd)
}

func (o *keysOptions) newRotate(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Make the next key sign, in ten minutes or at once",
		Long: `Rotate publishes the next key, or uses the one that is already published. It will sign in
ten minutes, when everybody who reads the public keys knows it. A gateway must be running
then, or does the step when it starts. Tokens of the previous key stay valid.

--now makes it sign at once. Services that check tokens with the public keys, and have
read them in the last five minutes, do not know it yet.

--revoke ends every token of a key at once: requests answer 401, and sockets with such a
token are closed. Clients refresh or log in again. The signing key can be revoked only
together with --now. If a key was stolen: rotate --now --revoke KID.`,
		Example: `  rueda keys rotate --config rueda/rueda.toml
  rueda keys rotate --alg EdDSA --config rueda/rueda.toml
  rueda keys rotate --now --revoke wD0zJ4... --config rueda/rueda.toml`,
		Args: cobra.NoArgs,
		RunE: o.either(std, "operate", o.rotateServed, o.rotate),
	}
	f := cmd.Flags()
	f.StringVar(&o.alg, "alg", "", "algorithm of the next key: ES256, EdDSA or RS256 (default that of [keys])")
	f.BoolVar(&o.now, "now", false, "the next key signs at once")
	f.StringVar(&o.revoke, "revoke", "", "id of a key whose tokens become invalid at once")
	return cmd
}

func (o *keysOptions) newReseal(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reseal",
		Short: "Encrypt the keys with another encryption key",
		Long: `Reseal reads the keys according to [keys], and writes them encrypted with the key of another
file. Then replace the file of [keys] encryption_key_file with it, or set that key to it
and restart the gateways. Until then they use the keys they have, but cannot change them.`,
		Example: `  rueda keys init-encryption rueda/new.key
  rueda keys reseal --new-key-file rueda/new.key --config rueda/rueda.toml
  mv rueda/new.key rueda/keys.key`,
		Args: cobra.NoArgs,
		RunE: o.run(std, o.reseal),
	}
	cmd.Flags().StringVar(&o.newFile, "new-key-file", "", "file with the new encryption key")
	return cmd
}

func newInitEncryption(std command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "init-encryption FILE",
		Short: "Create an encryption key for the keys",
		Long: `Init-encryption writes 32 random bytes, as hexadecimal digits, into a new file that only you
can read. Set [keys] encryption_key_file to it: a gateway that starts then encrypts its keys
with it. Keep a copy separate from the backups of the data folder. Without it the keys are
lost, and nobody who finds a backup can use them.`,
		Example: `  rueda keys init-encryption rueda/keys.key`,
		Args:    command.ExactArgs("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := keyset.MakeEncryptionKey(args[0])
			if errors.Is(err, fs.ErrExist) {
				return command.Fail(command.ExitUsage, fmt.Errorf("%s already exists and was not changed", args[0]), "")
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(std.Err, "Next: set [keys] encryption_key_file to it, and keep a copy separate from the backups.")
			return done(std, "%s", args[0])
		},
	}
}

// run opens the keys for a command.
func (o *keysOptions) run(std command.Streams, do func(context.Context, command.Streams, *database.DB) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) (err error) {
		data, err := o.place.open(cmd.Context(), std, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, data.Close()) }()
		return do(cmd.Context(), std, data)
	}
}

// either returns a command for the keys of a running gateway, or those of a database. role is the
// one that the token needs.
func (o *keysOptions) either(std command.Streams, role string, served func(context.Context, command.Streams) error, do func(context.Context, command.Streams, *database.DB) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ok, err := o.place.served(cmd.Context(), std, role)
		switch {
		case err != nil:
			return err
		case ok:
			return served(cmd.Context(), std)
		}
		return o.run(std, do)(cmd, args)
	}
}

func (o *keysOptions) listServed(ctx context.Context, std command.Streams) error {
	var answer adminapi.Keys
	if err := o.place.gateway.Send(ctx, http.MethodGet, "/admin/keys", nil, &answer); err != nil {
		return err
	}
	return o.print(std, answer.Keys)
}

func (o *keysOptions) list(ctx context.Context, std command.Streams, data *database.DB) error {
	keys, err := data.OperatorKeys(ctx)
	if err != nil {
		return err
	}
	return o.print(std, adminapi.NewKeys(keys.Keys()))
}

// print prints keys.
func (o *keysOptions) print(std command.Streams, keys []adminapi.Key) error {
	w, err := o.place.out.Open(std, "key", "alg", "state", "since", "until")
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := w.Row(k, k.ID, orDash(k.Algorithm), k.State, shortTime(k.Since), shortTime(k.Until)); err != nil {
			return err
		}
	}
	return w.Close()
}

func wholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func shortTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return wholeSecond(t).Format(time.RFC3339)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (o *keysOptions) rotate(ctx context.Context, std command.Streams, data *database.DB) error {
	keys, err := data.OperatorKeys(ctx)
	if err != nil {
		return err
	}
	changes, err := keys.Rotate(ctx, keyset.Rotation{Algorithm: o.alg, Now: o.now, Revoke: o.revoke})
	switch {
	case errors.Is(err, keyset.ErrNoSuchKey):
		return command.Fail(command.ExitNotFound, err, "See rueda keys list.")
	case errors.Is(err, keyset.ErrSigningKey):
		return command.Fail(command.ExitUsage, err, "Replace it at once: rueda keys rotate --now --revoke "+o.revoke)
	case errors.Is(err, keyset.ErrTooManyKeys):
		return command.Fail(command.ExitError, err, "See rueda keys list: keys that verify only are deleted when their tokens have ended.")
	case errors.Is(err, keyset.ErrAlgorithm):
		return command.Fail(command.ExitUsage, fmt.Errorf("--alg: %w", err), "")
	case err != nil:
		return err
	}
	return o.printRotation(std, adminapi.Keys{Keys: adminapi.NewKeys(keys.Keys()), Changes: adminapi.NewKeyChanges(changes)})
}

func (o *keysOptions) rotateServed(ctx context.Context, std command.Streams) error {
	var answer adminapi.Keys
	err := o.place.gateway.Send(ctx, http.MethodPost, "/admin/keys", adminapi.Rotate{Algorithm: o.alg, Now: o.now, Revoke: o.revoke}, &answer)
	var refused *operation.Refusal
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return command.Fail(command.ExitNotFound, fmt.Errorf("%w: %.64q", keyset.ErrNoSuchKey, o.revoke), "See rueda keys list.")
	case errors.As(err, &refused) && refused.Status == http.StatusConflict && o.revoke != "" && !o.now:
		return command.Fail(command.ExitUsage, keyset.ErrSigningKey, "Replace it at once: rueda keys rotate --now --revoke "+o.revoke)
	case err != nil:
		return err
	}
	return o.printRotation(std, answer)
}

// printRotation prints what a rotation has changed.
func (o *keysOptions) printRotation(std command.Streams, k adminapi.Keys) error {
	for _, c := range k.Changes {
		if err := printKey(std, c); err != nil {
			return err
		}
	}
	if n := len(k.Changes); o.now || n > 0 && k.Changes[n-1].State == string(keyset.Published) {
		return nil
	}
	for _, k := range k.Keys { // a key that was published earlier
		if k.State == string(keyset.Published) {
			return done(std, "%s has been published since %s, and signs from %s on", k.ID, shortTime(k.Since), shortTime(k.Until))
		}
	}
	return nil
}

func printKey(std command.Streams, c adminapi.KeyChange) error {
	switch keyset.State(c.State) {
	case keyset.Published:
		return done(std, "Published %s (%s), to sign from %s on", c.ID, c.Algorithm, shortTime(c.Due))
	case keyset.Signing:
		return done(std, "%s (%s) signs now", c.ID, c.Algorithm)
	case keyset.VerifyOnly:
		return done(std, "%s does not sign any more; its tokens stay valid until they expire", c.ID)
	case keyset.Revoked:
		return done(std, "Revoked %s: its tokens are invalid", c.ID)
	}
	return done(std, "Deleted %s", c.ID)
}

func (o *keysOptions) reseal(ctx context.Context, std command.Streams, data *database.DB) error {
	if o.newFile == "" {
		return command.Fail(command.ExitUsage, errors.New("no new encryption key"), "Use --new-key-file FILE; rueda keys init-encryption FILE creates one.")
	}
	with, err := keyset.ReadEncryptionKey(o.newFile)
	if err != nil {
		return err
	}
	keys, err := data.OperatorKeys(ctx)
	if err != nil {
		return err
	}
	if err := keys.Reseal(ctx, with); err != nil {
		return err
	}
	fmt.Fprintln(std.Err, "Next: replace the file of [keys] encryption_key_file with it, or set that key to it and restart the gateways.")
	return done(std, "The keys are encrypted with the key of %s", o.newFile)
}

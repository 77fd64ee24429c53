package admin

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func (o *keysOptions) newAcceptOlder(std command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "accept-older",
		Short: "Use keys that were restored from a backup",
		Long: `Accept-older accepts stored keys that are older than those that were used before. Gateways and
commands refuse them, because somebody without the encryption key may have put them back.
Run it after you have restored a backup of the keys, and only then. It revokes the keys
again that the audit log names as revoked. Logins that were made since the backup end if
their key is not in it.`,
		Example: `  rueda keys accept-older --config rueda/rueda.toml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, _, err := o.place.settings(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			s.Data.AcceptOlderKeys = true
			data, err := s.OpenDatabase(cmd.Context())
			if err != nil {
				return command.ExplainKeys(err, o.place.config, o.place.data)
			}
			defer func() { err = errors.Join(err, data.Close()) }()
			keys, err := data.OperatorKeys(cmd.Context())
			if err != nil {
				return err
			}
			for _, k := range keys.Keys() {
				if k.State == keyset.Signing {
					return done(std, "Accepted: %s signs now", k.ID)
				}
			}
			return nil
		},
	}
}

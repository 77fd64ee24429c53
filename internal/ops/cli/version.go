package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func newVersion(std command.Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the commit",
		Example: "  rueda version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := command.ReadBuild()
			if asJSON {
				return json.NewEncoder(std.Out).Encode(b)
			}
			_, err := fmt.Fprintln(std.Out, b)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as a JSON object")
	return cmd
}

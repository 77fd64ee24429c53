package operation

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// NewReload returns the command reload.
func NewReload(std command.Streams) *cobra.Command {
	var s source
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running gateway read its configuration again",
		Long: `Reload makes a gateway read its configuration again, as SIGHUP does, and prints a line for each
setting that has changed: applied, or needs a restart. No connection is closed. With a mistake in
the configuration nothing changes, and the mistakes are printed. It needs the token of an operator
with the role operate. docs/operations.md lists the settings that apply without a restart.`,
		Example: `  rueda reload --token-file ana.token`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.open("operate"); err != nil {
				return err
			}
			text, _, err := s.send(cmd.Context(), http.MethodPost, "/admin/reload", "")
			if err != nil {
				return err
			}
			var answer struct {
				Data struct{ Applied, Restart []string }
			}
			if json.Unmarshal(text, &answer) != nil || answer.Data.Applied == nil {
				return notGateway()
			}
			var lines strings.Builder
			for _, name := range answer.Data.Applied {
				fmt.Fprintf(&lines, "applied: %s\n", command.Printable(name))
			}
			for _, name := range answer.Data.Restart {
				fmt.Fprintf(&lines, "needs a restart: %s\n", command.Printable(name))
			}
			if lines.Len() == 0 {
				fmt.Fprintln(std.Err, "Nothing has changed.")
			}
			_, err = io.WriteString(std.Out, lines.String())
			return err
		},
	}
	s.flags(cmd)
	return cmd
}

package operation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// NewLogLevel returns the command log-level.
func NewLogLevel(std command.Streams) *cobra.Command {
	levels := []string{"debug", "info", "warn", "error"}
	var s source
	cmd := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Show or change the level of the log of a running gateway",
		Long: `Log-level prints the level from which on a gateway writes lines to its log. With a level, it
changes that of the running gateway first. The change has a row in the audit log, and lasts until
the gateway stops: level in [log] of rueda.toml is the one at the start. It needs the token of an
operator, with the role read to show the level and the role operate to change it.`,
		Example: `  rueda log-level --token-file ana.token
  rueda log-level debug --token-file ana.token`,
		Args:      command.MaxArgs(1, "a level"),
		ValidArgs: levels,
		RunE: func(cmd *cobra.Command, args []string) error {
			method, role, body := http.MethodGet, "read", ""
			if len(args) == 1 {
				if !slices.Contains(levels, args[0]) {
					return command.Fail(command.ExitUsage, fmt.Errorf("%q is not one of %s", args[0], strings.Join(levels, ", ")), "")
				}
				method, role, body = http.MethodPut, "operate", `{"level":"`+args[0]+`"}`
			}
			if err := s.open(role); err != nil {
				return err
			}
			text, _, err := s.send(cmd.Context(), method, "/admin/log-level", body)
			if err != nil {
				return err
			}
			var answer struct{ Data struct{ Level string } }
			if json.Unmarshal(text, &answer) != nil || answer.Data.Level == "" {
				return notGateway()
			}
			_, err = fmt.Fprintln(std.Out, command.Printable(answer.Data.Level))
			return err
		},
	}
	s.flags(cmd)
	return cmd
}

package operation

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// NewOperator returns the command operator.
func NewOperator(std command.Streams) *cobra.Command {
	var s source
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Show the name and the role of the operator of a token",
		Long: `Operator prints whose token this is, and what the operator may do: read, operate or identity. Each
role includes those before it. A token without a name has the role operate.`,
		Example: `  rueda operator --token-file ana.token`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.open("read"); err != nil {
				return err
			}
			text, _, err := s.send(cmd.Context(), http.MethodGet, "/admin/operator", "")
			if err != nil {
				return err
			}
			var answer struct{ Data struct{ Name, Role string } }
			if json.Unmarshal(text, &answer) != nil || answer.Data.Role == "" {
				return notGateway()
			}
			name := answer.Data.Name
			if name == "" {
				name = "without a name"
			}
			_, err = fmt.Fprintf(std.Out, "%s  %s\n", command.Printable(name), command.Printable(answer.Data.Role))
			return err
		},
	}
	s.flags(cmd)
	return cmd
}

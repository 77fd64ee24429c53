package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

func newSchema(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the contract as a document for machines",
		Long: `Prints the contract of this version as a document for machines. A running
gateway serves the same documents without a token, as /openapi.json,
/asyncapi.json and, on the administrators' listener, as /admin/openapi.json.`,
		Example: `  rueda schema openapi > openapi.json
  rueda schema admin`,
		Args: command.Subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	add := func(name, short string, document func() ([]byte, error)) {
		cmd.AddCommand(&cobra.Command{
			Use: name, Short: short, Example: "  rueda schema " + name, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				text, err := document()
				if err != nil {
					return fmt.Errorf("build the document: %w", err)
				}
				_, err = std.Out.Write(schema.Indent(text))
				return err
			},
		})
	}
	add("openapi", "The API of clients as OpenAPI 3.1", openapi.PublicDocument)
	add("asyncapi", "The stream as AsyncAPI 3.0", func() ([]byte, error) { return asyncapi.Document(), nil })
	add("admin", "The API of administrators as OpenAPI 3.1", openapi.AdminDocument)
	return cmd
}

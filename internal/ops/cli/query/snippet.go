package query

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

//go:embed snippets
var snippets embed.FS

// languages has the file of each snippet.
var languages = map[string]string{"curl": "curl.sh", "go": "go.txt", "python": "python.py", "javascript": "javascript.mjs"}

func languageNames() []string { return []string{"curl", "go", "python", "javascript"} }

// NewSnippet returns the command that prints a program for a client.
func NewSnippet(std command.Streams) *cobra.Command {
	var o command.Login
	cmd := &cobra.Command{
		Use:   "snippet LANGUAGE [INSTRUMENT]",
		Short: "Print a program that reads the stream of an instrument",
		Long: `Snippet prints a short, complete program in curl, go, python or javascript. It logs in, prints
the quote of an instrument, and then its trades. The address and the user are those of the
context. The program reads RUEDA_URL, RUEDA_USERNAME and RUEDA_PASSWORD; it contains no password,
except the one of demo on this machine.

Exit status: 0 done; 2 a mistake on the command line.`,
		Example: "  rueda snippet python > watch.py && python3 watch.py\n  rueda snippet curl 'AL30|BYMA|CI' | sh",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.SomeArgs("language", "rueda snippet python")(cmd, args)
			}
			return command.MaxArgs(2, "a language and an instrument")(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return languageNames(), cobra.ShellCompDirectiveNoFileComp
			}
			return CompleteInstruments(cmd, args[1:], word)
		},
		RunE: func(_ *cobra.Command, args []string) error { return printSnippet(std, &o, args) },
	}
	o.Flags(cmd)
	return cmd
}

func printSnippet(std command.Streams, o *command.Login, args []string) error {
	file := languages[args[0]]
	if file == "" {
		return command.Fail(command.ExitUsage, fmt.Errorf("there is no snippet in %q", args[0]), "The languages are "+strings.Join(languageNames(), ", ")+".")
	}
	args = append(args, "GGAL|BYMA|24hs")
	if err := command.CheckInstruments("rueda snippet python 'GGAL|BYMA|24hs'", false, args[1]); err != nil {
		return err
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	v := struct{ URL, Clients, User, Password, Instrument string }{t.URL, consoleOf(t.URL) + "client/", t.User, "", args[1]}
	for _, text := range []string{v.URL, v.User, v.Instrument} {
		if strings.ContainsAny(text, "\"'\\$`{}\n\r") {
			return command.Fail(command.ExitUsage, fmt.Errorf("%q cannot be part of a program", text), "Set RUEDA_URL and RUEDA_USERNAME for the program instead.")
		}
	}
	if t.IsDemo() {
		v.Password = command.DemoUser
	}
	program, err := template.ParseFS(snippets, "snippets/"+file)
	if err != nil {
		return err
	}
	return program.Execute(std.Out, v)
}

package query

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// NewOpen returns the command open.
func NewOpen(std command.Streams) *cobra.Command {
	var o command.Login
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the console of a gateway in the browser, or print its URL",
		Long: `Open prints the URL of the console. On a terminal it also opens it in the browser of this machine.
It first checks that the gateway has a console.

Exit status: 0 done; 2 a mistake on the command line; 4 the gateway has no console; 5 no gateway
there.`,
		Example: "  rueda open\n  rueda open --context prod",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := o.Target()
			if err != nil {
				return err
			}
			page := consoleOf(t.URL)
			if err := findConsole(cmd.Context(), t, page); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(std.Out, page); err != nil || !command.IsTerminal(std.Out) {
				return err
			}
			if err := browse(page); err != nil {
				fmt.Fprintf(std.Err, "The browser was not opened: %v\n", err)
			}
			return nil
		},
	}
	o.Flags(cmd)
	return cmd
}

// consoleOf returns the URL of the console of a gateway, whose address may be that of its stream.
func consoleOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if scheme, ok := map[string]string{"ws": "http", "wss": "https"}[u.Scheme]; ok {
		u.Scheme = scheme
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/stream") + "/"
	return u.String()
}

// findConsole requests the page of a console, and returns an error if the gateway has none.
func findConsole(ctx context.Context, t *command.Target, page string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return t.Unreached(err)
	}
	_ = answer.Body.Close() // only the status is of interest
	if answer.StatusCode != http.StatusOK {
		return command.Fail(command.ExitNotFound, fmt.Errorf("%s has no console: it answered %d", page, answer.StatusCode), "Its operator may have set console = false.")
	}
	return nil
}

// browse opens a page in the browser, and does not wait for it.
func browse(page string) error {
	argv := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if argv == nil {
		argv = []string{"xdg-open"}
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return errors.New("there is no program " + argv[0])
	}
	return exec.Command(argv[0], append(argv[1:], page)...).Start()
}

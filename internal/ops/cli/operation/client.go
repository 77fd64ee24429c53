package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// Client sends requests of commands to the listener for administrators of a gateway. The zero
// Client has no flags yet.
type Client struct{ source source }

// Flags adds the flags that say where the gateway is to a command and those below it.
func (c *Client) Flags(cmd *cobra.Command) { c.source.add(cmd.PersistentFlags()) }

// Wanted reports whether a command is to use a gateway: a flag says so, or the environment has a
// token and no database is named.
func (c *Client) Wanted(database bool) bool {
	return c.source.admin != "" || c.source.tokenFile != "" || !database && os.Getenv("RUEDA_ADMIN_TOKEN") != ""
}

// At sets the address of the listener, such as 127.0.0.1:8081, unless a flag or the environment has
// another one. secure means TLS.
func (c *Client) At(address string, secure bool) {
	if c.source.admin != "" || os.Getenv("RUEDA_ADMIN") != "" || address == "" {
		return
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	c.source.admin = scheme + address
}

// Open checks the flags, and that a gateway with the routes of this program answers. role is the
// one that the token must have at least. The error has the status ExitUnreachable if nothing
// answers.
func (c *Client) Open(ctx context.Context, role string) error {
	if err := c.source.open(role); err != nil {
		return err
	}
	status, text, _, err := c.source.exchange(ctx, http.MethodGet, "/admin/openapi.json", "")
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(text, []byte(`"/admin/groups"`)) {
		advice := "--admin is the URL of the listener for administrators. If it is, use the program of the gateway's version, or --config FILE without --token-file on its machine."
		if p, err := c.source.page(ctx); err == nil {
			advice = fmt.Sprintf("The gateway is version %s and this program is %s. %s", p.version(), command.ReadBuild().Version, advice)
		}
		return command.Fail(command.ExitError, errors.New("this is not a listener for administrators with the routes that this command needs"), advice)
	}
	return nil
}

// Refusal is the answer of a gateway to a request that it refuses.
type Refusal struct {
	Status int    // of HTTP
	Reason string // a stable word
	Msg    string
	Hint   string // what to do next; "": nothing is known
}

func (r *Refusal) Error() string { return "the gateway refuses this: " + cmp.Or(r.Msg, r.Reason) }

// Send sends a request, with a body of JSON or nil, and decodes the answer into data. The error
// wraps a *Refusal if the gateway refuses the request.
func (c *Client) Send(ctx context.Context, method, path string, body, data any) error {
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = string(b)
	}
	status, answer, _, err := c.source.exchange(ctx, method, path, text)
	if err != nil {
		return err
	}
	var envelope struct {
		Data  json.RawMessage
		Error *Refusal
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return notGateway()
	}
	switch {
	case status == http.StatusOK && envelope.Data != nil:
		if json.Unmarshal(envelope.Data, data) != nil {
			return notGateway()
		}
		return nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return refusal(method+" "+path, status, answer)
	case envelope.Error == nil:
		return notGateway()
	}
	envelope.Error.Status = status
	return command.Fail(command.ExitOf(status), envelope.Error, envelope.Error.Hint)
}

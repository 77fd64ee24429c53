package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/client"
	"github.com/ruedahq/rueda/wire"
)

// DefaultURL is the address of a dev server.
const DefaultURL = "http://127.0.0.1:8080"

// Users of a dev server. The password of each is its name.
const (
	DemoUser  = "demo"
	BasicUser = "basic"
)

// Login has the flags that choose a gateway and a user.
type Login struct {
	url       string
	user      string
	context   string
	fromStdin bool
	otp       string
}

// Flags adds the flags to a command.
func (o *Login) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the gateway, or of its stream (default $RUEDA_URL, that of the context, or "+DefaultURL+")")
	f.StringVar(&o.user, "user", "", "username (default $RUEDA_USERNAME, that of the context, or demo)")
	f.StringVar(&o.context, "context", "", "gateway and login of this context (default $RUEDA_CONTEXT or the current one: see rueda context)")
	f.BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input (default $RUEDA_PASSWORD, the login of the context, or a prompt)")
	f.StringVar(&o.otp, "otp", "", "one-time password of a user who needs one, or a recovery code (default a prompt)")
	_ = cmd.RegisterFlagCompletionFunc("context", CompleteContexts) // the flag exists
}

// LoginOf returns the login that the flags of a command choose, as far as it has them.
func LoginOf(cmd *cobra.Command) *Login {
	value := func(name string) string {
		if f := cmd.Flag(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &Login{url: value("url"), user: value("user"), context: value("context")}
}

// Account returns the account that logs in, from flags, the environment, a context or the terminal.
// The password of demo is known to everyone and works on a dev server only.
func (o *Login) Account(std Streams) (*client.Account, error) {
	t, err := o.Target()
	if err != nil {
		return nil, err
	}
	if err := t.credentials(std, false); err != nil {
		return nil, err
	}
	api, err := client.New(t.URL, agent())
	if err != nil {
		return nil, err
	}
	a := &client.Account{API: api, Username: t.User, Password: string(t.password), OTP: o.otp}
	if IsTerminal(std.In) {
		a.AskOTP = func() (string, error) { return askSecret(std, "One-time password of "+a.Username+": ") }
	}
	if t.tokens != nil {
		c, err := t.open(std)
		if err != nil {
			return nil, err
		}
		a.Source = func(ctx context.Context, check bool) (client.Tokens, error) { return t.stored(ctx, c, check) }
	}
	return a, nil
}

// AccessToken logs in and returns an access token. Refused credentials are a *Failure.
func AccessToken(ctx context.Context, a *client.Account) (string, error) {
	token, err := a.Access(ctx)
	var r *client.ResponseError
	if errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
		advice := ""
		if r.Reason == wire.MFARequired {
			return "", needsOTP(a.Username)
		}
		if known := a.Username == DemoUser || a.Username == BasicUser; known && r.Reason == wire.InvalidCredentials && a.API.IsLocal() {
			advice = devPasswords
		}
		return "", Fail(ExitRefused, r, advice)
	}
	return token, err
}

const devPasswords = "The passwords of a dev server are demo/demo and basic/basic."

func needsOTP(user string) error {
	return Fail(ExitRefused, fmt.Errorf("%s needs a one-time password", user),
		"Add --otp CODE: six digits, or a recovery code. Each can be used once.")
}

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

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

// Login has the flags for the address of a gateway and for the user.
type Login struct {
	url       string
	user      string
	fromStdin bool
	otp       string
}

// Flags adds the flags to a command.
func (o *Login) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the gateway, or of its stream (default $RUEDA_URL or "+DefaultURL+")")
	f.StringVar(&o.user, "user", "", "username (default $RUEDA_USER or demo)")
	f.BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input (default $RUEDA_PASSWORD, or a prompt)")
	f.StringVar(&o.otp, "otp", "", "one-time password of a user who needs one, or a recovery code (default a prompt)")
}

// Account returns the account that logs in, from flags, the environment or the terminal. The
// password of demo is known to everyone and works on a dev server only.
func (o *Login) Account(std Streams) (*client.Account, error) {
	api, err := client.New(cmp.Or(o.url, os.Getenv("RUEDA_URL"), DefaultURL), "rueda-watch/"+ReadBuild().Version)
	if bad := (*client.AddressError)(nil); errors.As(err, &bad) {
		return nil, Fail(ExitUsage, bad, bad.Advice)
	}
	if err != nil {
		return nil, err
	}
	a := &client.Account{API: api, Username: cmp.Or(o.user, os.Getenv("RUEDA_USER"), DemoUser), OTP: o.otp}
	if IsTerminal(std.In) {
		a.AskOTP = func() (string, error) { return askSecret(std, "One-time password of "+a.Username+": ") }
	}
	if !o.fromStdin {
		a.Password = os.Getenv("RUEDA_PASSWORD")
		if a.Password == "" && a.Username == DemoUser {
			a.Password = DemoUser
		}
	}
	if a.Password == "" {
		a.Password, err = ReadPassword(std, "Password of "+a.Username, o.fromStdin, nil)
	}
	return a, err
}

// AccessToken logs in and returns an access token. Refused credentials are a *Failure.
func AccessToken(ctx context.Context, a *client.Account) (string, error) {
	token, err := a.Access(ctx)
	var r *client.ResponseError
	if errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
		advice := ""
		if r.Reason == wire.MFARequired {
			return "", Fail(ExitRefused, fmt.Errorf("%s needs a one-time password", a.Username),
				"Add --otp CODE: six digits, or a recovery code. Each can be used once.")
		}
		if known := a.Username == DemoUser || a.Username == BasicUser; known && r.Reason == wire.InvalidCredentials && a.API.IsLocal() {
			advice = "The passwords of a dev server are demo/demo and basic/basic."
		}
		return "", Fail(ExitRefused, r, advice)
	}
	return token, err
}

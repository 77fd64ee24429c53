package cli

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

const defaultURL = "http://127.0.0.1:8080"

// Users of a dev server. The password of each is its name.
const (
	demoUser  = "demo"
	basicUser = "basic"
)

// login is how a command finds a gateway, and who it is there.
type login struct {
	url       string
	user      string
	fromStdin bool
	otp       string
}

// flags adds the flags of a login.
func (o *login) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the gateway, or of its stream (default $RUEDA_URL or "+defaultURL+")")
	f.StringVar(&o.user, "user", "", "who logs in (default $RUEDA_USER or demo)")
	f.BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input (default $RUEDA_PASSWORD, or a prompt)")
	f.StringVar(&o.otp, "otp", "", "one-time password of a user who needs one, or a recovery code (default a prompt)")
}

// account finds out who logs in and where. Demo's password is known to everybody and is
// good on a dev server alone.
func (o *login) account(std streams) (*client.Account, error) {
	api, err := client.New(cmp.Or(o.url, os.Getenv("RUEDA_URL"), defaultURL), "rueda-watch/"+readBuild().Version)
	if bad := (*client.AddressError)(nil); errors.As(err, &bad) {
		return nil, fail(exitUsage, bad, bad.Advice)
	}
	if err != nil {
		return nil, err
	}
	a := &client.Account{API: api, Username: cmp.Or(o.user, os.Getenv("RUEDA_USER"), demoUser), OTP: o.otp}
	if isTerminal(std.in) {
		a.AskOTP = func() (string, error) { return askSecret(std, "One-time password of "+a.Username+": ") }
	}
	if !o.fromStdin {
		a.Password = os.Getenv("RUEDA_PASSWORD")
		if a.Password == "" && a.Username == demoUser {
			a.Password = demoUser
		}
	}
	if a.Password == "" {
		a.Password, err = readPassword(std, "Password of "+a.Username, o.fromStdin, nil)
	}
	return a, err
}

// enter gives an access token of an account. Credentials that are refused are a failure.
func enter(ctx context.Context, a *client.Account) (string, error) {
	token, err := a.Access(ctx)
	var r *client.ResponseError
	if errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
		advice := ""
		if r.Reason == wire.MFARequired {
			return "", fail(exitRefused, fmt.Errorf("%s needs a one-time password", a.Username),
				"Add --otp CODE: six digits, or a recovery code. Each is good once.")
		}
		if known := a.Username == demoUser || a.Username == basicUser; known && r.Reason == wire.InvalidCredentials && a.API.IsLocal() {
			advice = "The passwords of a dev server are demo/demo and basic/basic."
		}
		return "", fail(exitRefused, r, advice)
	}
	return token, err
}

package command

import (
	"fmt"

	"github.com/spf13/cobra"
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

// At sets the address of the gateway, as the flag --url does.
func (o *Login) At(url string) { o.url = url }

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

const devPasswords = "The passwords of a dev server are demo/demo and basic/basic."

func needsOTP(user string) error {
	return Fail(ExitRefused, fmt.Errorf("%s needs a one-time password", user),
		"Add --otp CODE: six digits, or a recovery code. Each can be used once.")
}

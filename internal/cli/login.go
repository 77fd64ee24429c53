package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"
)

// login is how a command finds a gateway, and who it is there.
type login struct {
	url       string
	user      string
	fromStdin bool
}

// flags adds the flags of a login.
func (o *login) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the gateway, or of its stream (default $RUEDA_URL or "+defaultURL+")")
	f.StringVar(&o.user, "user", "", "who logs in (default $RUEDA_USER or demo)")
	f.BoolVar(&o.fromStdin, "password-stdin", false, "read the password from standard input (default $RUEDA_PASSWORD, or a prompt)")
}

// account finds out who logs in and where. Demo's password is known to everybody and is
// good on a dev server alone.
func (o *login) account(std streams) (*account, error) {
	api, err := newAPI(cmp.Or(o.url, os.Getenv("RUEDA_URL"), defaultURL))
	if err != nil {
		return nil, err
	}
	a := &account{api: api, username: cmp.Or(o.user, os.Getenv("RUEDA_USER"), demoUser)}
	if !o.fromStdin {
		a.password = os.Getenv("RUEDA_PASSWORD")
		if a.password == "" && a.username == demoUser {
			a.password = demoUser
		}
	}
	if a.password == "" {
		a.password, err = readPassword(std, "Password of "+a.username, o.fromStdin, false)
	}
	return a, err
}

package command

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/ops/cli/contexts"
)

// Target is a gateway and a user.
type Target struct {
	URL, User string
	Context   string // whose login is used; "": none

	login    *Login
	list     *contexts.List
	password client.Secret
	tokens   client.TokenStore // nil: none
	local    bool
}

// newLogin is the store of a login that replaces the stored one.
type newLogin struct{ client.FileStore }

// Load implements client.TokenStore. It returns no tokens.
func (newLogin) Load(context.Context) (client.Tokens, error) { return client.Tokens{}, nil }

// Target chooses a gateway and a user. A flag comes before the environment, the environment before
// the current context. Without any of them it is a dev server. The login of a context is used only
// with the URL and the user of that context.
func (o *Login) Target() (*Target, error) {
	t := &Target{login: o, list: &contexts.List{}}
	url, user := os.Getenv("RUEDA_URL"), cmp.Or(os.Getenv("RUEDA_USERNAME"), os.Getenv("RUEDA_USER"))
	if o.context != "" {
		url, user = "", ""
	}
	var c contexts.Context
	if o.context != "" || cmp.Or(o.url, url) == "" {
		var err error
		if c, err = t.find(cmp.Or(o.context, os.Getenv("RUEDA_CONTEXT"))); err != nil {
			return nil, err
		}
	}
	t.URL, t.User = cmp.Or(o.url, url, c.URL, DefaultURL), cmp.Or(o.user, user, c.User, DemoUser)
	local, err := CheckURL(t.URL)
	if err != nil {
		return nil, err
	}
	t.local = local
	if c.Name != "" && t.URL == c.URL && t.User == c.User {
		t.Context = c.Name
	}
	return t, nil
}

// find returns a context, or the current one, if any, without a name.
func (t *Target) find(name string) (c contexts.Context, err error) {
	if t.list, err = contexts.Read(); err != nil {
		return c, err
	}
	if name == "" && t.list.Current == "" {
		return c, nil
	}
	return FindContext(t.list, cmp.Or(name, t.list.Current))
}

// FindContext returns a context. The error for an unknown one suggests another.
func FindContext(l *contexts.List, name string) (contexts.Context, error) {
	c, err := l.Find(name)
	if err != nil {
		advice := "Add it: rueda context add NAME --url https://api.broker.example --user ana"
		if near, ok := spell.Nearest(name, l.Names()); ok {
			advice = "Did you mean " + near + "?"
		}
		return c, Fail(ExitUsage, fmt.Errorf("there is no context %q", name), advice)
	}
	return c, nil
}

// credentials finds out how to log in: with the stored login of the context, or with a password. If
// fresh is set, it does not use a stored login.
func (t *Target) credentials(std Streams, fresh bool) (err error) {
	if t.login.fromStdin {
		return t.ask(std)
	}
	t.password = client.Secret(os.Getenv("RUEDA_PASSWORD"))
	switch {
	case !fresh && t.Context != "" && t.list.LoggedIn(t.Context):
		t.tokens, err = t.list.Tokens(t.Context)
		return err
	case t.password != "":
		return nil
	case t.User == DemoUser && (t.Context == "" || t.local):
		t.password = DemoUser
		return nil
	case !fresh && t.Context != "":
		return Fail(ExitRefused, fmt.Errorf("there is no login in context %s", t.Context), "Log in: rueda auth login --context "+t.Context)
	}
	return t.ask(std)
}

func (t *Target) ask(std Streams) error {
	password, err := ReadPassword(std, "Password of "+t.User, t.login.fromStdin, nil)
	t.password = client.Secret(password)
	return err
}

// Client returns a client of the target, for the stored login of its context or a password. change
// changes its options; nil: it does not.
func (t *Target) Client(std Streams, change func(*client.Options)) (*client.Client, error) {
	if err := t.credentials(std, false); err != nil {
		return nil, err
	}
	return t.open(std, change)
}

// Fresh returns a client that logs in with a password and keeps the login in the context.
func (t *Target) Fresh(std Streams) (*client.Client, error) {
	if err := t.credentials(std, true); err != nil {
		return nil, err
	}
	file, err := t.list.Tokens(t.Context)
	if err != nil {
		return nil, err
	}
	t.tokens = newLogin{file}
	return t.open(std, nil)
}

// Separate returns a client with a login of its own, for which it needs the password. It may be
// called again.
func (t *Target) Separate(std Streams) (*client.Client, error) {
	if t.password == "" {
		if err := t.credentials(std, true); err != nil {
			return nil, err
		}
	}
	t.tokens = nil
	return t.open(std, nil)
}

// Stored returns a client for the stored login of the context, nil if there is none.
func (t *Target) Stored(std Streams) (c *client.Client, err error) {
	if t.Context == "" || !t.list.LoggedIn(t.Context) {
		return nil, nil
	}
	if t.tokens, err = t.list.Tokens(t.Context); err != nil {
		return nil, err
	}
	t.password = "" // it would begin another login
	return t.open(std, nil)
}

// Forget removes the stored login.
func (t *Target) Forget() error { return t.list.Forget(t.Context) }

func (t *Target) open(std Streams, change func(*client.Options)) (*client.Client, error) {
	o := client.Options{Username: t.User, Password: t.password, Tokens: t.tokens, UserAgent: "rueda/" + ReadBuild().Version}
	otp := t.login.otp
	if otp != "" || IsTerminal(std.In) {
		o.OTP = func(context.Context) (string, error) {
			once := otp
			if otp = ""; once != "" {
				return once, nil
			}
			if !IsTerminal(std.In) {
				return "", needsOTP(t.User)
			}
			return askSecret(std, "One-time password of "+t.User+": ")
		}
	}
	if change != nil {
		change(&o)
	}
	return client.New([]string{t.URL}, o)
}

// CompleteContexts completes the names of contexts.
func CompleteContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	l, err := contexts.Read()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return l.Names(), cobra.ShellCompDirectiveNoFileComp
}

// IsDemo reports whether the password is the one that everyone knows: of demo on this machine.
func (t *Target) IsDemo() bool { return t.User == DemoUser && t.local }

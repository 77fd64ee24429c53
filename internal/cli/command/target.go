package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	bots "github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/cli/contexts"
	"github.com/ruedahq/rueda/internal/client"
	"github.com/ruedahq/rueda/internal/spell"
)

// Target is a gateway and a user.
type Target struct {
	URL, User string
	Context   string // whose login is used; "": none

	login    *Login
	list     *contexts.List
	password bots.Secret
	tokens   bots.TokenStore // nil: none
	local    bool
	overflow bots.Overflow
}

// newLogin is the store of a login that replaces the stored one.
type newLogin struct{ bots.FileStore }

// Load implements client.TokenStore. It returns no tokens.
func (newLogin) Load(context.Context) (bots.Tokens, error) { return bots.Tokens{}, nil }

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

// CheckURL checks the address of a gateway, and reports whether it is this machine.
func CheckURL(url string) (local bool, err error) {
	api, err := client.New(url, "")
	if bad := (*client.AddressError)(nil); errors.As(err, &bad) {
		return false, Fail(ExitUsage, bad, bad.Advice)
	}
	return err == nil && api.IsLocal(), err
}

// credentials finds out how to log in: with the stored login of the context, or with a password. If
// fresh is set, it does not use a stored login.
func (t *Target) credentials(std Streams, fresh bool) (err error) {
	if t.login.fromStdin {
		return t.ask(std)
	}
	t.password = bots.Secret(os.Getenv("RUEDA_PASSWORD"))
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
	t.password = bots.Secret(password)
	return err
}

// Client returns a client of the target, for the stored login of its context or a password.
func (t *Target) Client(std Streams) (*bots.Client, error) {
	if err := t.credentials(std, false); err != nil {
		return nil, err
	}
	return t.open(std)
}

// Follower returns a client as Client does, whose events are all messages: none is conflated.
func (t *Target) Follower(std Streams) (*bots.Client, error) {
	t.overflow = bots.Block
	return t.Client(std)
}

// Fresh returns a client that logs in with a password and keeps the login in the context.
func (t *Target) Fresh(std Streams) (*bots.Client, error) {
	if err := t.credentials(std, true); err != nil {
		return nil, err
	}
	file, err := t.list.Tokens(t.Context)
	if err != nil {
		return nil, err
	}
	t.tokens = newLogin{file}
	return t.open(std)
}

// Stored returns a client for the stored login of the context, nil if there is none.
func (t *Target) Stored(std Streams) (c *bots.Client, err error) {
	if t.Context == "" || !t.list.LoggedIn(t.Context) {
		return nil, nil
	}
	if t.tokens, err = t.list.Tokens(t.Context); err != nil {
		return nil, err
	}
	t.password = "" // it would begin another login
	return t.open(std)
}

// Forget removes the stored login.
func (t *Target) Forget() error { return t.list.Forget(t.Context) }

func (t *Target) open(std Streams) (*bots.Client, error) {
	o := bots.Options{Username: t.User, Password: t.password, Tokens: t.tokens, Overflow: t.overflow, UserAgent: agent()}
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
	return bots.New([]string{t.URL}, o)
}

func agent() string { return "rueda-watch/" + ReadBuild().Version }

// stored returns the tokens of the stored login, for programs with an Account. With check, it asks
// the gateway first, which renews tokens that are refused.
func (t *Target) stored(ctx context.Context, c *bots.Client, check bool) (client.Tokens, error) {
	var now bots.Tokens
	var err error
	if check {
		err = c.Get(ctx, "/market/time", nil, nil)
	}
	if err == nil {
		now, err = c.Login(ctx)
	}
	var e *bots.Error
	switch {
	case err == nil:
		return client.Tokens{Access: string(now.Access), Refresh: string(now.Refresh), Renew: now.Expires}, nil
	case errors.As(err, &e) && e.Code != http.StatusUnauthorized && e.Code != http.StatusForbidden:
		return client.Tokens{}, &client.ResponseError{Status: e.Code, Reason: e.Reason, Msg: e.Msg, Hint: e.Hint, Wait: e.RetryAfter}
	case e != nil:
		return client.Tokens{}, t.Explain(err)
	}
	return client.Tokens{}, err
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

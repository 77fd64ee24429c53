package cli

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// account is a login and its tokens, which are renewed before they end.
type account struct {
	api      *api
	username string
	password string

	mu     sync.Mutex
	tokens tokens
}

// access is an access token that is good for a while: the one there is, or one by
// the refresh token, or one by the password. Credentials that are refused are a failure.
func (a *account) access(ctx context.Context) (string, error) {
	t := a.current()
	if t.access != "" && time.Now().Before(t.renew) {
		return t.access, nil
	}
	fresh, err := a.renew(ctx, t.refresh)
	var r *refusal
	if t.refresh == "" || errors.As(err, &r) && r.Status == http.StatusUnauthorized {
		fresh, err = a.api.login(ctx, a.username, a.password)
	}
	if errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
		advice := ""
		if known := a.username == demoUser || a.username == basicUser; known && r.Reason == wire.InvalidCredentials && isThisMachine(a.api.base.Hostname()) {
			advice = "The passwords of a dev server are demo/demo and basic/basic."
		}
		return "", fail(exitRefused, r, advice)
	}
	if err != nil {
		return "", err
	}
	a.set(fresh)
	return fresh.access, nil
}

func (a *account) renew(ctx context.Context, refresh string) (tokens, error) {
	if refresh == "" {
		return tokens{}, nil
	}
	return a.api.refresh(ctx, refresh)
}

func (a *account) current() tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens
}

func (a *account) set(t tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = t
}

// spent says that the server no longer takes the access token.
func (a *account) spent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens.access = ""
}

// keep refreshes the tokens before they end, until ctx does. That moves the deadline of
// the open socket too; when it cannot, the socket ends and access logs in again.
func (a *account) keep(ctx context.Context) {
	pause := backoff{}
	wait := time.Until(a.current().renew)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, 0)):
		}
		fresh, err := a.api.refresh(ctx, a.current().refresh)
		var r *refusal
		switch {
		case err == nil:
			a.set(fresh)
			pause = backoff{}
			wait = time.Until(fresh.renew)
		case errors.As(err, &r) && r.Status == http.StatusUnauthorized:
			return
		default:
			wait = pause.next(err)
		}
	}
}

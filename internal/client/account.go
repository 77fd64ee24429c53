package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Account is a login and its tokens, which are renewed before they end.
type Account struct {
	API      *API
	Username string
	Password string
	// OTP is a one-time password, which the first login takes; "": none.
	OTP string
	// AskOTP is asked for one where a login needs it and there is none. nil: nobody is.
	AskOTP func() (string, error)

	mu     sync.Mutex
	tokens Tokens
}

// Access is an access token that is good for a while: the one there is, or one by
// the refresh token, or one by the password. The error is a *Refusal where the server answered.
func (a *Account) Access(ctx context.Context) (string, error) {
	t := a.current()
	if t.Access != "" && time.Now().Before(t.Renew) {
		return t.Access, nil
	}
	fresh, err := a.renew(ctx, t.Refresh)
	var r *Refusal
	if t.Refresh == "" || errors.As(err, &r) && r.Status == http.StatusUnauthorized {
		fresh, err = a.login(ctx)
	}
	if err != nil {
		return "", err
	}
	a.set(fresh)
	return fresh.Access, nil
}

// login logs in by the password. A one-time password is good once.
func (a *Account) login(ctx context.Context) (Tokens, error) {
	a.mu.Lock()
	otp := a.OTP
	a.OTP = ""
	a.mu.Unlock()
	t, err := a.API.Login(ctx, a.Username, a.Password, otp)
	var r *Refusal
	if a.AskOTP == nil || !errors.As(err, &r) || r.Reason != wire.MFARequired {
		return t, err
	}
	if otp, err = a.AskOTP(); err != nil {
		return Tokens{}, err
	}
	return a.API.Login(ctx, a.Username, a.Password, otp)
}

func (a *Account) renew(ctx context.Context, refresh string) (Tokens, error) {
	if refresh == "" {
		return Tokens{}, nil
	}
	return a.API.Refresh(ctx, refresh)
}

func (a *Account) current() Tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens
}

func (a *Account) set(t Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = t
}

// Spent says that the server no longer takes the access token.
func (a *Account) Spent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens.Access = ""
}

// Keep refreshes the tokens before they end, until ctx does. That moves the deadline of
// the open socket too; when it cannot, the socket ends and Access logs in again.
func (a *Account) Keep(ctx context.Context) {
	pause := Backoff{}
	wait := time.Until(a.current().Renew)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, 0)):
		}
		fresh, err := a.API.Refresh(ctx, a.current().Refresh)
		var r *Refusal
		switch {
		case err == nil:
			a.set(fresh)
			pause = Backoff{}
			wait = time.Until(fresh.Renew)
		case errors.As(err, &r) && r.Status == http.StatusUnauthorized:
			return
		default:
			wait = pause.Next(err)
		}
	}
}

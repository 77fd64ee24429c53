package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Account is a login and its tokens, which are refreshed before they expire.
type Account struct {
	API      *API
	Username string
	Password string
	// OTP is a one-time password for the first login; "": none.
	OTP string
	// AskOTP returns a one-time password, if a login needs one and OTP is empty. It may be nil.
	AskOTP func() (string, error)
	// Source returns the tokens of a stored login and renews them; nil: the account logs in. With
	// check, the server has rejected the access token.
	Source func(ctx context.Context, check bool) (Tokens, error)

	mu       sync.Mutex
	tokens   Tokens
	rejected bool // the token of Source
}

// Access returns a valid access token: the current one, or a new one from the refresh token or the
// password. It returns a *ResponseError if the server rejects the request.
func (a *Account) Access(ctx context.Context) (string, error) {
	if a.Source != nil {
		a.mu.Lock()
		check := a.rejected
		a.rejected = false
		a.mu.Unlock()
		t, err := a.Source(ctx, check)
		return t.Access, err
	}
	t := a.current()
	if t.Access != "" && time.Now().Before(t.Renew) {
		return t.Access, nil
	}
	fresh, err := a.renew(ctx, t.Refresh)
	var r *ResponseError
	if t.Refresh == "" || errors.As(err, &r) && r.Status == http.StatusUnauthorized {
		fresh, err = a.login(ctx)
	}
	if err != nil {
		return "", err
	}
	a.set(fresh)
	return fresh.Access, nil
}

// login logs in with the password. A one-time password is used once.
func (a *Account) login(ctx context.Context) (Tokens, error) {
	a.mu.Lock()
	otp := a.OTP
	a.OTP = ""
	a.mu.Unlock()
	t, err := a.API.Login(ctx, a.Username, a.Password, otp)
	var r *ResponseError
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

// Invalidate discards the access token after the server rejected it.
func (a *Account) Invalidate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens.Access, a.rejected = "", true
}

// KeepFresh refreshes the tokens before they expire, until ctx ends. This also extends the deadline
// of an open socket. If the login is no longer valid, KeepFresh returns, and Access logs in again.
func (a *Account) KeepFresh(ctx context.Context) {
	if a.Source != nil {
		a.keepSource(ctx)
		return
	}
	pause := Backoff{}
	wait := time.Until(a.current().Renew)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, 0)):
		}
		fresh, err := a.API.Refresh(ctx, a.current().Refresh)
		var r *ResponseError
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

// sourceInterval is the time between two requests for the tokens of a stored login, which are
// renewed when it is time.
const sourceInterval = time.Minute

// keepSource requests the tokens of a stored login until ctx ends. The next connection reports
// errors.
func (a *Account) keepSource(ctx context.Context) {
	tick := time.NewTicker(sourceInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = a.Source(ctx, false)
		}
	}
}

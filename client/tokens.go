package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/flock"
	"github.com/ruedahq/rueda/wire"
)

// Tokens are the tokens of a login.
type Tokens struct {
	Access         Secret    `json:"access_token"`
	Expires        time.Time `json:"expires"` // of the access token
	Refresh        Secret    `json:"refresh_token"`
	RefreshExpires time.Time `json:"refresh_expires"`
	Scope          string    `json:"scope"` // separated by spaces
}

// TokenStore keeps tokens between runs of a program. Save returns when they are durable. A Client
// calls one method at a time.
type TokenStore interface {
	// Load returns the stored tokens, or zero Tokens if there are none.
	Load(context.Context) (Tokens, error)
	Save(context.Context, Tokens) error
}

// Locker is a TokenStore that several programs may use at the same time. Only one of them may renew
// the tokens, because a gateway ends a login whose old refresh token is used again.
type Locker interface {
	TokenStore
	// Lock waits until no other program has the lock. The Client calls unlock when it has loaded
	// the tokens, renewed them and saved the new ones.
	Lock(context.Context) (unlock func() error, err error)
}

// FileStore is a TokenStore in the file of that name, which only the user may read. Save writes a
// temporary file, syncs it and renames it, so that a crash leaves the old or the new tokens.
// Several programs may use the file, except on Windows: Lock locks a file with the ending .lock.
type FileStore string

// lockAgain is the pause between two attempts to lock a file.
const lockAgain = 20 * time.Millisecond

// Lock implements Locker.
func (f FileStore) Lock(ctx context.Context) (unlock func() error, err error) {
	file, err := os.OpenFile(string(f)+".lock", os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := flock.Lock(file)
		if errors.Is(err, flock.ErrLocked) {
			err = sleep(ctx, lockAgain)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file.Close, nil
	}
}

// Load implements TokenStore.
func (f FileStore) Load(context.Context) (t Tokens, err error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return Tokens{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	return t, err
}

// Save implements TokenStore.
func (f FileStore) Save(_ context.Context, t Tokens) error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return replaceFile(string(f), 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// replaceFile replaces a file by the output of write. If write fails, or after a crash, the old
// file remains.
func replaceFile(name string, mode fs.FileMode, write func(io.Writer) error) error {
	temp, err := os.OpenFile(name+"."+rand.Text(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = write(temp)
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes a rename in a folder durable. On Windows, a rename needs no more.
func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// tokens has the tokens of a Client and renews them. Any number of goroutines may need a token at
// the same time; one of them renews it for all.
type tokens struct {
	*Client
	renewing chan struct{} // held by the goroutine that renews; capacity 1

	mu       sync.Mutex
	now      Tokens
	renew    time.Time // when to renew
	loaded   bool      // from the store
	attempts int
	tried    time.Time // the last attempt
	err      error     // of it
}

func (t *tokens) init(c *Client) { t.Client, t.renewing = c, make(chan struct{}, 1) }

// valid returns the current tokens if they need not be renewed.
func (t *tokens) valid() (now Tokens, ok bool, attempts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.now.Access != "" && time.Now().Before(t.renew), t.attempts
}

// get returns tokens with a valid access token. It renews them at 80 % of the life of the access
// token. If that fails, the old ones are used while they are valid.
func (t *tokens) get(ctx context.Context) (Tokens, error) {
	now, ok, seen := t.valid()
	if ok {
		return now, nil
	}
	select {
	case t.renewing <- struct{}{}:
		defer func() { <-t.renewing }()
	case <-ctx.Done():
		return Tokens{}, ctx.Err()
	}
	t.mu.Lock()
	now, err, others := t.now, t.err, t.attempts != seen
	t.mu.Unlock()
	if others { // another goroutine has made the attempt
		return now, err
	}
	return t.attempt(ctx, now)
}

// attempt renews the tokens and records the result.
func (t *tokens) attempt(ctx context.Context, old Tokens) (Tokens, error) {
	defer t.lock(ctx)()
	if err := t.load(ctx, &old); err != nil {
		return Tokens{}, err
	}
	began := time.Now()
	if _, ok, _ := t.valid(); ok {
		return old, nil // from the store
	}
	fresh, life, err := t.request(ctx, old)
	if ctx.Err() != nil {
		return Tokens{}, ctx.Err() // of this goroutine only
	}
	if err == nil {
		fresh.Refresh, fresh.RefreshExpires = t.save(ctx, fresh, old)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++
	t.tried = time.Now()
	switch {
	case err == nil:
		t.now, t.renew = fresh, began.Add(life*8/10+mathrand.N(life/20+1))
	case time.Now().Before(old.Expires) && mayHelp(err):
		t.renew, err = time.Now().Add(max(time.Until(old.Expires)/10, time.Second)), nil
	}
	t.err = err
	return t.now, err
}

// lock locks the store, if it can be locked. Without the lock, the tokens are renewed all the same.
func (t *tokens) lock(ctx context.Context) (unlock func()) {
	store, ok := t.opts.Tokens.(Locker)
	if !ok {
		return func() {}
	}
	release, err := store.Lock(ctx)
	if err != nil {
		t.log.Warn("tokens not locked", "error", err)
		return func() {}
	}
	return func() {
		if err := release(); err != nil {
			t.log.Warn("tokens not unlocked", "error", err)
		}
	}
}

// load reads the stored tokens: those of an earlier run or, in a store for several programs, those
// that another program has renewed. An access token with little of its life left is not used.
func (t *tokens) load(ctx context.Context, now *Tokens) error {
	t.mu.Lock()
	loaded := t.loaded
	t.mu.Unlock()
	_, shared := t.opts.Tokens.(Locker)
	if t.opts.Tokens == nil || loaded && !shared {
		return nil
	}
	stored, err := t.opts.Tokens.Load(ctx)
	if err != nil && !loaded && (t.opts.Password == "" || ctx.Err() != nil) {
		return fmt.Errorf("client: load tokens: %w", err)
	}
	if err != nil {
		t.log.Warn("tokens not loaded", "error", err)
	}
	if loaded && (err != nil || stored.Refresh == "" || stored.Refresh == now.Refresh) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded, t.now, *now = true, stored, stored
	if rest := time.Until(stored.Expires); rest > time.Minute {
		t.renew = time.Now().Add(rest / 2)
	}
	return nil
}

// save stores tokens and returns the refresh token to use next. A refresh token that could not be
// stored is not used: the one before it stays valid.
func (t *tokens) save(ctx context.Context, fresh, old Tokens) (Secret, time.Time) {
	if t.opts.Tokens == nil {
		return fresh.Refresh, fresh.RefreshExpires
	}
	if err := t.opts.Tokens.Save(ctx, fresh); err != nil {
		t.log.Warn("tokens not stored", "error", err)
		return old.Refresh, old.RefreshExpires
	}
	return fresh.Refresh, fresh.RefreshExpires
}

// request asks for tokens with the refresh token or, without a valid one, with the password.
func (t *tokens) request(ctx context.Context, old Tokens) (Tokens, time.Duration, error) {
	if old.Refresh != "" {
		fresh, life, err := t.grant(ctx, map[string]string{"grant_type": wire.GrantRefresh, "refresh_token": string(old.Refresh)})
		var e *Error
		if t.opts.Password == "" || !errors.As(err, &e) || e.Code != http.StatusUnauthorized {
			return fresh, life, err
		}
	}
	if t.opts.Password == "" {
		return Tokens{}, 0, &Error{Code: http.StatusUnauthorized, Reason: wire.InvalidCredentials, Msg: "There is neither a password nor a stored token"}
	}
	login := map[string]string{"grant_type": wire.GrantPassword, "username": t.opts.Username, "password": string(t.opts.Password)}
	fresh, life, err := t.grant(ctx, login)
	if ReasonOf(err) == wire.MFARequired && t.opts.OTP != nil {
		if login["otp"], err = t.opts.OTP(ctx); err != nil {
			return Tokens{}, 0, err
		}
		return t.grant(ctx, login)
	}
	return fresh, life, err
}

// grant requests tokens. Times count from before the request, so that the clock of the gateway does
// not matter.
func (t *tokens) grant(ctx context.Context, body map[string]string) (Tokens, time.Duration, error) {
	began := time.Now()
	var answer struct {
		Access         Secret `json:"access_token"`
		ExpiresIn      int64  `json:"expires_in"`
		Refresh        Secret `json:"refresh_token"`
		RefreshExpires int64  `json:"refresh_expires_in"`
		Scope          string `json:"scope"`
	}
	err := t.call(ctx, request{method: http.MethodPost, path: "/auth/token", body: body}, &answer)
	if err == nil && answer.Access == "" {
		err = brokenError{errors.New("client: the answer to a login has no token")}
	}
	life := lifetime(answer.ExpiresIn)
	return Tokens{
		Access: answer.Access, Expires: began.Add(life),
		Refresh: answer.Refresh, RefreshExpires: began.Add(lifetime(answer.RefreshExpires)),
		Scope: answer.Scope,
	}, life, err
}

// maxLife is the longest lifetime of a token that a client believes.
const maxLife = 10 * 365 * 24 * time.Hour

// lifetime returns a number of seconds of an answer as a duration from 0 to maxLife.
func lifetime(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 0), int64(maxLife/time.Second))) * time.Second
}

// invalidate discards an access token that the gateway has refused.
func (t *tokens) invalidate(access Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.Access == access {
		t.now.Access, t.now.Expires = "", time.Time{}
	}
}

// renewAgain is the shortest time between two renewals of a stream, whatever lifetimes a gateway
// states. Tokens may live a second, the shortest lifetime that a gateway can have.
const renewAgain = 500 * time.Millisecond

// untilRenewal returns how long a stream waits before the next renewal.
func (t *tokens) untilRenewal() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(laterOf(t.renew, t.tried.Add(renewAgain)))
}

// renewWithin makes get renew the tokens no later than after a time.
func (t *tokens) renewWithin(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := time.Now().Add(d); at.Before(t.renew) {
		t.renew = at
	}
}

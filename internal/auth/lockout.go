package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/auth/throttle"
)

// accountFailures bounds the wrong passwords of accounts that reach the user base.
type accountFailures struct {
	store  Store
	most   int // 0: no bound
	window time.Duration
	keyed  func(what, text string) Hash
	logger *slog.Logger
}

// reserve counts a wrong password of an account before the user base checks it. Away from its
// trusted locations, an account may fail one time fewer, so that others cannot use up the last
// attempt of its owner.
func (f *accountFailures) reserve(ctx context.Context, name string, trusted bool) (account Hash, refused *Error) {
	if f.most <= 0 {
		return account, nil
	}
	most := f.most
	if !trusted {
		most = max(1, most-1)
	}
	account = f.keyed("account failures", name)
	wait, err := f.store.ReserveFailure(ctx, account, most, f.window, time.Now())
	switch {
	case err != nil:
		f.logger.Error("failed login not counted", "error", err)
		return account, unavailable(err)
	case wait > 0:
		return account, &Error{Reason: TooManyFailures, RetryAfter: wait, Err: errors.New("one more wrong password may lock the account in the user base")}
	}
	return account, nil
}

// settle reverts a reserve. After an error the failure stays counted.
func (f *accountFailures) settle(ctx context.Context, account Hash, how throttle.Settlement) {
	if f.most <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	if err := f.store.SettleFailure(ctx, account, how); err != nil {
		f.logger.Warn("failed login counted that was none", "error", err)
	}
}

// checkedAccount is an account whose password is checked, either at one of its trusted locations or
// elsewhere. They are distinct, so that others do not make the owner wait.
type checkedAccount struct {
	name    string
	trusted bool
}

// passwordChecks lets one password of an account be checked at a time. One account cannot use up
// the slots for password hashes.
type passwordChecks struct {
	mu      sync.Mutex
	running map[checkedAccount]*passwordCheck
}

type passwordCheck struct {
	slot  chan struct{} // has a value while a password is checked
	users int           // that check or wait
}

const (
	// checkQueue is the largest number of logins of an account that wait for each other.
	// checkQueueWait is how long they wait.
	checkQueue     = 256
	checkQueueWait = 10 * time.Second
)

// begin waits until no other password of the account is checked. end is nil if the login must be
// refused.
func (p *passwordChecks) begin(ctx context.Context, account checkedAccount) (end func(), err error) {
	p.mu.Lock()
	if p.running == nil {
		p.running = make(map[checkedAccount]*passwordCheck)
	}
	c := p.running[account]
	if c == nil {
		c = &passwordCheck{slot: make(chan struct{}, 1)}
		p.running[account] = c
	}
	full := c.users >= checkQueue
	if !full {
		c.users++
	}
	p.mu.Unlock()
	if full {
		return nil, errors.New("too many logins of one account at once")
	}
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(p.running, account)
		}
	}
	patience := time.NewTimer(checkQueueWait)
	defer patience.Stop()
	select {
	case c.slot <- struct{}{}:
		return func() {
			<-c.slot
			leave()
		}, nil
	case <-patience.C:
		err = errors.New("login waited too long for other logins of the account")
	case <-ctx.Done():
		err = ctx.Err()
	}
	leave()
	return nil, err
}

package auth

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// accountFailures bounds the wrong passwords of accounts that reach the user base. It implements
// throttle.Directory.
type accountFailures struct {
	store  Store
	most   int
	window time.Duration
	keyed  func(what, text string) Hash
	logger *slog.Logger
}

// Reserve counts a wrong password of an account before the user base checks it. Away from its
// trusted locations, an account may fail one time fewer, so that others cannot use up the last
// attempt of its owner.
func (f *accountFailures) Reserve(ctx context.Context, name string, trusted bool) *throttle.Error {
	most := f.most
	if !trusted {
		most = max(1, most-1)
	}
	wait, err := f.store.ReserveFailure(ctx, f.keyed("account failures", name), most, f.window, time.Now())
	switch {
	case err != nil:
		f.logger.Error("failed login not counted", "error", err)
		return &throttle.Error{Reason: Unavailable, RetryAfter: unavailableRetry, Err: err}
	case wait > 0:
		return &throttle.Error{Reason: TooManyFailures, RetryAfter: wait, Err: errors.New("one more wrong password may lock the account in the user base")}
	}
	return nil
}

// Settle reverts a Reserve. After an error the failure stays counted.
func (f *accountFailures) Settle(ctx context.Context, name string, how throttle.Settlement) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	if err := f.store.SettleFailure(ctx, f.keyed("account failures", name), how); err != nil {
		f.logger.Warn("failed login counted that was none", "error", err)
	}
}

package auth

import (
	"context"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/auth/throttle"
)

// maxTrusted bounds the trusted locations that are read at a time.
const maxTrusted = 1 << 18

// trustedLocations keeps the trusted locations of the limiter in the Store.
type trustedLocations struct {
	store    Store
	throttle *throttle.Limiter
	logger   *slog.Logger
	read     time.Time // locations stored since then have not been read; used by New and Run
}

// load reads the locations that this and other nodes have stored.
func (t *trustedLocations) load(ctx context.Context) error {
	now := time.Now()
	since := t.read
	if oldest := now.Add(-throttle.LocationsKept); since.Before(oldest) {
		since = oldest
	}
	list, err := t.store.TrustedLocations(ctx, since, maxTrusted)
	if err != nil {
		return err
	}
	t.throttle.LoadTrusted(list)
	t.read = now.Add(-clocksApart)
	return nil
}

// reload reads what other nodes have stored meanwhile.
func (t *trustedLocations) reload(ctx context.Context) {
	if err := t.load(ctx); err != nil && ctx.Err() == nil {
		t.logger.Warn("trusted locations not read", "error", err)
	}
}

// save stores the location of a login, at most once a day.
func (t *trustedLocations) save(ctx context.Context, attempt *throttle.Attempt) {
	location, due := attempt.Unstored()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	if err := t.store.TrustLocation(ctx, location); err != nil {
		t.logger.Warn("trusted location not stored", "error", err)
	}
}

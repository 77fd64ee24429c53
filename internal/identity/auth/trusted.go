package auth

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// maxTrusted bounds the trusted locations that are read at a time.
const maxTrusted = 1 << 19

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

// save stores the location and the device of a login, at most once a day. It appends an event if
// the device is new. The answer to the login does not depend on either.
func (t *trustedLocations) save(ctx context.Context, attempt *throttle.Attempt, user string, from Origin) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	store := func(l throttle.TrustedLocation) {
		if err := t.store.TrustLocation(ctx, l); err != nil {
			t.logger.Warn("trusted location not stored", "error", err)
		}
	}
	if location, due := attempt.Unstored(); due {
		store(location)
	}
	now := time.Now()
	device, due, isNew := attempt.UseDevice(deviceText(from), now)
	if due {
		store(device)
	}
	if !isNew {
		return
	}
	e := audit.Event{Time: now, Kind: audit.LoginNewDevice, Actor: "client", User: user, Address: addressText(from), Client: clientText(from)}
	if err := t.store.Append(ctx, e); err != nil {
		t.logger.Error("login with a new device not written to the audit log", "error", err)
	}
}

// deviceText returns what distinguishes the devices of a user: the User-Agent without its numbers,
// because a new version is the same device.
func deviceText(from Origin) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || unicode.IsDigit(r) {
			return -1
		}
		return r
	}, clientText(from))
}

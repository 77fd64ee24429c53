package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// Ways a refresh token gives way to its successor.
const (
	RotationActivation = "activation" // it lives until its successor is first used
	RotationStrict     = "strict"     // it dies at its use; a repeat within the grace period gives the same answer
)

// Config is what a Service is made of. Users, Store and Keys are needed; the zero
// value of every other field means the default named with it.
type Config struct {
	Users broker.Users
	Store Store
	Keys  *KeySet

	Issuer   string // iss of access tokens: "rueda"
	Audience string // aud of access tokens: "rueda"

	AccessTTL    time.Duration // 24 h; a token lives for the whole seconds of it
	RefreshTTL   time.Duration // 30 days from the last answer that carried the token
	FamilyMaxAge time.Duration // end of a login however often it is refreshed: none
	Rotation     string        // RotationActivation
	GracePeriod  time.Duration // 30 s

	Throttle Throttle

	// UserTTL is how long a user is taken as read before the user base is asked
	// again: 1 minute. A password change or a disabled user that the base did
	// not tell (UsersChanged) is noticed that late.
	UserTTL time.Duration

	OnRevoke     func(family string)                    // the family is over: close its sockets
	OnRevokeUser func(userID string)                    // tokens of the user's present version are over: close the user's sockets
	OnRights     func(user broker.User)                 // scopes, entitlements or limits changed, the tokens stay
	OnRefresh    func(family string, expires time.Time) // the family has a new access token

	Logger *slog.Logger // none: discarded
}

func (c *Config) setDefaults() error {
	if c.Users == nil || c.Store == nil || c.Keys == nil {
		return errors.New("auth: Users, Store and Keys are needed")
	}
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.AccessTTL, 24 * time.Hour},
		{&c.RefreshTTL, 30 * 24 * time.Hour},
		{&c.GracePeriod, 30 * time.Second},
		{&c.UserTTL, time.Minute},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
		if *f.field < time.Second {
			return fmt.Errorf("auth: a duration of %v is under a second", *f.field)
		}
	}
	for _, f := range []struct {
		field *string
		value string
	}{{&c.Issuer, "rueda"}, {&c.Audience, "rueda"}, {&c.Rotation, RotationActivation}} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	if c.Rotation != RotationActivation && c.Rotation != RotationStrict {
		return fmt.Errorf("auth: rotation %q is neither %s nor %s", c.Rotation, RotationActivation, RotationStrict)
	}
	if c.OnRevoke == nil {
		c.OnRevoke = func(string) {}
	}
	if c.OnRevokeUser == nil {
		c.OnRevokeUser = func(string) {}
	}
	if c.OnRights == nil {
		c.OnRights = func(broker.User) {}
	}
	if c.OnRefresh == nil {
		c.OnRefresh = func(string, time.Time) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Throttle.setDefaults()
	return nil
}

// Service gives out tokens, checks them and ends them.
type Service struct {
	cfg      Config
	access   *accessTokens
	throttle *throttle
	verified verified
	users    users
	revoked  revocations
}

// New makes a Service and reads what was revoked from the Store.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg:      cfg,
		access:   newAccessTokens(cfg.Keys, cfg.Issuer, cfg.Audience, cfg.AccessTTL),
		throttle: newThrottle(cfg.Throttle),
		verified: verified{tokens: newTable[Hash, *claims](maxVerified)},
		users:    users{base: cfg.Users, ttl: cfg.UserTTL, known: newTable[string, knownUser](maxUsers)},
		revoked:  revocations{at: make(map[string]time.Time), unstored: make(map[string]time.Time)},
	}
	past, err := cfg.Store.Revoked(ctx, time.Now().Add(-cfg.AccessTTL))
	if err != nil {
		return nil, fmt.Errorf("read the revoked families: %w", err)
	}
	for _, r := range past {
		s.revoked.add(r.Family, r.At)
	}
	return s, nil
}

// Origin is where a request comes from.
type Origin struct {
	Address netip.Addr
	Client  string // its User-Agent
}

// Identity is who an access token speaks for.
type Identity struct {
	User    broker.User // with the rights of now
	Family  string
	TokenID string
	Issued  time.Time
	Expires time.Time
}

// Tokens answer a grant.
type Tokens struct {
	Access           Secret
	Refresh          Secret
	ExpiresIn        time.Duration
	RefreshExpiresIn time.Duration
	Scope            string // all scopes of the user, one space between
}

// JWKS is the body of /.well-known/jwks.json, the public keys, with its ETag.
func (s *Service) JWKS() (body []byte, etag string) { return s.cfg.Keys.jwks, s.cfg.Keys.etag }

// tokens are the answer of a grant that succeeded.
func (s *Service) tokens(user broker.User, family string, refresh refreshSecret, refreshEnd, now time.Time) (Tokens, time.Time, error) {
	access, expires, err := s.access.mint(user, family, now)
	if err != nil {
		return Tokens{}, time.Time{}, unavailable(err)
	}
	return Tokens{
		Access:           access,
		Refresh:          refresh.text(),
		ExpiresIn:        s.cfg.AccessTTL.Truncate(time.Second),
		RefreshExpiresIn: refreshEnd.Sub(now),
		Scope:            strings.Join(user.Scopes, " "),
	}, expires, nil
}

const (
	housekeeping = time.Minute
	expireEvery  = 10 // rounds of housekeeping
	// An answer may still be on its way while the clock says it is over.
	revokedMargin = time.Minute
)

// Run forgets what has expired, reads changed users that could not be read when
// they changed, and stores revocations that could not be stored when they came, until ctx ends; it then returns nil.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.readStale(ctx)
		s.storeRevoked(ctx)
		if round%expireEvery == 0 {
			s.expire(ctx, time.Now())
		}
	}
}

func (s *Service) expire(ctx context.Context, now time.Time) {
	past := now.Add(-s.cfg.AccessTTL - revokedMargin)
	s.revoked.forget(past)
	if n, err := s.cfg.Store.Expire(ctx, now, past); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("expired families were not deleted", "error", err)
	} else if n > 0 {
		s.cfg.Logger.Debug("expired families deleted", "families", n)
	}
}

// revocations are the families whose access tokens would still verify by
// themselves.
type revocations struct {
	mu       sync.RWMutex
	at       map[string]time.Time
	unstored map[string]time.Time // those of at that the Store has yet to learn
}

func (r *revocations) add(family string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[family] = at
}

func (r *revocations) has(family string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.at[family]
	return ok
}

// addUnstored is add for one that only this process knows.
func (r *revocations) addUnstored(family string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[family], r.unstored[family] = at, at
}

func (r *revocations) allUnstored() map[string]time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.unstored)
}

func (r *revocations) stored(family string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unstored, family)
}

func (r *revocations) forget(before time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for family, at := range r.at {
		if _, kept := r.unstored[family]; !kept && at.Before(before) {
			delete(r.at, family)
		}
	}
}

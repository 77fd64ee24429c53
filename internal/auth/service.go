package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth/keyset"
	"github.com/ruedahq/rueda/internal/auth/throttle"
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
	Keys  *keyset.Set

	Issuer   string // iss of access tokens: "rueda"
	Audience string // aud of access tokens: "rueda"

	AccessTTL    time.Duration // 24 h; a token lives for the whole seconds of it
	RefreshTTL   time.Duration // 30 days from the last answer that carried the token
	FamilyMaxAge time.Duration // end of a login however often it is refreshed: none
	Rotation     string        // RotationActivation
	GracePeriod  time.Duration // 30 s

	// MaxSessions is how many logins of a user go on at a time: 100. With one more, that which was used least lately ends.
	MaxSessions int

	Throttle throttle.Config
	Shared   throttle.Shared // asked after Throttle, by all nodes of an installation; none: each bounds by itself
	AuditKey []byte          // of the hashes of usernames in the audit log and the shared limits: that of Keys

	// UserTTL is how long a user is taken as read before the user base is asked
	// again: 1 minute. A password change or a disabled user that the base did
	// not tell (UsersChanged) is noticed that late.
	UserTTL time.Duration

	// OnRevokeUser and OnRights are called one after another for a user, in the order in which the user was read. No hook may
	// block or call the Service.
	OnRevoke     func(family string)                    // the family is over: close its sockets
	OnRevokeUser func(userID string)                    // tokens of the user's present version are over: close the user's sockets
	OnRights     func(user broker.User)                 // scopes, entitlements or limits changed, the tokens stay
	OnRefresh    func(family string, expires time.Time) // the family has a new access token

	// Expiring are the families of open sockets whose deadline is within 10 minutes. Those that were refreshed at
	// another node are told by OnRefresh.
	Expiring func() []string

	// Connected are the ids of users who have open sockets, each once: Run reads them again before UserTTL is over, so that a change which
	// the base does not tell reaches sockets that ask for nothing. Watched: it tells (UsersChanged), and they are not read again.
	Connected func() []string
	Watched   bool

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
	if c.MaxSessions <= 0 {
		c.MaxSessions = 100
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
	if c.Expiring == nil {
		c.Expiring = func() []string { return nil }
	}
	if c.Connected == nil {
		c.Connected = func() []string { return nil }
	}
	if len(c.AuditKey) == 0 {
		c.AuditKey = c.Keys.AuditKey()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Service gives out tokens, checks them and ends them.
type Service struct {
	cfg      Config
	access   *accessTokens
	throttle *throttle.Limiter
	noted    map[audit.Kind]*noted // of the kinds that are bounded; only read
	verified *verified
	users    *users
	revoked  revocations

	rereadMu sync.Mutex
	rereadAt time.Time // what was revoked since is yet to be read
}

// New makes a Service and reads what was revoked from the Store.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Keys.KeepFor(cfg.AccessTTL)
	s := &Service{
		cfg:      cfg,
		access:   newAccessTokens(cfg.Keys, cfg.Issuer, cfg.Audience, cfg.AccessTTL),
		noted:    make(map[audit.Kind]*noted),
		verified: newVerified(),
		users:    newUsers(cfg.Users, cfg.UserTTL),
	}
	s.throttle = throttle.New(cfg.Throttle, cfg.Shared, func(purpose, text string) [32]byte { return s.keyed(purpose, text) }, cfg.Logger)
	for _, kind := range []audit.Kind{audit.LoginRefused, audit.LoginThrottled, audit.RefreshRefused} {
		s.noted[kind] = newNoted(kind)
	}
	// There are no sockets yet that would have to be told.
	if err := s.readRevoked(ctx, func(family string, at time.Time) { s.revoked.add(family, at) }); err != nil {
		return nil, fmt.Errorf("read the revoked families: %w", err)
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
	KeyID   string // of the key that signed the token
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

// Limit is what the address of a request may still fail at the token endpoints: of limit at once there are
// remaining; after reset all are there again, and after window where none were.
func (s *Service) Limit(from Origin) (limit, remaining int, reset, window time.Duration) {
	return s.throttle.Limit(from.Address, time.Now())
}

// JWKS is the body of /.well-known/jwks.json, the public keys, with its ETag.
func (s *Service) JWKS() (body []byte, etag string) { return s.cfg.Keys.JWKS() }

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

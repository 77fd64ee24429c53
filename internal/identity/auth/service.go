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
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// Modes of refresh token rotation.
const (
	RotationActivation = "activation" // a token stays valid until its successor is first used
	RotationStrict     = "strict"     // a token dies when it is used; it can be used again within the grace period
)

// Config configures a Service. Users, Store and Keys are required. The comment of each other field
// states what its zero value means.
type Config struct {
	Users broker.Users
	Store Store
	Keys  *keyset.Set

	Issuer   string // iss of access tokens: "rueda"
	Audience string // aud of access tokens: "rueda"

	// OldIssuer is an issuer of before whose tokens are accepted until they expire; "": none.
	OldIssuer string

	AccessTTL    time.Duration // 24 h; only whole seconds count
	RefreshTTL   time.Duration // 30 days from the last answer that carried the token
	FamilyMaxAge time.Duration // the end of a login, however often it is refreshed: 90 days
	Rotation     string        // RotationActivation
	GracePeriod  time.Duration // 30 s

	// MaxSessions is the largest number of simultaneous logins of a user: 100. A further login ends
	// the least recently used one.
	MaxSessions int

	Throttle throttle.Config

	// AccountFailures bounds the wrong passwords of an account that reach the user base. The count
	// is reset after AccountFailureWindow (35 minutes, at most a day) without a failure. It is for
	// user bases that lock accounts and must be lower than their threshold. 0: no bound.
	AccountFailures      int
	AccountFailureWindow time.Duration

	Shared   throttle.Shared // limits of all nodes of an installation, checked after Throttle; nil: each node has limits of its own
	AuditKey []byte          // for hashes of usernames in the audit log and the shared limits, and for MACs in tokens: that of Keys

	// UserTTL is how long the state of a user is used before the user base is queried again: 1
	// minute. Changed passwords and disabled users that the user base does not report
	// (UsersChanged) are found within this time.
	UserTTL time.Duration

	// OnRevokeUser and OnRights are called sequentially for a user, in the order in which the user
	// was read. No hook may block or call the Service.
	OnRevoke     func(family string)                    // the family has ended: close its sockets
	OnRevokeUser func(userID string)                    // tokens of the user's current version have ended: close the user's sockets
	OnRights     func(user broker.User)                 // scopes, entitlements or limits changed; the tokens stay valid
	OnRefresh    func(family string, expires time.Time) // the family has a new access token

	// Expiring returns the families of open sockets whose deadline is within DeadlineNear.
	// OnRefresh reports those that another node has refreshed.
	Expiring func() []string

	// Connected returns the ids of users with open sockets, each once. Run reads them again within
	// UserTTL, so that changes reach sockets without requests. Watched means that the user base
	// reports its changes (UsersChanged), and they are not read again.
	Connected func() []string
	Watched   bool

	Logger *slog.Logger // nil: discarded
}

func (c *Config) setDefaults() error {
	if c.Users == nil || c.Store == nil || c.Keys == nil {
		return errors.New("auth: Users, Store and Keys are required")
	}
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.AccessTTL, 24 * time.Hour},
		{&c.RefreshTTL, 30 * 24 * time.Hour},
		{&c.FamilyMaxAge, 90 * 24 * time.Hour},
		{&c.GracePeriod, 30 * time.Second},
		{&c.UserTTL, time.Minute},
		{&c.AccountFailureWindow, 35 * time.Minute},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
		if *f.field < time.Second {
			return fmt.Errorf("auth: a duration of %v is less than a second", *f.field)
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

// Service issues, checks and revokes tokens.
type Service struct {
	cfg      Config
	access   *accessTokens
	throttle *throttle.Limiter
	noted    map[audit.Kind]*noted // of the kinds that are bounded; read-only
	verified *verified
	users    *users
	revoked  revocations
	gone     goneUsers
	ends     accountEnds
	trusted  trustedLocations

	rereadMu sync.Mutex
	rereadAt time.Time // revocations since then have not been read
}

// New returns a Service. It reads the revocations of the Store.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Keys.KeepFor(cfg.AccessTTL)
	s := &Service{
		cfg:      cfg,
		noted:    make(map[audit.Kind]*noted),
		verified: newVerified(),
		users:    newUsers(cfg.Users, cfg.UserTTL),
	}
	var directory throttle.Directory
	if cfg.AccountFailures > 0 {
		directory = &accountFailures{store: cfg.Store, most: cfg.AccountFailures, window: cfg.AccountFailureWindow, keyed: s.keyed, logger: cfg.Logger}
	}
	s.access = newAccessTokens(cfg.Keys, s.keyed, cfg.Issuer, cfg.OldIssuer, cfg.Audience, cfg.AccessTTL)
	s.throttle = throttle.New(cfg.Throttle, cfg.Shared, directory, func(purpose, text string) [32]byte { return s.keyed(purpose, text) }, cfg.Logger)
	for _, kind := range []audit.Kind{audit.LoginRefused, audit.LoginThrottled, audit.PasswordExposed, audit.RefreshRefused, audit.AddressRefused, audit.AdminRefused, audit.FeedRefused, audit.AdminRead} {
		s.noted[kind] = newNoted(kind)
	}
	// No sockets exist yet, so no hook is called.
	if err := s.readRevoked(ctx, func(family string, at time.Time) { s.revoked.add(family, at) }); err != nil {
		return nil, fmt.Errorf("read the revoked families: %w", err)
	}
	s.trusted = trustedLocations{store: cfg.Store, throttle: s.throttle, logger: cfg.Logger}
	if err := s.trusted.load(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// SetThrottle replaces Config.Throttle of a service. Any goroutine may call it.
func SetThrottle(s *Service, c throttle.Config) { s.throttle.SetLimits(c) }

// Origin is where a request comes from.
type Origin struct {
	Address netip.Addr
	Client  string        // User-Agent
	Idle    time.Duration // how long its tokens live at most; 0: as Config says
	Actor   string        // in the audit log, of an administrator with a name; "": administrator
}

// Identity is the verified content of an access token with its user.
type Identity struct {
	User    broker.User // with current rights
	Family  string
	TokenID string
	KeyID   string // of the key that signed the token
	Issued  time.Time
	Expires time.Time
}

// Tokens are the answer to a grant.
type Tokens struct {
	Access           Secret
	Refresh          Secret
	ExpiresIn        time.Duration
	RefreshExpiresIn time.Duration
	Scope            string // all scopes of the user, separated by spaces
	Session          string // id of the login
}

// Limit returns the limit of failures at the token endpoints for the address of a request, how many
// remain, the time until all are available again, and that time for an exhausted limit.
func (s *Service) Limit(from Origin) (limit, remaining int, reset, window time.Duration) {
	return s.throttle.Limit(from.Address, time.Now())
}

// JWKS returns the body of /.well-known/jwks.json, the public keys, with its ETag.
func (s *Service) JWKS() (body []byte, etag string) { return s.cfg.Keys.JWKS() }

// tokens returns the answer to a grant that succeeded, and the claims of its access token. Without
// a refresh, no access token outlives the refresh token.
func (s *Service) tokens(user broker.User, family string, refresh refreshToken, refreshEnd, now time.Time, from Origin) (Tokens, *claims, error) {
	life := s.cfg.AccessTTL
	if from.Idle > 0 {
		life = min(life, from.Idle)
	}
	access, c, err := s.access.mint(user, family, now, life)
	if err != nil {
		return Tokens{}, nil, unavailable(err)
	}
	return Tokens{
		Access:           access,
		Refresh:          refresh.text(),
		ExpiresIn:        life.Truncate(time.Second),
		RefreshExpiresIn: refreshEnd.Sub(now),
		Scope:            strings.Join(user.Scopes, " "),
		Session:          family,
	}, c, nil
}

// granted remembers the access token of an answer that is given, so that it needs no check here.
func (s *Service) granted(t *Tokens, c *claims) { s.verified.put(t.Access.Reveal(), c) }

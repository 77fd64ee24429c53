package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/internal/identity/store"
)

const (
	grace = 30 * time.Second
	day   = 24 * time.Hour
	month = 30 * day
)

// origin is the origin of the tests' requests.
var origin = auth.Origin{Address: netip.MustParseAddr("192.0.2.1"), Client: "test/1"}

// soak returns n in a soak run and a twentieth of it otherwise.
func soak(n int) int {
	if os.Getenv("RUEDA_SOAK") == "1" {
		return n
	}
	return max(1, n/20)
}

// people is a user base in memory with plain-text passwords.
type people struct {
	mu       sync.Mutex
	byID     map[string]*person
	down     error
	logins   int           // passwords checked
	reads    int           // users read
	checking chan struct{} // if not nil, a password check waits until it is closed
}

type person struct {
	user     broker.User
	password string
	otp      string // if not empty, the required one-time password
	disabled bool
}

func newPeople() *people {
	p := &people{byID: make(map[string]*person)}
	for _, name := range []string{"maria", "otto"} {
		p.byID["us_"+name] = &person{
			user: broker.User{
				ID: "us_" + name, Username: name, Version: 1,
				Scopes:       []string{broker.ScopeAccounts, broker.ScopeRead},
				Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true}},
			},
			password: name + "'s password",
		}
	}
	return p
}

func (p *people) change(id string, f func(*person)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.byID[id])
}

func (p *people) setDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

func (p *people) counts() (logins, reads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins, p.reads
}

func (p *people) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if p.checking != nil {
		<-p.checking
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logins++
	if p.down != nil {
		return broker.User{}, p.down
	}
	x := p.byID["us_"+login.Username]
	switch {
	case x == nil:
		return broker.User{}, broker.ErrInvalidCredentials
	case x.password != login.Password || x.disabled:
		return broker.User{ID: x.user.ID}, broker.ErrInvalidCredentials
	case login.OTP != "" && x.otp != login.OTP:
		return broker.User{ID: x.user.ID}, broker.ErrWrongOTP
	case x.otp != login.OTP:
		return broker.User{ID: x.user.ID}, broker.ErrSecondFactor
	}
	return x.user, nil
}

func (p *people) User(ctx context.Context, id string) (broker.User, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	switch x := p.byID[id]; {
	case p.down != nil:
		return broker.User{}, p.down
	case x == nil:
		return broker.User{}, broker.ErrNotFound
	case x.disabled:
		return broker.User{}, broker.ErrDisabled
	default:
		return x.user, nil
	}
}

// remove deletes a user.
func (p *people) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// faulty is a Store that can be switched off.
type faulty struct {
	auth.Store
	mu   sync.Mutex
	down error
}

func (f *faulty) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *faulty) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *faulty) CreateFamily(ctx context.Context, family auth.Family, t auth.RefreshToken) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.CreateFamily(ctx, family, t)
}

func (f *faulty) Lookup(ctx context.Context, h auth.Hash) (auth.RefreshToken, auth.Family, error) {
	if err := f.err(); err != nil {
		return auth.RefreshToken{}, auth.Family{}, err
	}
	return f.Store.Lookup(ctx, h)
}

func (f *faulty) Rotate(ctx context.Context, r auth.Rotation) (auth.Outcome, error) {
	if err := f.err(); err != nil {
		return auth.Refused, err
	}
	return f.Store.Rotate(ctx, r)
}

func (f *faulty) Append(ctx context.Context, events ...audit.Event) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.Append(ctx, events...)
}

func (f *faulty) RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.RevokeFamily(ctx, id, reason, e)
}

func (f *faulty) RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.RevokeUser(ctx, userID, reason, created, e)
}

// hooks records the calls of a Service's hooks.
type hooks struct {
	mu       sync.Mutex
	families []string
	users    []string
	rights   []broker.User
	extended map[string]time.Time
}

func (h *hooks) revokedFamilies() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.families)
}

func (h *hooks) revokedUsers() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.users)
}

// world is a Service with its dependencies.
type world struct {
	*auth.Service
	t      testing.TB
	cfg    auth.Config
	people *people
	store  *faulty
	hooks  *hooks
}

// newWorld returns a Service with limits that no test reaches by accident. The given functions
// change its Config.
func newWorld(t testing.TB, change ...func(*auth.Config)) *world {
	t.Helper()
	keys, err := keyset.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, people: newPeople(), store: &faulty{Store: store.NewMemory()}, hooks: &hooks{extended: make(map[string]time.Time)}}
	w.cfg = auth.Config{
		Users: w.people,
		Keys:  keys,
		Throttle: throttle.Config{
			AddressPerMinute: 1e6, AddressBurst: 1e6, NetworkPerMinute: 1e6, NetworkBurst: 1e6, GlobalPerMinute: 1e6, GlobalBurst: 1e6,
			AccountFree: 1e6, FamilyPerMinute: 1e6, FamilyBurst: 1e6,
			UserPerMinute: 1e6, UserBurst: 1e6, LoginsPerMinute: 1e6, LoginsBurst: 1e6,
		},
		MaxSessions: 1e6,
		OnRevoke: func(family string) {
			w.hooks.mu.Lock()
			defer w.hooks.mu.Unlock()
			w.hooks.families = append(w.hooks.families, family)
		},
		OnRevokeUser: func(user string) {
			w.hooks.mu.Lock()
			defer w.hooks.mu.Unlock()
			w.hooks.users = append(w.hooks.users, user)
		},
		OnRights: func(user broker.User) {
			w.hooks.mu.Lock()
			defer w.hooks.mu.Unlock()
			w.hooks.rights = append(w.hooks.rights, user)
		},
		OnRefresh: func(family string, expires time.Time) {
			w.hooks.mu.Lock()
			defer w.hooks.mu.Unlock()
			w.hooks.extended[family] = expires
		},
	}
	for _, f := range change {
		f(&w.cfg)
	}
	if w.cfg.Store != nil {
		w.store.Store = w.cfg.Store
	}
	w.cfg.Store = w.store
	w.restart()
	return w
}

func strict(c *auth.Config) { c.Rotation = auth.RotationStrict }

func defaultThrottle(c *auth.Config) { c.Throttle = throttle.Config{} }

func logTo(l *slog.Logger) func(*auth.Config) { return func(c *auth.Config) { c.Logger = l } }

// restart creates the Service again from the stored state.
func (w *world) restart() {
	w.t.Helper()
	s, err := auth.New(w.t.Context(), w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Service = s
}

func (w *world) login(name string) auth.Tokens {
	w.t.Helper()
	tokens, err := w.Password(w.t.Context(), name, name+"'s password", "", origin)
	if err != nil {
		w.t.Fatalf("log in: %v", err)
	}
	return tokens
}

func (w *world) refresh(token auth.Secret) auth.Tokens {
	w.t.Helper()
	tokens, err := w.Refresh(w.t.Context(), token, origin)
	if err != nil {
		w.t.Fatalf("refresh: %v", err)
	}
	return tokens
}

func (w *world) refuses(token auth.Secret, reason string) {
	w.t.Helper()
	_, err := w.Refresh(w.t.Context(), token, origin)
	wantReason(w.t, err, reason)
}

func (w *world) verify(token auth.Secret) auth.Identity {
	w.t.Helper()
	id, err := w.Verify(w.t.Context(), token.Reveal())
	if err != nil {
		w.t.Fatalf("verify: %v", err)
	}
	return id
}

func (w *world) rejects(token auth.Secret, reason string) {
	w.t.Helper()
	_, err := w.Verify(w.t.Context(), token.Reveal())
	wantReason(w.t, err, reason)
}

// audited returns the events of a kind in the audit log.
func (w *world) audited(kind audit.Kind) (list []audit.Event) {
	w.t.Helper()
	for row, err := range w.store.Store.(*store.Memory).AuditRows(w.t.Context(), 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if row.Kind == kind {
			list = append(list, row.Event)
		}
	}
	return list
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*auth.Error](err); ok {
		return e.Reason
	}
	if err != nil {
		return "not an auth.Error: " + err.Error()
	}
	return ""
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	if got := reasonOf(err); got != reason {
		t.Errorf("reason %q (%v), want %q", got, err, reason)
	}
}

// openFile opens a key file as a process does.
func openFile(t testing.TB, path string) (*keyset.Set, error) {
	t.Helper()
	return keyset.Open(t.Context(), keyset.FileStore(path), keyset.Config{})
}

// newKeyFile returns a key set, the private key that signs for it, and its file.
func newKeyFile(t testing.TB) (*keyset.Set, *ecdsa.PrivateKey, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	keys, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys []struct {
			ID      string `json:"kid"`
			Private []byte `json:"private"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), file.Keys[0].Private)
	if err != nil {
		t.Fatal(err)
	}
	return keys, private, file.Keys[0].ID
}

// earlierLogin stores a login as earlier programs did, and returns its refresh token, which has
// random bytes in the place of the MAC.
func (w *world) earlierLogin(name string) auth.Secret {
	w.t.Helper()
	content := make([]byte, 32)
	_, _ = rand.Read(content)
	now := time.Now()
	family := auth.Family{ID: "earlier of " + name, UserID: "us_" + name, UserVersion: 1, KeyID: w.cfg.Keys.Deriver(), Created: now, Used: now}
	end := now.Add(month)
	first := auth.RefreshToken{Hash: sha256.Sum256(content), Family: family.ID, Issued: now, Expires: end, Kept: end}
	if err := w.cfg.Store.CreateFamily(w.t.Context(), family, first); err != nil {
		w.t.Fatal(err)
	}
	return auth.NewSecret("rt1_" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(content, crc32.ChecksumIEEE(content))))
}

package keyset

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Config configures a Set. Each field documents its zero value.
type Config struct {
	// Algorithm of new keys; "": ES256.
	Algorithm string
	// Rotate is how long a key signs before the next one does; 0: 30 days; negative: until an
	// operator rotates the keys.
	Rotate time.Duration
	// AccessTTL is the life of the longest-lived token; 0: 24 h. A Service raises it to its own.
	AccessTTL time.Duration
	// Encryption returns the key of the stored document. It is called at every load and save, so
	// that the key can be replaced while the process runs. Open accepts a document that is not
	// encrypted; the next save encrypts it. nil: not encrypted.
	Encryption func() (EncryptionKey, error)

	// Floor stores the counter of the newest document in another place than the document. A
	// document with a lower counter is refused, because it is an old copy and may have a key that
	// was revoked since. nil: only this process remembers the counter.
	Floor Floor
	// AcceptOlder accepts an older document at Open and saves it as the newest. It is for an operator
	// who restores a backup.
	AcceptOlder bool
	// RevokedKeys returns the ids of keys that were revoked, from the audit log. Open revokes those
	// that are in the document again. nil: none.
	RevokedKeys func(ctx context.Context) ([]string, error)

	// MustExist makes missing keys ErrNoKeys instead of making new ones.
	MustExist bool

	// OnRevoke is called with the id of a revoked key, once its tokens are no longer accepted, so
	// that their sockets can be closed. It must not block. nil: no call.
	OnRevoke func(kid string)
	// Audit appends the steps of keys to the audit log; nil: they are not recorded.
	Audit func(ctx context.Context, events ...audit.Event) error
	// Actor is the actor of the events; "": gateway.
	Actor string

	Logger *slog.Logger // nil: discarded
}

const (
	defaultRotate = 30 * 24 * time.Hour
	// leastRotate bounds the number of keys that only verify.
	leastRotate = time.Hour
)

func (c *Config) setDefaults() error {
	c.Algorithm = cmp.Or(c.Algorithm, ES256)
	c.Rotate = max(0, cmp.Or(c.Rotate, defaultRotate))
	c.AccessTTL = cmp.Or(c.AccessTTL, 24*time.Hour)
	c.Actor = cmp.Or(c.Actor, "gateway")
	if !knownAlgorithm(c.Algorithm) {
		return unknownAlgorithm(c.Algorithm)
	}
	if c.Rotate > 0 && c.Rotate < leastRotate {
		return fmt.Errorf("keys cannot rotate more often than every %v, got %v", leastRotate, c.Rotate)
	}
	if c.OnRevoke == nil {
		c.OnRevoke = func(string) {}
	}
	if c.Audit == nil {
		c.Audit = func(context.Context, ...audit.Event) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Set has the secrets of a server: the keys for access tokens, the secrets that derive refresh
// tokens, and the key of the audit log. One of the keys signs and all verify. The first of the
// secrets is for new families.
//
// Requests read an immutable ring in memory, which Run updates.
type Set struct {
	cfg      Config
	store    Store
	lifetime atomic.Int64 // of tokens, a time.Duration
	ring     atomic.Pointer[ring]

	mu         chan struct{} // taken by loads and saves; no request waits for it
	unrecorded []audit.Event // under mu: steps to be recorded in the audit log
	failing    bool          // under mu: the last access to the store failed
	plain      bool          // under mu: the loaded document was not encrypted
	sealed     bool          // under mu: the document is encrypted and accepted in no other form
	seen       int64         // under mu: the highest counter of a document
	checked    bool          // under mu: seen was compared with the floor
	refused    bool          // under mu: an older document is stored, and this was recorded
}

// New returns a set of new secrets in memory: a restart ends all tokens. Open returns a stored set.
func New() (*Set, error) {
	return Open(context.Background(), MemoryStore(), Config{})
}

// ErrNoKeys is the error of Open for missing keys if Config.MustExist is set.
var ErrNoKeys = errors.New("there are no keys")

// Open loads the keys of a store, or makes them if there are none. Two processes that make them at
// once get the same ones.
func Open(ctx context.Context, store Store, cfg Config) (*Set, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	k := &Set{cfg: cfg, store: store, mu: make(chan struct{}, 1)}
	k.KeepFor(cfg.AccessTTL)
	for range saveTries {
		d, err := k.openOnce(ctx)
		if errors.Is(err, ErrConflict) {
			continue // another process made them
		}
		if err != nil {
			return nil, err
		}
		return k, k.install(d)
	}
	return nil, fmt.Errorf("make %s, %d times: %w", k.place(), saveTries, ErrConflict)
}

func (k *Set) openOnce(ctx context.Context) (*document, error) {
	d, version, complete, err := k.load(ctx)
	if err == nil && k.plain && k.cfg.Encryption != nil {
		k.cfg.Logger.Warn("stored keys are not encrypted, the next save encrypts them")
	}
	if err == nil && complete {
		return d, k.revokeAgain(ctx, d, version)
	}
	fresh := errors.Is(err, ErrNoDocument)
	if fresh && k.cfg.MustExist {
		return nil, ErrNoKeys
	}
	if fresh {
		d, err = newDocument(k.cfg.Algorithm, time.Now())
	}
	if err == nil && fresh && k.cfg.Floor != nil { // of lost keys
		k.seen, err = k.cfg.Floor.KeyFloor(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := k.save(ctx, d, version); err != nil {
		return nil, err
	}
	if fresh {
		k.note(time.Now(), "", Change{ID: d.keys[0].id, State: Signing})
	}
	return d, nil
}

// KeepFor makes keys verify for as long as tokens of a lifetime need them.
func (k *Set) KeepFor(lifetime time.Duration) {
	k.lifetime.Store(max(k.lifetime.Load(), int64(lifetime)))
}

func (k *Set) rules() *keyRules {
	return &keyRules{rotate: k.cfg.Rotate, lifetime: time.Duration(k.lifetime.Load()), algorithm: k.cfg.Algorithm}
}

// ring is an indexed document. It is immutable.
type ring struct {
	*document
	byID    map[string]*signingKey
	over    map[string]bool // keys that were revoked
	signing *signingKey
	jwks    []byte
	etag    string
}

func newRing(d *document) (*ring, error) {
	r := &ring{document: d, byID: make(map[string]*signingKey), over: make(map[string]bool), signing: &d.keys[d.in(Signing)]}
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for i := range d.keys {
		r.byID[d.keys[i].id] = &d.keys[i]
		set.Keys = append(set.Keys, d.keys[i].public)
	}
	for _, old := range d.revoked {
		r.over[old.id] = true
	}
	body, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode the public keys: %w", err)
	}
	sum := sha256.Sum256(body)
	r.jwks, r.etag = body, `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
	return r, nil
}

// Errors for a token whose key is not in the set.
var (
	ErrUnknownKey = errors.New("kid is unknown")
	ErrKeyRevoked = errors.New("the key was revoked")
)

// Verifier is the public half of a key.
type Verifier struct {
	ID        string
	Algorithm string
	Public    any // in the form that the verification of a JWT takes
}

// Verifier returns the key of a name, in any state: another node may sign with it already. The
// error is ErrUnknownKey or ErrKeyRevoked.
func (k *Set) Verifier(id string) (Verifier, error) {
	key, err := k.find(id)
	if err != nil {
		return Verifier{}, err
	}
	return Verifier{ID: key.id, Algorithm: key.algorithm, Public: key.verifier()}, nil
}

// Check returns nil if the set has the key of a name, and otherwise the error of Verifier.
func (k *Set) Check(id string) error {
	_, err := k.find(id)
	return err
}

func (k *Set) find(id string) (*signingKey, error) {
	r := k.ring.Load()
	switch key := r.byID[id]; {
	case key != nil:
		return key, nil
	case r.over[id]:
		return nil, ErrKeyRevoked
	}
	return nil, ErrUnknownKey
}

// Sign returns the text of a token of a type with these claims, signed by the key that signs now,
// and the id of that key.
func (k *Set) Sign(claims jwt.Claims, typ string) (text, id string, err error) {
	key := k.ring.Load().signing
	t := jwt.NewWithClaims(key.method, claims)
	t.Header = map[string]any{"alg": key.algorithm, "kid": key.id, "typ": typ}
	text, err = t.SignedString(key.private)
	return text, key.id, err
}

// Deriver returns the name of the secret for new families.
func (k *Set) Deriver() string { return k.ring.Load().derivers[0].id }

// Derive returns the MAC of a successor of a refresh token under the secret named id. It reports
// false if the set has no such secret, for example because the key file was lost.
func (k *Set) Derive(id string, seed [32]byte, successor []byte) (s [32]byte, ok bool) {
	for _, d := range k.ring.Load().derivers {
		if d.id == id {
			mac := hmac.New(sha256.New, d.secret)
			mac.Write([]byte("rueda refresh successor 2\n"))
			mac.Write(seed[:])
			mac.Write(successor)
			mac.Sum(s[:0])
			return s, true
		}
	}
	return s, false
}

// JWKS returns the body of /.well-known/jwks.json with its ETag: the public keys that sign, will
// sign, or have signed tokens that may be valid.
func (k *Set) JWKS() (body []byte, etag string) {
	r := k.ring.Load()
	return r.jwks, r.etag
}

// AuditKey returns the key of the audit log, 32 bytes. It never changes. With it the log can be
// forged.
func (k *Set) AuditKey() []byte { return slices.Clone(k.ring.Load().audit) }

// Info describes a key for an operator.
type Info struct {
	ID        string
	Algorithm string
	State     State
	Created   time.Time
	Since     time.Time // in this state
	Until     time.Time // when the clock ends this state; zero: it does not
}

// Keys returns the keys, the newest first, and then the recently revoked ones.
func (k *Set) Keys() []Info {
	r, rules := k.ring.Load(), k.rules()
	var list []Info
	for i := range r.keys {
		key := &r.keys[i]
		info := Info{ID: key.id, Algorithm: key.algorithm, State: key.state, Created: key.created, Since: key.since}
		switch key.state {
		case Published:
			info.Until = key.due
		case VerifyOnly:
			info.Until = rules.end(key)
		case Signing:
			if next := r.in(Published); next >= 0 {
				info.Until = r.keys[next].due
			} else if rules.rotate > 0 {
				info.Until = key.since.Add(rules.rotate)
			}
		}
		list = append(list, info)
	}
	for _, old := range r.revoked {
		list = append(list, Info{ID: old.id, State: Revoked, Since: old.at})
	}
	return list
}

// RandomID returns n random bytes as base64url.
func RandomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

package auth

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

	"github.com/ruedahq/rueda/internal/audit"
)

// KeySetConfig says how a KeySet behaves. The zero value of each field means what its comment says.
type KeySetConfig struct {
	// Algorithm of new keys; "": ES256.
	Algorithm string
	// Rotate is how long a key signs before the next one does; 0: 30 days; under 0: until an operator says so.
	Rotate time.Duration
	// AccessTTL is the life of the longest-lived token; 0: 24 h. A Service raises it to its own.
	AccessTTL time.Duration
	// Encryption gives the key that the document is encrypted with where it is kept; it is asked at every
	// load and save, so that the key may be replaced under a running process. A document that is not encrypted yet is
	// taken by OpenKeySet alone, and encrypted at the next save. nil: not encrypted.
	Encryption func() (EncryptionKey, error)

	// MustExist has keys that are not there be ErrNoKeys: none are made in their place.
	MustExist bool

	// OnRevoke is told of a key that is gone before its time, when no token of it is accepted any more: close the
	// sockets that came with one. It must not block. nil: nobody is told.
	OnRevoke func(kid string)
	// Audit is given the steps of keys that this set took; nil: nobody.
	Audit func(ctx context.Context, events ...audit.Event) error
	// Actor is who the events say it was; "": gateway.
	Actor string

	Logger *slog.Logger // nil: discarded
}

const (
	defaultRotate = 30 * 24 * time.Hour
	// leastRotate keeps the number of keys that verify in bounds.
	leastRotate = time.Hour
)

func (c *KeySetConfig) setDefaults() error {
	c.Algorithm = cmp.Or(c.Algorithm, ES256)
	c.Rotate = max(0, cmp.Or(c.Rotate, defaultRotate))
	c.AccessTTL = cmp.Or(c.AccessTTL, 24*time.Hour)
	c.Actor = cmp.Or(c.Actor, "gateway")
	if !knownAlgorithm(c.Algorithm) {
		return unknownAlgorithm(c.Algorithm)
	}
	if c.Rotate > 0 && c.Rotate < leastRotate {
		return fmt.Errorf("keys rotate every %v at most, not every %v", leastRotate, c.Rotate)
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

// KeySet is the server's secrets: keys for access tokens, of which one signs and all
// verify, secrets that derive refresh tokens, of which the first serves new families and each
// the families that name it, and the key of the audit log's chain.
//
// What is asked of it on the way of a request is answered from an immutable ring in memory. Run
// keeps that up to date.
type KeySet struct {
	cfg      KeySetConfig
	store    KeyStore
	lifetime atomic.Int64 // of tokens, a time.Duration
	ring     atomic.Pointer[ring]

	turn    chan struct{} // taken by who loads or saves; nothing on the way of a request waits for it
	untold  []audit.Event // by the turn: what the audit log has yet to be told
	failing bool          // by the turn: the store did not answer the last time
	plain   bool          // by the turn: the document was not encrypted when it was last loaded
	sealed  bool          // by the turn: the document is known to be encrypted, and is taken in no other form
}

// NewKeySet makes a set of fresh secrets that lives in memory only: a restart ends
// all tokens. OpenKeySet gives one that stays.
func NewKeySet() (*KeySet, error) {
	return OpenKeySet(context.Background(), MemoryKeys(), KeySetConfig{})
}

// ErrNoKeys is the error of OpenKeySet where there are no keys and KeySetConfig.MustExist forbids to make some.
var ErrNoKeys = errors.New("there are no keys")

// OpenKeySet reads the keys that store has, or makes them if there are none. Two processes
// that make them at once end up with the same ones.
func OpenKeySet(ctx context.Context, store KeyStore, cfg KeySetConfig) (*KeySet, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	k := &KeySet{cfg: cfg, store: store, turn: make(chan struct{}, 1)}
	k.keepFor(cfg.AccessTTL)
	for range saveTries {
		d, err := k.openOnce(ctx)
		if errors.Is(err, ErrConflict) {
			continue // somebody else made them
		}
		if err != nil {
			return nil, err
		}
		return k, k.install(d)
	}
	return nil, fmt.Errorf("make %s, %d times: %w", k.place(), saveTries, ErrConflict)
}

func (k *KeySet) openOnce(ctx context.Context) (*document, error) {
	d, version, complete, err := k.load(ctx)
	if err == nil && k.plain && k.cfg.Encryption != nil {
		k.cfg.Logger.Warn("keys are not encrypted where they are kept; they will be at the next save")
	}
	if err == nil && complete {
		return d, nil
	}
	fresh := errors.Is(err, ErrNotFound)
	if fresh && k.cfg.MustExist {
		return nil, ErrNoKeys
	}
	if fresh {
		d, err = newDocument(k.cfg.Algorithm, time.Now())
	}
	if err != nil {
		return nil, err
	}
	if err := k.save(ctx, d, version); err != nil {
		return nil, err
	}
	if fresh {
		k.note(time.Now(), KeyChange{ID: d.keys[0].id, State: KeySigning})
	}
	return d, nil
}

// keepFor has keys stay for as long as tokens that live so long need them.
func (k *KeySet) keepFor(lifetime time.Duration) {
	k.lifetime.Store(max(k.lifetime.Load(), int64(lifetime)))
}

func (k *KeySet) rules() *keyRules {
	return &keyRules{rotate: k.cfg.Rotate, lifetime: time.Duration(k.lifetime.Load()), algorithm: k.cfg.Algorithm}
}

// ring is a document, ready to be asked. It does not change.
type ring struct {
	*document
	byID    map[string]*signingKey
	over    map[string]bool // keys that were revoked
	signing *signingKey
	jwks    []byte
	etag    string
}

func newRing(d *document) (*ring, error) {
	r := &ring{document: d, byID: make(map[string]*signingKey), over: make(map[string]bool), signing: &d.keys[d.in(KeySigning)]}
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

// Errors of tokens whose key is not there.
var (
	errNoKey      = errors.New("kid names no key")
	errKeyRevoked = errors.New("the key was revoked")
)

// unsigned is the refusal of a token that no key of now has signed.
func unsigned(err error) *Error {
	if errors.Is(err, errKeyRevoked) {
		return refuse(TokenRevoked, err)
	}
	return refuse(InvalidToken, err)
}

// key is the key of this name, in whatever state: another node may sign with it already.
func (k *KeySet) key(id string) (*signingKey, error) {
	r := k.ring.Load()
	if key := r.byID[id]; key != nil {
		return key, nil
	}
	if r.over[id] {
		return nil, errKeyRevoked
	}
	return nil, errNoKey
}

// signing is the key that signs now.
func (k *KeySet) signing() *signingKey { return k.ring.Load().signing }

// deriver is the name of the secret that serves new families.
func (k *KeySet) deriver() string { return k.ring.Load().derivers[0].id }

// derive is the successor of parent under the secret named id; false if the set
// has no such secret, as when the key file was lost.
func (k *KeySet) derive(id string, seed [32]byte, parent refreshSecret) (s refreshSecret, ok bool) {
	for _, d := range k.ring.Load().derivers {
		if d.id == id {
			mac := hmac.New(sha256.New, d.secret)
			mac.Write([]byte("rueda refresh successor 1\n"))
			mac.Write(seed[:])
			mac.Write(parent[:])
			mac.Sum(s[:0])
			return s, true
		}
	}
	return s, false
}

// JWKS is the body of /.well-known/jwks.json with its ETag: the public keys of all that sign, will
// sign, or have signed tokens that may live.
func (k *KeySet) JWKS() (body []byte, etag string) {
	r := k.ring.Load()
	return r.jwks, r.etag
}

// AuditKey is the key of the audit log's chain, 32 bytes. It never changes. Whoever has it can forge the log.
func (k *KeySet) AuditKey() []byte { return slices.Clone(k.ring.Load().audit) }

// KeyInfo is what an operator may know of a key.
type KeyInfo struct {
	ID        string
	Algorithm string
	State     KeyState
	Created   time.Time
	Since     time.Time // in this state
	Until     time.Time // when the clock ends this state; zero: it does not
}

// Keys are those of the set, the newest first, and then those that were revoked lately.
func (k *KeySet) Keys() []KeyInfo {
	r, rules := k.ring.Load(), k.rules()
	var list []KeyInfo
	for i := range r.keys {
		key := &r.keys[i]
		info := KeyInfo{ID: key.id, Algorithm: key.algorithm, State: key.state, Created: key.created, Since: key.since}
		switch key.state {
		case KeyPublished:
			info.Until = key.due
		case KeyVerifyOnly:
			info.Until = rules.end(key)
		case KeySigning:
			if next := r.in(KeyPublished); next >= 0 {
				info.Until = r.keys[next].due
			} else if rules.rotate > 0 {
				info.Until = key.since.Add(rules.rotate)
			}
		}
		list = append(list, info)
	}
	for _, old := range r.revoked {
		list = append(list, KeyInfo{ID: old.id, State: KeyRevoked, Since: old.at})
	}
	return list
}

// randomID is n random bytes as base64url.
func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

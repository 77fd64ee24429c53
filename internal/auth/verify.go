package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/cache"
)

// maxVerified bounds the tokens remembered as verified, about 400 bytes each.
const maxVerified = 1 << 16

// verified remembers tokens whose signature was checked: 0.3 µs where checking
// again takes 90. It remembers the signature only; time, key, revocation and user are checked each time.
//
// All are kept by the SHA-256 of their text, in 32 bytes where the text has 480. Computing that is half of the cost
// of a check, so that those in frequent use are kept by their text too, each in one of the two slots that
// it may be in, where readers take no lock. Which slots those are follows from the whole text and a secret seed, so that
// the time of the comparison tells a guesser nothing.
type verified struct {
	shards [shards]struct {
		mu     sync.RWMutex
		tokens cache.Map[Hash, *claims]
		_      [16]byte // a shard is a line of the cache
	}
	seed  maphash.Seed
	slots [hotSlots]atomic.Pointer[hotToken]
}

// hotSlots bounds what is kept by text: half a megabyte.
const hotSlots = 1 << 10

// hotAfter is after how many uses a token is kept by its text, on average.
const hotAfter = 64

type hotToken struct {
	text   string
	claims *claims
	used   atomic.Bool // since another token wanted the slot
}

func newVerified() *verified {
	v := &verified{seed: maphash.MakeSeed()}
	for i := range v.shards {
		v.shards[i].tokens = cache.New[Hash, *claims](maxVerified / shards)
	}
	return v
}

func (v *verified) get(text string) (*claims, bool) {
	at := maphash.String(v.seed, text) % hotSlots
	pair := [2]*atomic.Pointer[hotToken]{&v.slots[at], &v.slots[at^1]}
	for _, slot := range pair {
		if hot := slot.Load(); hot != nil && hot.text == text {
			if !hot.used.Load() {
				hot.used.Store(true)
			}
			return hot.claims, true
		}
	}
	h := tokenHash(text)
	c, ok := v.byHash(&h)
	if !ok {
		return nil, false
	}
	if rand.Uint32()%hotAfter != 0 { // it may be one that comes once; to keep its text costs more than to look for it
		return c, true
	}
	for _, slot := range pair {
		hot := slot.Load()
		if hot == nil || !hot.used.Load() {
			hot = &hotToken{text: strings.Clone(text), claims: c}
			hot.used.Store(true)
			slot.Store(hot)
			return c, true
		}
		hot.used.Store(false) // who is in frequent use stays, for now
	}
	return c, true
}

func (v *verified) byHash(h *Hash) (*claims, bool) {
	x := &v.shards[h[0]%shards]
	x.mu.RLock()
	c, ok := x.tokens.Peek(*h)
	x.mu.RUnlock()
	if ok {
		return c, true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tokens.Get(*h)
}

func (v *verified) put(text string, c *claims) {
	h := tokenHash(text)
	x := &v.shards[h[0]%shards]
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tokens.Put(h, c)
}

// tokenHash is the hash of a token's text, which is not copied for it.
func tokenHash(text string) Hash {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// Verify checks an access token. The Error's reason is InvalidToken, TokenExpired,
// TokenRevoked, or Unavailable when the user base is down and the user is none
// that was seen before. A token expires at its exp, to the nanosecond.
func (s *Service) Verify(ctx context.Context, accessToken string) (Identity, error) {
	c, err := s.signed(accessToken)
	if err != nil {
		return Identity{}, unsigned(err)
	}
	now := time.Now()
	if err := s.current(c, now); err != nil {
		return Identity{}, err
	}
	user, err := s.user(ctx, c.Subject, c.Version, now)
	if err != nil {
		return Identity{}, err
	}
	return identity(c, user)
}

// Known is Verify for a token that was verified before and whose user is remembered:
// it waits for nothing. ok says whether it has an answer.
func (s *Service) Known(accessToken string) (id Identity, ok bool, err error) {
	if len(accessToken) > maxAccessToken {
		return Identity{}, false, nil
	}
	c, ok := s.verified.get(accessToken)
	if !ok {
		return Identity{}, false, nil
	}
	now := time.Now()
	if err := s.current(c, now); err != nil {
		return Identity{}, true, err
	}
	k, enough := s.users.remembered(c.Subject, c.Version, now)
	if !enough {
		return Identity{}, false, nil
	}
	user, err := k.result()
	if err != nil {
		return Identity{}, true, err
	}
	id, err = identity(c, user)
	return id, true, err
}

// current says why a token that was good is so no more.
func (s *Service) current(c *claims, now time.Time) error {
	if err := s.access.check(c, now); errors.Is(err, errExpired) {
		return refuse(TokenExpired, nil)
	} else if err != nil {
		return refuse(InvalidToken, err)
	}
	if _, err := s.cfg.Keys.key(c.key); err != nil { // its key may be gone since
		return unsigned(err)
	}
	if s.revoked.has(c.Family) {
		return refuse(TokenRevoked, nil)
	}
	return nil
}

// identity is whom a token stands for.
func identity(c *claims, user *broker.User) (Identity, error) {
	if user.Version > c.Version {
		return Identity{}, refuse(TokenRevoked, errors.New("token is of before the user's last change"))
	}
	return Identity{
		User:    *user,
		Family:  c.Family,
		TokenID: c.TokenID,
		KeyID:   c.key,
		Issued:  time.Unix(c.Issued, 0),
		Expires: time.Unix(c.Expires, 0),
	}, nil
}

// signed is the content of a token that this installation signed.
func (s *Service) signed(text string) (*claims, error) {
	if len(text) > maxAccessToken {
		return nil, errors.New("token is too long")
	}
	if c, ok := s.verified.get(text); ok {
		return c, nil
	}
	c, err := s.access.parse(text)
	if err != nil {
		return nil, err
	}
	s.verified.put(text, c)
	return c, nil
}

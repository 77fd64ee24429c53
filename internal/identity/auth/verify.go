package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/cache"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

// maxVerified bounds the number of remembered tokens. Each takes about 900 bytes.
const maxVerified = 1 << 16

// verified remembers tokens whose signature was checked, by their text. A look-up takes 0.1 µs, a
// check of the signature 90 µs. Key, expiry, revocation and user are checked each time. The map
// hashes a text with a secret seed, so the time of a look-up does not help to guess a token.
type verified struct {
	mu     sync.RWMutex
	tokens cache.Map[string, *claims]
}

func newVerified() *verified { return &verified{tokens: cache.New[string, *claims](maxVerified)} }

func (v *verified) get(text string) (*claims, bool) {
	v.mu.RLock()
	c, ok := v.tokens.Peek(text)
	v.mu.RUnlock()
	if ok {
		return c, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tokens.Get(strings.Clone(text)) // the map may keep it, but not the caller's buffer
}

func (v *verified) put(text string, c *claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens.Put(strings.Clone(text), c)
}

// Verify checks an access token. The reason of the Error is InvalidToken, TokenExpired or
// TokenRevoked. It is Unavailable if the user base is down and the user is unknown here. A token
// expires at its exp, to the nanosecond.
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

// Known does the same as Verify for a token that was verified before and whose user is remembered.
// It never blocks. ok is false if Verify is needed.
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

// Minted returns the login of an access token whose jti has a valid MAC. ok is false for a forged
// token, and for a token of a version of Rueda that wrote no MAC. Minted checks neither the
// signature nor the times, so ok is also true for an expired token.
func (s *Service) Minted(accessToken string) (family string, ok bool) {
	if len(accessToken) > maxAccessToken {
		return "", false
	}
	_, body, _ := strings.Cut(accessToken, ".")
	body, _, _ = strings.Cut(body, ".")
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return "", false
	}
	c := new(claims)
	if err := json.Unmarshal(text, c); err != nil {
		return "", false
	}
	ok, _ = s.access.checkMAC(c)
	return c.Family, ok
}

// LimitKey returns what requests with an access or refresh token count by: its login or the token
// itself if this installation minted it, and otherwise the client address.
func (s *Service) LimitKey(token Secret, from Origin) string {
	text := token.Reveal()
	if refresh, ok := parseRefreshToken(text); ok && refresh.minted(s.keyed) {
		signed, _ := refresh.shortMAC() // the rest of a successor may be anything
		h := sha256.Sum256(signed)
		return string(h[:])
	}
	if login, ok := s.Minted(text); ok {
		return "login " + login
	}
	return clientaddr.Client(from.Address).String()
}

// current returns an error if a token that was valid is no longer valid.
func (s *Service) current(c *claims, now time.Time) error {
	if err := s.access.check(c, now); errors.Is(err, errExpired) {
		return refuse(TokenExpired, nil)
	} else if err != nil {
		return refuse(InvalidToken, err)
	}
	if err := s.cfg.Keys.Check(c.key); err != nil { // the key may have been removed
		return unsigned(err)
	}
	if s.revoked.has(c.Family) {
		return refuse(TokenRevoked, nil)
	}
	return nil
}

// identity returns the identity of a token's user.
func identity(c *claims, user *broker.User) (Identity, error) {
	if user.Version > c.Version {
		return Identity{}, refuse(TokenRevoked, errors.New("token is older than the user's last change"))
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

// signed returns the claims of a token that this installation signed.
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

package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// maxVerified bounds the tokens remembered as verified, about 400 bytes each.
const maxVerified = 1 << 16

// verified remembers tokens whose signature was checked: 0.5 µs where checking
// again takes 90. The key is a hash so that a dump of memory holds fewer tokens.
// It remembers the signature only; time, revocation and user are checked each time.
type verified struct {
	mu     sync.Mutex
	tokens table[Hash, *claims]
}

func (v *verified) get(h Hash) (*claims, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tokens.get(h)
}

func (v *verified) put(h Hash, c *claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens.put(h, c)
}

// Verify checks an access token. The Error's reason is InvalidToken, TokenExpired,
// TokenRevoked, or Unavailable when the user base is down and the user is none
// that was seen before. A token expires at its exp, to the nanosecond.
func (s *Service) Verify(ctx context.Context, accessToken string) (Identity, error) {
	c, err := s.signed(accessToken)
	if err != nil {
		return Identity{}, refuse(InvalidToken, err)
	}
	if err := s.current(c); err != nil {
		return Identity{}, err
	}
	user, err := s.user(ctx, c.Subject, c.Version)
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
	c, ok := s.verified.get(Hash(sha256.Sum256([]byte(accessToken))))
	if !ok {
		return Identity{}, false, nil
	}
	if err := s.current(c); err != nil {
		return Identity{}, true, err
	}
	k, _, recent := s.users.remembered(c.Subject, c.Version, time.Now())
	if !recent {
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
func (s *Service) current(c *claims) error {
	if err := s.access.check(c, time.Now()); errors.Is(err, errExpired) {
		return refuse(TokenExpired, nil)
	} else if err != nil {
		return refuse(InvalidToken, err)
	}
	if s.revoked.has(c.Family) {
		return refuse(TokenRevoked, nil)
	}
	return nil
}

// identity is whom a token stands for.
func identity(c *claims, user broker.User) (Identity, error) {
	if user.Version > c.Version {
		return Identity{}, refuse(TokenRevoked, errors.New("token is of before the user's last change"))
	}
	return Identity{
		User:    user,
		Family:  c.Family,
		TokenID: c.TokenID,
		Issued:  time.Unix(c.Issued, 0),
		Expires: time.Unix(c.Expires, 0),
	}, nil
}

// signed is the content of a token that this installation signed.
func (s *Service) signed(text string) (*claims, error) {
	if len(text) > maxAccessToken {
		return nil, errors.New("token is too long")
	}
	h := Hash(sha256.Sum256([]byte(text)))
	if c, ok := s.verified.get(h); ok {
		return c, nil
	}
	c, err := s.access.parse(text)
	if err != nil {
		return nil, err
	}
	s.verified.put(h, c)
	return c, nil
}

package auth

import (
	"cmp"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

const (
	// maxAccessToken bounds the length of a token that is parsed. The tokens of this server have
	// about 450 bytes.
	maxAccessToken = 4 << 10
	// tokenType is the typ of RFC 9068. An ID token, or a JWT made for something else with the same
	// key, is not an access token.
	tokenType = "at+jwt"
	// clientID is the client_id that RFC 9068 requires. The password grant has no clients.
	clientID = "rueda"
	// The jti of a token is a random id and the MAC of all claims, both as base64url. Earlier
	// programs wrote the id alone.
	tokenIDLength  = 22
	tokenMACLength = 16
)

// claims has all claims of an access token. Times are whole seconds, as integers: a fraction, a
// string or 1e300 is a decoding error.
type claims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  jwt.ClaimStrings `json:"aud"`
	Expires   int64            `json:"exp"`
	NotBefore int64            `json:"nbf,omitempty"` // own tokens have none: verifiers whose clock is behind would refuse them
	Issued    int64            `json:"iat"`
	TokenID   string           `json:"jti"`
	ClientID  string           `json:"client_id"`
	Family    string           `json:"sid"`
	Version   int64            `json:"ver"`

	key string // id of the key that signed the token
}

// The following methods implement jwt.Claims. The parser's own validation is off; check does it.

// GetExpirationTime implements jwt.Claims.
func (*claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuedAt implements jwt.Claims.
func (*claims) GetIssuedAt() (*jwt.NumericDate, error) { return nil, nil }

// GetNotBefore implements jwt.Claims.
func (*claims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuer implements jwt.Claims.
func (c *claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject implements jwt.Claims.
func (c *claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience implements jwt.Claims.
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return c.Audience, nil }

// share replaces texts that all tokens have with one shared copy, to save memory.
func (a *accessTokens) share(c *claims) {
	if c.Issuer == a.issuer {
		c.Issuer = a.issuer
	}
	if slices.Equal(c.Audience, a.audiences) {
		c.Audience = a.audiences
	}
	if c.ClientID == clientID {
		c.ClientID = clientID
	}
}

// accessTokens signs access tokens, and accepts only tokens that it could have signed itself.
type accessTokens struct {
	keys      *keyset.Set
	keyed     keyedHash
	issuer    string
	oldIssuer string
	audience  string
	audiences jwt.ClaimStrings // the configured audience as a list
	lifetime  time.Duration
	parser    *jwt.Parser
}

func newAccessTokens(keys *keyset.Set, keyed keyedHash, issuer, oldIssuer, audience string, lifetime time.Duration) *accessTokens {
	return &accessTokens{
		keys:      keys,
		keyed:     keyed,
		issuer:    issuer,
		oldIssuer: cmp.Or(oldIssuer, issuer),
		audience:  audience,
		audiences: jwt.ClaimStrings{audience},
		lifetime:  lifetime,
		// check validates the claims. The parser's own validation accepts fractions and strings as
		// times, and has one leeway for all of them.
		parser: jwt.NewParser(jwt.WithValidMethods(keyset.Algorithms()), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
	}
}

// mint returns a new access token and its claims, as parse would return them.
func (a *accessTokens) mint(user broker.User, family string, now time.Time, life time.Duration) (Secret, *claims, error) {
	c := &claims{
		Issuer:   a.issuer,
		Subject:  user.ID,
		Audience: a.audiences,
		Expires:  now.Unix() + int64(life/time.Second),
		Issued:   now.Unix(),
		TokenID:  keyset.RandomID(16),
		ClientID: clientID,
		Family:   family,
		Version:  user.Version,
	}
	mac, err := a.mac(c)
	if err != nil {
		return Secret{}, nil, fmt.Errorf("make the id of an access token: %w", err)
	}
	c.TokenID += mac
	text, key, err := a.keys.Sign(c, tokenType)
	if err != nil {
		return Secret{}, nil, fmt.Errorf("sign an access token: %w", err)
	}
	c.key = key
	return NewSecret(text), c, nil
}

// mac returns the MAC of the claims with the random id alone as jti.
func (a *accessTokens) mac(c *claims) (string, error) {
	signed := *c
	signed.TokenID = c.TokenID[:tokenIDLength]
	text, err := json.Marshal(&signed)
	if err != nil {
		return "", err
	}
	h := a.keyed("access token", string(text))
	return base64.RawURLEncoding.EncodeToString(h[:])[:tokenMACLength], nil
}

// checkMAC reports whether the MAC in the jti is right. present is false for a token of an earlier
// program, which has none.
func (a *accessTokens) checkMAC(c *claims) (right, present bool) {
	if len(c.TokenID) != tokenIDLength+tokenMACLength {
		return false, false
	}
	mac, err := a.mac(c)
	return err == nil && hmac.Equal([]byte(mac), []byte(c.TokenID[tokenIDLength:])), true
}

// parse checks the form, the header, the MAC and the signature. It does not check times.
func (a *accessTokens) parse(text string) (*claims, error) {
	if err := checkForm(text); err != nil {
		return nil, err
	}
	c := new(claims)
	if _, err := a.parser.ParseWithClaims(text, c, func(t *jwt.Token) (any, error) { return a.key(t, c) }); err != nil {
		return nil, err
	}
	a.share(c)
	return c, nil
}

// checkForm rejects a text that is too long or has a character that a token cannot have. The base64
// decoder skips line ends even in strict mode, so a token would have several spellings.
func checkForm(text string) error {
	if len(text) > maxAccessToken {
		return errors.New("token is too long")
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return errors.New("token has a character that is not base64url")
		}
	}
	return nil
}

// key returns the key of a token to the parser, after the header is decoded and before the
// signature is checked. A header must have exactly the members that mint writes. This excludes crit
// and b64, which must be understood or rejected, and jwk, jku, x5u and x5c, with which a token
// would bring its own key. The algorithm must be that of the key. Otherwise a public key could be
// used as a shared secret. A wrong MAC ends the check here, before the signature, which costs more.
func (a *accessTokens) key(t *jwt.Token, c *claims) (any, error) {
	for name := range t.Header {
		switch name {
		case "alg", "kid", "typ":
		default:
			return nil, fmt.Errorf("header parameter %.32q is not allowed", name)
		}
	}
	if typ, _ := t.Header["typ"].(string); typ != tokenType {
		return nil, fmt.Errorf("typ is not %s", tokenType)
	}
	if right, present := a.checkMAC(c); present && !right {
		return nil, errors.New("jti has a wrong MAC")
	}
	id, _ := t.Header["kid"].(string)
	key, err := a.keys.Verifier(id)
	if err != nil {
		return nil, err
	}
	if t.Method.Alg() != key.Algorithm {
		return nil, fmt.Errorf("alg is not the %s of the key", key.Algorithm)
	}
	c.key = key.ID // the text of the key set, which all tokens share
	return key.Public, nil
}

// unsigned returns the error for a token that no current key has signed.
func unsigned(err error) *Error {
	if errors.Is(err, keyset.ErrKeyRevoked) {
		return refuse(TokenRevoked, err)
	}
	return refuse(InvalidToken, err)
}

// errExpired distinguishes a token that was valid from one that never was.
var errExpired = errors.New("token has expired")

// check validates the claims.
func (a *accessTokens) check(c *claims, now time.Time) error {
	lifetime := int64(a.lifetime / time.Second)
	latest := now.Add(keyset.ClockLeeway).Unix()
	switch {
	case c.Issuer != a.issuer && c.Issuer != a.oldIssuer:
		return errors.New("iss is wrong")
	case !slices.Contains(c.Audience, a.audience):
		return errors.New("aud is wrong")
	case c.Subject == "" || c.Family == "" || c.TokenID == "":
		return errors.New("sub, sid or jti is missing")
	case c.Issued <= 0 || c.Issued > latest:
		return errors.New("iat is missing or in the future")
	case c.NotBefore > latest:
		return errors.New("nbf is in the future")
	case c.Expires <= c.Issued || c.Expires-c.Issued > lifetime:
		return errors.New("exp is missing or too long after iat")
	case !now.Before(time.Unix(c.Expires, 0)):
		return errExpired
	}
	return nil
}

package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// algorithm is the only one there is: a token's header must say what the key is
// bound to, and every key is bound to this.
const algorithm = "ES256"

// KeySet is the server's secrets: keys for access tokens, of which the first signs
// and all verify, and secrets that derive refresh tokens, of which the first serves
// new families and each the families that name it. It does not change.
type KeySet struct {
	keys     []signingKey
	byID     map[string]*ecdsa.PublicKey
	derivers []deriver
	jwks     []byte
	etag     string
}

type signingKey struct {
	id      string // RFC 7638 thumbprint
	created time.Time
	private *ecdsa.PrivateKey
}

type deriver struct {
	id      string
	created time.Time
	secret  []byte
}

const deriverLength = 32

// NewKeySet makes a set of fresh secrets that lives in memory only: a restart ends
// all tokens. OpenKeySet gives one that stays.
func NewKeySet() (*KeySet, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	id, err := thumbprint(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, deriverLength)
	_, _ = rand.Read(secret)
	return newKeySet(
		[]signingKey{{id: id, created: now, private: private}},
		[]deriver{{id: randomID(6), created: now, secret: secret}},
	)
}

func newKeySet(keys []signingKey, derivers []deriver) (*KeySet, error) {
	k := &KeySet{keys: keys, byID: make(map[string]*ecdsa.PublicKey), derivers: derivers}
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for _, key := range keys {
		k.byID[key.id] = &key.private.PublicKey
		public, err := publicJWK(&key.private.PublicKey)
		if err != nil {
			return nil, err
		}
		public.ID, public.Use, public.Algorithm = key.id, "sig", algorithm
		set.Keys = append(set.Keys, public)
	}
	body, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode the public keys: %w", err)
	}
	sum := sha256.Sum256(body)
	k.jwks, k.etag = body, `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
	return k, nil
}

// derive is the successor of parent under the secret named id; false if the set
// has no such secret, as when the key file was lost.
func (k *KeySet) derive(id string, seed [32]byte, parent refreshSecret) (s refreshSecret, ok bool) {
	for _, d := range k.derivers {
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

// jwk is a public key in the form of RFC 7517, its members in the order of the
// alphabet up to y, as the thumbprint of RFC 7638 needs them.
type jwk struct {
	Curve     string `json:"crv"`
	Type      string `json:"kty"`
	X         string `json:"x"`
	Y         string `json:"y"`
	Algorithm string `json:"alg,omitempty"`
	ID        string `json:"kid,omitempty"`
	Use       string `json:"use,omitempty"`
}

func publicJWK(key *ecdsa.PublicKey) (jwk, error) {
	point, err := key.Bytes() // 4, x, y
	if err != nil {
		return jwk{}, fmt.Errorf("encode a public key: %w", err)
	}
	b64 := base64.RawURLEncoding
	return jwk{Curve: "P-256", Type: "EC", X: b64.EncodeToString(point[1:33]), Y: b64.EncodeToString(point[33:])}, nil
}

func thumbprint(key *ecdsa.PublicKey) (string, error) {
	public, err := publicJWK(key)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(public)
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// randomID is n random bytes as base64url.
func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

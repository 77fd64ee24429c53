package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithms of keys. What a key is bound to is decided when it is made: a token that
// names the key and says another algorithm is no token.
const (
	ES256 = "ES256" // ECDSA on P-256
	EdDSA = "EdDSA" // Ed25519
	RS256 = "RS256" // RSA with 2048 bits, PKCS #1 v1.5
)

// KeyAlgorithms are all that a key may have.
func KeyAlgorithms() []string { return []string{ES256, EdDSA, RS256} }

const rsaBits = 2048

// pair is a private key with what follows from it. It does not change.
type pair struct {
	id        string // RFC 7638 thumbprint
	algorithm string
	private   crypto.Signer
	method    jwt.SigningMethod
	public    jwk // with all its members
}

// newPair makes a key. For RS256 that takes a part of a second.
func newPair(algorithm string) (p pair, err error) {
	var private crypto.Signer
	switch algorithm {
	case ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case RS256:
		private, err = rsa.GenerateKey(rand.Reader, rsaBits)
	default:
		return p, unknownAlgorithm(algorithm)
	}
	if err != nil {
		return p, fmt.Errorf("make a key of %s: %w", algorithm, err)
	}
	return pairOf(algorithm, private)
}

// ErrKeyAlgorithm is of an algorithm that no key has.
var ErrKeyAlgorithm = errors.New("algorithm")

func unknownAlgorithm(algorithm string) error {
	return fmt.Errorf("%w: %.16q is not known here (%s are)", ErrKeyAlgorithm, algorithm, strings.Join(KeyAlgorithms(), ", "))
}

func pairOf(algorithm string, private crypto.Signer) (p pair, err error) {
	p = pair{algorithm: algorithm, private: private}
	b64 := base64.RawURLEncoding.EncodeToString
	switch public := private.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, x, y
		if err != nil {
			return p, fmt.Errorf("encode a public key: %w", err)
		}
		p.method = jwt.SigningMethodES256
		p.public = jwk{Type: "EC", Curve: "P-256", X: b64(point[1:33]), Y: b64(point[33:])}
	case ed25519.PublicKey:
		p.method = jwt.SigningMethodEdDSA
		p.public = jwk{Type: "OKP", Curve: "Ed25519", X: b64(public)}
	case *rsa.PublicKey:
		p.method = jwt.SigningMethodRS256
		p.public = jwk{Type: "RSA", Modulus: b64(public.N.Bytes()), Exponent: b64(big.NewInt(int64(public.E)).Bytes())}
	}
	text, err := json.Marshal(p.public) // the members that RFC 7638 wants, and no more yet
	if err != nil {
		return p, fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(text)
	p.id = b64(sum[:])
	p.public.ID, p.public.Use, p.public.Algorithm = p.id, "sig", algorithm
	return p, nil
}

// jwk is a public key in the form of RFC 7517. Up to y its members are those that
// the thumbprint of RFC 7638 is made of, in the order of the alphabet as it wants them.
type jwk struct {
	Curve     string `json:"crv,omitempty"`
	Exponent  string `json:"e,omitempty"`
	Type      string `json:"kty"`
	Modulus   string `json:"n,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	ID        string `json:"kid,omitempty"`
	Use       string `json:"use,omitempty"`
}

// secret is the private key as the document has it: the number of 32 bytes of P-256, the
// seed of Ed25519, the PKCS #1 of RSA.
func (p *pair) secret() ([]byte, error) {
	switch private := p.private.(type) {
	case *ecdsa.PrivateKey:
		return private.Bytes()
	case ed25519.PrivateKey:
		return private.Seed(), nil
	case *rsa.PrivateKey:
		return x509.MarshalPKCS1PrivateKey(private), nil
	}
	return nil, unknownAlgorithm(p.algorithm)
}

// parsePair reads what secret gave. An error never holds a part of it.
func parsePair(algorithm string, secret []byte) (pair, error) {
	switch algorithm {
	case ES256:
		private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
		if err != nil {
			return pair{}, errors.New("damaged: the private key is not one of P-256")
		}
		return pairOf(algorithm, private)
	case EdDSA:
		if len(secret) != ed25519.SeedSize {
			return pair{}, errors.New("damaged: the private key is not one of Ed25519")
		}
		return pairOf(algorithm, ed25519.NewKeyFromSeed(secret))
	case RS256:
		private, err := x509.ParsePKCS1PrivateKey(secret)
		if err != nil || private.N.BitLen() != rsaBits {
			return pair{}, errors.New("damaged: the private key is not one of RSA with 2048 bits")
		}
		return pairOf(algorithm, private)
	}
	return pair{}, unknownAlgorithm(algorithm)
}

// verifier is what the parser takes to check a signature.
func (p *pair) verifier() crypto.PublicKey { return p.private.Public() }

func knownAlgorithm(algorithm string) bool { return slices.Contains(KeyAlgorithms(), algorithm) }

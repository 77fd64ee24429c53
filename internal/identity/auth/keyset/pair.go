package keyset

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

// Algorithms of keys. A key has one algorithm: a token that names the key and another algorithm is
// invalid.
const (
	ES256 = "ES256" // ECDSA on P-256
	EdDSA = "EdDSA" // Ed25519
	RS256 = "RS256" // RSA with 2048 bits, PKCS #1 v1.5
)

// Algorithms returns all algorithms of keys.
func Algorithms() []string { return []string{ES256, EdDSA, RS256} }

const rsaBits = 2048

// pair is a private key with its public form. It is immutable.
type pair struct {
	id        string // RFC 7638 thumbprint
	algorithm string
	private   crypto.Signer
	method    jwt.SigningMethod
	public    jwk // with all its members
}

// newPair makes a key. RS256 takes a fraction of a second.
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

// ErrAlgorithm means that there are no keys of this algorithm.
var ErrAlgorithm = errors.New("algorithm")

func unknownAlgorithm(algorithm string) error {
	return fmt.Errorf("%w: %.16q is unknown (known: %s)", ErrAlgorithm, algorithm, strings.Join(Algorithms(), ", "))
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
	text, err := json.Marshal(p.public) // only the members of the thumbprint of RFC 7638
	if err != nil {
		return p, fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(text)
	p.id = b64(sum[:])
	p.public.ID, p.public.Use, p.public.Algorithm = p.id, "sig", algorithm
	return p, nil
}

// jwk is a public key in the form of RFC 7517. The members up to y are those of the thumbprint of
// RFC 7638, in alphabetical order.
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

// secret returns the stored form of the private key: the number of 32 bytes for P-256, the seed for
// Ed25519, PKCS #1 for RSA.
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

// parsePair reads the result of secret. Errors contain no part of it.
func parsePair(algorithm string, secret []byte) (pair, error) {
	switch algorithm {
	case ES256:
		private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
		if err != nil {
			return pair{}, errors.New("damaged: not a P-256 private key")
		}
		return pairOf(algorithm, private)
	case EdDSA:
		if len(secret) != ed25519.SeedSize {
			return pair{}, errors.New("damaged: not an Ed25519 private key")
		}
		return pairOf(algorithm, ed25519.NewKeyFromSeed(secret))
	case RS256:
		private, err := x509.ParsePKCS1PrivateKey(secret)
		if err != nil || private.N.BitLen() != rsaBits {
			return pair{}, errors.New("damaged: not an RSA private key with 2048 bits")
		}
		return pairOf(algorithm, private)
	}
	return pair{}, unknownAlgorithm(algorithm)
}

// verifier returns the public key in the form of the JWT library.
func (p *pair) verifier() crypto.PublicKey { return p.private.Public() }

func knownAlgorithm(algorithm string) bool { return slices.Contains(Algorithms(), algorithm) }

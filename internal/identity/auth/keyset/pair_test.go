package keyset

import (
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"testing"
)

// shown has the public half of a key only.
type shown struct{ public crypto.PublicKey }

func (s shown) Public() crypto.PublicKey { return s.public }

func (shown) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { panic("no private key") }

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestThumbprints checks the examples of RFC 7638, section 3.1, and RFC 8037, appendix A.
func TestThumbprints(t *testing.T) {
	const modulus = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64t" +
		"Z_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-" +
		"bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
	rs, err := pairOf(RS256, shown{&rsa.PublicKey{N: new(big.Int).SetBytes(decoded(t, modulus)), E: 65537}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"; rs.id != want {
		t.Errorf("RSA: %s, want %s", rs.id, want)
	}
	ed, err := parsePair(EdDSA, decoded(t, "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; ed.id != want {
		t.Errorf("Ed25519: %s, want %s", ed.id, want)
	}
	for got, want := range map[jwk]string{
		rs.public: `{"e":"AQAB","kty":"RSA","n":"` + modulus + `","alg":"RS256","kid":"` + rs.id + `","use":"sig"}`,
		ed.public: `{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"EdDSA","kid":"` + ed.id + `","use":"sig"}`,
	} {
		if text, err := json.Marshal(got); err != nil || string(text) != want {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
	}
}

// TestPairsComeBack checks that the private key of each algorithm is read as it was written, and
// that no other algorithm reads it.
func TestPairsComeBack(t *testing.T) {
	for _, alg := range Algorithms() {
		p, err := newPair(alg)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := p.secret()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parsePair(alg, secret); err != nil || again.id != p.id || again.public != p.public {
			t.Errorf("%s: %v, %v; want %v", alg, again.public, err, p.public)
		}
		for _, damaged := range [][]byte{nil, secret[:len(secret)-1], append(secret[:len(secret):len(secret)], 0)} {
			if _, err := parsePair(alg, damaged); err == nil {
				t.Errorf("%s: a key of %d bytes is taken", alg, len(damaged))
			}
		}
	}
	if _, err := newPair("HS256"); err == nil {
		t.Error("HS256 is taken")
	}
}

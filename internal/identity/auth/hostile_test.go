package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

// forger makes tokens with the installation's own key or with another one.
type forger struct {
	key    *ecdsa.PrivateKey
	id     string
	header map[string]any // as in a valid token
	claims map[string]any
}

func newForger(key *ecdsa.PrivateKey, id string, now time.Time) forger {
	return forger{
		key: key, id: id,
		header: map[string]any{"alg": "ES256", "kid": id, "typ": "at+jwt"},
		claims: map[string]any{
			"iss": "rueda", "sub": "us_maria", "aud": []string{"rueda"}, "client_id": "rueda",
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(day).Unix(),
			"jti": "token", "sid": "family", "ver": 1,
		},
	}
}

// remove, as a value, deletes the member.
var remove = new(int)

func with(m map[string]any, changes ...any) map[string]any {
	m = maps.Clone(m)
	for i := 0; i < len(changes); i += 2 {
		if name := changes[i].(string); changes[i+1] == remove {
			delete(m, name)
		} else {
			m[name] = changes[i+1]
		}
	}
	return m
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// sign makes a token with a valid signature from any header and claims.
func (f forger) sign(header, claims []byte) string {
	text := b64(header) + "." + b64(claims)
	r, s := signature(f.key, text)
	return text + "." + b64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func signature(key *ecdsa.PrivateKey, text string) (r, s *big.Int) {
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		panic(err)
	}
	return r, s
}

func (f forger) withHeader(changes ...any) string {
	return f.sign(toJSON(with(f.header, changes...)), toJSON(f.claims))
}

func (f forger) withClaims(changes ...any) string {
	return f.sign(toJSON(f.header), toJSON(with(f.claims, changes...)))
}

func (f forger) good() string { return f.withClaims() }

// hmacToken makes a token signed by HMAC with the public key as the shared secret.
func (f forger) hmacToken(secret []byte) string {
	text := b64(toJSON(with(f.header, "alg", "HS256"))) + "." + b64(toJSON(f.claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + b64(mac.Sum(nil))
}

type hostile struct {
	what, token, want string
}

// TestHostileTokens checks forged and malformed tokens, among them those that other implementations
// have accepted by mistake.
func TestHostileTokens(t *testing.T) {
	keys, key, id := newKeyFile(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
		f := newForger(key, id, time.Now())
		for _, table := range [][]hostile{headers(t, f), signatures(f), forms(f), times(f), otherClaims(f)} {
			for _, c := range table {
				for range 2 { // a cached result of the first check must not help
					_, err := w.Verify(t.Context(), c.token)
					if got := reasonOf(err); got != c.want {
						t.Errorf("%s: reason %q (%v), want %q", c.what, got, err, c.want)
					}
				}
			}
		}
		w.refuses(auth.NewSecret(f.good()), auth.InvalidRefreshToken)
	})
}

func headers(t *testing.T, f forger) []hostile {
	attacker, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign := forger{key: attacker, id: f.id, header: f.header, claims: f.claims}
	point, err := attacker.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	jwk := map[string]any{"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])}
	der, err := x509.MarshalPKIXPublicKey(&f.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	spki := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	unsigned := func(alg string) string {
		return b64(toJSON(with(f.header, "alg", alg))) + "." + b64(toJSON(f.claims)) + "."
	}
	bad := auth.InvalidToken
	return []hostile{
		{"good", f.good(), ""},
		{"alg none", unsigned("none"), bad},
		{"alg nOnE", unsigned("nOnE"), bad},
		{"alg none with a signature", f.withHeader("alg", "none"), bad},
		{"alg empty", f.withHeader("alg", ""), bad},
		{"alg missing", f.withHeader("alg", remove), bad},
		{"alg a list", f.withHeader("alg", []string{"ES256"}), bad},
		{"alg es256", f.withHeader("alg", "es256"), bad},
		{"alg ES384", f.withHeader("alg", "ES384"), bad},
		{"alg RS256", f.withHeader("alg", "RS256"), bad},
		{"alg EdDSA", f.withHeader("alg", "EdDSA"), bad},
		{"HS256 with the public key as PEM", f.hmacToken(spki), bad},
		{"HS256 with the public key as DER", f.hmacToken(der), bad},
		{"HS256 with an empty key", f.hmacToken(nil), bad},
		{"crit", f.withHeader("crit", []string{"exp"}), bad},
		{"crit unknown", f.withHeader("crit", []string{"x"}, "x", true), bad},
		{"crit empty", f.withHeader("crit", []string{}), bad},
		{"b64 false", f.withHeader("b64", false, "crit", []string{"b64"}), bad},
		{"b64 false without crit", f.withHeader("b64", false), bad},
		{"b64 true", f.withHeader("b64", true), bad},
		{"jwk with its own signature", foreign.withHeader("jwk", jwk), bad},
		{"jwk without kid", foreign.withHeader("jwk", jwk, "kid", remove), bad},
		{"jwk and a valid signature", f.withHeader("jwk", jwk), bad},
		{"jku", f.withHeader("jku", "https://attacker.example/keys"), bad},
		{"x5u", f.withHeader("x5u", "https://attacker.example/cert"), bad},
		{"x5c", f.withHeader("x5c", []string{"MIIB"}), bad},
		{"zip", f.withHeader("zip", "DEF"), bad},
		{"any other parameter", f.withHeader("hello", 1), bad},
		{"typ missing", f.withHeader("typ", remove), bad},
		{"typ JWT", f.withHeader("typ", "JWT"), bad},
		{"typ in capitals", f.withHeader("typ", "AT+JWT"), bad},
		{"typ in full", f.withHeader("typ", "application/at+jwt"), bad},
		{"typ of an ID token", f.withHeader("typ", "id_token+jwt"), bad},
		{"typ a number", f.withHeader("typ", 1), bad},
		{"kid missing", f.withHeader("kid", remove), bad},
		{"kid unknown", f.withHeader("kid", "unknown"), bad},
		{"kid empty", f.withHeader("kid", ""), bad},
		{"kid null", f.withHeader("kid", nil), bad},
		{"kid a number", f.withHeader("kid", 1), bad},
		{"kid a path", f.withHeader("kid", "../../etc/passwd"), bad},
		{"kid SQL", f.withHeader("kid", "' OR '1'='1"), bad},
		{"KID instead of kid", f.withHeader("kid", remove, "KID", f.id), bad},
		{"another's key", foreign.good(), bad},
		{"header of two", f.sign([]byte(`{"alg":"none"}`+string(toJSON(f.header))), toJSON(f.claims)), bad},
		{"header null", f.sign([]byte("null"), toJSON(f.claims)), bad},
		{"header a list", f.sign([]byte("[]"), toJSON(f.claims)), bad},
		{"header no JSON", f.sign([]byte("{"), toJSON(f.claims)), bad},
	}
}

func signatures(f forger) []hostile {
	text, sig := cutLast(f.good())
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		panic(err)
	}
	r, s := signature(f.key, text)
	n := elliptic.P256().Params().N
	der, err := ecdsa.SignASN1(rand.Reader, f.key, make([]byte, 32))
	if err != nil {
		panic(err)
	}
	pair := func(r, s *big.Int) string {
		return text + "." + b64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	}
	zero := new(big.Int)
	// 64 bytes leave four unused bits in the last character. A decoder that is not strict ignores
	// them.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, sig[len(sig)-1])
	malleable := text + "." + sig[:len(sig)-1] + alphabet[last^1:last^1+1]
	bad := auth.InvalidToken
	return []hostile{
		{"no signature", text + ".", bad},
		{"zeros", text + "." + b64(make([]byte, 64)), bad},
		{"DER", text + "." + b64(der), bad},
		{"one byte less", text + "." + b64(raw[:63]), bad},
		{"one byte more", text + "." + b64(append(raw[:64:64], 0)), bad},
		{"r and s swapped", pair(s, r), bad},
		{"r of zero", pair(zero, s), bad},
		{"s of zero", pair(r, zero), bad},
		{"r of n", pair(n, s), bad},
		{"unused bits set", malleable, bad},
		{"padded", f.good() + "==", bad},
		{"of another token", text + "." + strings.Split(f.withClaims("sub", "us_otto"), ".")[2], bad},
		// ECDSA itself has two valid signatures of each text. For this reason nothing here depends
		// on a token's text: a revocation names the family.
		{"n minus s", pair(r, new(big.Int).Sub(n, s)), ""},
	}
}

func cutLast(token string) (text, sig string) {
	i := strings.LastIndexByte(token, '.')
	return token[:i], token[i+1:]
}

func forms(f forger) []hostile {
	good := f.good()
	part := strings.Split(good, ".")
	bad := auth.InvalidToken
	return []hostile{
		{"empty", "", bad},
		{"dots", "..", bad},
		{"two segments", part[0] + "." + part[1], bad},
		{"four segments", good + "." + part[2], bad},
		{"a leading dot", "." + good, bad},
		{"100,000 dots", strings.Repeat(".", 100_000), bad},
		{"a megabyte", strings.Repeat("x", 1<<20), bad},
		{"over 4 KiB, well signed", f.withClaims("more", strings.Repeat("x", 4096)), bad},
		{"Bearer before", "Bearer " + good, bad},
		{"a space before", " " + good, bad},
		{"a space after", good + " ", bad},
		{"a line end after", good + "\n", bad},
		{"a line end in the signature", good[:len(good)-5] + "\n" + good[len(good)-5:], bad},
		{"a NUL", good + "\x00", bad},
		{"JSON serialization", `{"protected":"` + part[0] + `","payload":"` + part[1] + `","signature":"` + part[2] + `"}`, bad},
		{"standard base64", strings.NewReplacer("-", "+", "_", "/").Replace(good) + "+", bad},
		{"a letter that is none", good[:20] + "\u0430" + good[21:], bad},
	}
}

func times(f forger) []hostile {
	now := time.Now().Unix()
	bad := auth.InvalidToken
	return []hostile{
		{"exp missing", f.withClaims("exp", remove), bad},
		{"exp null", f.withClaims("exp", nil), bad},
		{"exp a string", f.withClaims("exp", fmt.Sprint(now+60)), bad},
		{"exp a list", f.withClaims("exp", []int64{now + 60}), bad},
		{"exp a fraction", f.withClaims("exp", float64(now)+60.5), bad},
		{"exp 1e300", f.withClaims("exp", json.RawMessage("1e300")), bad},
		{"exp negative", f.withClaims("exp", -1), bad},
		{"exp too far", f.withClaims("exp", now+86401), bad},
		{"exp the largest", f.withClaims("exp", int64(1<<63-1)), bad},
		{"exp the largest, iat the smallest", f.withClaims("exp", int64(1<<63-1), "iat", int64(-1<<63)), bad},
		{"exp before iat", f.withClaims("exp", now-2, "iat", now-1), bad},
		{"exp in a second", f.withClaims("exp", now+1), ""},
		{"exp now", f.withClaims("exp", now, "iat", now-60), auth.TokenExpired},
		{"exp a second ago", f.withClaims("exp", now-1, "iat", now-60), auth.TokenExpired},
		{"iat missing", f.withClaims("iat", remove), bad},
		{"iat 30 s ahead", f.withClaims("iat", now+30), ""},
		{"iat 31 s ahead", f.withClaims("iat", now+31), bad},
		{"nbf 30 s ahead", f.withClaims("nbf", now+30), ""},
		{"nbf 31 s ahead", f.withClaims("nbf", now+31), bad},
		{"nbf missing", f.withClaims("nbf", remove), ""},
	}
}

func otherClaims(f forger) []hostile {
	bad := auth.InvalidToken
	return []hostile{
		{"iss missing", f.withClaims("iss", remove), bad},
		{"iss another", f.withClaims("iss", "rueda.example"), bad},
		{"iss in capitals", f.withClaims("iss", "RUEDA"), bad},
		{"iss a list", f.withClaims("iss", []string{"rueda"}), bad},
		{"aud missing", f.withClaims("aud", remove), bad},
		{"aud empty", f.withClaims("aud", []string{}), bad},
		{"aud another", f.withClaims("aud", "other"), bad},
		{"aud ours alone", f.withClaims("aud", "rueda"), ""},
		{"aud ours among others", f.withClaims("aud", []string{"other", "rueda"}), ""},
		{"aud a number", f.withClaims("aud", 1), bad},
		{"sub missing", f.withClaims("sub", remove), bad},
		{"sid missing", f.withClaims("sid", remove), bad},
		{"jti missing", f.withClaims("jti", remove), bad},
		{"sub unknown", f.withClaims("sub", "us_nobody"), auth.TokenRevoked},
		{"ver of before", f.withClaims("ver", 0), auth.TokenRevoked},
		{"ver a string", f.withClaims("ver", "1"), bad},
		{"claims null", f.sign(toJSON(f.header), []byte("null")), bad},
		{"claims a list", f.sign(toJSON(f.header), []byte("[]")), bad},
		{"claims no JSON", f.sign(toJSON(f.header), []byte("{")), bad},
		{"claims empty", f.sign(toJSON(f.header), nil), bad},
	}
}

// TestDeletedKey checks that a token of a deleted key is invalid, and that a token of a listed key
// that does not sign is valid.
func TestDeletedKey(t *testing.T) {
	oldKeys, oldKey, oldID := newKeyFile(t)
	w := newWorld(t, func(c *auth.Config) { c.Keys, c.AuditKey = oldKeys, oldKeys.AuditKey() })
	old := w.login("maria")
	_, newKey, newID := newKeyFile(t)

	w.cfg.Keys = keySetOf(t, newKey, newID, oldKey, oldID)
	w.restart()
	w.verify(old.Access)
	fresh := w.login("maria")
	part := strings.Split(fresh.Access.Reveal(), ".")
	if header, err := base64.RawURLEncoding.DecodeString(part[0]); err != nil || !strings.Contains(string(header), newID) {
		t.Errorf("header %s: the first key signs", header)
	}

	w.cfg.Keys = keySetOf(t, newKey, newID)
	w.restart()
	w.rejects(old.Access, auth.InvalidToken)
	w.verify(fresh.Access)
}

// TestClaims checks that a token contains only claims that everybody may read.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	part := strings.Split(w.login("maria").Access.Reveal(), ".")
	payload, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"iss", "sub", "aud", "exp", "iat", "jti", "client_id", "sid", "ver"} {
		if _, ok := claims[name]; !ok {
			t.Errorf("%s is missing", name)
		}
		delete(claims, name)
	}
	if len(claims) != 0 {
		t.Errorf("more than was meant: %v", claims)
	}
}

func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	good := w.login("maria").Access.Reveal()
	f.Add(good)
	f.Add("")
	f.Add("..")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, text string) {
		_, err := w.Verify(t.Context(), text)
		if text != good && reasonOf(err) != auth.InvalidToken {
			t.Errorf("%q: %v", text, err)
		}
	})
}

//go:build unix

package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// forger makes tokens with the signing key of the gateway, so that each has only one error.
type forger struct {
	key    *ecdsa.PrivateKey
	header map[string]any
	claims map[string]any
}

// forge returns a forger that starts from a valid token of a user.
func (a *attacker) forge(name string) *forger {
	a.Helper()
	parts := strings.Split(a.token(name), ".")
	f := &forger{header: map[string]any{}, claims: map[string]any{}}
	for i, to := range []*map[string]any{&f.header, &f.claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			a.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(to); err != nil {
			a.Fatal(err)
		}
	}
	f.key = a.signingKey(f.header["kid"].(string))
	f.claims["jti"] = crand.Text() // it is unique
	return f
}

// signingKey reads a key from the gateway's key file.
func (a *attacker) signingKey(kid string) *ecdsa.PrivateKey {
	a.Helper()
	text, err := os.ReadFile(filepath.Join(a.Folder, "keys.json"))
	if err != nil {
		a.Fatal(err)
	}
	var file struct {
		Keys []struct {
			ID      string `json:"kid"`
			Private []byte `json:"private"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		a.Fatal(err)
	}
	for _, k := range file.Keys {
		if k.ID != kid {
			continue
		}
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), k.Private)
		if err != nil {
			a.Fatal(err)
		}
		return key
	}
	a.Fatalf("the key file has no key %s", kid)
	return nil
}

// withClaims returns a copy with changed claims; nil removes one.
func (f *forger) withClaims(set map[string]any) *forger {
	g := &forger{key: f.key, header: maps.Clone(f.header), claims: maps.Clone(f.claims)}
	for name, value := range set {
		if value == nil {
			delete(g.claims, name)
		} else {
			g.claims[name] = value
		}
	}
	return g
}

// withHeader returns a copy with changed header members; nil removes one.
func (f *forger) withHeader(set map[string]any) *forger {
	g := f.withClaims(nil)
	for name, value := range set {
		if value == nil {
			delete(g.header, name)
		} else {
			g.header[name] = value
		}
	}
	return g
}

func (f *forger) body() string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // not possible for maps of texts and numbers
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(f.header) + "." + part(f.claims)
}

func (f *forger) token() string {
	body := f.body()
	sum := sha256.Sum256([]byte(body))
	r, s, err := ecdsa.Sign(crand.Reader, f.key, sum[:])
	if err != nil {
		panic(err)
	}
	return body + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// hmacWithPublic returns a token signed with HMAC and the public key. Old libraries accepted it.
func (f *forger) hmacWithPublic() string {
	g := f.withHeader(map[string]any{"alg": "HS256"})
	der, err := x509.MarshalPKIXPublicKey(&f.key.PublicKey)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(g.body()))
	return g.body() + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (f *forger) derSigned() string {
	body := f.body()
	sum := sha256.Sum256([]byte(body))
	r, s, err := ecdsa.Sign(crand.Reader, f.key, sum[:])
	if err != nil {
		panic(err)
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		panic(err)
	}
	return body + "." + base64.RawURLEncoding.EncodeToString(der)
}

// bearerInputs returns the inputs of REST requests with an access token.
func bearerInputs() []input {
	refused := func(a *attacker, what, token string) {
		a.Helper()
		a.want(what, a.get(token), 401, "invalid_token")
	}
	auth := func(values ...string) []string {
		var h []string
		for _, v := range values {
			h = append(h, "Authorization", v)
		}
		return h
	}
	ask := func(a *attacker, values ...string) *reply {
		return a.request(http.MethodGet, "/broker/accounts", "", auth(values...)...)
	}
	now := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	return []input{
		{46, "no header", func(a *attacker) {
			r := a.request(http.MethodGet, "/broker/accounts", "")
			a.want("none", r, 401, "invalid_token")
			if c := r.header.Get("WWW-Authenticate"); c != "Bearer" {
				a.Errorf("WWW-Authenticate: %q, want no error code without a token", c)
			}
		}},
		{47, "schemes", func(a *attacker) {
			t := a.token("ana")
			for _, h := range []string{"Basic YTpi", "Bearer", "Bearer ", "Token " + t, t} {
				a.want(h[:min(8, len(h))], ask(a, h), 401, "")
			}
			a.want("lower case", ask(a, "bearer "+t), 200, "")
		}},
		{48, "two headers", func(a *attacker) { a.want("two", ask(a, "Bearer "+a.token("ana"), "Bearer "+a.token("ana")), 400, "") }},
		{49, "token in the query", func(a *attacker) {
			for _, name := range []string{"access_token", "token", "jwt"} {
				a.want(name, a.request("GET", "/broker/accounts?"+name+"="+a.token("ana"), ""), 400, "")
			}
		}},
		{50, "alg none", func(a *attacker) {
			for _, alg := range []string{"none", "nOnE", "None", ""} {
				f := a.forge("ana").withHeader(map[string]any{"alg": alg})
				refused(a, alg, f.body()+".")
				refused(a, alg+" signed", f.token())
			}
		}},
		{51, "HMAC with the public key", func(a *attacker) { refused(a, "HS256", a.forge("ana").hmacWithPublic()) }},
		{52, "crit", func(a *attacker) {
			refused(a, "crit", a.forge("ana").withHeader(map[string]any{"crit": []string{"x"}, "x": 1}).token())
		}},
		{53, "keys in the header", func(a *attacker) {
			for _, name := range []string{"jwk", "jku", "x5u", "x5c"} {
				refused(a, name, a.forge("ana").withHeader(map[string]any{name: "https://127.0.0.1:1/keys"}).token())
			}
		}},
		{54, "b64 false", func(a *attacker) {
			refused(a, "b64", a.forge("ana").withHeader(map[string]any{"b64": false, "crit": []string{"b64"}}).token())
		}},
		{55, "typ", func(a *attacker) {
			for _, typ := range []any{nil, "JWT", "id_token", "AT+JWT+x", 1} {
				refused(a, "typ", a.forge("ana").withHeader(map[string]any{"typ": typ}).token())
			}
		}},
		{56, "unused bits of the last character", func(a *attacker) {
			t := a.token("ana")
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
			last := strings.IndexByte(alphabet, t[len(t)-1])
			refused(a, "malleable", t[:len(t)-1]+string(alphabet[last^1]))
		}},
		{57, "padding", func(a *attacker) {
			refused(a, "==", a.token("ana")+"==")
			refused(a, "=", strings.Replace(a.token("ana"), ".", "=.", 1))
		}},
		{58, "shape", func(a *attacker) {
			t := a.token("ana")
			refused(a, "4 segments", t+".x")
			refused(a, "2 segments", t[:strings.LastIndexByte(t, '.')])
			refused(a, "dots", strings.Repeat(".", 10_000))
			for _, n := range []int{100_000, 1 << 20} {
				if s := status(a.raw("GET /broker/accounts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+strings.Repeat(".", n)+"\r\n\r\n", 10*time.Second)); s != 431 {
					a.Errorf("a header of %d bytes: %d, want 431", n, s)
				}
			}
		}},
		{59, "exp", func(a *attacker) {
			for what, exp := range map[string]any{
				"none": nil, "text": "9999999999", "huge": json.Number("1e300"), "negative": -1, "fraction": 1e9 + 0.5, "far": now(365 * 24 * time.Hour),
			} {
				refused(a, "exp "+what, a.forge("ana").withClaims(map[string]any{"exp": exp}).token())
			}
		}},
		{60, "from the future", func(a *attacker) {
			refused(a, "nbf", a.forge("ana").withClaims(map[string]any{"nbf": now(time.Minute)}).token())
			refused(a, "iat", a.forge("ana").withClaims(map[string]any{"iat": now(time.Minute)}).token())
			a.want("within the leeway", a.get(a.forge("ana").withClaims(map[string]any{"nbf": now(10 * time.Second)}).token()), 200, "")
		}},
		{61, "issuer and audience", func(a *attacker) {
			refused(a, "iss", a.forge("ana").withClaims(map[string]any{"iss": "somebody"}).token())
			refused(a, "aud", a.forge("ana").withClaims(map[string]any{"aud": "somebody"}).token())
			refused(a, "no aud", a.forge("ana").withClaims(map[string]any{"aud": nil}).token())
			a.want("list with ours", a.get(a.forge("ana").withClaims(map[string]any{"aud": []string{"somebody", "rueda"}}).token()), 200, "")
		}},
		{62, "kid", func(a *attacker) {
			for _, kid := range []any{nil, "", "unknown", "../../etc/passwd", "' OR 1=1 --", 1, strings.Repeat("k", 1000)} {
				refused(a, "kid", a.forge("ana").withHeader(map[string]any{"kid": kid}).token())
			}
		}},
		{63, "signatures", func(a *attacker) {
			f := a.forge("ana")
			refused(a, "zeros", f.body()+"."+base64.RawURLEncoding.EncodeToString(make([]byte, 64)))
			refused(a, "DER", f.derSigned())
			refused(a, "empty", f.body()+".")
		}},
		{64, "key that no longer exists", func(a *attacker) {
			other, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
			if err != nil {
				a.Fatal(err)
			}
			f := a.forge("ana")
			f.key = other
			refused(a, "another key under its id", f.token())
			refused(a, "another key under an id of its own", f.withHeader(map[string]any{"kid": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}).token())
		}},
		{65, "edge of exp", func(a *attacker) {
			f := a.forge("ana")
			expired := f.withClaims(map[string]any{"exp": now(-time.Second), "iat": now(-time.Hour), "nbf": now(-time.Hour)}).token()
			a.want("expired by a second", a.get(expired), 401, "token_expired")
			a.want("some seconds left", a.get(f.withClaims(map[string]any{"exp": now(20 * time.Second)}).token()), 200, "")
		}},
		{66, "account of another user", func(a *attacker) {
			get := func(id, name string) *reply {
				return a.request("GET", "/broker/accounts/"+id, "", "Authorization", "Bearer "+a.token(name))
			}
			a.want("own account", get("ac_ana", "ana"), 200, "")
			a.want("account of another user", get("ac_eve", "ana"), 404, "not_found")
			a.want("account of another user, swapped", get("ac_ana", "eve"), 404, "not_found")
			a.want("account of nobody", get("ac_none", "ana"), 404, "not_found")
		}},
		{67, "limit", func(a *attacker) {
			for _, q := range []string{"limit=-1", "limit=0", "limit=1e9", "limit=1000000000", "limit=NaN", "limit=5&limit=6", "limit=%00"} {
				a.want(q, a.request("GET", "/broker/accounts?"+q, "", "Authorization", "Bearer "+a.token("ana")), 400, "bad_field")
			}
		}},
	}
}

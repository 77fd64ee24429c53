package auth_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// seal signs a text with an algorithm. It does not use the tested code.
func seal(key crypto.Signer, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		size := (key.Curve.Params().BitSize + 7) / 8
		digest := sum[:]
		if size > 32 {
			long := sha512.Sum384([]byte(text))
			digest = long[:]
		}
		r, s, err := ecdsa.Sign(rand.Reader, key, digest)
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case ed25519.PrivateKey:
		return ed25519.Sign(key, []byte(text))
	}
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return sig
}

// signer makes tokens with one of the installation's own keys.
type signer struct {
	alg    string
	id     string
	key    crypto.Signer
	claims map[string]any
}

func (s signer) header(changes ...any) map[string]any {
	return with(map[string]any{"alg": s.alg, "kid": s.id, "typ": "at+jwt"}, changes...)
}

// token returns a token with a valid signature over any header.
func (s signer) token(header map[string]any) string {
	text := b64(toJSON(header)) + "." + b64(toJSON(s.claims))
	return text + "." + b64(seal(s.key, text))
}

// by returns a token of s that another key has signed.
func (s signer) by(other crypto.Signer, header map[string]any) string {
	s.key = other
	return s.token(header)
}

// signers returns the keys of a store by algorithm.
func signers(t *testing.T, kept keyset.Store, now time.Time) map[string]signer {
	t.Helper()
	document, _, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys []struct {
			ID        string `json:"kid"`
			Algorithm string `json:"alg"`
			Private   []byte `json:"private"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(document, &file); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]signer)
	for _, k := range file.Keys {
		s := signer{alg: k.Algorithm, id: k.ID, claims: newForger(nil, k.ID, now).claims}
		switch k.Algorithm {
		case "ES256":
			s.key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), k.Private)
		case "EdDSA":
			s.key = ed25519.NewKeyFromSeed(k.Private)
		case "RS256":
			s.key, err = x509.ParsePKCS1PrivateKey(k.Private)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[k.Algorithm] = s
	}
	return all
}

// threeKeys returns a set with a key of each algorithm.
func threeKeys(t *testing.T) (*keyset.Set, *stored) {
	t.Helper()
	kept := newStored()
	keys := kept.open(t, keyset.Config{Algorithm: keyset.RS256})
	for _, alg := range []string{keyset.EdDSA, keyset.ES256} {
		if _, err := keys.Rotate(t.Context(), keyset.Rotation{Algorithm: alg, Now: true}); err != nil {
			t.Fatal(err)
		}
	}
	return keys, kept
}

// TestThreat10AlgorithmConfusion checks that a token is valid only with the algorithm of its key
// and with the three header parameters of this server, for each of the three algorithms.
func TestThreat10AlgorithmConfusion(t *testing.T) {
	keys, kept := threeKeys(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
		all := signers(t, kept, time.Now())
		if len(all) != 3 {
			t.Fatalf("%d algorithms", len(all))
		}
		for alg, s := range all {
			rows := confusions(t, s, all)
			rows = append(rows, tampered(t, s)...)
			if len(rows) < 40 {
				t.Fatalf("%s: %d rows", alg, len(rows))
			}
			if id := w.verify(auth.NewSecret(s.token(s.header()))); id.KeyID != s.id {
				t.Errorf("%s: key %s, want %s", alg, id.KeyID, s.id)
			}
			for _, c := range rows {
				for range 2 { // a cached result of the first check must not help
					_, err := w.Verify(t.Context(), c.token)
					if got := reasonOf(err); got != c.want {
						t.Errorf("%s: %s: reason %q (%v), want %q", alg, c.what, got, err, c.want)
					}
				}
			}
		}
	})
}

// publicForms returns the encodings of a public key that could be used as a shared secret.
func publicForms(t *testing.T, s signer) map[string][]byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	spki := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return map[string][]byte{"DER": der, "PEM": spki, "PEM without its line end": bytes.TrimSpace(spki), "nothing": nil, "its id": []byte(s.id)}
}

// confusions returns wrong headers.
func confusions(t *testing.T, s signer, all map[string]signer) (rows []hostile) {
	t.Helper()
	add := func(what, token string) { rows = append(rows, hostile{what, token, auth.InvalidToken}) }
	payload := b64(toJSON(s.claims))
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		add("alg "+alg+" unsigned", b64(toJSON(s.header("alg", alg)))+"."+payload+".")
		add("alg "+alg+" signed", s.token(s.header("alg", alg)))
	}
	for form, secret := range publicForms(t, s) {
		for _, alg := range []string{"HS256", "HS384", "HS512"} {
			f := forger{header: s.header(), claims: s.claims}
			f.header["alg"] = alg
			add(alg+" with the public key as "+form, f.hmacToken(secret))
		}
	}
	for other, o := range all {
		if other != s.alg {
			add("alg "+other+" said, signed with its own", s.token(s.header("alg", other)))
			add("kid of the key of "+other, s.token(s.header("kid", o.id)))
			add("alg and kid of the key of "+other, s.token(s.header("alg", other, "kid", o.id)))
			add("signed with the key of "+other, s.by(o.key, s.header()))
			add("signed with the key of "+other+", and said so", s.by(o.key, s.header("alg", other)))
		}
	}
	for _, alg := range []string{"ES384", "ES512", "PS256", "RS384", "Ed25519", "ES256K", strings.ToLower(s.alg), s.alg + " "} {
		add("alg "+alg, s.token(s.header("alg", alg)))
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	add("another curve", s.by(p384, s.header()))
	add("another curve, and said so", s.by(p384, s.header("alg", "ES384")))
	foreign, jwk := foreignKey(t, s)
	for name, value := range map[string]any{
		"jwk": jwk, "jku": "https://attacker.example/keys", "x5u": "https://attacker.example/cert",
		"x5c": []string{"MIIB"}, "x5t": "AAAA", "crit": []string{"exp"}, "b64": true, "zip": "DEF", "epk": jwk, "nonce": "1",
	} {
		add(name+" and a valid signature", s.token(s.header(name, value)))
		add(name+" with a key of its own", s.by(foreign, s.header(name, value)))
		add(name+" with a key of its own, without kid", s.by(foreign, s.header(name, value, "kid", remove)))
	}
	add("b64 false with crit", s.token(s.header("b64", false, "crit", []string{"b64"})))
	for _, typ := range []any{remove, "JWT", "AT+JWT", "application/at+jwt", "id_token+jwt", "", 1, nil, []string{"at+jwt"}} {
		add(fmt.Sprint("typ ", typ), s.token(s.header("typ", typ)))
	}
	return rows
}

// foreignKey returns a foreign key of the same kind, with its public form.
func foreignKey(t *testing.T, s signer) (crypto.Signer, map[string]any) {
	t.Helper()
	kept := newStored()
	kept.open(t, keyset.Config{Algorithm: s.alg})
	other := signers(t, kept, time.Now())[s.alg]
	w := newWorld(t, func(c *auth.Config) { c.Keys = kept.open(t, keyset.Config{}) })
	body, _ := w.JWKS()
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		t.Fatal(err)
	}
	return other.key, set.Keys[0]
}

// tampered returns wrong signatures.
func tampered(t *testing.T, s signer) (rows []hostile) {
	t.Helper()
	add := func(what, token string) { rows = append(rows, hostile{what, token, auth.InvalidToken}) }
	good := s.token(s.header())
	text, sig := cutLast(good)
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	of := func(b []byte) string { return text + "." + b64(b) }
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, sig[len(sig)-1])
	add("unused bits set", text+"."+sig[:len(sig)-1]+alphabet[last^1:last^1+1])
	add("padded", good+"=")
	add("padded twice", good+"==")
	add("standard alphabet", text+"."+base64.StdEncoding.EncodeToString(raw))
	add("zeros", of(make([]byte, len(raw))))
	add("ones", of(bytes.Repeat([]byte{0xff}, len(raw))))
	add("one byte less", of(raw[:len(raw)-1]))
	add("one byte more", of(append(raw[:len(raw):len(raw)], 0)))
	add("a zero before", of(append([]byte{0}, raw...)))
	add("turned round", of(append(raw[len(raw)/2:len(raw):len(raw)], raw[:len(raw)/2]...)))
	other := s
	other.claims = maps.Clone(s.claims)
	other.claims["sub"] = "us_otto"
	_, elsewhere := cutLast(other.token(s.header()))
	add("of another token", text+"."+elsewhere)
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		sum := sha256.Sum256([]byte(text))
		der, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		add("DER", of(der))
	case ed25519.PrivateKey:
		// Careless verifiers accept s plus the order of the group as if it were s.
		order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
		half := bytes.Clone(raw[32:])
		slices.Reverse(half)
		sum := new(big.Int).Add(new(big.Int).SetBytes(half), order).FillBytes(make([]byte, 32))
		slices.Reverse(sum)
		add("s plus the order", of(append(raw[:32:32], sum...)))
	case *rsa.PrivateKey:
		sum := sha256.Sum256([]byte(text))
		pss, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], nil)
		if err != nil {
			t.Fatal(err)
		}
		add("PSS", of(pss))
		plus := new(big.Int).Add(new(big.Int).SetBytes(raw), key.N).Bytes()
		add("s plus the modulus", of(plus))
	}
	return rows
}

// TestThreat11KeyIDInjection checks that a key id is only looked up in a map in memory, for any
// content.
func TestThreat11KeyIDInjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		keys := kept.open(t, keyset.Config{})
		w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
		s := signers(t, kept, time.Now())["ES256"]
		defer runKeys(t, keys)()
		synctest.Wait()
		loads, saves := kept.counts()
		n := soak(100_000)
		for i := range n { // 10,000 a second
			time.Sleep(100 * time.Microsecond)
			kid := fmt.Sprintf("%032x", i)
			switch i % 4 {
			case 1:
				kid = "../../../../etc/passwd"
			case 2:
				kid = fmt.Sprintf("' OR '%d'='%d", i, i)
			case 3:
				kid = "http://127.0.0.1/" + kid
			}
			w.rejects(auth.NewSecret(b64(toJSON(s.header("kid", kid)))+"."+b64(toJSON(s.claims))+"."+b64(make([]byte, 64))), auth.InvalidToken)
		}
		if l, v := kept.counts(); l != loads || v != saves {
			t.Errorf("%d tokens of unknown keys made %d loads and %d saves", n, l-loads, v-saves)
		}
		if _, reads := w.people.counts(); reads != 0 {
			t.Errorf("%d users read", reads)
		}
	})
}

// TestThreat12Substitution checks that tokens of installations with the same keys are valid only
// with the same issuer and audience, and that other kinds of tokens are never valid as access
// tokens.
func TestThreat12Substitution(t *testing.T) {
	keys, kept := threeKeys(t)
	type place struct{ issuer, audience string }
	var places []place
	for _, issuer := range []string{"https://a.example", "https://a.example/", "https://b.example", "rueda"} {
		for _, audience := range []string{"live", "Live", "demo"} {
			places = append(places, place{issuer, audience})
		}
	}
	worlds := make(map[place]*world)
	tokens := make(map[place]auth.Secret)
	for _, p := range places {
		worlds[p] = newWorld(t, func(c *auth.Config) { c.Keys, c.Issuer, c.Audience = keys, p.issuer, p.audience })
		tokens[p] = worlds[p].login("maria").Access
	}
	for _, from := range places {
		for _, to := range places {
			_, err := worlds[to].Verify(t.Context(), tokens[from].Reveal())
			want := auth.InvalidToken
			if from == to {
				want = ""
			}
			if got := reasonOf(err); got != want {
				t.Errorf("a token of %v at %v: %q (%v), want %q", from, to, got, err, want)
			}
		}
	}
	for alg, s := range signers(t, kept, time.Now()) {
		at := worlds[place{"rueda", "live"}]
		s.claims = with(s.claims, "aud", []string{"live"})
		at.verify(auth.NewSecret(s.token(s.header())))
		for _, typ := range []any{"JWT", "id_token+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", remove} {
			at.rejects(auth.NewSecret(s.token(s.header("typ", typ))), auth.InvalidToken)
		}
		for _, aud := range []any{"demo", []string{"demo", "live "}, []string{}, "", nil, remove, 1, map[string]any{"live": true}} {
			s := s
			s.claims = with(s.claims, "aud", aud)
			if _, err := at.Verify(t.Context(), s.token(s.header())); reasonOf(err) != auth.InvalidToken {
				t.Errorf("%s: aud %v: %v", alg, aud, err)
			}
		}
	}
}

// TestThreat14SigningKeyTheft runs rotate --now --revoke in another process. Afterwards no token of
// the stolen key is valid, neither tokens that were verified before nor new ones of the thief.
func TestThreat14SigningKeyTheft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		var revoked []string
		keys := kept.open(t, keyset.Config{OnRevoke: func(kid string) { revoked = append(revoked, kid) }})
		w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
		defer runKeys(t, keys)()
		thief := signers(t, kept, time.Now())["ES256"]
		var given []auth.Tokens
		for range 50 {
			tokens := w.login("maria")
			w.verify(tokens.Access)
			given = append(given, tokens)
		}
		unseen := w.login("maria")
		forged := auth.NewSecret(thief.token(thief.header()))
		w.verify(forged)

		operator := kept.open(t, keyset.Config{Actor: "command line"})
		if _, err := operator.Rotate(t.Context(), keyset.Rotation{Revoke: thief.id}); err == nil {
			t.Fatal("the signing key was revoked without a replacement")
		}
		w.verify(forged)
		if _, err := operator.Rotate(t.Context(), keyset.Rotation{Now: true, Revoke: thief.id}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(revoked) != 1 || revoked[0] != thief.id {
			t.Errorf("sockets of %q were closed, want those of %q", revoked, thief.id)
		}
		for _, tokens := range given {
			w.rejects(tokens.Access, auth.TokenRevoked)
			if _, ok, err := w.Known(tokens.Access.Reveal()); !ok || reasonOf(err) != auth.TokenRevoked {
				t.Errorf("a token from memory: %v, %v", ok, err)
			}
		}
		w.rejects(unseen.Access, auth.TokenRevoked)
		w.rejects(forged, auth.TokenRevoked)
		thief.claims["jti"] = "another"
		w.rejects(auth.NewSecret(thief.token(thief.header())), auth.TokenRevoked)
		if body, _ := w.JWKS(); public(t, body)[thief.id] || len(public(t, body)) != 1 {
			t.Errorf("public keys %s", body)
		}
		for _, tokens := range given { // the logins themselves were not stolen
			w.verify(w.refresh(tokens.Refresh).Access)
		}
		if got := strings.Join(kept.details(), "; "); !strings.HasSuffix(got, "revoked "+thief.id) {
			t.Errorf("audit log: %s", got)
		}
		w.cfg.Keys = kept.open(t, keyset.Config{})
		w.restart()
		w.rejects(forged, auth.TokenRevoked)
	})
}

// TestThreat07ForgedRefreshToken computes a refresh token from the keys and a copy of the database,
// as the limits of docs/security.md say. Its use is noticed at the client's next refresh.
func TestThreat07ForgedRefreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.login("maria")
		families, err := w.store.Store.Sessions(t.Context(), "us_maria", time.Now())
		if err != nil || len(families) != 1 {
			t.Fatal(families, err)
		}
		text := strings.TrimPrefix(client.Refresh.Reveal(), "rt1_")
		token, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		parent := sha256.Sum256(token[:32]) // the database has this hash
		forged := parent[:]
		forged = binary.BigEndian.AppendUint64(forged, uint64(time.Now().UnixNano()))
		forged = binary.BigEndian.AppendUint64(forged, uint64(time.Now().Add(time.Hour).UnixNano()))
		forged = append(forged, "any nonce"...)
		mac, ok := w.cfg.Keys.Derive(families[0].KeyID, families[0].Seed, forged)
		if !ok {
			t.Fatal("no secret")
		}
		forged = append(forged, mac[:]...)
		forged = binary.BigEndian.AppendUint32(forged, crc32.ChecksumIEEE(forged))
		from := auth.Origin{Address: netip.MustParseAddr("203.0.113.99")}
		thief, err := w.Refresh(t.Context(), auth.NewSecret("rt2_"+base64.RawURLEncoding.EncodeToString(forged)), from)
		if err != nil {
			t.Fatalf("the limits say that this works: %v", err)
		}
		time.Sleep(time.Minute)
		w.refuses(client.Refresh, auth.InvalidRefreshToken)
		w.rejects(thief.Access, auth.TokenRevoked)
		if _, err := w.Refresh(t.Context(), thief.Refresh, from); err == nil {
			t.Error("the thief still refreshes")
		}
	})
}

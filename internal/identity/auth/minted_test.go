package auth_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// TestMintedTokensAreKnown checks that a token of a login and of a refresh needs no check on the
// node that minted it, and that this node then says the same as one that checks it. A token that
// was minted for a refused refresh is not known.
func TestMintedTokensAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.login("maria")
		second := w.refresh(first.Refresh)
		other := newWorld(t, func(c *auth.Config) { c.Users, c.Store, c.Keys = w.people, w.store.Store, w.cfg.Keys })
		for _, tokens := range []auth.Tokens{first, second} {
			got, ok, err := w.Known(tokens.Access.Reveal())
			if !ok || err != nil {
				t.Fatalf("known %v: %v", ok, err)
			}
			if _, ok, _ := other.Known(tokens.Access.Reveal()); ok {
				t.Error("another node knows the token without having seen it")
			}
			if want := other.verify(tokens.Access); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("known as\n%v, verified as\n%v", got, want)
			}
		}
		if err := w.Revoke(t.Context(), first.Access, origin); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := w.Known(second.Access.Reveal()); !ok {
			t.Error("not known after the end of its login")
		} else {
			wantReason(t, err, auth.TokenRevoked)
		}
	})
}

// bodyOf returns the claims of a token, and the token with other claims and the same signature.
func bodyOf(t *testing.T, token auth.Secret) (claims map[string]any, with func(map[string]any) string) {
	t.Helper()
	parts := strings.Split(token.Reveal(), ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	return claims, func(changed map[string]any) string {
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString(text) + "." + parts[2]
	}
}

// TestMinted checks which tokens have the MAC of the installation: not those with another claim, of
// another installation or of an earlier program.
func TestMinted(t *testing.T) {
	w := newWorld(t)
	tokens := w.login("maria")
	w.restart() // nothing is known
	if login, ok := w.Minted(tokens.Access.Reveal()); !ok || login != tokens.Session {
		t.Errorf("its own token: login %q, %v", login, ok)
	}
	claims, with := bodyOf(t, tokens.Access)
	for _, name := range []string{"iss", "sub", "aud", "exp", "iat", "jti", "client_id", "sid", "ver"} {
		changed := map[string]any{}
		for k, v := range claims {
			changed[k] = v
		}
		switch v := changed[name].(type) {
		case float64:
			changed[name] = int64(v) + 1
		case string:
			changed[name] = string("xy"[strings.Count(v[:1], "x")]) + v[1:]
		case []any:
			changed[name] = "x"
		default:
			t.Fatalf("%s is %v", name, v)
		}
		if _, ok := w.Minted(with(changed)); ok {
			t.Errorf("another %s has a right MAC", name)
		}
	}
	foreign := newWorld(t).login("maria").Access.Reveal()
	for _, text := range []string{"", ".", "..", "a.b.c", foreign, strings.Repeat("x", 100_000), strings.Replace(tokens.Access.Reveal(), ".", ".!", 1)} {
		if _, ok := w.Minted(text); ok {
			t.Errorf("%.40q has a right MAC", text)
		}
	}
	// The MAC does not replace the signature.
	text := tokens.Access.Reveal()
	forged := text[:len(text)-10] + strings.Repeat("A", 10)
	if _, ok := w.Minted(forged); !ok {
		t.Error("a token with another signature has a wrong MAC")
	}
	w.rejects(auth.NewSecret(forged), auth.InvalidToken)
}

// sign returns a token with these claims, signed by the signing key.
func (w *world) sign(claims map[string]any) auth.Secret {
	w.t.Helper()
	text, _, err := w.cfg.Keys.Sign(jwt.MapClaims(claims), "at+jwt")
	if err != nil {
		w.t.Fatal(err)
	}
	return auth.NewSecret(text)
}

// TestWrongMAC checks that a wrong MAC refuses a token before its signature is checked: a right
// signature does not help. The token of an earlier program has no MAC, and is valid.
func TestWrongMAC(t *testing.T) {
	w := newWorld(t)
	claims, _ := bodyOf(t, w.login("maria").Access)
	for _, name := range []string{"exp", "iat", "ver"} {
		claims[name] = int64(claims[name].(float64))
	}
	id := claims["jti"].(string)
	w.verify(w.sign(claims))
	claims["jti"] = id[:len(id)-1] + map[bool]string{true: "B", false: "A"}[id[len(id)-1] == 'A']
	_, err := w.Verify(t.Context(), w.sign(claims).Reveal())
	wantReason(t, err, auth.InvalidToken)
	if refused, _ := errors.AsType[*auth.Error](err); refused == nil || !strings.Contains(fmt.Sprint(refused.Err), "MAC") {
		t.Errorf("refused because of %v", err)
	}
	claims["jti"] = id[:22]
	earlier := w.sign(claims)
	if _, ok := w.Minted(earlier.Reveal()); ok {
		t.Error("a token without a MAC has a right one")
	}
	w.verify(earlier)
}

// TestNeighboursRefreshTokens checks that somebody who sends invented refresh tokens keeps nobody
// else at the address from refreshing or logging in. Only tokens of earlier programs wait: they
// look like invented ones.
func TestNeighboursRefreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		counted := &countingStore{Store: w.cfg.Store}
		w.cfg.Store = counted
		w.restart()
		foreign := newWorld(t)
		invented := foreign.login("maria")
		successor := foreign.refresh(invented.Refresh)
		tokens := w.login("otto")
		w.people.byID["us_ana"] = &person{password: "ana's password", user: broker.User{ID: "us_ana", Username: "ana", Version: 1}}
		earlier := w.earlierLogin("otto")
		for i := range 2000 {
			token := invented.Refresh
			if i%2 == 1 {
				token = successor.Refresh
			}
			_, _ = w.Refresh(t.Context(), token, origin)
		}
		if n := counted.lookups.Load(); n > 301 { // a successor is looked up twice
			t.Errorf("%d look-ups for 2000 invented tokens", n)
		}
		w.refuses(earlier, auth.RateLimited)
		for range 50 {
			tokens = w.refresh(tokens.Refresh)
		}
		w.login("ana") // her first login
		if _, err := w.Refresh(t.Context(), earlier, from(2)); err != nil {
			t.Errorf("a token of an earlier program, from another address: %v", err)
		}
	})
}

// TestForgedSuccessors sends a genuine refresh token with 2,000 different ends. They cause few
// look-ups, and another user does not wait.
func TestForgedSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		counted := &countingStore{Store: w.cfg.Store}
		w.cfg.Store = counted
		w.restart()
		successor := w.refresh(w.login("maria").Refresh).Refresh.Reveal()
		earlier := w.earlierLogin("otto")
		prefix, text, _ := strings.Cut(successor, "_")
		token, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		token = token[:len(token)-4] // the checksum
		before := counted.lookups.Load()
		for i := range 2000 {
			binary.BigEndian.PutUint32(token[len(token)-4:], uint32(i))
			forged := binary.BigEndian.AppendUint32(bytes.Clone(token), crc32.ChecksumIEEE(token))
			_, err := w.Refresh(t.Context(), auth.NewSecret(prefix+"_"+base64.RawURLEncoding.EncodeToString(forged)), origin)
			if reason := reasonOf(err); reason != auth.InvalidRefreshToken && reason != auth.RateLimited {
				t.Fatal(err)
			}
		}
		if n := counted.lookups.Load() - before; n > 201 {
			t.Errorf("%d look-ups for 2000 forged successors of one token", n)
		}
		w.refresh(earlier)
	})
}

// TestReplayedRefreshTokens sends the token of an ended login many times. It causes few look-ups,
// and another user does not wait.
func TestReplayedRefreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle, func(c *auth.Config) { c.RefreshTTL = time.Hour })
		counted := &countingStore{Store: w.cfg.Store}
		w.cfg.Store = counted
		w.restart()
		old := w.login("maria")
		time.Sleep(2 * time.Hour)
		if n, err := counted.Expire(t.Context(), time.Now(), time.Now()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		earlier := w.earlierLogin("otto")
		for range 2000 {
			_, _ = w.Refresh(t.Context(), old.Refresh, origin)
		}
		if n := counted.lookups.Load(); n > 201 {
			t.Errorf("%d look-ups for one token, 2000 times", n)
		}
		w.refresh(earlier)
	})
}

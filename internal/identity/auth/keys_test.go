package auth_test

import (
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// keySetOf returns a set of the given keys, in order. Each key is followed by its id.
func keySetOf(t *testing.T, pairs ...any) *keyset.Set {
	t.Helper()
	var keys []map[string]any
	for i := 0; i < len(pairs); i += 2 {
		private, err := pairs[i].(*ecdsa.PrivateKey).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, map[string]any{"kid": pairs[i+1], "alg": "ES256", "created": "2026-01-01T00:00:00Z", "private": private})
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	writeKeys(t, path, 0o600, toJSON(map[string]any{
		"version": 1, "keys": keys,
		"refresh": []any{map[string]any{"id": "r1", "created": "2026-01-01T00:00:00Z", "secret": make([]byte, 32)}},
	}))
	set, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func writeKeys(t *testing.T, path string, mode os.FileMode, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // regardless of the umask
		t.Fatal(err)
	}
}

func TestKeyFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets", "keys.json")
	keys, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
	tokens := w.login("maria")
	if w.cfg.Keys, err = openFile(t, path); err != nil {
		t.Fatal(err)
	}
	body, etag := w.JWKS()
	w.restart()
	w.verify(tokens.Access)
	w.refresh(tokens.Refresh)
	if again, tag := w.JWKS(); string(again) != string(body) || tag != etag {
		t.Errorf("public keys %s %s, before %s %s", again, tag, body, etag)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", name, info.Mode(), err, want)
		}
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// TestKeyFileRace checks that processes that start at the same time agree on the keys.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	var mu sync.Mutex
	bodies := make(map[string]bool)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			keys, err := openFile(t, path)
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := newWorld(t, func(c *auth.Config) { c.Keys = keys }).JWKS()
			mu.Lock()
			defer mu.Unlock()
			bodies[string(body)] = true
		})
	}
	wg.Wait()
	if len(bodies) != 1 {
		t.Errorf("%d sets of keys", len(bodies))
	}
}

func TestKeyFileRefused(t *testing.T) {
	source := filepath.Join(t.TempDir(), "keys.json")
	if _, err := openFile(t, source); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	var file struct {
		Keys []struct {
			ID      string `json:"kid"`
			Private string `json:"private"`
		} `json:"keys"`
		Refresh []struct {
			Secret string `json:"secret"`
		} `json:"refresh"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	id, private, secret := file.Keys[0].ID, file.Keys[0].Private, file.Refresh[0].Secret
	zeros := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, c := range []struct {
		what, data string
		mode       os.FileMode
		want       string
	}{
		{"readable by others", good, 0o604, "chmod 600"},
		{"readable by the group", good, 0o640, "chmod 600"},
		{"writable by others", good, 0o602, "chmod 600"},
		{"empty", "", 0o600, "damaged"},
		{"cut off", good[:len(good)/2], 0o600, "damaged"},
		{"two values", good + good, 0o600, "more than one JSON value"},
		{"an unknown key", strings.Replace(good, `"version"`, `"verison"`, 1), 0o600, "verison"},
		{"a newer version", strings.Replace(good, `"version": 3`, `"version": 4`, 1), 0o600, "version 4 is newer than version 3 of this program: run a newer program"},
		{"no keys", `{"version":1,"keys":[],"refresh":[]}`, 0o600, "at least one key"},
		{"HS256", strings.Replace(good, "ES256", "HS256", 1), 0o600, `algorithm: "HS256" is unknown`},
		{"another kid", strings.Replace(good, id, strings.Repeat("x", len(id)), 1), 0o600, "thumbprint"},
		{"a private key of zero", strings.Replace(good, private, zeros, 1), 0o600, "not a P-256 private key"},
		{"a short private key", strings.Replace(good, private, "AAAA", 1), 0o600, "not a P-256 private key"},
		{"a short secret", strings.Replace(good, secret, "AAAA", 1), 0o600, "refresh secret 1"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if runtime.GOOS == "windows" && c.mode != 0o600 {
				t.Log("no modes here")
				return
			}
			path := filepath.Join(t.TempDir(), "keys.json")
			writeKeys(t, path, c.mode, []byte(c.data))
			_, err := openFile(t, path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error %v; want one with %q and the path", err, c.want)
			}
			if strings.Contains(err.Error(), private) {
				t.Errorf("the error holds the key: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != c.data {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
	if _, err := openFile(t, t.TempDir()); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

// TestJWKS checks that the JWKS has all that others need to verify tokens, and nothing that could
// sign one.
func TestJWKS(t *testing.T) {
	_, first, firstID := newKeyFile(t)
	_, second, secondID := newKeyFile(t)
	w := newWorld(t, func(c *auth.Config) { c.Keys = keySetOf(t, first, firstID, second, secondID) })
	body, etag := w.JWKS()
	if len(etag) < 10 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		t.Errorf("ETag %s", etag)
	}
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		t.Fatal(err)
	}
	for i, key := range []*ecdsa.PrivateKey{first, second} {
		point, err := key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": []string{firstID, secondID}[i],
			"x": b64(point[1:33]), "y": b64(point[33:]),
		}
		got := set.Keys[i]
		for name, value := range want {
			if got[name] != value {
				t.Errorf("key %d: %s is %q, want %q", i, name, got[name], value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("key %d has more than was meant: %v", i, got)
		}
	}
}

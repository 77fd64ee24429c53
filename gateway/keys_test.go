package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// operatorFolder is the environment variable with the data folder in which an operator's process
// rotates the keys, and operatorRevoke that with the key to revoke.
const (
	operatorFolder = "RUEDA_TEST_KEYS_FOLDER"
	operatorRevoke = "RUEDA_TEST_KEYS_REVOKE"
)

// operate rotates the keys in its own process.
func operate(t *testing.T, folder, revoke string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestThreat14KeyTheftClosesSocketsE2E$")
	cmd.Env = append(os.Environ(), operatorFolder+"="+folder, operatorRevoke+"="+revoke)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestThreat14KeyTheftClosesSocketsE2E rotates the keys in another process and revokes the signing
// key. Sockets with its tokens get 401 and 4401 without any call to the gateway. Sockets with
// tokens of the next key stay open.
func TestThreat14KeyTheftClosesSocketsE2E(t *testing.T) {
	if folder := os.Getenv(operatorFolder); folder != "" {
		data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		rotateKeys(t, data, os.Getenv(operatorRevoke))
		return
	}
	folder := filepath.Join(t.TempDir(), "data")
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	addDemo(t, data.Users)
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: time.Millisecond, Limits: floodLimits(),
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 10 * time.Millisecond}}},
	})
	first := signingKey(t, data)
	_, etag := jwks(t, c, "")
	if status, _ := jwks(t, c, etag); status != http.StatusNotModified {
		t.Errorf("public keys that were read before: status %d", status)
	}
	c.enter(t, "demo", "demo-password")
	old := *c
	stolen := follow(t, &old, count(400))

	operate(t, folder, "") // only the next key signs: no socket is closed
	awaitKey(t, c, etag)
	c.enter(t, "demo", "demo-password")
	kept := follow(t, c, count(400))
	if err := old.accounts(); err != nil {
		t.Errorf("a token of a key that verifies only: %v", err)
	}

	operate(t, folder, first)
	began := time.Now()
	for _, b := range stolen {
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("closed by %v", err)
		}
	}
	promised(t, fmt.Sprintf("key revoked, %d sockets of its tokens closed", len(stolen)), began, time.Second)
	if err := old.accounts(); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("REST with a token of the revoked key: %v", err)
	}
	if err := c.accounts(); err != nil {
		t.Errorf("REST with a token of the key before the last: %v", err)
	}
	for _, b := range kept {
		b.until(t, "T", "")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func signingKey(t *testing.T, data *gateway.Data) string {
	t.Helper()
	keys, err := data.DB().OperatorKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys() {
		if k.State == keyset.Signing {
			return k.ID
		}
	}
	t.Fatal("no key signs")
	return ""
}

// rotateKeys makes the next key sign at once and revokes another; "": none.
func rotateKeys(t *testing.T, data *gateway.Data, revoke string) {
	t.Helper()
	keys, err := data.DB().OperatorKeys(t.Context())
	if err == nil {
		_, err = keys.Rotate(t.Context(), keyset.Rotation{Now: true, Revoke: revoke})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// follow opens sockets that receive trades.
func follow(t *testing.T, c *literalClient, n int) (bots []*bot) {
	t.Helper()
	for range min(n, 40) { // demo may have 100
		b := connect(t, c)
		b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
		b.until(t, "T", "")
		bots = append(bots, b)
	}
	return bots
}

// jwks reads the public keys unless their ETag is etag.
func jwks(t *testing.T, c *literalClient, etag string) (status int, tag string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.rest+"/.well-known/jwks.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Cache-Control"); got != "public, max-age=300" {
		t.Errorf("Cache-Control %q", got)
	}
	if res.StatusCode == http.StatusOK {
		var set struct{ Keys []map[string]any }
		if err := json.Unmarshal(body, &set); err != nil || len(set.Keys) == 0 {
			t.Errorf("public keys %s: %v", body, err)
		}
		for _, k := range set.Keys {
			if _, private := k["d"]; private {
				t.Error("a private key is public")
			}
		}
	}
	return res.StatusCode, res.Header.Get("ETag")
}

// awaitKey waits until the gateway has other public keys than those of etag.
func awaitKey(t *testing.T, c *literalClient, etag string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if status, _ := jwks(t, c, etag); status == http.StatusOK {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the gateway has not taken up the keys")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestThreat14KeyTheftInAClusterE2E does the same with two gateways on one PostgreSQL database.
// Each has a socket of the stolen key. They close within five seconds.
func TestThreat14KeyTheftInAClusterE2E(t *testing.T) {
	t.Parallel()
	dsn, key := cluster.Database(t), encryptionKey(t)
	data := openShared(t, dsn, key)
	addDemo(t, data.Users)
	a, b := node(t, openShared(t, dsn, key)), node(t, openShared(t, dsn, key))
	if err := a.login(); err != nil {
		t.Fatal(err)
	}
	b.access, b.refresh = a.access, a.refresh
	sockets := []*bot{connect(t, a), connect(t, b)}
	rotateKeys(t, data, signingKey(t, data))
	began := time.Now()
	for _, s := range sockets {
		s.until(t, "Error", "token_revoked")
		if _, err := s.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("closed by %v", err)
		}
	}
	promised(t, "key revoked, sockets of two gateways closed", began, 5*time.Second)
	if err := a.renew(); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	b.access = a.access
	for _, c := range []*literalClient{a, b} {
		if err := c.accounts(); err != nil {
			t.Errorf("a token of the next key: %v", err)
		}
	}
}

// TestKeysAreEncryptedAtStart checks that a gateway with an encryption key encrypts the keys that
// it finds.
func TestKeysAreEncryptedAtStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	plain, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	first := signingKey(t, plain)
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(folder, "keys.key")
	if err := keyset.MakeEncryptionKey(secret); err != nil {
		t.Fatal(err)
	}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder, EncryptionKeyFile: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	_, stop, done := launch(t, gateway.Config{Data: data, Drain: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		text, err := os.ReadFile(filepath.Join(folder, "keys.json"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), `{"sealed":`) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not encrypted: %.40s", text)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if again := signingKey(t, data); again != first {
		t.Errorf("key %s signs, before %s", again, first)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder}); err == nil || !strings.Contains(err.Error(), "encryption_key_file") {
		t.Errorf("opened without the encryption key: %v", err)
	}
}

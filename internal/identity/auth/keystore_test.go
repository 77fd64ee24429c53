package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// TestKeyStores checks that both key stores compare and swap, and report changes.
func TestKeyStores(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (one, two keyset.Store){
		"file": func(t *testing.T) (keyset.Store, keyset.Store) {
			path := filepath.Join(t.TempDir(), "folder", "keys.json")
			return keyset.FileStore(path), keyset.FileStore(path)
		},
		"memory": func(*testing.T) (keyset.Store, keyset.Store) {
			s := keyset.MemoryStore()
			return s, s
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := make(t)
			if _, _, err := one.Load(t.Context()); !errors.Is(err, keyset.ErrNoDocument) {
				t.Fatalf("nothing there: %v", err)
			}
			if err := one.Save(t.Context(), []byte("x"), "1"); !errors.Is(err, keyset.ErrConflict) {
				t.Errorf("a version of nothing: %v", err)
			}
			if err := one.Save(t.Context(), []byte("first"), ""); err != nil {
				t.Fatal(err)
			}
			if err := two.Save(t.Context(), []byte("second"), ""); !errors.Is(err, keyset.ErrConflict) {
				t.Errorf("made twice: %v", err)
			}
			race(t, one, two)
			watched(t, one, two)
		})
	}
}

// race increments the document in many goroutines and checks that no increment is lost.
func race(t *testing.T, stores ...keyset.Store) {
	t.Helper()
	const workers, each = 8, 12
	document, version, err := stores[0].Load(t.Context())
	if err != nil || stores[0].Save(t.Context(), []byte("0"), version) != nil {
		t.Fatalf("%q, %v", document, err)
	}
	var all sync.WaitGroup
	for i := range workers {
		store := stores[i%len(stores)]
		all.Go(func() {
			for done := 0; done < each; {
				document, version, err := store.Load(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				fmt.Sscan(string(document), &n)
				switch err := store.Save(t.Context(), fmt.Append(nil, n+1), version); {
				case err == nil:
					done++
				case !errors.Is(err, keyset.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if document, _, _ := stores[0].Load(t.Context()); string(document) != fmt.Sprint(workers*each) {
		t.Errorf("%s after %d saves that succeeded", document, workers*each)
	}
}

func watched(t *testing.T, one, two keyset.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	done := make(chan error, 1)
	go func() { done <- one.Watch(ctx, func() { changed <- struct{}{} }) }()
	<-changed // the watch has begun
	for i := range 3 {
		_, version, err := two.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := two.Save(t.Context(), fmt.Appendf(nil, "change %d", i), version); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
			t.Logf("reported after %v", time.Since(start).Round(time.Millisecond))
		case <-time.After(time.Minute):
			t.Fatal("no change was reported")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestKeyFileLink checks that a symbolic link to the file stays a link when the keys change.
func TestKeyFileLink(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "target.json"), filepath.Join(folder, "keys.json")
	if _, err := openFile(t, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	keys, err := openFile(t, link)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Rotate(t.Context(), keyset.Rotation{Now: true}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	again, err := openFile(t, target)
	if err != nil || len(again.Keys()) != 2 {
		t.Errorf("%v, %v", again.Keys(), err)
	}
}

// firstVersion is a key file of version 1.
const firstVersion = `{
  "version": 1,
  "keys": [
    {"kid": %q, "alg": "ES256", "created": "2026-01-02T03:04:05Z", "private": %q},
    {"kid": %q, "alg": "ES256", "created": "2025-01-02T03:04:05Z", "private": %q}
  ],
  "refresh": [{"id": "r1", "created": "2026-01-02T03:04:05Z", "secret": %q}]
}
`

// TestKeyFileOfVersion1 checks that a file of version 1 still works: its tokens stay valid, and it
// gets the missing members for good.
func TestKeyFileOfVersion1(t *testing.T) {
	_, first, firstID := newKeyFile(t)
	_, second, secondID := newKeyFile(t)
	raw := func(f func() ([]byte, error)) string {
		b, err := f()
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	path := filepath.Join(t.TempDir(), "keys.json")
	writeKeys(t, path, 0o600, fmt.Appendf(nil, firstVersion, firstID, raw(first.Bytes), secondID, raw(second.Bytes), secret))
	keys, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	list := keys.Keys()
	if len(list) != 2 || list[0].ID != firstID || list[0].State != keyset.Signing || list[1].State != keyset.VerifyOnly {
		t.Errorf("keys %+v", list)
	}
	w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
	if kid := kidOf(t, w.login("maria").Access); kid != firstID {
		t.Errorf("%s signs, want %s", kid, firstID)
	}
	old := newForger(second, secondID, time.Now())
	w.verify(auth.NewSecret(old.good()))
	again, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys.AuditKey()) != 32 || !bytes.Equal(keys.AuditKey(), again.AuditKey()) {
		t.Errorf("audit keys %x and %x", keys.AuditKey(), again.AuditKey())
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), secret) {
		t.Errorf("the refresh secret is missing: %v", err)
	}
}

// encryptedBy returns a function for keyset.Config.Encryption.
func encryptedBy(t *testing.T, text string) func() (keyset.EncryptionKey, error) {
	t.Helper()
	if _, err := keyset.ParseEncryptionKey(text); err != nil {
		t.Fatal(err)
	}
	return func() (keyset.EncryptionKey, error) { return keyset.ParseEncryptionKey(text) }
}

// TestKeysEncrypted checks that plain keys are encrypted at the next save. Then no plain text is on
// disk, only the right key opens them, and that key can be replaced.
func TestKeysEncrypted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	store := keyset.FileStore(path)
	open := func(cfg keyset.Config) (*keyset.Set, error) { return keyset.Open(t.Context(), store, cfg) }
	plain, err := open(keyset.Config{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := secretsIn(t, path)
	one := encryptedBy(t, strings.Repeat("0f", 32))
	two := encryptedBy(t, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)))

	keys, err := open(keyset.Config{Encryption: one})
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); keyset.IsSealed(data) {
		t.Error("encrypted when it was only read")
	}
	if _, err := keys.Rotate(t.Context(), keyset.Rotation{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte(`{"sealed":`)) {
		t.Fatalf("%.40s, %v", data, err)
	}
	for _, s := range secrets {
		if bytes.Contains(data, []byte(s)) {
			t.Errorf("%q is still there to read", s[:4])
		}
	}
	if again, err := open(keyset.Config{Encryption: one}); err != nil || !bytes.Equal(again.AuditKey(), plain.AuditKey()) || len(again.Keys()) != 2 {
		t.Errorf("other keys than before: %v", err)
	}
	if _, err := open(keyset.Config{}); !errors.Is(err, keyset.ErrNoEncryptionKey) || !strings.Contains(err.Error(), "encryption_key_file") || !strings.Contains(err.Error(), path) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := open(keyset.Config{Encryption: two}); !errors.Is(err, keyset.ErrWrongEncryptionKey) || !strings.Contains(err.Error(), "encryption_key_file") {
		t.Errorf("another key: %v", err)
	}
	with, err := two()
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Reseal(t.Context(), with); err != nil {
		t.Fatal(err)
	}
	if _, err := open(keyset.Config{Encryption: one}); !errors.Is(err, keyset.ErrWrongEncryptionKey) {
		t.Errorf("the old key: %v", err)
	}
	if _, err := open(keyset.Config{Encryption: two}); err != nil {
		t.Errorf("the new key: %v", err)
	}
}

// TestKeysStayEncrypted checks that keys that are not encrypted are accepted only at the start,
// with a log message. A running process refuses them later, even if it encrypted the document
// itself.
func TestKeysStayEncrypted(t *testing.T) {
	foreign := keyset.MemoryStore()
	if _, err := keyset.Open(t.Context(), foreign, keyset.Config{}); err != nil {
		t.Fatal(err)
	}
	others, _, err := foreign.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"encrypted from the start", "encrypted later"} {
		t.Run(name, func(t *testing.T) {
			kept := keyset.MemoryStore()
			cfg := keyset.Config{Encryption: encryptedBy(t, strings.Repeat("a5", 32))}
			if name == "encrypted later" {
				if _, err := keyset.Open(t.Context(), kept, keyset.Config{}); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			keys, err := keyset.Open(t.Context(), kept, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Contains(log.String(), "keys are not encrypted"), name == "encrypted later"; got != want {
				t.Errorf("the log: %s", log.String())
			}
			if _, err := keys.Rotate(t.Context(), keyset.Rotation{Now: true}); err != nil {
				t.Fatal(err)
			}
			before := ids(keys)
			_, version, err := kept.Load(t.Context())
			if err == nil {
				err = kept.Save(t.Context(), others, version)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := keys.Rotate(t.Context(), keyset.Rotation{Now: true}); !errors.Is(err, keyset.ErrNotEncrypted) {
				t.Errorf("others in their place: %v", err)
			}
			if now, _, err := kept.Load(t.Context()); err != nil || !bytes.Equal(now, others) {
				t.Errorf("they were encrypted: %v", err)
			}
			if got := ids(keys); !slices.Equal(got, before) {
				t.Errorf("keys %v, before %v", got, before)
			}
		})
	}
}

// secretsIn returns the secrets of a plain key file as they are spelled there.
func secretsIn(t *testing.T, path string) (list []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys    []struct{ Private string }
		Refresh []struct{ Secret string }
		Audit   string
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	list = append(list, file.Keys[0].Private, file.Refresh[0].Secret, file.Audit)
	for _, s := range list {
		if len(s) < 40 {
			t.Fatalf("a secret of %d characters", len(s))
		}
	}
	return list
}

// TestSealedDocumentChanged checks that a document with one changed bit, or one that was encrypted
// for another purpose, does not open.
func TestSealedDocumentChanged(t *testing.T) {
	kept := keyset.MemoryStore()
	cfg := keyset.Config{Encryption: encryptedBy(t, strings.Repeat("a5", 32))}
	if _, err := keyset.Open(t.Context(), kept, cfg); err != nil {
		t.Fatal(err)
	}
	document, _, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(document)-1; i += 1 + i/40 {
		other := keyset.MemoryStore()
		changed := bytes.Clone(document)
		changed[i] ^= 1
		if err := other.Save(t.Context(), changed, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := keyset.Open(t.Context(), other, cfg); err == nil {
			t.Errorf("byte %d of %d changed, and it opens", i, len(document))
		}
	}
}

func TestEncryptionKeyText(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb, 0xff}, 16)
	for _, text := range []string{
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), " " + hex.EncodeToString(raw) + "\n",
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		key, err := keyset.ParseEncryptionKey(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if shown := fmt.Sprintf("%v %+v %#v %x %s", key, key, key, key, toJSON(key)); strings.Contains(strings.ToLower(shown), "fbff") || !strings.Contains(shown, auth.Redacted) {
			t.Errorf("it shows itself: %s", shown)
		}
	}
	for _, text := range []string{"", "secret", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64),
		base64.StdEncoding.EncodeToString(raw[:31]), base64.StdEncoding.EncodeToString(append(raw, 0)), strings.Repeat("A", 42) + "B"} {
		_, err := keyset.ParseEncryptionKey(text)
		if err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestEncryptionKeyFile checks that a key file that others may read is refused, and that no file is
// replaced.
func TestEncryptionKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kek")
	if err := keyset.MakeEncryptionKey(path); err != nil {
		t.Fatal(err)
	}
	if _, err := keyset.ReadEncryptionKey(path); err != nil {
		t.Error(err)
	}
	if err := keyset.MakeEncryptionKey(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyset.ReadEncryptionKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") || !strings.Contains(err.Error(), path) {
		t.Errorf("readable by all: %v", err)
	}
}

// TestKeysAndTheClock checks that a clock that is set back neither hides nor deletes a key, and
// that rotation goes on.
func TestKeysAndTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		keys := kept.open(t, keyset.Config{Rotate: 2 * time.Hour})
		stop := runKeys(t, keys)
		time.Sleep(90 * time.Minute) // the next key is published
		synctest.Wait()
		stop()
		if n := len(keys.Keys()); n != 2 {
			t.Fatalf("%d keys", n)
		}
		for _, back := range []time.Duration{time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
			document, version, err := kept.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := kept.Save(t.Context(), later(t, document, back), version); err != nil {
				t.Fatal(err)
			}
			again := kept.open(t, keyset.Config{Rotate: 2 * time.Hour})
			before := fmt.Sprint(ids(again))
			stop := runKeys(t, again)
			time.Sleep(time.Minute)
			synctest.Wait()
			if after := fmt.Sprint(ids(again)); after != before {
				t.Errorf("set back by %v: keys %s, before %s", back, after, before)
			}
			signs := again.Keys()
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			stop()
			if now := again.Keys(); now[0].ID == signs[0].ID && now[0].State == signs[0].State {
				t.Errorf("set back by %v: no rotation in three hours: %+v", back, now)
			}
			if len(again.Keys()) < len(signs) {
				t.Errorf("set back by %v: keys were deleted: %+v, before %+v", back, again.Keys(), signs)
			}
		}
	})
}

func ids(keys *keyset.Set) (list []string) {
	for _, k := range keys.Keys() {
		list = append(list, k.ID+" "+string(k.State))
	}
	return list
}

// later returns a document as it looks to a process whose clock was set back.
func later(t *testing.T, document []byte, by time.Duration) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(document, &file); err != nil {
		t.Fatal(err)
	}
	for _, k := range file["keys"].([]any) {
		key := k.(map[string]any)
		for _, name := range []string{"created", "since", "due"} {
			if text, ok := key[name].(string); ok {
				at, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					t.Fatal(err)
				}
				key[name] = at.Add(by).Format(time.RFC3339Nano)
			}
		}
	}
	return toJSON(file)
}

// TestRotateTwiceAtOnce checks that rotations at several machines are applied one after the other,
// and that one key signs.
func TestRotateTwiceAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := openFile(t, path); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var failed atomic.Int32
	for range 4 {
		all.Go(func() {
			keys, err := openFile(t, path)
			if err == nil {
				_, err = keys.Rotate(t.Context(), keyset.Rotation{Now: true})
			}
			if err != nil {
				failed.Add(1)
				t.Error(err)
			}
		})
	}
	all.Wait()
	keys, err := openFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	states := make(map[keyset.State]int)
	for _, k := range keys.Keys() {
		states[k.State]++
	}
	if states[keyset.Signing] != 1 || states[keyset.VerifyOnly] != 4 {
		t.Errorf("%v", states)
	}
}

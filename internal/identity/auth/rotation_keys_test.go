package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// stored is a key store that counts calls, can be switched off, and keeps the events of a Set.
type stored struct {
	keyset.Store
	mu           sync.Mutex
	down         error
	loads, saves int
	events       []audit.Event
}

func newStored() *stored { return &stored{Store: keyset.MemoryStore()} }

func (s *stored) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *stored) counts() (loads, saves int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.saves
}

func (s *stored) details() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		list = append(list, e.Detail)
	}
	return list
}

func (s *stored) Load(ctx context.Context) ([]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if s.down != nil {
		return nil, "", s.down
	}
	return s.Store.Load(ctx)
}

func (s *stored) Save(ctx context.Context, document []byte, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.down != nil {
		return s.down
	}
	return s.Store.Save(ctx, document, version)
}

func (s *stored) audit(_ context.Context, events ...audit.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	s.events = append(s.events, events...)
	return nil
}

// open opens a set of the store's keys, as a process does.
func (s *stored) open(t testing.TB, cfg keyset.Config) *keyset.Set {
	t.Helper()
	cfg.Audit = s.audit
	keys, err := keyset.Open(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// runKeys runs the sets until the returned function is called.
func runKeys(t testing.TB, sets ...*keyset.Set) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, keys := range sets {
		all.Go(func() {
			if err := keys.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func kidOf(t testing.TB, token auth.Secret) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		ID string `json:"kid"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		t.Fatal(err)
	}
	return header.ID
}

// public returns the ids of the keys in a JWKS.
func public(t testing.TB, body []byte) map[string]bool {
	t.Helper()
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, k := range set.Keys {
		ids[k.ID] = true
	}
	return ids
}

// minted is a token and its time of expiry.
type minted struct {
	token auth.Secret
	kid   string
	end   time.Time
}

// fortyDays advances the clock in steps, with two nodes of one store.
type fortyDays struct {
	t        *testing.T
	one, two *world // each with a cache of its own
	first    string // the first key, which nobody could know before
	etag     string // of the newest JWKS
	jwks     map[string]bool
	seen     map[string]time.Time // when a key was first public
	alive    []minted
	kids     map[string]int
	checked  int
}

// TestKeysRotateForFortyDaysE2E rotates every hour on two nodes, for 2 days or in full for 40, with
// a token every five minutes. Every token is valid until the end of its life and no longer, on the
// node that made it and on the other. The public keys include the key of every valid token, and
// included it for ten minutes before it first signed. Like other tests of weeks of virtual time it
// runs without the race detector; TestKeysWithStoreDown runs the same goroutines with it.
func TestKeysRotateForFortyDaysE2E(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		cfg := keyset.Config{Rotate: time.Hour}
		f := &fortyDays{t: t, seen: make(map[string]time.Time), kids: make(map[string]int)}
		keys := []*keyset.Set{kept.open(t, cfg), kept.open(t, cfg)}
		f.one = newWorld(t, func(c *auth.Config) { c.Keys = keys[0] })
		f.two = newWorld(t, func(c *auth.Config) { c.Keys = keys[1] })
		stop := runKeys(t, keys...)
		defer stop()
		f.look()
		for id := range f.jwks {
			f.first = id
		}
		start, days := time.Now(), soak(40)
		for n := 0; time.Since(start) < time.Duration(days)*day; n++ {
			if n%5 == 0 {
				f.mint()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			f.look()
			f.end()
		}
		if len(f.kids) < days*24-2 || f.checked < (days-1)*400 {
			t.Errorf("%d keys signed, %d tokens checked: that is no rotation every hour", len(f.kids), f.checked)
		}
		if n := len(f.jwks); n > 28 {
			t.Errorf("%d keys are left", n)
		}
		t.Logf("figure: keys: %d rotations in %d days, %d tokens good to their last moment on both nodes and not beyond, %d public keys at the end", len(f.kids)-1, days, f.checked/2, len(f.jwks))
	})
}

func (f *fortyDays) mint() {
	tokens := f.one.login("maria")
	m := minted{token: tokens.Access, kid: kidOf(f.t, tokens.Access), end: time.Now().Truncate(time.Second).Add(day)}
	f.one.verify(m.token)
	if known := time.Since(f.seen[m.kid]); m.kid != f.first && (f.seen[m.kid].IsZero() || known < 2*keyset.JWKSMaxAge) {
		f.t.Errorf("key %s signs, and was public for %v only", m.kid, known)
	}
	f.kids[m.kid]++
	f.alive = append(f.alive, m)
}

// look reads the public keys of both nodes.
func (f *fortyDays) look() {
	body, etag := f.one.JWKS()
	if other, tag := f.two.JWKS(); string(other) != string(body) || tag != etag {
		f.t.Errorf("the nodes have different keys:\n%s\n%s", body, other)
	}
	if etag != f.etag {
		f.etag, f.jwks = etag, public(f.t, body)
	}
	for id := range f.jwks {
		if f.seen[id].IsZero() {
			f.seen[id] = time.Now()
		}
	}
	for _, m := range f.alive {
		if !f.jwks[m.kid] {
			f.t.Fatalf("key %s is not public, and signed a token that ends in %v", m.kid, time.Until(m.end))
		}
	}
}

// end checks tokens just before and just after they expire. The second node has not seen them
// before, so no cache helps.
func (f *fortyDays) end() {
	for len(f.alive) > 0 && time.Until(f.alive[0].end) <= time.Minute {
		m := f.alive[0]
		f.alive = f.alive[1:]
		time.Sleep(time.Until(m.end) - 1)
		f.one.verify(m.token)
		f.two.verify(m.token)
		time.Sleep(time.Nanosecond)
		f.one.rejects(m.token, auth.TokenExpired)
		f.two.rejects(m.token, auth.TokenExpired)
		f.checked += 2
	}
}

// TestKeyStatesAndAuditE2E follows one key through its states, with default settings.
func TestKeyStatesAndAuditE2E(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		keys := kept.open(t, keyset.Config{})
		defer runKeys(t, keys)()
		start := time.Now()
		first := keys.Keys()[0].ID
		wait := func(until time.Duration) {
			time.Sleep(time.Until(start.Add(until)))
			synctest.Wait()
		}
		states := func(want string) {
			t.Helper()
			var got []string
			for _, k := range keys.Keys() {
				who := "new"
				if k.ID == first {
					who = "old"
				}
				got = append(got, who+" "+string(k.State))
			}
			if g := strings.Join(got, ", "); g != want {
				t.Errorf("after %v: %s; want %s", time.Since(start), g, want)
			}
		}
		const slack = 15 * time.Second // interval of the checks for due steps
		wait(29*day - time.Second)
		states("old signing")
		wait(29*day + slack)
		states("new published, old signing")
		wait(30*day - time.Second)
		states("new published, old signing")
		wait(30*day + slack)
		states("new signing, old verify_only")
		end := 30*day + 24*time.Hour + 30*time.Second + keyset.JWKSMaxAge
		wait(end - time.Second)
		states("new signing, old verify_only")
		wait(end + 2*slack)
		states("new signing")
		second := keys.Keys()[0].ID
		want := []string{"signing " + first, "published " + second, "verify_only " + first, "signing " + second, "deleted " + first}
		if got := kept.details(); strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("audit log has %q, want %q", got, want)
		}
		for _, e := range kept.events {
			if e.Kind != audit.KeyChanged || e.Actor != "gateway" || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
		}
	})
}

// TestKeysOfTwoNodesE2E checks that nodes that rotate at the same time end with one key.
func TestKeysOfTwoNodesE2E(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		var sets []*keyset.Set
		for range 8 {
			sets = append(sets, kept.open(t, keyset.Config{Rotate: 2 * time.Hour}))
		}
		defer runKeys(t, sets...)()
		for range 48 {
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			want := fmt.Sprint(sets[0].Keys())
			for i, s := range sets {
				if got := fmt.Sprint(s.Keys()); got != want {
					t.Fatalf("node %d has %s, the first %s", i, got, want)
				}
			}
		}
		seen := make(map[string]bool)
		for _, d := range kept.details() {
			if seen[d] {
				t.Errorf("%q is recorded twice", d)
			}
			seen[d] = true
		}
		if len(seen) < 3*10 {
			t.Errorf("only %d steps in a day", len(seen))
		}
	})
}

// TestKeysWithStoreDown checks that the current keys stay in use while the store is down, and that
// due steps follow later.
func TestKeysWithStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newStored()
		keys := kept.open(t, keyset.Config{Rotate: time.Hour})
		defer runKeys(t, keys)()
		w := newWorld(t, func(c *auth.Config) { c.Keys = keys })
		first := kidOf(t, w.login("maria").Access)
		kept.setDown(errors.New("gone"))
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		tokens := w.login("maria")
		w.verify(tokens.Access)
		if kid := kidOf(t, tokens.Access); kid != first {
			t.Errorf("key %s signs, which nobody could save", kid)
		}
		kept.setDown(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if list := keys.Keys(); len(list) != 2 || list[0].State != keyset.Published {
			t.Errorf("not published since the store is back: %+v", list)
		}
		time.Sleep(2 * keyset.JWKSMaxAge)
		synctest.Wait()
		if kid := kidOf(t, w.login("maria").Access); kid == first {
			t.Error("not rotated since the store is back")
		}
		w.verify(tokens.Access)
	})
}

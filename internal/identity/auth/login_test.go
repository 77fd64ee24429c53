package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// from returns a different origin for each n.
func from(n int) auth.Origin {
	return auth.Origin{Address: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
}

func try(t *testing.T, w *world, username, password string, o auth.Origin) (reason string, retry time.Duration) {
	t.Helper()
	_, err := w.Password(t.Context(), username, password, "", o)
	if e, ok := errors.AsType[*auth.Error](err); ok {
		return e.Reason, e.RetryAfter
	}
	if err != nil {
		t.Errorf("not an auth.Error: %v", err)
	}
	return "", 0
}

func TestLoginRefused(t *testing.T) {
	w := newWorld(t)
	w.people.change("us_otto", func(p *person) { p.disabled = true })
	for _, c := range []struct {
		what, username, password, want string
		checked                        int
	}{
		{"wrong password", "maria", "wrong", auth.InvalidCredentials, 1},
		{"unknown user", "nobody", "maria's password", auth.InvalidCredentials, 1},
		{"disabled user", "otto", "otto's password", auth.InvalidCredentials, 1},
		{"spaces around the password", "maria", " maria's password ", auth.InvalidCredentials, 1},
		{"empty password", "maria", "", auth.InvalidCredentials, 0},
		{"empty username", "", "x", auth.InvalidRequest, 0},
		{"username of 128 bytes", strings.Repeat("x", 128), "x", auth.InvalidCredentials, 1},
		{"username of 129 bytes", strings.Repeat("x", 129), "x", auth.InvalidRequest, 0},
		{"NUL in the username", "maria\x00", "maria's password", auth.InvalidRequest, 0},
		{"line end in the username", "maria\n", "maria's password", auth.InvalidRequest, 0},
		{"username not UTF-8", "maria\xff", "maria's password", auth.InvalidRequest, 0},
		{"password of 1024 bytes", "maria", strings.Repeat("x", 1024), auth.InvalidCredentials, 1},
		{"password of 1025 bytes", "maria", strings.Repeat("x", 1025), auth.InvalidRequest, 0},
		{"password not UTF-8", "maria", "\xff", auth.InvalidRequest, 0},
		{"SQL", "' OR '1'='1", "x", auth.InvalidCredentials, 1},
	} {
		before, _ := w.people.counts()
		if got, _ := try(t, w, c.username, c.password, origin); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if after, _ := w.people.counts(); after-before != c.checked {
			t.Errorf("%s: %d passwords checked, want %d", c.what, after-before, c.checked)
		}
	}
}

// TestClientGone checks that a client that disconnects during the check leaves no family behind.
func TestClientGone(t *testing.T) {
	w := newWorld(t)
	w.store.setDown(errors.New("asked to store a login for nobody"))
	ctx, cancel := contextOf(t)
	cancel()
	_, err := w.Password(ctx, "maria", "maria's password", "", origin)
	if e, _ := errors.AsType[*auth.Error](err); e.Reason != auth.Unavailable || !errors.Is(err, ctx.Err()) {
		t.Errorf("error %v", err)
	}
}

// TestBackoff checks that five wrong passwords are free, and that the account then waits 1, 2, 4 s
// and so on to 15 min.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AccountFree = 0 })
		for i := range 5 {
			if got, _ := try(t, w, "maria", "wrong", from(i)); got != auth.InvalidCredentials {
				t.Fatalf("free one %d: %s", i, got)
			}
		}
		want := time.Second
		for i := range 12 {
			got, retry := try(t, w, "maria", "maria's password", from(100+i))
			if got != auth.TooManyFailures || retry != want {
				t.Fatalf("wait %d: %s %v, want %v", i, got, retry, want)
			}
			time.Sleep(retry)
			if got, _ := try(t, w, "maria", "wrong", from(200+i)); got != auth.InvalidCredentials {
				t.Fatalf("after wait %d: %s", i, got)
			}
			want = min(2*want, 15*time.Minute)
		}
		if got, _ := try(t, w, "otto", "otto's password", origin); got != "" {
			t.Errorf("another account: %s", got)
		}
		if got, _ := try(t, w, "nobody", "wrong", origin); got != auth.InvalidCredentials {
			t.Errorf("an account that does not exist: %s", got)
		}
		time.Sleep(15 * time.Minute)
		if got, _ := try(t, w, "maria", "maria's password", origin); got != "" {
			t.Errorf("the right password: %s", got)
		}
		for i := range 5 { // a success forgets the failures
			if got, _ := try(t, w, "maria", "wrong", from(300+i)); got != auth.InvalidCredentials {
				t.Errorf("after the right one: %s", got)
			}
		}
	})
}

// TestUnknownAccountsBackOffToo checks that unknown accounts have the same limits.
func TestUnknownAccountsBackOffToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AccountFree = 0 })
		var answers [2][]string
		for i, name := range []string{"maria", "nobody"} {
			for n := range 20 {
				reason, retry := try(t, w, name, "wrong", from(n))
				answers[i] = append(answers[i], fmt.Sprint(reason, retry))
				time.Sleep(700 * time.Millisecond)
			}
		}
		if a, b := fmt.Sprint(answers[0]), fmt.Sprint(answers[1]); a != b {
			t.Errorf("an account that exists: %s\none that does not: %s", a, b)
		}
	})
}

// TestKnownAddress checks that an attack from elsewhere does not lock out an owner at a known
// address.
func TestKnownAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AccountFree = 0 })
		w.login("maria")
		for i := range 100 {
			try(t, w, "maria", "wrong", from(i))
		}
		if got, _ := try(t, w, "maria", "wrong", from(1)); got != auth.TooManyFailures {
			t.Errorf("the attacker: %s", got)
		}
		for range 10 {
			w.login("maria")
		}
		if got, _ := try(t, w, "maria", "wrong", from(1)); got != auth.TooManyFailures {
			t.Errorf("the owner's login let the attacker go on: %s", got)
		}
		for range 5 {
			try(t, w, "maria", "wrong", origin)
		}
		if got, _ := try(t, w, "maria", "wrong", origin); got != auth.TooManyFailures {
			t.Errorf("the known address is not bounded: %s", got)
		}
	})
}

// TestParallelGuesses checks that parallel attempts cannot exceed the limit, since each is charged
// before its check begins.
func TestParallelGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AccountFree = 0 })
		w.people.checking = make(chan struct{})
		var refused atomic.Int32
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				if got, _ := try(t, w, "maria", "wrong", from(i%250)); got == auth.TooManyFailures {
					refused.Add(1)
				}
			})
		}
		synctest.Wait() // one is being checked, as many as may wait do, and the others are unavailable
		if logins, _ := w.people.counts(); logins > 1 {
			t.Errorf("%d passwords were checked at once, want 1", logins)
		}
		close(w.people.checking)
		wg.Wait()
		if refused.Load() != 256-4 {
			t.Errorf("%d of those that waited were refused, want 252", refused.Load())
		}
		if logins, _ := w.people.counts(); logins != 5 {
			t.Errorf("%d passwords were checked, want 5", logins)
		}
	})
}

// TestFleetLogsIn checks that parallel logins of one user with the correct password all succeed,
// even if they are more than the free failures of the account.
func TestFleetLogsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AccountFree = 0 })
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if got, _ := try(t, w, "maria", "maria's password", from(i)); got != "" {
					t.Errorf("login %d: %s", i, got)
				}
			})
		}
		wg.Wait()
	})
}

func TestAddressThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *auth.Config) { c.Throttle.AddressPerMinute, c.Throttle.AddressBurst = 0, 0 })
		for range 100 {
			w.login("maria") // a success is refunded
		}
		at := func(text string) auth.Origin { return auth.Origin{Address: netip.MustParseAddr(text)} }
		for i := range 20 {
			if got, _ := try(t, w, fmt.Sprint("user", i), "wrong", at("192.0.2.7")); got != auth.InvalidCredentials {
				t.Fatalf("attempt %d: %s", i, got)
			}
		}
		got, retry := try(t, w, "maria", "maria's password", at("::ffff:192.0.2.7"))
		if got != auth.RateLimited || retry != 6*time.Second {
			t.Errorf("attempt 21: %s, again in %v", got, retry)
		}
		if got, _ := try(t, w, "maria", "wrong", at("192.0.2.8")); got != auth.InvalidCredentials {
			t.Errorf("another address: %s", got)
		}
		time.Sleep(6 * time.Second)
		if got, _ := try(t, w, "maria", "wrong", at("192.0.2.7")); got != auth.InvalidCredentials {
			t.Errorf("after the wait: %s", got)
		}
		for i := range 20 {
			try(t, w, fmt.Sprint("user", i), "wrong", at(fmt.Sprintf("2001:db8:1:2:%x::1", i)))
		}
		if got, _ := try(t, w, "maria", "wrong", at("2001:db8:1:2:ffff::%eth0")); got != auth.RateLimited {
			t.Errorf("the same /64: %s", got)
		}
		if got, _ := try(t, w, "maria", "wrong", at("2001:db8:1:3::1")); got != auth.InvalidCredentials {
			t.Errorf("another /64: %s", got)
		}
	})
}

// TestBackendFaultIsNoFailure checks that nobody is charged while the user base fails.
func TestBackendFaultIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle, func(c *auth.Config) { c.Throttle.LoginsBurst = 1000 })
		w.people.setDown(fmt.Errorf("%w: queue full", broker.ErrUnavailable))
		for i := range 100 {
			if got, retry := try(t, w, "maria", "maria's password", origin); got != auth.Unavailable || retry <= 0 {
				t.Fatalf("attempt %d: %s %v", i, got, retry)
			}
		}
		w.people.setDown(nil)
		time.Sleep(6 * time.Second)
		w.login("maria") // she is known here now, and not affected by others
		for i := range 100 {
			w.people.setDown(fmt.Errorf("%w: queue full", broker.ErrUnavailable))
			try(t, w, fmt.Sprint("user", i), "wrong", origin)
			w.people.setDown(nil)
			w.login("maria")
		}
	})
}

func TestRefreshThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, defaultThrottle)
		first, other := w.login("maria"), w.login("maria")
		for range 100 {
			w.refresh(first.Refresh)
		}
		_, err := w.Refresh(t.Context(), first.Refresh, from(1))
		if e, _ := errors.AsType[*auth.Error](err); e == nil || e.Reason != auth.RateLimited || e.RetryAfter != 2*time.Second {
			t.Errorf("error %v", err)
		}
		w.refresh(other.Refresh)
		time.Sleep(2 * time.Second)
		w.refresh(first.Refresh)

		foreign := newWorld(t).login("maria").Refresh // well-formed and unknown
		for range 200 {
			w.refuses(foreign, auth.InvalidRefreshToken)
		}
		w.refuses(foreign, auth.RateLimited)
		w.refresh(other.Refresh) // from the same address
	})
}

func TestSecretNeverPrints(t *testing.T) {
	const canary = "canary-4711"
	s := auth.NewSecret(canary)
	inside := struct {
		Open   auth.Secret
		hidden auth.Secret
		list   []auth.Secret
		byName map[string]auth.Secret
	}{s, s, []auth.Secret{s}, map[string]auth.Secret{"x": s}}
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%10s", "%-10v", "%!"} {
		for _, v := range []any{s, &s, inside, &inside, []any{s}, fmt.Errorf("failed: %v", s)} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(h).Info("x", "secret", s, "inside", inside, "group", slog.GroupValue(slog.Any("s", s)))
	}
	text, err := json.Marshal([]any{s, &s, inside, map[string]any{"s": s}, auth.Tokens{Access: s, Refresh: s}})
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(text)
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), b64([]byte(canary))} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("%q was printed", form)
		}
	}
	if s.Reveal() != canary || (auth.Secret{}).Reveal() != "" {
		t.Error("Reveal does not")
	}
}

// TestLogHoldsNoSecret runs successful and failing requests of all kinds and searches the log for
// secrets.
func TestLogHoldsNoSecret(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, logTo(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	var secrets []string
	keep := func(tokens auth.Tokens) auth.Tokens {
		secrets = append(secrets, tokens.Access.Reveal(), tokens.Refresh.Reveal())
		return tokens
	}
	first := keep(w.login("maria"))
	second := keep(w.refresh(first.Refresh))
	keep(w.refresh(second.Refresh))
	for username, password := range map[string]string{"maria": "mistyped-canary", "password-as-username-canary": "x", "otto\n": "canary-2"} {
		try(t, w, username, password, origin)
		secrets = append(secrets, password+"y", username)
	}
	_, _ = w.Refresh(t.Context(), auth.NewSecret("rt1_garbage-canary"), origin)
	_, _ = w.Verify(t.Context(), "garbage-canary")
	w.people.setDown(errors.New("down"))
	try(t, w, "maria", "maria's password", origin)
	w.refuses(second.Refresh, auth.Unavailable)
	w.people.setDown(nil)
	w.store.setDown(errors.New("down"))
	try(t, w, "maria", "maria's password", origin)
	w.refuses(second.Refresh, auth.Unavailable)
	w.store.setDown(nil)
	w.people.change("us_maria", func(p *person) { p.disabled = true })
	w.refuses(second.Refresh, auth.InvalidRefreshToken)
	if err := w.Revoke(t.Context(), first.Refresh, origin); err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(secrets, "canary", "'s password") {
		if secret != "maria" && strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, log.String())
		}
	}
	if strings.Count(log.String(), "\n") < 8 {
		t.Errorf("the log is too quiet to prove anything:\n%s", log.String())
	}
}

func TestConfig(t *testing.T) {
	w := newWorld(t)
	for what, change := range map[string]func(*auth.Config){
		"no users":          func(c *auth.Config) { c.Users = nil },
		"no store":          func(c *auth.Config) { c.Store = nil },
		"no keys":           func(c *auth.Config) { c.Keys = nil },
		"unknown rotation":  func(c *auth.Config) { c.Rotation = "Strict" },
		"negative lifetime": func(c *auth.Config) { c.AccessTTL = -time.Hour },
		"milliseconds":      func(c *auth.Config) { c.GracePeriod = 30 },
	} {
		cfg := w.cfg
		change(&cfg)
		if _, err := auth.New(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	b.Run("cached", func(b *testing.B) {
		token := w.login("maria").Access.Reveal()
		for b.Loop() {
			if _, err := w.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first time", func(b *testing.B) {
		tokens := make([]string, 0, 4096)
		for range cap(tokens) {
			tokens = append(tokens, w.login("maria").Access.Reveal())
		}
		w.restart()
		n := 0
		for b.Loop() {
			if n == len(tokens) {
				b.StopTimer()
				w.restart()
				n = 0
				b.StartTimer()
			}
			if _, err := w.Verify(b.Context(), tokens[n]); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

// BenchmarkPassword measures the password grant without the hash of the user base.
func BenchmarkPassword(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.login("maria")
	}
}

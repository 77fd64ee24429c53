package gateway_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// cluster has the databases of these tests.
var cluster pgtest.Cluster

// encryptionKey writes a key that encrypts the gateways' keys.
func encryptionKey(t testing.TB) string {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	path := filepath.Join(t.TempDir(), "keys.key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openShared(t *testing.T, dsn, key string) *gateway.Data {
	t.Helper()
	d, err := gateway.OpenData(t.Context(), gateway.DataConfig{Postgres: dsn, EncryptionKeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// node starts a gateway on a shared database.
func node(t *testing.T, data *gateway.Data) *literalClient {
	t.Helper()
	limits := floodLimits()
	limits.Logins = gateway.Logins{
		RefreshesPerMinute: 10_000, RefreshBurst: 10_000,
		UserRefreshesPerMinute: 100_000, UserRefreshBurst: 100_000, // the load is eight logins of one user
	}
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: time.Millisecond, Limits: limits,
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 10 * time.Millisecond}}},
	})
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// post requests tokens, and returns the status and Retry-After too.
func (c *literalClient) post(path, body string) (status int, retry, text string, err error) {
	res, err := c.http.Post(c.rest+path, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("Retry-After"), string(b), err
}

// TestSharedKeysAreEncryptedE2E checks that a shared database gets no keys without an encryption
// key.
func TestSharedKeysAreEncryptedE2E(t *testing.T) {
	t.Parallel()
	_, err := gateway.OpenData(t.Context(), gateway.DataConfig{Postgres: cluster.Database(t)})
	if err == nil || !strings.Contains(err.Error(), "must be encrypted") {
		t.Errorf("error %v", err)
	}
}

// TestTwoGatewaysE2E checks two gateways on one database. A login at one can be refreshed at the
// other, and a logout at one closes the sockets of the other within a second.
func TestTwoGatewaysE2E(t *testing.T) {
	t.Parallel()
	dsn, key := cluster.Database(t), encryptionKey(t)
	data := [2]*gateway.Data{openShared(t, dsn, key), openShared(t, dsn, key)}
	addDemo(t, data[0].Users)
	a, b := node(t, data[0]), node(t, data[1])

	if err := a.login(); err != nil {
		t.Fatal(err)
	}
	b.refresh = a.refresh
	if err := b.renew(); err != nil {
		t.Fatalf("refresh at the other: %v", err)
	}
	if err := b.accounts(); err != nil {
		t.Errorf("its token: %v", err)
	}
	closed := func(what string, c *literalClient, end func() error) {
		t.Helper()
		socket := connect(t, c)
		socket.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
		socket.until(t, "T", "")
		began := time.Now()
		if err := end(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		socket.until(t, "Error", "token_revoked")
		if _, err := socket.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("%s: closed by %v", what, err)
		}
		promised(t, "two gateways: "+what+", socket at the other closed", began, time.Second)
	}
	closed("logout", b, func() error {
		status, _, text, err := a.post("/auth/revoke", `{"token":"`+a.refresh+`"}`)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, text)
		}
		return err
	})
	if err := a.renew(); err == nil {
		t.Error("the login that is over was refreshed")
	}
	for what, change := range map[string]func(name string) error{
		"new password":  func(name string) error { return data[0].Users.SetPassword(t.Context(), name, "another long password") },
		"disabled user": func(name string) error { return data[0].Users.Disable(t.Context(), name) },
	} {
		name := strings.ReplaceAll(what, " ", "-")
		addTrader(t, data[1].Users, name)
		b.enter(t, name, "a long password")
		closed(what, b, func() error { return change(name) })
	}
}

func addTrader(t *testing.T, users *local.Base, name string) {
	t.Helper()
	_, err := users.Add(t.Context(), local.NewUser{
		Username: name, Password: "a long password", Scopes: []string{broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDatabaseKilledE2E kills PostgreSQL under load. Connected clients keep streaming, and known
// tokens stay valid. Login and refresh answer 503 in time with Retry-After. When the database is up
// again, everything continues.
func TestDatabaseKilledE2E(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	data := openShared(t, server.CreateDatabase(t, "rueda"), encryptionKey(t))
	addDemo(t, data.Users)
	c := node(t, data)
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	stream := connect(t, c)
	stream.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
	load := startLoad(t, c)
	for load.good.Load() < 20 {
		load.wait(t)
	}
	goroutines := runtime.NumGoroutine()
	load.away.Store(true)
	server.Kill()
	const login = `{"grant_type":"password","username":"demo","password":"demo-password"}`
	refresh := `{"grant_type":"refresh_token","refresh_token":"` + c.refresh + `"}`
	for i := range 6 {
		body := []string{login, refresh}[i%2]
		began := time.Now()
		status, retry, text, err := c.post("/auth/token", body)
		if err != nil || status != http.StatusServiceUnavailable || retry == "" {
			t.Errorf("without a database: %d, Retry-After %q, %s, %v", status, retry, text, err)
		}
		if took := time.Since(began); took > bound(5*time.Second) {
			t.Errorf("503 after %v", took)
		}
		if err := c.accounts(); err != nil && !strings.Contains(err.Error(), "503") { // accounts are in the database too
			t.Errorf("a token that was seen: %v", err)
		}
		stream.until(t, "T", "")
		fresh := connect(t, c) // its token is in the cache
		fresh.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
		fresh.until(t, "T", "")
		fresh.ws.CloseNow()
	}
	if now := runtime.NumGoroutine(); now > goroutines+200 {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	server.Restart(t, "fsync=off")
	began := time.Now()
	for {
		status, _, text, err := c.post("/auth/token", refresh)
		if err == nil && status == http.StatusOK {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("after the restart: %d %s %v", status, text, err)
		}
	}
	t.Logf("figure: PostgreSQL killed: the first refresh after its restart was answered after %v", time.Since(began).Round(time.Millisecond))
	for before := load.good.Load(); load.good.Load() < before+20; {
		load.wait(t)
	}
	load.away.Store(false) // from now on no request may fail
	for before := load.good.Load(); load.good.Load() < before+20; {
		load.wait(t)
	}
	load.stop()
	stream.until(t, "T", "")
	if err := c.login(); err != nil {
		t.Errorf("login: %v", err)
	}
	log := data.DB().Store
	start, err := log.AuditStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Chain().Verify(start, log.AuditRows(t.Context(), start.Seq)); err != nil {
		t.Errorf("audit log: %v", err)
	}
}

// TestDatabaseSilentE2E checks a database that does not answer, as with an unplugged cable. It is
// treated like a database that is down: requests are answered in time, no request waits for others,
// and requests that timed out are forgotten.
func TestDatabaseSilentE2E(t *testing.T) {
	t.Parallel()
	wire, dsn := pgtest.NewWire(t, cluster.Database(t))
	data := openShared(t, dsn, encryptionKey(t))
	addDemo(t, data.Users)
	c := node(t, data)
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	stream := connect(t, c)
	stream.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
	stream.until(t, "T", "")
	wire.Cut()
	var asking sync.WaitGroup
	var longest atomic.Int64
	for i := range 60 {
		body := []string{
			`{"grant_type":"password","username":"demo","password":"demo-password"}`,
			`{"grant_type":"refresh_token","refresh_token":"` + c.refresh + `"}`,
		}[i%2]
		asking.Go(func() {
			began := time.Now()
			status, retry, text, err := c.post("/auth/token", body)
			if err != nil || status != http.StatusServiceUnavailable || retry == "" {
				t.Errorf("without an answer: %d, Retry-After %q, %s, %v", status, retry, text, err)
			}
			for took := int64(time.Since(began)); ; {
				if most := longest.Load(); took <= most || longest.CompareAndSwap(most, took) {
					return
				}
			}
		})
	}
	asking.Wait()
	t.Logf("figure: PostgreSQL silent: 60 logins and refreshes at once were answered 503 within %v", time.Duration(longest.Load()).Round(time.Millisecond))
	if longest.Load() > int64(bound(15*time.Second)) {
		t.Error("that is too long")
	}
	connect(t, c)
	stream.until(t, "T", "")
	wire.Restore()
	for end := time.After(time.Minute); c.renew() != nil; {
		select {
		case <-end:
			t.Fatal("it never worked again")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := c.login(); err != nil {
		t.Error(err)
	}
}

// load has clients that refresh continuously. An answered token is never refused afterwards.
type load struct {
	good    atomic.Int64  // refreshes answered
	away    atomic.Bool   // the database may be down
	moved   chan struct{} // a refresh was answered
	quit    chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

func startLoad(t *testing.T, c *literalClient) *load {
	t.Helper()
	l := &load{quit: make(chan struct{}), moved: make(chan struct{}, 1)}
	for range 8 {
		own := &literalClient{http: c.http, rest: c.rest}
		if err := own.login(); err != nil {
			t.Fatal(err)
		}
		l.running.Go(func() { l.chain(t, own) })
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) chain(t *testing.T, c *literalClient) {
	for {
		select {
		case <-l.quit:
			return
		case <-time.After(20 * time.Millisecond):
		}
		answer, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + c.refresh + `"}`)
		switch {
		case err == nil:
			c.refresh = answer.Data.RefreshToken
			l.good.Add(1)
			select {
			case l.moved <- struct{}{}:
			default:
			}
		case l.away.Load() && strings.Contains(err.Error(), "503"):
		default:
			t.Errorf("refresh: %v", err)
			return
		}
	}
}

func (l *load) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.moved:
	case <-time.After(time.Minute):
		t.Fatal("nobody is answered")
	}
}

func (l *load) stop() {
	l.once.Do(func() { close(l.quit) })
	l.running.Wait()
}

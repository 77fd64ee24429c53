package alerts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/market"
)

// source publishes trades every 10 ms until a cause changes what it does.
type source struct{ broken, invalid, jumps, many, paused atomic.Bool }

func (s *source) Run(ctx context.Context, sink feed.Sink) error {
	one, err := define(sink, "GGAL|BYMA|CI")
	if err != nil {
		return err
	}
	var more []market.Event
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if s.broken.Load() {
			return errors.New("the exchange does not answer")
		}
		if s.many.Load() && more == nil {
			for i := range 2000 {
				e, err := define(sink, fmt.Sprintf("M%d|BYMA|CI", i))
				if err != nil {
					return err
				}
				more = append(more, e)
			}
		}
		events := []market.Event{one}
		if more != nil {
			events, more = append(events, more...), []market.Event{} // once
		}
		for i := range events {
			events[i].Time = time.Now().UnixNano()
		}
		err := sink.Publish(events)
		if s.paused.Load() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // before the trade is written to the readers
		}
		if s.jumps.Load() {
			one.Price = 7050*4*market.Scale - one.Price // a third of the price, or three times as much
		}
		if s.invalid.Load() {
			bad := one
			bad.Size = -1
			if sink.Publish([]market.Event{bad}) == nil {
				return errors.New("an invalid event was accepted")
			}
		}
		if err != nil {
			return err
		}
	}
}

// define lists an instrument and returns a trade of it.
func define(sink feed.Sink, name string) (market.Event, error) {
	id, err := market.ParseInstrumentID(name)
	if err != nil {
		return market.Event{}, err
	}
	h, err := sink.Define(market.Instrument{ID: id, PriceDecimals: 2, StartsEmpty: true})
	return market.Event{Kind: market.KindTrade, Handle: h, Price: 7050 * market.Scale, Size: 120 * market.Scale, Side: market.Buy}, err
}

// child is the process of a gateway.
type child struct {
	t      *testing.T
	folder string
	source *source
	bound  gateway.Bound
}

// serve runs a gateway until standard input ends. A line of it applies the cause.
func serve(t *testing.T, cause, folder string) error {
	if cause == "disk" {
		if err := mountSmall(folder); err != nil {
			return fmt.Errorf("mount a small disk: %w", err)
		}
	}
	c := &child{t: t, folder: folder, source: &source{}}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		return err
	}
	if _, err := data.Users.Add(t.Context(), local.NewUser{
		Username: "demo", Password: "demo-password", Scopes: []string{broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true}}, Limits: broker.Limits{Connections: 100},
	}); err != nil {
		return err
	}
	ready := make(chan gateway.Bound, 1)
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Admin: gateway.Admin{Listen: "127.0.0.1:0", Tokens: token},
		Feeds:   []gateway.Feed{{Name: "byma", Source: c.source}},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 4})), // the causes make many errors
		OnReady: func(b gateway.Bound) { ready <- b },
	}
	if err := c.configure(cause, &cfg); err != nil {
		return err
	}
	g, err := gateway.New(t.Context(), cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	select {
	case c.bound = <-ready:
	case err := <-ended:
		return err
	}
	fmt.Println("at", c.bound.Admin)
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		if err := c.apply(ctx, cause); err != nil {
			return fmt.Errorf("%s: %w", cause, err)
		}
		fmt.Println("applied")
	}
	stop()
	return <-ended
}

// mountSmall mounts a disk of 16 MiB, which no other process sees.
func mountSmall(folder string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("none", folder, "tmpfs", 0, "size=16m,mode=700")
}

// configure prepares a configuration for a cause.
func (c *child) configure(cause string, cfg *gateway.Config) error {
	switch cause {
	case "files":
		cfg.Journal = gateway.Journal{Folder: filepath.Join(c.folder, "journal"), Sync: 50 * time.Millisecond}
	case "days":
		d := journaltest.Days{Folder: filepath.Join(c.folder, "journal"), Epoch: "e", Closed: 2, Rows: 100}
		d.Write(c.t)
		cfg.Journal = gateway.Journal{Folder: d.Folder}
		cfg.Cluster = gateway.Cluster{Name: "alerts", Node: "edge-1", Role: "edge", NATS: []string{"nats://127.0.0.1:9"}}
	case "users":
		base, err := httpusers.New(httpusers.Config{URL: "http://127.0.0.1:9", Secret: bytes.Repeat([]byte("s"), 32)})
		if err != nil {
			return err
		}
		limits := guard.New(guard.Config{})
		cfg.Users, cfg.Accounts, cfg.UsersType = guard.Users(limits, base), guard.Accounts(limits, base), "http"
	case "panic":
		cfg.Users, cfg.Accounts = panicking{cfg.Data.Users}, cfg.Data.Users
	case "guesses":
		cfg.Limits.LoginsPerMinute, cfg.Limits.LoginBurst = 1, 1
	case "certificate":
		files := certtest.WriteUntil(c.t, c.folder, "gateway", time.Now().Add(time.Hour+90*24*time.Hour))
		cfg.TLS = gateway.TLS{Certificate: files.Certificate, Key: files.Key, Reload: time.Second}
	case "connections":
		cfg.Limits.Sockets = 10
	case "handshakes":
		cfg.Limits.Handshakes = 1
	case "slow":
		cfg.Stream.SendBuffer = 4096
	case "memory":
		cfg.Stream.Memory = 1 << 20
	}
	return nil
}

// panicking is a user base with a defect.
type panicking struct{ *local.Base }

func (panicking) Authenticate(context.Context, broker.Login) (broker.User, error) {
	panic("a defect of the user base")
}

// apply applies a cause.
func (c *child) apply(ctx context.Context, cause string) error {
	switch cause {
	case "feed":
		c.source.broken.Store(true)
	case "events":
		c.source.invalid.Store(true)
	case "prices":
		c.source.jumps.Store(true)
	case "files":
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 1 << 40}); err != nil {
			return err
		}
		go c.logins(ctx, "demo-password", 300*time.Millisecond)
	case "days":
		return damage(filepath.Join(c.folder, "journal", "*", "*.segz"))
	case "disk":
		return os.WriteFile(filepath.Join(c.folder, "full"), make([]byte, 14<<20), 0o600)
	case "users", "panic":
		go c.logins(ctx, "demo-password", 200*time.Millisecond)
	case "guesses":
		go c.logins(ctx, "a guess", 20*time.Millisecond)
	case "certificate":
		certtest.WriteUntil(c.t, c.folder, "gateway", time.Now().Add(time.Hour))
	case "connections":
		return c.readers(ctx, 10)
	case "handshakes":
		for range 4 { // together above the 100 a second of an address
			go every(ctx, time.Millisecond, func() {
				if ws, _, err := websocket.Dial(ctx, c.bound.Stream, nil); err == nil {
					_ = ws.CloseNow()
				}
			})
		}
	case "descriptors":
		return exhaust()
	case "slow":
		go every(ctx, 2*time.Second, func() { _ = c.subscribe(ctx, false) })
	case "memory":
		c.source.many.Store(true)
		return c.subscribe(ctx, true)
	case "paused": // the test continues the process
		err := c.readers(ctx, 10)
		c.source.paused.Store(true)
		return err
	}
	return nil
}

// damage changes a byte of files.
func damage(pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return cmp.Or(err, errors.New("no file to damage"))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// every calls f with pauses until ctx ends.
func every(ctx context.Context, pause time.Duration, f func()) {
	for ctx.Err() == nil {
		f()
		time.Sleep(pause)
	}
}

// exhaust opens files and lowers the limit of descriptors, so that more than nine tenths are in use.
func exhaust() error {
	for range 200 {
		if _, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0); err != nil {
			return err
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	limit := uint64(len(open) + 20)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit})
}

// logins logs in with pauses until ctx ends.
func (c *child) logins(ctx context.Context, password string, pause time.Duration) {
	every(ctx, pause, func() { _, _ = c.login(ctx, password) })
}

func (c *child) login(ctx context.Context, password string) (access string, err error) {
	body := fmt.Sprintf(`{"grant_type":"password","username":"demo","password":%q}`, password)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.bound.REST+"/auth/token", bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	var tokens struct {
		Data struct {
			Access string `json:"access_token"`
		}
	}
	if err = cmp.Or(err, json.Unmarshal(text, &tokens)); err == nil && tokens.Data.Access == "" {
		err = fmt.Errorf("login: %s", text)
	}
	return tokens.Data.Access, err
}

// readers opens n connections that subscribe to trades.
func (c *child) readers(ctx context.Context, n int) (err error) {
	for range n {
		err = cmp.Or(err, c.subscribe(ctx, true))
	}
	return err
}

// subscribe opens a connection that subscribes to trades. Without reads, it receives nothing more.
func (c *child) subscribe(ctx context.Context, reads bool) error {
	access, err := c.login(ctx, "demo-password")
	if err != nil {
		return err
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		return cmp.Or(raw.Control(func(fd uintptr) {
			if !reads {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			}
		}), err)
	}}
	ws, _, err := websocket.Dial(ctx, c.bound.Stream, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}})
	if err != nil {
		return err
	}
	for _, m := range []string{`{"action":"auth_token","token":"` + access + `"}`, `{"action":"subscribe","trades":["GGAL|BYMA|CI"]}`} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			return err
		}
		if _, _, err := ws.Read(ctx); err != nil {
			return err
		}
	}
	if reads {
		go func() {
			for err == nil {
				_, _, err = ws.Read(ctx)
			}
		}()
	}
	return nil
}

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/backup"
	"github.com/ruedahq/rueda/market"
)

var instruments = []string{"ALFA|SIM|CI", "BETA|SIM|CI", "GAMA|SIM|CI"}

// TestBackupUnderLoadE2E makes backups at random moments of a gateway with logins, refreshes and
// trades, and restores each into an empty folder. Everything acknowledged before the backup is
// there, the numbers of trades have no gap, and clients continue in a new epoch.
func TestBackupUnderLoadE2E(t *testing.T) {
	t.Parallel()
	rounds := 4
	if os.Getenv("RUEDA_SOAK") != "" {
		rounds = 100
	}
	folder := t.TempDir()
	g := start(t, folder, t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	clients := []*client{g.client(), g.client(), g.client()}
	for _, c := range clients {
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		load.Go(func() { c.refreshUntil(ctx) })
	}
	follower := g.client()
	if err := follower.login(); err != nil {
		t.Fatal(err)
	}
	load.Go(func() { follower.follow(ctx) })
	follower.await(t, 50)

	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	logins, trades := 0, uint64(0)
	for round := range rounds {
		// The trades of a random number of milliseconds.
		follower.await(t, follower.newest(instruments[0])+uint64(1+rng.IntN(60)))
		a := acknowledged{epoch: follower.epochOf(), newest: map[string]uint64{}}
		for _, c := range clients {
			a.refreshes = append(a.refreshes, c.count())
		}
		for _, name := range instruments {
			a.newest[name] = follower.newest(name)
			trades += a.newest[name]
		}
		dir := filepath.Join(t.TempDir(), "backup")
		m, err := backup.Create(t.Context(), g.source(), dir)
		if err != nil {
			t.Fatal(err)
		}
		a.check(t, m, dir, clients, follower, round%2 == 0)
		logins += len(clients)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("figure: %d backups under load: %d logins and their newest refreshes, %d trades, in each backup", rounds, logins, trades)
}

// acknowledged is what clients were answered before a backup.
type acknowledged struct {
	epoch     string
	newest    map[string]uint64 // N of trades
	refreshes []int             // of each client
}

// check restores a backup and compares it with what was acknowledged.
func (a *acknowledged) check(t *testing.T, m *backup.Manifest, dir string, clients []*client, follower *client, keep bool) {
	t.Helper()
	folder := t.TempDir()
	to := backup.Target{Data: database.Config{Folder: folder, Actor: "test"}, Journal: filepath.Join(folder, "journal"), KeepLogins: keep}
	if _, err := backup.Restore(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	if m.Journal == nil || m.Journal.Epoch != a.epoch || m.Journal.Damage != 0 {
		t.Fatalf("the manifest has %+v, want epoch %s", m.Journal, a.epoch)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := start(t, folder, ctx)
	for i, c := range clients {
		if err := c.continues(r, a.refreshes[i]); (err == nil) != keep {
			t.Errorf("client %d after %d acknowledged refreshes, logins kept %v: %v", i, a.refreshes[i], keep, err)
		}
	}
	again := r.client()
	if err := again.login(); err != nil {
		t.Fatal(err)
	}
	for _, name := range instruments {
		a.compareTrades(t, again, follower, name)
	}
	again.epoch, again.seen = a.epoch, a.newest
	lost, epoch := again.resume(t)
	if epoch == a.epoch || !slices.Equal(lost, []string{"epoch_changed"}) {
		t.Errorf("a client that resumes gets epoch %s after %s, lost %v", epoch, a.epoch, lost)
	}
	r.stop()
}

// compareTrades checks that the history of the old epoch has all acknowledged trades as they were
// sent, without a gap.
func (a *acknowledged) compareTrades(t *testing.T, c, follower *client, name string) {
	t.Helper()
	after := uint64(0)
	for cursor := ""; ; {
		var page struct {
			Data struct {
				Trades []json.RawMessage
				Epoch  string
				Next   string `json:"next_cursor"`
			}
		}
		query := url.Values{"instrument": {name}, "start": {"2000-01-01T00:00:00Z"}, "limit": {"10000"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if err := c.get("/market/trades?"+query.Encode(), &page); err != nil {
			t.Fatal(err)
		}
		if page.Data.Epoch != a.epoch {
			break // the rows of this gateway
		}
		for _, row := range page.Data.Trades {
			after++
			if sent := follower.text(name, after); sent != "" && sent != string(row) {
				t.Fatalf("trade %d of %s is %s, and was sent as %s", after, name, row, sent)
			}
			if !strings.Contains(string(row), fmt.Sprintf(`"N":%d,`, after)) {
				t.Fatalf("trade %d of %s is missing: next is %s", after, name, row)
			}
		}
		if cursor = page.Data.Next; cursor == "" {
			break
		}
	}
	if after < a.newest[name] {
		t.Errorf("%s: history ends with %d, and %d was sent before the backup", name, after, a.newest[name])
	}
}

// running is a gateway of a test.
type running struct {
	t      *testing.T
	folder string
	rest   string
	wire   string
	stop   func()
}

// start runs a gateway on a folder until its context ends or stop is called.
func start(t *testing.T, folder string, ctx context.Context) *running {
	t.Helper()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder, PasswordQueue: 1000, PasswordWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, err = data.Users.Add(t.Context(), local.NewUser{
		Username: "ana", Password: "correct horse",
		Scopes:       []string{broker.ScopeRead, broker.ScopeHistory},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true}},
		Limits:       broker.Limits{RequestsPerMinute: 1_000_000},
	})
	if err != nil && !errors.Is(err, local.ErrExists) {
		t.Fatal(err)
	}
	ready := make(chan gateway.Bound, 1)
	g, err := gateway.New(t.Context(), gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Feeds: []gateway.Feed{{Name: "trades", Source: source{}}}, Drain: time.Millisecond,
		Journal: gateway.Journal{Folder: filepath.Join(folder, "journal"), Segment: 1 << 20},
		// A client that continues presents tokens that are newer than the backup, and so are refused.
		Limits: gateway.Limits{LoginsPerMinute: 1_000_000, LoginBurst: 1_000_000, Logins: gateway.Logins{
			RefreshesPerMinute: 1_000_000, RefreshBurst: 1_000_000, UserRefreshesPerMinute: 1_000_000, UserRefreshBurst: 1_000_000,
			AccountLoginsPerMinute: 1_000_000, AccountLoginBurst: 1_000_000,
		}},
		OnReady: func(b gateway.Bound) { ready <- b },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	r := &running{t: t, folder: folder}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, data.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	select {
	case b := <-ready:
		r.rest, r.wire = b.REST, b.Stream
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return r
}

func (r *running) source() backup.Source {
	return backup.Source{Data: database.Config{Folder: r.folder}, Journal: filepath.Join(r.folder, "journal"), Program: "test"}
}

func (r *running) client() *client {
	return &client{g: r, seen: map[string]uint64{}, texts: map[string]map[uint64]string{}, changed: make(chan struct{}, 1)}
}

// source publishes a trade of each instrument every millisecond.
type source struct{}

func (source) Run(ctx context.Context, sink feed.Sink) error {
	events := make([]market.Event, len(instruments))
	for i, name := range instruments {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			return err
		}
		h, err := sink.Define(market.Instrument{ID: id, PriceDecimals: 2, StartsEmpty: true})
		if err != nil {
			return err
		}
		events[i] = market.Event{Kind: market.KindTrade, Handle: h, Price: 7050 * market.Scale, Size: market.Scale, Side: market.Buy}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for i := range events {
				events[i].Time = now.UnixNano()
			}
			if err := sink.Publish(events); err != nil {
				return err
			}
		}
	}
}

// client logs in, refreshes and follows trades.
type client struct {
	g       *running
	access  string
	changed chan struct{} // a trade was received

	mu     sync.Mutex
	tokens []string // refresh tokens, in the order of the answers
	epoch  string
	seen   map[string]uint64
	texts  map[string]map[uint64]string
}

func (c *client) token(g *running, body string) (access, refresh string, err error) {
	res, err := http.Post(g.rest+"/auth/token", "application/json", strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	var answer struct {
		Error struct{ Reason, Msg string }
		Data  struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("%s: %s: %s", res.Status, answer.Error.Reason, answer.Error.Msg)
	}
	return answer.Data.Access, answer.Data.Refresh, nil
}

func (c *client) login() error {
	access, refresh, err := c.token(c.g, `{"grant_type":"password","username":"ana","password":"correct horse"}`)
	c.access, c.tokens = access, []string{refresh}
	return err
}

// count returns the number of acknowledged refreshes.
func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens)
}

// refreshUntil refreshes again and again until ctx ends.
func (c *client) refreshUntil(ctx context.Context) {
	for ctx.Err() == nil {
		_, next, err := c.token(c.g, `{"grant_type":"refresh_token","refresh_token":"`+c.tokens[len(c.tokens)-1]+`"}`)
		if err != nil {
			c.g.t.Errorf("refresh: %v", err)
			return
		}
		c.mu.Lock()
		c.tokens = append(c.tokens, next)
		c.mu.Unlock()
	}
}

// continues refreshes at a restored gateway with one of the tokens since the acknowledged ones: the
// last one that the backup knows.
func (c *client) continues(r *running, acknowledged int) error {
	c.mu.Lock()
	tokens := slices.Clone(c.tokens)
	c.mu.Unlock()
	var err error
	for i := len(tokens) - 1; i >= acknowledged-1; i-- {
		if _, _, err = c.token(r, `{"grant_type":"refresh_token","refresh_token":"`+tokens[i]+`"}`); err == nil {
			return nil
		}
	}
	return err
}

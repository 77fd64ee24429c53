package rest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/market"
)

// gateway is a Handler with its dependencies and its own user base.
type gateway struct {
	users   *userBase
	store   *failingStore
	hub     *hub.Hub
	handler http.Handler // plain, with a check of requests and answers
	plain   *rest.Handler
	service *auth.Service // of handler
	log     *logBuffer
	sick    atomic.Bool // Config.Ready says so
}

// newGateway returns a gateway; change may be nil.
func newGateway(t testing.TB, change func(*rest.Config, *auth.Config)) *gateway {
	t.Helper()
	g := &gateway{users: newUserBase(), store: &failingStore{Store: store.NewMemory()}, log: &logBuffer{}}
	logger := g.logger()
	keys, err := keyset.New()
	if err != nil {
		t.Fatal(err)
	}
	g.hub = newHub(t)
	authConfig := auth.Config{Users: g.users, Store: g.store, Keys: keys, Logger: logger}
	config := rest.Config{
		Accounts: g.users,
		Hub:      g.hub,
		Origins:  []string{"https://app.example.com"},
		Ready: func() error {
			if g.sick.Load() {
				return errDown
			}
			return nil
		},
		Logger: logger,
	}
	if change != nil {
		change(&config, &authConfig)
	}
	if config.Auth, err = auth.New(t.Context(), authConfig); err != nil {
		t.Fatal(err)
	}
	g.service = config.Auth
	if g.plain, err = rest.New(config); err != nil {
		t.Fatal(err)
	}
	g.handler = described(t, "/openapi.json", g.plain)
	return g
}

// serve runs a Server for the gateway on a loopback address and returns the address.
func (g *gateway) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.serveOn(t, l))
	return l.Addr().String()
}

// serveOn runs a Server for the gateway until stop is called.
func (g *gateway) serveOn(t *testing.T, l net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := rest.NewServer(rest.ServerConfig{Handler: g.handler, Logger: g.logger()})
	go func() { done <- server.Run(ctx, l) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended with: %v", err)
		}
	}
}

func (g *gateway) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newHub(t testing.TB) *hub.Hub {
	t.Helper()
	weekday := market.Schedule{Sessions: []market.Session{{Start: 0, End: 24 * time.Hour, Phase: market.Open}},
		Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6},
		Holidays: []market.Holiday{{Date: "2031-03-04", Name: "Carnaval", Terms: []string{"CI"}}, {Date: "2031-03-05", Close: 13 * time.Hour}}}
	hub := hub.New(hub.Config{Epoch: "e1", Markets: []market.Market{
		{ID: "BYMA", Name: "Bolsas y Mercados Argentinos", Timezone: "America/Argentina/Buenos_Aires",
			Terms: []market.Term{{Name: "CI"}, {Name: "24hs", SettlementDays: 1}}, Schedule: weekday},
		{ID: "OTHER", Terms: []market.Term{{Name: "CI"}}},
	}})
	define := func(in market.Instrument) market.Handle {
		handle, err := hub.Define(in)
		if err != nil {
			t.Fatal(err)
		}
		return handle
	}
	id := func(s string) market.InstrumentID {
		id, err := market.ParseInstrumentID(s)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	price := func(s string) market.Price {
		p, err := market.ParsePrice(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const unit = market.Scale
	ggal := define(market.Instrument{ID: id("GGAL|BYMA|24hs"), Name: "Grupo Galicia", Kind: "equity", ISIN: "ARP495251018", Currency: "ARS",
		SettlementDays: 1, PriceDecimals: 2, Ticks: []market.Tick{{From: 0, Step: price("0.01")}, {From: price("10"), Step: price("0.5")}},
		Lot: unit, MinSize: unit, StartsEmpty: true})
	al30 := define(market.Instrument{ID: id("AL30|BYMA|CI"), Name: "Bonar 2030", Kind: "bond", Currency: "ARS", StartsEmpty: true})
	define(market.Instrument{ID: id("IMV|BYMA|CI"), Name: "S&P Merval", Kind: "index", Currency: "ARS", NoBook: true, QuotesFromFeed: true})
	define(market.Instrument{ID: id("STALE|BYMA|CI"), Kind: "equity", Currency: "ARS"})
	define(market.Instrument{ID: id("XYZ|OTHER|CI"), Kind: "equity", Currency: "USD", StartsEmpty: true})
	at := time.Date(2026, 11, 20, 14, 30, 0, 123456789, time.UTC).UnixNano()
	if err := hub.Publish([]market.Event{
		{Kind: market.KindSnapshot, Handle: ggal, Time: at,
			Bids: []market.Level{{Price: price("7049.5"), Size: 300 * unit, Orders: 4}, {Price: price("7049"), Size: 150 * unit, Orders: 2}},
			Asks: []market.Level{{Price: price("7050"), Size: 1200 * unit, Orders: 9}, {Price: price("7050.5"), Size: 80 * unit, Orders: 1}}},
		{Kind: market.KindTrade, Handle: ggal, Time: at, Price: price("7050"), Size: 120 * unit, Side: market.Buy, TradeID: "88123"},
		{Kind: market.KindStatus, Handle: al30, Time: at, Phase: market.Halt, Reason: "volatility", Until: at + int64(5*time.Minute)},
	}); err != nil {
		t.Fatal(err)
	}
	return hub
}

// userBase is a broker's users and accounts in memory.
type userBase struct {
	mu        sync.Mutex
	users     map[string]broker.User // by id
	passwords map[string]string      // by username
	disabled  map[string]bool
	accounts  map[string][]broker.Account
	down      bool
}

func newUserBase() *userBase {
	all := []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}}
	since := time.Date(2021, 3, 2, 0, 0, 0, 0, time.UTC)
	account := func(id, status string) broker.Account {
		return broker.Account{ID: id, Number: "123456", Name: "Juan Perez", Type: "cash", Status: status, Currency: "ARS",
			Currencies: []string{"ARS", "USD"}, Roles: []string{"owner"}, Permissions: []string{"read", "trade"}, IsDefault: id == "ac_1", CreatedAt: since}
	}
	return &userBase{
		users: map[string]broker.User{
			"u1": {ID: "u1", Username: "demo", Scopes: []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard}, Entitlements: all},
			"u2": {ID: "u2", Username: "basic", Scopes: []string{broker.ScopeAccounts, broker.ScopeRead},
				Entitlements: []broker.Entitlement{{Market: "BYMA", Quotes: true}}},
			"u3": {ID: "u3", Username: "none", Scopes: []string{}, Entitlements: nil},
			"u4": {ID: "u4", Username: "slow", Scopes: []string{broker.ScopeRead}, Entitlements: all, Limits: broker.Limits{RequestsPerMinute: 2}},
			"u5": {ID: "u5", Username: "shallow", Scopes: []string{broker.ScopeRead, broker.ScopeDepth},
				Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true, Quotes: true, Depth: 5}}},
			"u6":  {ID: "u6", Username: " spaced ", Scopes: []string{broker.ScopeRead}},
			"u7":  {ID: "u7", Username: "long", Scopes: []string{broker.ScopeRead}},
			"u10": {ID: "u10", Username: "careful", Scopes: []string{broker.ScopeRead}}, // has a second factor
			"u8":  {ID: "u8", Username: "historian", Scopes: []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory}, Entitlements: all},
			"u9": {ID: "u9", Username: "late", Scopes: []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory},
				Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true, Depth: 5, Delay: 900}}},
		},
		passwords: map[string]string{"demo": "demo", "basic": "basic", "none": "none", "slow": "slow", "shallow": "shallow",
			"historian": "historian", "careful": "careful", "late": "late",
			" spaced ": " pass word ", "long": string(bytes.Repeat([]byte("p"), 1024))},
		disabled: map[string]bool{},
		accounts: map[string][]broker.Account{
			"u1": {account("ac_1", "active"), account("ac_2", "active"), account("ac_3", "closed")},
			"u2": {account("ac_9", "active")},
		},
	}
}

var errDown = errors.New("connection refused")

func (b *userBase) Authenticate(_ context.Context, login broker.Login) (broker.User, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return broker.User{}, errDown
	}
	for _, u := range b.users {
		if want, ok := b.passwords[login.Username]; ok && u.Username == login.Username && want == login.Password && !b.disabled[u.ID] {
			if u.Username == "careful" && login.OTP != "123456" {
				return broker.User{}, broker.ErrSecondFactor
			}
			return u, nil
		}
	}
	return broker.User{}, broker.ErrInvalidCredentials
}

func (b *userBase) User(_ context.Context, id string) (broker.User, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, ok := b.users[id]
	switch {
	case b.down:
		return broker.User{}, errDown
	case !ok:
		return broker.User{}, broker.ErrNotFound
	case b.disabled[id]:
		return broker.User{}, broker.ErrDisabled
	}
	return u, nil
}

func (b *userBase) ListAccounts(_ context.Context, userID string) ([]broker.Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	return b.accounts[userID], nil
}

func (b *userBase) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// failingStore is a Store that can be switched off.
type failingStore struct {
	auth.Store
	mu   sync.Mutex
	down bool
}

func (s *failingStore) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *failingStore) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *failingStore) CreateFamily(ctx context.Context, f auth.Family, first auth.RefreshToken) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.CreateFamily(ctx, f, first)
}

func (s *failingStore) Lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	if err := s.err(); err != nil {
		return auth.RefreshToken{}, auth.Family{}, err
	}
	return s.Store.Lookup(ctx, hash)
}

func (s *failingStore) Families(ctx context.Context, ids []string) ([]auth.Family, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Families(ctx, ids)
}

func (s *failingStore) Sessions(ctx context.Context, userID string, now time.Time) ([]auth.Family, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Sessions(ctx, userID, now)
}

func (s *failingStore) RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) ([]string, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.RevokeUser(ctx, userID, reason, created, e)
}

// logBuffer records a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var _ http.Handler = (*rest.Handler)(nil)

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// Users of the gateway. Each has all rights in the market TEST.
const (
	clientName, clientPassword = "client", "the password of the client"
	judgeName, judgePassword   = "judge", "the password of the judge"
)

// Instruments of the market. The client subscribes to all of them, and to notAllowed in one case.
var instruments = []string{"ALFA|TEST|CI", "BETA|TEST|24hs", "GAMA|TEST|48hs"}

// rare is an instrument of the market that trades only when a case requests it.
const rare = "DELTA|TEST|CI"

// notAllowed is an instrument of a market in which the users have no rights.
const notAllowed = "OTHER|HIDDEN|CI"

// Times of the gateway, which are short so that the cases are.
const (
	pingInterval = time.Second
	pongTimeout  = 2 * time.Second
	eventEvery   = 4 * time.Millisecond
)

// world is a gateway with a scripted market, and the truth about it.
type world struct {
	folder    string
	accessTTL time.Duration
	market    *script
	proxy     *proxy
	second    *proxy // the other address of the gateway
	program   *program

	rest   string // address of the gateway itself; "": it is down
	stop   func() error
	token  string // of the judge
	truth  map[string]map[string][]trade
	epochs []string
	broken int // connections that were broken, by Kills
}

// trade is a trade as the history of the gateway has it.
type trade struct {
	n           uint64
	price, size market.Price
}

func newWorld(folder string, accessTTL time.Duration) (*world, error) {
	w := &world{folder: folder, accessTTL: accessTTL, market: newScript(), truth: map[string]map[string][]trade{}}
	var err error
	if w.proxy, err = newProxy(); err != nil {
		return nil, err
	}
	if w.second, err = newProxy(); err != nil {
		w.proxy.close()
		return nil, err
	}
	return w, nil
}

// close ends everything.
func (w *world) close() error {
	var err error
	if w.program != nil {
		w.program.kill()
	}
	if w.stop != nil {
		err = w.down()
	}
	w.proxy.close()
	w.second.close()
	return err
}

// up starts the gateway on its data, which a first start creates.
func (w *world) up(ctx context.Context) error {
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: filepath.Join(w.folder, "data"), AccessTTL: w.accessTTL})
	if err != nil {
		return err
	}
	if err := addUsers(ctx, data); err != nil {
		return errors.Join(err, data.Close())
	}
	ready := make(chan gateway.Bound, 1)
	g, err := gateway.New(ctx, gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Drain: 200 * time.Millisecond, Version: "conformance",
		Markets: []market.Market{{ID: "TEST"}, {ID: "HIDDEN"}},
		Feeds:   []gateway.Feed{{Name: "script", Source: w.market}},
		Journal: gateway.Journal{Folder: filepath.Join(w.folder, "journal")},
		Auth:    gateway.Auth{AccessTTL: w.accessTTL},
		Stream:  gateway.Stream{PingInterval: pingInterval, PongTimeout: pongTimeout, MaxWaiting: 64 << 10, MaxAge: time.Second, SendBuffer: 4 << 10},
		Limits:  gateway.Limits{RequestsPerMinute: 1_000_000, LoginsPerMinute: 1000, LoginBurst: 1000},
		OnReady: func(b gateway.Bound) { ready <- b },
	})
	if err != nil {
		return errors.Join(err, data.Close())
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(run) }()
	w.stop = func() error {
		cancel()
		return errors.Join(<-ended, data.Close())
	}
	select {
	case b := <-ready:
		w.rest = b.REST
	case err := <-ended:
		ended <- nil
		return errors.Join(err, w.down())
	}
	w.proxy.lead(strings.TrimPrefix(w.rest, "http://"))
	return w.login(ctx)
}

func addUsers(ctx context.Context, data *gateway.Data) error {
	for name, password := range map[string]string{clientName: clientPassword, judgeName: judgePassword} {
		_, err := data.Users.Add(ctx, local.NewUser{
			Username: name, Password: password,
			Scopes:       []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory},
			Entitlements: []broker.Entitlement{{Market: "TEST", Trades: true, Quotes: true, Depth: -1}},
		})
		if err != nil && !errors.Is(err, local.ErrExists) {
			return err
		}
	}
	return nil
}

// down stops the gateway in an orderly way, after it has noted what was published.
func (w *world) down() error {
	stop := w.stop
	w.stop, w.rest = nil, ""
	w.proxy.lead("")
	w.second.lead("")
	return stop()
}

// restart stops the gateway and starts it again. With forget it loses its journal, so that a new
// epoch begins.
func (w *world) restart(ctx context.Context, forget bool) error {
	w.market.pause()
	if err := w.note(ctx); err != nil {
		return err
	}
	if err := w.down(); err != nil {
		return err
	}
	if forget {
		if err := os.RemoveAll(filepath.Join(w.folder, "journal")); err != nil {
			return err
		}
	}
	w.market.resume()
	return w.up(ctx)
}

// login gets a token for the judge.
func (w *world) login(ctx context.Context) (err error) {
	w.token, err = w.tokenFor(ctx, judgeName, judgePassword)
	return err
}

// tokenOf returns an access token of the client's user.
func (w *world) tokenOf(ctx context.Context) (string, error) {
	return w.tokenFor(ctx, clientName, clientPassword)
}

func (w *world) tokenFor(ctx context.Context, username, password string) (string, error) {
	body, err := json.Marshal(map[string]string{"grant_type": "password", "username": username, "password": password})
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	err = w.call(ctx, http.MethodPost, "/auth/token", string(body), &answer)
	return answer.Data.Token, err
}

// endLogins ends all logins of the client, as its user does who lost a device.
func (w *world) endLogins(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"username": clientName, "password": clientPassword})
	if err != nil {
		return err
	}
	return w.call(ctx, http.MethodPost, "/auth/sessions", string(body), nil)
}

// call sends a request to the gateway itself.
func (w *world) call(ctx context.Context, method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, w.rest+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// note reads all trades of the present epoch.
func (w *world) note(ctx context.Context) error {
	if w.token == "" || w.accessTTL > 0 {
		if err := w.login(ctx); err != nil {
			return err
		}
	}
	for _, name := range instruments {
		if err := w.noteInstrument(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// page is an answer of GET /market/trades.
type page struct {
	Data struct {
		Epoch      string
		NextCursor string `json:"next_cursor"`
		Trades     []struct {
			N uint64
			P json.Number
			Z json.Number
		}
	}
}

func (w *world) noteInstrument(ctx context.Context, name string) error {
	var all []trade
	for cursor := ""; ; {
		var p page
		q := url.Values{"instrument": {name}, "after_sequence": {"0"}, "limit": {"1000"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		if err := w.call(ctx, http.MethodGet, "/market/trades?"+q.Encode(), "", &p); err != nil {
			return err
		}
		for _, t := range p.Data.Trades {
			price, err1 := market.ParsePrice(t.P.String())
			size, err2 := market.ParsePrice(t.Z.String())
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			all = append(all, trade{t.N, price, size})
		}
		if w.truth[p.Data.Epoch] == nil {
			w.truth[p.Data.Epoch] = map[string][]trade{}
			w.epochs = append(w.epochs, p.Data.Epoch)
		}
		w.truth[p.Data.Epoch][name] = all
		if cursor = p.Data.NextCursor; cursor == "" {
			return nil
		}
	}
}

// script is a source with a market that can pause. It is the same market after each restart.
type script struct {
	mu     sync.Mutex
	cond   *sync.Cond
	paused bool
	step   int64
	trades int      // in an event
	rare   int      // trades of the rare instrument to publish
	gaps   []string // instruments whose source loses events
	gapped map[string]bool
}

func newScript() *script {
	s := &script{gapped: map[string]bool{}}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// pause stops the market. When it returns, nothing more is published.
func (s *script) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
}

// resume continues the market.
func (s *script) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
}

// tradeRare publishes trades of the rare instrument.
func (s *script) tradeRare(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rare += count
}

// lose makes the source lose events of an instrument.
func (s *script) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps = append(s.gaps, name)
}

// Run implements feed.Source.
func (s *script) Run(ctx context.Context, sink feed.Sink) error {
	handles := map[string]market.Handle{}
	for _, name := range append([]string{notAllowed, rare}, instruments...) {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			return err
		}
		if handles[name], err = sink.Define(market.Instrument{ID: id, PriceDecimals: 2}); err != nil {
			return err
		}
	}
	for _, name := range instruments {
		if err := sink.Publish([]market.Event{s.snapshot(handles[name], 0)}); err != nil {
			return err
		}
	}
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.publish(sink, handles); err != nil {
				return err
			}
		}
	}
}

// publish publishes the next events, unless the market pauses.
func (s *script) publish(sink feed.Sink, handles map[string]market.Handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return nil
	}
	for _, name := range s.gaps {
		err := sink.Publish([]market.Event{{Kind: market.KindGap, Handle: handles[name], Reason: "test"}, s.snapshot(handles[name], s.step)})
		if err != nil {
			return err
		}
	}
	s.gaps = nil
	for ; s.rare > 0; s.rare-- {
		err := sink.Publish([]market.Event{{Kind: market.KindTrade, Handle: handles[rare], Side: market.Buy, Price: market.Scale, Size: market.Scale}})
		if err != nil {
			return err
		}
	}
	s.step++
	name := instruments[s.step%int64(len(instruments))]
	var events []market.Event
	for i := range int64(s.trades) {
		price, size := 10_000+(s.step+i)%500, 1+(s.step+i)%7
		events = append(events, market.Event{Kind: market.KindTrade, Handle: handles[name], Side: market.Buy, Price: market.Price(price) * market.Scale / 100, Size: market.Size(size) * market.Scale})
	}
	return sink.Publish(append(events, s.update(handles[name], s.step)))
}

// Books have levels at whole prices around 100. A step changes the size of one level of each side,
// and sometimes deletes it.
const levels = 8

func (s *script) update(h market.Handle, step int64) market.Event {
	return market.Event{Kind: market.KindUpdate, Handle: h, Bids: []market.Level{level(99-step%levels, step)}, Asks: []market.Level{level(101+step%levels, step)}}
}

func (s *script) snapshot(h market.Handle, step int64) market.Event {
	e := market.Event{Kind: market.KindSnapshot, Handle: h}
	for i := range int64(levels) {
		e.Bids, e.Asks = append(e.Bids, level(99-i, 1+step%8)), append(e.Asks, level(101+i, 1+step%8))
	}
	return e
}

func level(price, step int64) market.Level {
	return market.Level{Price: market.Price(price) * market.Scale, Size: market.Size(step%9) * market.Scale}
}

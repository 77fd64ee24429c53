package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	ggal = "GGAL|BYMA|24hs"
	al30 = "AL30|BYMA|CI"
)

// instrument returns the definition of an instrument with two decimals.
func instrument(t testing.TB, id string) market.Instrument {
	t.Helper()
	i, err := market.ParseInstrumentID(id)
	if err != nil {
		t.Fatal(err)
	}
	return market.Instrument{ID: i, Currency: "ARS", PriceDecimals: 2}
}

// start starts a gateway with two instruments, and returns a client with a set of subscriptions.
func start(t testing.TB, c ruedatest.Config, o client.Options, set client.Set) (*ruedatest.Server, *client.Client) {
	t.Helper()
	s := ruedatest.Start(t, c)
	s.Define(instrument(t, ggal))
	s.Define(instrument(t, al30))
	return s, connect(t, s, o, set)
}

func connect(t testing.TB, s *ruedatest.Server, o client.Options, set client.Set) *client.Client {
	t.Helper()
	if o.Username == "" {
		o.Username, o.Password = s.Username, client.Secret(s.Password)
	}
	c, err := client.New([]string{s.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	c.Wrap(openapitest.Wrap)
	t.Cleanup(c.Close)
	if err := c.Subscribe(set); err != nil {
		t.Fatal(err)
	}
	return c
}

// barred returns options of a client that does not connect while gate is locked.
func barred(gate *sync.Mutex) client.Options {
	return client.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		gate.Lock()
		defer gate.Unlock()
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// stored waits until the gateway has stored the trade with a number. Before that, a client that
// resumes receives it as a new one.
func stored(t *testing.T, s *ruedatest.Server, n uint64) {
	t.Helper()
	c := connect(t, s, client.Options{}, client.Set{})
	for ctx := within(t); ctx.Err() == nil; {
		for _, err := range c.Trades(ctx, ggal, client.Range{After: n - 1}) {
			if err == nil {
				return
			}
		}
	}
	t.Fatalf("trade %d is not stored", n)
}

// within returns a context that ends a hanging test.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// trades publishes trades whose size is their number, up to a number.
type trades struct {
	s *ruedatest.Server
	n int
}

func (p *trades) upTo(n int) {
	for p.n < n {
		p.n++
		p.s.Trade(ggal, "7050", strconv.Itoa(p.n))
	}
}

// follow iterates over events until the trade with a number has arrived and a condition holds, if
// there is one. It checks that trades are complete, and calls on for each event.
func follow(t *testing.T, c *client.Client, a *account, upTo uint64, on func(client.Event), until func() bool) {
	t.Helper()
	for ev := range c.Events(within(t)) {
		a.add(ev)
		if on != nil {
			on(ev)
		}
		if a.next[stream.Series{Instrument: instrument(t, ggal).ID}] > upTo && (until == nil || until()) {
			return
		}
	}
	t.Fatalf("ended: %v, next %v", c.Err(), a.next)
}

func newAccount(t *testing.T) *account { return &account{t: t, next: map[stream.Series]uint64{}} }

// TestRestart checks that no trade is lost while the gateway restarts, and that the next ones are
// marked as replayed.
func TestRestart(t *testing.T) {
	t.Parallel()
	var gate sync.Mutex
	s, c := start(t, ruedatest.Config{}, barred(&gate), client.Set{Trades: []string{ggal}})
	p := &trades{s: s}
	var states []string
	var recovered []client.Recovered
	follow(t, c, newAccount(t), 10, func(ev client.Event) {
		switch ev := ev.(type) {
		case client.StateChange:
			if states = append(states, ev.State.String()); ev.State == client.Live && p.n == 0 {
				p.upTo(5)
			}
		case *client.Trade:
			if ev.Replayed != (ev.N > 5) || string(ev.Raw()[:12]) != `{"type":"T",` || ev.Instrument.String() != ggal || time.Since(ev.Time) > time.Minute {
				t.Errorf("%+v", ev)
			}
			if ev.N == 5 {
				gate.Lock()
				s.Restart()
				p.upTo(10)
				stored(t, s, 10)
				gate.Unlock()
			}
		case client.Recovered:
			recovered = append(recovered, ev)
		}
	}, func() bool { return len(recovered) > 0 && c.Health().State == client.Live })
	if len(recovered) != 1 || recovered[0].From != 6 || recovered[0].To != 10 || recovered[0].History {
		t.Errorf("%v", recovered)
	}
	if first := strings.Join(states[:4], " "); first != "connecting authenticating syncing live" || !slices.Contains(states, "waiting") {
		t.Errorf("%v", states)
	}
}

// TestGap checks that a missing trade on a working connection comes from history or, without the
// right to it, by a resume, also if a pattern covers the instrument.
func TestGap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scopes []string
		id     string
	}{
		"history": {nil, ggal},
		"resume":  {[]string{broker.ScopeRead}, ggal},
		"pattern": {[]string{broker.ScopeRead, broker.ScopeWildcard}, "*|BYMA|*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t, ruedatest.Config{Scopes: test.scopes}, client.Options{}, client.Set{Trades: []string{test.id}})
			p := &trades{s: s}
			var recovered []client.Recovered
			a := newAccount(t)
			follow(t, c, a, 8, func(ev client.Event) {
				switch ev := ev.(type) {
				case client.StateChange:
					if ev.State == client.Live && p.n == 0 {
						p.upTo(3)
					}
				case *client.Trade:
					if ev.N == 3 {
						s.Fault(wire.SimGap, ggal)
					}
					if ev.N >= 3 && ev.N == uint64(p.n) && len(recovered) == 0 { // the fault may come late
						p.upTo(p.n + 5)
					}
				case client.Recovered:
					recovered = append(recovered, ev)
				}
			}, func() bool { return len(recovered) > 0 })
			if a.lost > 0 || recovered[0].From < 4 || recovered[0].History != (test.scopes == nil) {
				t.Errorf("%d lost, %v", a.lost, recovered)
			}
		})
	}
}

// TestNewEpoch checks that a new epoch is reported as a loss without an end, and that trades
// continue. What a journal has kept of both epochs is delivered.
func TestNewEpoch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		journal bool
		want    []string
	}{
		"without a journal": {false, []string{"1", "2", "3", "lost trades GGAL|BYMA|24hs from 4: epoch_changed", "1", "2", "3"}},
		"with a journal": {true, []string{"1", "2", "3", "4 again", "5 again", "recovered trades GGAL|BYMA|24hs from 4 to 5",
			"lost trades GGAL|BYMA|24hs from 6: epoch_changed", "1 again", "2 again", "recovered trades GGAL|BYMA|24hs from 1 to 2", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "journal")
			config := ruedatest.Config{NoJournal: true, Change: func(c *rueda.Config) {
				if test.journal {
					c.Journal.Folder = folder
				}
			}}
			var gate sync.Mutex
			s, c := start(t, config, barred(&gate), client.Set{Trades: []string{ggal}})
			p := &trades{s: s}
			var got []string
			for ev := range c.Events(within(t)) {
				switch ev := ev.(type) {
				case client.StateChange:
					if ev.State == client.Live && (p.n == 0 || !test.journal) {
						p.upTo(p.n + 3)
					}
				case client.Recovered, client.Lost:
					got = append(got, fmt.Sprint(ev))
					if test.journal && strings.HasSuffix(got[len(got)-1], "from 1 to 2") {
						p.upTo(8)
					}
				case *client.Trade:
					text := strconv.FormatUint(ev.N, 10)
					if ev.Replayed {
						text += " again"
					}
					if got = append(got, text); p.n > 3 || ev.N < 3 {
						break
					}
					if !test.journal {
						s.Restart()
						break
					}
					gate.Lock()
					s.Stop()
					s.Restart()
					p.upTo(5) // the end of the gateway stores them
					s.Stop()
					if err := os.Remove(filepath.Join(folder, "state")); err != nil {
						t.Error(err)
					}
					s.Restart()
					p.upTo(7)
					stored(t, s, 2)
					gate.Unlock()
				}
				if len(got) == len(test.want) {
					break
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestFinal checks what ends Events for good.
func TestFinal(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Trades: []string{ggal}})
	end := func(c *client.Client, live func(), want wire.Reason) {
		t.Helper()
		var last client.StateChange
		for ev := range c.Events(within(t)) {
			if ev, ok := ev.(client.StateChange); ok {
				if last = ev; ev.State == client.Live {
					live()
				}
			}
		}
		if got := client.ReasonOf(c.Err()); got != want || last.State != client.Closed || client.ReasonOf(last.Err) != want {
			t.Errorf("%v, in the state %s: want %s", c.Err(), last.State, want)
		}
	}
	end(connect(t, s, client.Options{Username: "demo", Password: "wrong"}, client.Set{}), nil, wire.InvalidCredentials)
	none, err := client.New([]string{s.URL}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	end(none, nil, wire.InvalidCredentials)
	end(c, func() {
		if err := c.Logout(t.Context()); err != nil {
			t.Error(err)
		}
	}, wire.TokenRevoked)
	one := connect(t, s, client.Options{Session: "bot"}, client.Set{})
	other := connect(t, s, client.Options{Session: "bot"}, client.Set{})
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	end(one, func() {
		group.Go(func() {
			for range other.Events(ctx) {
			}
		})
	}, wire.Replaced)
	cancel()
	group.Wait()
	if err := other.Err(); err != nil {
		t.Error(err)
	}
}

// TestTokenLifeE2E checks that the stream outlives its token, and that a client whose token has
// expired while it was disconnected continues.
func TestTokenLifeE2E(t *testing.T) {
	t.Parallel()
	short := func(c *rueda.Config) { c.Auth.AccessTTL = 2 * time.Second }
	s, c := start(t, ruedatest.Config{Change: short}, client.Options{}, client.Set{Trades: []string{ggal}})
	p := &trades{s: s}
	a := newAccount(t)
	connections := 0
	began := time.Now()
	on := func(ev client.Event) {
		if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
			if connections++; p.n == 0 {
				p.upTo(1)
			}
		}
		if ev, ok := ev.(*client.Trade); ok && time.Since(began) < 8*time.Second {
			time.Sleep(100 * time.Millisecond)
			p.upTo(int(ev.N) + 1)
		}
	}
	follow(t, c, a, 1, on, func() bool { return time.Since(began) > 7*time.Second })
	if connections != 1 {
		t.Errorf("%d connections", connections)
	}
	time.Sleep(3 * time.Second)
	p.upTo(p.n + 5)
	follow(t, c, a, uint64(p.n), nil, nil)
	if a.lost > 0 {
		t.Errorf("%d lost", a.lost)
	}
}

// TestOverflow checks a program that is slower than its trades: under Drop the ranges are reported,
// under the other policies everything arrives.
func TestOverflow(t *testing.T) {
	t.Parallel()
	for _, policy := range []client.Overflow{client.Conflate, client.Block, client.Drop} {
		s, c := start(t, ruedatest.Config{}, client.Options{Queue: 20, Overflow: policy}, client.Set{Trades: []string{ggal}})
		p := &trades{s: s}
		a := newAccount(t)
		follow(t, c, a, 2000, func(ev client.Event) {
			switch ev := ev.(type) {
			case client.StateChange:
				if ev.State == client.Live && p.n == 0 {
					p.upTo(1)
				}
			case *client.Trade:
				if ev.N == 1 {
					p.upTo(2000)
					time.Sleep(100 * time.Millisecond)
				}
			}
		}, nil)
		if (a.lost > 0) != (policy == client.Drop) {
			t.Errorf("policy %d: %d lost, %d received", policy, a.lost, a.got)
		}
	}
}

// TestSlowProgramE2E checks a program that stops for a while under load. The gateway closes its
// connection, and the client resumes: each trade arrives once.
func TestSlowProgramE2E(t *testing.T) {
	t.Parallel()
	strict := func(c *rueda.Config) { c.Stream.MaxWaiting, c.Stream.MaxAge = 64<<10, 300*time.Millisecond }
	s, c := start(t, ruedatest.Config{Change: strict}, client.Options{Queue: 100}, client.Set{Trades: []string{ggal}})
	const all = 60_000
	events := make([]market.Event, 0, all)
	for n := range all {
		events = append(events, market.Event{Kind: market.KindTrade, Price: 7050 * market.Scale, Size: market.Size(n+1) * market.Scale})
	}
	a := newAccount(t)
	var slow error
	published := false
	follow(t, c, a, all, func(ev client.Event) {
		change, ok := ev.(client.StateChange)
		switch {
		case ok && change.State == client.Waiting && slow == nil:
			slow = change.Err
		case ok && change.State == client.Live && !published:
			published = true
			for part := range slices.Chunk(events, 64) {
				s.Publish(ggal, part...)
			}
			time.Sleep(2 * time.Second)
		}
	}, nil)
	// The Error slow_client may be lost with the connection.
	if slow == nil || a.lost > 0 || a.got != all {
		t.Errorf("%v, %d of %d received, %d lost", slow, a.got, all, a.lost)
	}
}

// TestBooks checks that books of the client and of a program that applies the events are those of
// the gateway, through a wrong checksum and a restart.
func TestBooks(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Books: []string{ggal}, Depth: 10})
	step := 0
	book := func() {
		step++
		s.Book(ggal, "7049."+strconv.Itoa(step%10), strconv.Itoa(step), "7050.5", strconv.Itoa(2*step))
	}
	size := market.Size(0)
	deep := func() {
		size += market.Scale
		s.Publish(ggal, market.Event{Kind: market.KindUpdate, Bids: []market.Level{{Price: 7000 * market.Scale, Size: size}}})
	}
	var own client.Book
	var invalid []string
	for ev := range c.Events(within(t)) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live {
				book()
			}
		case client.BookInvalid:
			if invalid = append(invalid, ev.Reason); ev.Reason != "disconnected" {
				break
			}
			if _, err := c.Book(ggal); !errors.Is(err, client.ErrInvalidBook) {
				t.Error(err)
			}
		case *client.BookUpdate:
			if err := own.Apply(*ev); err != nil {
				t.Fatalf("%v: %+v", err, ev)
			}
			bid, ask, ok := own.Best()
			if !ok || ask.Size != 2*bid.Size {
				t.Fatalf("%+v %+v %v", bid, ask, ok)
			}
			if b, err := c.Book(ggal); err != nil || b.N() < own.N() {
				t.Fatalf("%v, %+v", err, b)
			}
			switch step {
			case 20:
				s.Fault(wire.SimBadChecksum, ggal)
				step++
				deep()
			case 21:
				if len(invalid) == 0 { // the fault may come late
					deep()
				}
			case 40:
				step++
				s.Restart()
			default:
				if bid.Size == market.Size(step)*market.Scale {
					book()
				}
			}
			if step == 21 && len(invalid) > 0 {
				book()
			}
		}
		if step > 60 {
			break
		}
	}
	if got := strings.Join(invalid, " "); got != "checksum disconnected" {
		t.Errorf("%s, step %d", got, step)
	}
}

// TestStorm subscribes and unsubscribes from many goroutines while the connection is broken again
// and again. In the end the gateway sends what the set has.
func TestStorm(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Trades: []string{ggal}})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 50 {
				set := client.Set{Trades: []string{al30}, Quotes: []string{al30, ggal}, Bars: []string{ggal + "|1m"}}
				if i%2 == 0 {
					set.Status = []string{"*|BYMA|*"}
				}
				change := c.Subscribe
				if i%3 == 1 {
					change = c.Unsubscribe
				}
				if err := change(set); err != nil {
					t.Error(err)
				}
				_, _ = c.Book(ggal)
				_ = c.Health()
				time.Sleep(time.Millisecond)
			}
		})
	}
	live := 0
	stormed := make(chan struct{})
	go func() { group.Wait(); close(stormed) }()
	for ev := range c.Events(within(t)) {
		if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
			if live++; live < 3 {
				s.Fault(wire.SimDisconnect, "")
			} else {
				break
			}
		}
	}
	<-stormed
	if err := errors.Join(c.Unsubscribe(c.Subscriptions()), c.Subscribe(client.Set{Trades: []string{al30}})); err != nil {
		t.Fatal(err)
	}
	if got := c.Subscriptions(); !slices.Equal(got.Trades, []string{al30}) || got.Quotes != nil || got.Bars != nil {
		t.Errorf("%+v", got)
	}
	n := 0
	for ev := range c.Events(within(t)) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live {
				s.Trade(ggal, "7050", "1")
				s.Trade(al30, "70", "1")
			}
		case *client.Trade:
			if ev.Instrument.String() == al30 {
				n++
			}
		}
		if n > 0 {
			break
		}
	}
}

// TestRejected checks that an unknown instrument is reported, and that the others are live.
func TestRejected(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Trades: []string{ggal, "NOPE|BYMA|CI"}})
	p := &trades{s: s}
	var rejected []client.Rejected
	follow(t, c, newAccount(t), 1, func(ev client.Event) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live {
				p.upTo(1)
			}
		case client.Rejected:
			rejected = append(rejected, ev)
		}
	}, nil)
	if len(rejected) != 1 || rejected[0].Instrument != "NOPE|BYMA|CI" || rejected[0].Reason != wire.UnknownInstrument || rejected[0].Removed {
		t.Errorf("%+v", rejected)
	}
	for _, set := range []client.Set{{Trades: []string{"GGAL"}}, {Bars: []string{ggal}}, {Bars: []string{""}}, {Depth: 3}, {Conflate: time.Hour}} {
		if err := c.Subscribe(set); err == nil {
			t.Errorf("%+v was accepted", set)
		}
	}
}

// TestURLs checks that the client uses the next URL when one does not answer, for REST too.
func TestURLs(t *testing.T) {
	t.Parallel()
	s := ruedatest.Start(t, ruedatest.Config{})
	c, err := client.New([]string{"http://127.0.0.1:1", s.URL}, client.Options{Username: s.Username, Password: client.Secret(s.Password)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range c.Accounts(t.Context()) {
	}
	for ev := range c.Events(within(t)) {
		if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
			if ev.URL != s.URL {
				t.Error(ev.URL)
			}
			break
		}
	}
	for _, bad := range []string{"", "gateway", "ftp://gateway", "http://gateway", "https://user@gateway", "https://gateway?token=x"} {
		if _, err := client.New([]string{bad}, client.Options{}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestHealth checks the three kinds of life.
func TestHealth(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{Heartbeat: 100 * time.Millisecond}, client.Set{Trades: []string{ggal}, Status: []string{ggal}})
	if h := c.Health(); h.State != client.Idle || h.Link >= 0 || h.Stream >= 0 {
		t.Errorf("%+v", h)
	}
	p := &trades{s: s}
	follow(t, c, newAccount(t), 1, func(ev client.Event) {
		if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
			p.upTo(1)
		}
	}, func() bool {
		h := c.Health()
		in, ok := h.Instruments[instrument(t, ggal).ID]
		if h.RoundTrip == 0 {
			time.Sleep(150 * time.Millisecond) // the client sends a ping
			p.upTo(p.n + 1)
		}
		return h.State == client.Live && h.URL == s.URL && h.Link >= 0 && h.Stream >= 0 && ok && in.Age >= 0 && in.Phase == market.Open && !in.Book && h.RoundTrip > 0
	})
}

// TestNoGoroutinesLeft checks that nothing runs after the loop over Events.
func TestNoGoroutinesLeft(t *testing.T) {
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Trades: []string{ggal}})
	before := runtime.NumGoroutine()
	for range 20 {
		for ev := range c.Events(within(t)) {
			if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
				break
			}
		}
		for ev := range c.Events(within(t)) {
			for second := range c.Events(within(t)) {
				if change, ok := second.(client.StateChange); !ok || !errors.Is(change.Err, client.ErrInUse) {
					t.Errorf("%+v", second)
				}
			}
			_ = ev
			break
		}
	}
	c.Close()
	s.Stop()
	for range 100 { // goroutines of net/http end a little later
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	stormPrograms = 4
	stormLabel    = "storm" // of the goroutines of all clients
)

// stormTime returns how long TestStormOfClientsLong lasts: a minute, ten seconds with -short, and
// an hour in the soak or the time that RUEDA_SOAK names, such as 10m.
func stormTime() time.Duration {
	soak := os.Getenv("RUEDA_SOAK")
	if d, err := time.ParseDuration(soak); err == nil {
		return d
	}
	if soak != "" {
		return time.Hour
	}
	if testing.Short() {
		return 10 * time.Second
	}
	return time.Minute
}

// TestStormOfClientsLong runs programs that do everything at the same time. They change the set,
// leave the loop over Events and begin it again, and replace the client by one that resumes. They
// read books, health and history. Meanwhile connections break, tokens expire and the gateway
// restarts. One instrument is complete in each program, the others are in order, and no goroutine
// is left.
//
// The hour with the race detector:
//
//	RUEDA_SOAK=1 go test -race -run TestStormOfClientsLong -timeout 2h -v ./client
func TestStormOfClientsLong(t *testing.T) {
	t.Parallel()
	s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) {
		c.Auth.AccessTTL = min(10*time.Second, stormTime()/6)
		c.Limits.Connections, c.Limits.RequestsPerMinute = 1000, 100_000 // broken connections stay for a while
	}})
	ids := []string{ggal, al30, "YPFD|BYMA|24hs", "SOJ|MATBA|CI", "MAI|MATBA|CI"}
	for _, id := range ids {
		s.Define(instrument(t, id))
	}
	proxy := newBreaker(t, strings.TrimPrefix(s.URL, "http://"))
	storm, over := context.WithCancel(t.Context())
	defer over()
	var source, running, begun sync.WaitGroup
	var total uint64
	source.Go(func() { total = publishTrades(storm, s, ids, 10*time.Millisecond) })
	var last atomic.Uint64 // the newest trade, once the storm is over; 0: before
	var programs []*stormProgram
	folder := t.TempDir()
	for i := range stormPrograms {
		o := client.Options{
			Username: s.Username, Password: client.Secret(s.Password), Heartbeat: 400 * time.Millisecond,
			Tokens: client.FileStore(filepath.Join(folder, fmt.Sprint("tokens", i))),
		}
		begun.Add(1)
		p := &stormProgram{
			t: t, url: "http://" + proxy.listener.Addr().String(), options: o,
			last: &last, newest: map[stream.Series]uint64{}, begin: sync.OnceFunc(begun.Done),
		}
		programs = append(programs, p)
		running.Go(func() {
			pprof.Do(t.Context(), pprof.Labels(stormLabel, t.Name()), func(context.Context) { p.run(storm) })
		})
	}
	begun.Wait() // a program without a trade would have nothing to recover
	time.AfterFunc(stormTime(), over)
	broken, restarts, breaks := 0, 0, 10 // of connections between two restarts
	if testing.Short() {
		breaks = 3
	}
	for storm.Err() == nil {
		time.Sleep(rand.N(2 * time.Second))
		proxy.kill(kills[rand.N(len(kills))])
		if broken++; broken%breaks == 0 {
			s.Restart()
			restarts++
		}
	}
	if restarts == 0 {
		t.Error("the gateway did not restart")
	}
	source.Wait()
	last.Store(total)
	running.Wait()
	leaks(t)
	f := stormFigures{}
	for _, p := range programs {
		f.add(&p.figures)
		t.Logf("longest time without a live stream: %v\n%s", p.longest, strings.Join(p.why, "\n"))
	}
	t.Logf("figure: storm of %v: %d times connections broken, %d restarts, %d clients, %d loops, %d changes of the set, %d requests, %d trades, %d ranges recovered, 0 lost",
		stormTime(), broken, restarts, f.clients.Load(), f.loops.Load(), f.changes.Load(), f.requests.Load(), f.trades.Load(), f.recovered.Load())
}

// leaks checks that no goroutine of a client is left.
func leaks(t *testing.T) {
	t.Helper()
	var profile bytes.Buffer
	label := fmt.Sprintf("%q:%q", stormLabel, t.Name())
	for range 500 { // goroutines of net/http end a little later
		profile.Reset()
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(profile.String(), label) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, group := range strings.Split(profile.String(), "\n\n") {
		if strings.Contains(group, label) {
			t.Errorf("goroutines are left:\n%s", group)
		}
	}
}

// stormFigures count what programs have done.
type stormFigures struct{ clients, loops, changes, requests, trades, recovered atomic.Int64 }

func (f *stormFigures) add(other *stormFigures) {
	f.clients.Add(other.clients.Load())
	f.loops.Add(other.loops.Load())
	f.changes.Add(other.changes.Load())
	f.requests.Add(other.requests.Load())
	f.trades.Add(other.trades.Load())
	f.recovered.Add(other.recovered.Load())
}

// stormProgram is a program with a client, which it replaces from time to time.
type stormProgram struct {
	t       *testing.T
	url     string
	options client.Options
	last    *atomic.Uint64
	newest  map[stream.Series]uint64 // trades by series
	begin   func()                   // called with the first trade of the steady instrument
	figures stormFigures

	mu     sync.Mutex
	client *client.Client
	all    []*client.Client

	away    time.Time     // when the stream was last live; zero: it is
	causes  []string      // of not being live
	left    bool          // the program left the last loop by break
	longest time.Duration // that it was not live
	why     []string
}

// run runs the program until the storm is over, and then until it has the last trade.
func (p *stormProgram) run(storm context.Context) {
	defer p.begin()
	p.replace(nil)
	var others sync.WaitGroup
	for _, do := range []func(context.Context, *client.Client){p.change, p.change, p.read, p.request} {
		others.Go(func() {
			for storm.Err() == nil {
				do(storm, p.current())
				time.Sleep(rand.N(100 * time.Millisecond))
			}
		})
	}
	for p.loop(storm) {
		if !p.left && rand.N(8) == 0 { // else the event in progress would come again
			k := p.current().Checkpoint()
			p.replace(&k)
		}
	}
	others.Wait()
	for _, c := range p.all {
		c.Close() // again: a request may have opened a connection meanwhile
	}
}

func (p *stormProgram) current() *client.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// replace begins to use another client, which continues where the one before has stopped.
func (p *stormProgram) replace(k *client.Checkpoint) {
	o := p.options
	o.Resume = k
	c, err := client.New([]string{p.url}, o)
	if err == nil {
		err = c.Subscribe(client.Set{Trades: []string{ggal}})
	}
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	before := p.client
	p.client, p.all = c, append(p.all, c)
	p.mu.Unlock()
	if before != nil {
		before.Close()
	}
	p.figures.clients.Add(1)
}

// loop iterates over events for a while. It reports false when the program has the last trade.
func (p *stormProgram) loop(storm context.Context) (more bool) {
	c := p.current()
	limit := rand.N(3 * time.Second)
	if storm.Err() != nil {
		limit = 2 * time.Minute // for the rest
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	p.figures.loops.Add(1)
	p.left = false
	steady := stream.Series{Instrument: instrument(p.t, ggal).ID}
	for ev := range c.Events(ctx) {
		p.add(ev, steady)
		last := p.last.Load()
		if last > 0 && p.newest[steady] == last {
			return false
		}
		if last == 0 && rand.N(2000) == 0 {
			p.left = true
			break
		}
	}
	if err := c.Err(); err != nil {
		p.t.Errorf("the gateway refuses the client for good: %v", err)
		return false
	}
	if limit == 2*time.Minute && p.last.Load() > 0 {
		p.t.Errorf("trade %d of %d after the storm, %+v: %q", p.newest[steady], p.last.Load(), c.Health(), p.causes)
		return false
	}
	return true
}

// add checks an event. A series is in order, and that of steady complete.
func (p *stormProgram) add(ev client.Event, steady stream.Series) {
	switch ev := ev.(type) {
	case *client.Trade:
		s := stream.Series{Instrument: ev.Instrument}
		before := p.newest[s]
		if ev.N <= before || s == steady && before > 0 && ev.N != before+1 {
			p.t.Errorf("%s: trade %d after %d", ev.Instrument, ev.N, before)
		}
		if p.newest[s] = ev.N; s == steady {
			p.begin()
		}
		p.figures.trades.Add(1)
	case client.Lost:
		if ev.Series == steady {
			p.t.Errorf("%v, and the gateway has it", ev)
		}
	case client.Recovered:
		p.figures.recovered.Add(1)
	case client.StateChange:
		p.note(ev)
	}
}

// note measures how long the stream was not live.
func (p *stormProgram) note(ev client.StateChange) {
	if ev.State != client.Live {
		if p.away.IsZero() {
			p.away = time.Now()
		}
		p.causes = append(p.causes, fmt.Sprintf("%.1fs %v %v %v", time.Since(p.away).Seconds(), ev.State, ev.Err, ev.Wait))
		return
	}
	if out := time.Since(p.away); !p.away.IsZero() && out > p.longest {
		p.longest, p.why = out, p.causes
	}
	p.away, p.causes = time.Time{}, nil
}

// change adds something to the set, or removes it.
func (p *stormProgram) change(_ context.Context, c *client.Client) {
	sets := []client.Set{
		{Trades: []string{al30, "SOJ|MATBA|CI"}, Quotes: []string{"*|BYMA|*"}},
		{Trades: []string{"*|BYMA|*"}},
		{Trades: []string{"*|MATBA|*"}, Status: []string{"*|*|*"}, Bars: []string{"*|BYMA|*|1s"}},
		{Books: []string{ggal, al30}, Depth: 10, Conflate: 100 * time.Millisecond},
		{Books: []string{ggal}, Summary: []string{ggal, al30}},
	}
	do := c.Subscribe
	if rand.N(2) == 0 {
		do = c.Unsubscribe
	}
	if err := do(sets[rand.N(len(sets))]); err != nil {
		p.t.Error(err)
	}
	p.figures.changes.Add(1)
}

// read reads what is in memory.
func (p *stormProgram) read(_ context.Context, c *client.Client) {
	if b, err := c.Book(ggal); err == nil && !b.Valid() {
		p.t.Error("a book that is not valid")
	}
	_, _, _ = c.Health(), c.Subscriptions(), c.Checkpoint()
	if rand.N(20) == 0 {
		c.Close() // idle connections
	}
}

// request reads history. A connection that breaks is an error of it.
func (p *stormProgram) request(storm context.Context, c *client.Client) {
	ctx, cancel := context.WithTimeout(storm, time.Second)
	defer cancel()
	n := uint64(0)
	for x, err := range c.Trades(ctx, ggal, client.Range{Limit: 3}) {
		if err != nil {
			break
		}
		if x.N != n+1 {
			p.t.Errorf("history has trade %d after %d", x.N, n)
		}
		n = x.N
	}
	p.figures.requests.Add(1)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/wire"
)

// follower is a client that checks each trade that it receives. It keeps sums of hashes, so that
// thousands of them can be compared with the log.
type follower struct {
	name    string
	mu      sync.Mutex
	series  map[string]*series
	count   int
	wrong   []string
	newest  time.Time     // of the last trade
	silence time.Duration // longest time without a trade, since it was reset
	ends    int           // of connections, since it was reset
	away    time.Time     // when its connection ended; zero: it has nothing to resume
	resume  time.Duration // longest time from such an end to the end of the resume, since it was reset
	total   int           // ends of connections
	at      []time.Time   // of ends of connections, since forget
	hints   int           // warnings that the gateway stops, since forget
}

// followed are the patterns that clients follow: the simulated market, and that of the producer.
var followed = []string{"*|BYMA|*", "*|RIG|*"}

// series is what a client has received of an instrument: all rows from first to last.
type series struct{ first, last, sum uint64 }

// hashOf returns the hash of a message.
func hashOf(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text) // it returns nil
	return h.Sum64()
}

func (f *follower) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// trade notes a trade, cancel or correction.
func (f *follower) trade(id string, n uint64, text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	s := f.series[id]
	if s == nil {
		s = &series{first: n, last: n - 1}
		f.series[id] = s
	}
	if n != s.last+1 {
		f.wrong = append(f.wrong, fmt.Sprintf("%s: N %d after %d", id, n, s.last))
	}
	s.last = n
	s.sum += hashOf(text)
	f.count++
	if !f.newest.IsZero() {
		f.silence = max(f.silence, now.Sub(f.newest))
	}
	f.newest = now
}

// ended notes the end of a connection.
func (f *follower) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.ends++
	f.total++
	f.at = append(f.at, now)
	if f.away.IsZero() {
		f.away = now
	}
}

// resumed notes that nothing is missing any more after the end of a connection.
func (f *follower) resumed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.away.IsZero() {
		f.resume = max(f.resume, time.Since(f.away))
		f.away = time.Time{}
	}
}

// hint notes that the gateway asked the client to connect again later.
func (f *follower) hint() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hints++
}

// forget forgets the ends and hints.
func (f *follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.hints = nil, 0
}

// reset returns the longest silence, the longest time of a resume, and the number of ends of
// connections since the last call.
func (f *follower) reset() (silence, resume time.Duration, ends int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	silence, resume, ends = f.silence, f.resume, f.ends
	f.silence, f.resume, f.ends = 0, 0, 0
	return silence, resume, ends
}

// received returns the number of trades.
func (f *follower) received() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// lasts returns the newest N of each instrument.
func (f *follower) lasts() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[string]uint64, len(f.series))
	for id, s := range f.series {
		m[id] = s.last
	}
	return m
}

// dialFrom returns a function that connects from an address of the loopback network, of which each
// client has its own.
func dialFrom(number int) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+number/250), byte(1+number%250))}, Timeout: 5 * time.Second}
	return d.DialContext
}

// given are tokens that a client has without a login.
type given client.Tokens

// Load implements client.TokenStore.
func (g given) Load(context.Context) (client.Tokens, error) { return client.Tokens(g), nil }

// Save implements client.TokenStore.
func (given) Save(context.Context, client.Tokens) error { return nil }

// follow starts a client of package client that logs in as the demo user.
func (r *rig) follow(ctx context.Context, all *sync.WaitGroup) *follower {
	r.t.Helper()
	return r.followAs(ctx, all, client.Options{Username: command.DemoUser, Password: command.DemoUser})
}

// followAs starts a client of package client that receives all trades until the context ends. It
// comes through the balancer.
func (r *rig) followAs(ctx context.Context, all *sync.WaitGroup, o client.Options) *follower {
	r.t.Helper()
	f := &follower{name: "client", series: map[string]*series{}}
	o.Strict, o.Queue, o.Heartbeat = true, 1<<14, 2*time.Second
	c, err := client.New([]string{"http://" + r.balancer.address()}, o)
	if err == nil {
		err = c.Subscribe(client.Set{Trades: followed})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	all.Go(func() {
		for e := range c.Events(ctx) {
			switch e := e.(type) {
			case *client.Trade:
				f.trade(e.Instrument.String(), e.N, e.Raw())
			case client.Lost:
				f.fail("lost %v", e)
			case client.StateChange:
				switch e.State {
				case client.Waiting:
					f.ended()
				case client.Live:
					f.resumed()
				}
			}
		}
		if err := c.Err(); err != nil && ctx.Err() == nil {
			f.fail("the client ended: %v", err)
		}
	})
	return f
}

// raw is a client that speaks the protocol itself. Half of them resume by N, and half by position.
type raw struct {
	follower
	rig      *rig
	number   int
	token    string
	names    []string          // that it resumes by N; nil: patterns, by position
	ids      map[string]string // identifiers that it has seen
	epoch    string
	position string
	before   map[string]uint64 // newest N of each instrument at the start of the connection
	here     map[string]uint64 // newest N of each instrument on the connection
	bound    time.Duration     // of the next pause
}

// The bounds of a random pause before a client connects again, as the protocol states them.
const (
	firstBound = 500 * time.Millisecond
	lastBound  = 30 * time.Second
)

// followRaw starts a client without package client. It connects to the edges themselves, at first
// after a random part of a spread.
func (r *rig) followRaw(ctx context.Context, all *sync.WaitGroup, number int, token string, names []string, spread time.Duration) *follower {
	c := &raw{rig: r, number: number, token: token, names: names, ids: map[string]string{}, follower: follower{name: fmt.Sprint("raw ", number), series: map[string]*series{}}}
	c.bound = firstBound
	all.Go(func() {
		pause(ctx, rand.N(spread))
		for edge := number % len(r.edges); ctx.Err() == nil; edge = another(edge, len(r.edges)) {
			if err := c.connect(ctx, r.edges[edge].address); err != nil && ctx.Err() == nil {
				c.fail("%v", err)
				return
			}
			pause(ctx, rand.N(c.bound))
			c.bound = min(2*c.bound, lastBound)
		}
	})
	return &c.follower
}

// another returns a random number below n other than i, if there is one.
func another(i, n int) int {
	if n < 2 {
		return i
	}
	return (i + 1 + rand.IntN(n-1)) % n
}

// rawMessage is a message of the stream, in part.
type rawMessage struct {
	Type, Action, Epoch, Position, Reason string
	Lost, Rejected                        json.RawMessage
}

// connect follows over one connection until it ends. The end of the connection is not an error; a
// violation of the protocol is one.
func (c *raw) connect(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // it closes the connection
	ws, err := dialRaw(ctx, c.number, address)
	if err != nil {
		return nil // the edge does not run, or does not accept clients
	}
	defer c.ended()
	err = ws.send(map[string]any{"action": "auth_token", "token": c.token, "session": fmt.Sprint("raw-", c.number)})
	if err == nil {
		err = ws.send(c.subscribe())
	}
	for err == nil {
		var text []byte
		if text, err = ws.next(); err != nil {
			break
		}
		if id, n, ok := rowOf(text); ok {
			c.row(c.intern(id), n, text)
			continue
		}
		if bytes.HasPrefix(text, []byte(`{"type":"H",`)) {
			continue // a status or a gap
		}
		var m rawMessage
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("%w: %.200q", err, text)
		}
		if err := c.message(&m, text); err != nil {
			return err
		}
		switch {
		case m.Action == "ping":
			err = ws.send(map[string]string{"action": "pong"})
		case m.Type == "Error":
			return nil
		}
	}
	if errors.Is(err, errProtocol) {
		return err
	}
	return nil // the connection has ended
}

// intern returns id as a string. It allocates one string for each identifier.
func (c *raw) intern(id []byte) string {
	s, ok := c.ids[string(id)]
	if !ok {
		s = string(id)
		c.ids[s] = s
	}
	return s
}

// subscribe returns the message that subscribes, and resumes what was received.
func (c *raw) subscribe() map[string]any {
	m := map[string]any{"action": "subscribe", "trades": followed, "alive": true}
	resume := map[string]any{"epoch": c.epoch, "position": c.position}
	c.before, c.here = c.lasts(), map[string]uint64{}
	if c.names != nil {
		m["trades"] = c.names
		resume["trades"] = c.before
	}
	if c.epoch != "" {
		m["resume"] = resume
	}
	return m
}

// message handles a message.
func (c *raw) message(m *rawMessage, text []byte) error {
	if m.Position != "" {
		c.position = m.Position
	}
	switch m.Type {
	case "Subscription", "CaughtUp":
		if len(m.Lost) > 0 || len(m.Rejected) > 0 || c.epoch != "" && m.Epoch != c.epoch {
			return fmt.Errorf("after epoch %s: %s", c.epoch, text)
		}
		if m.Type == "CaughtUp" || c.epoch == "" {
			c.resumed()
			c.bound = firstBound
		}
		c.epoch = m.Epoch
	case "T", "X", "C":
		return fmt.Errorf("a row in another form: %s", text)
	case "Warning":
		if wire.Reason(m.Reason) == wire.ShuttingDown {
			c.hint()
		}
	case "Error":
		switch wire.Reason(m.Reason) {
		case wire.ShuttingDown, wire.Overloaded, wire.SlowClient, wire.Unavailable:
		default:
			return fmt.Errorf("refused: %s", text)
		}
	}
	return nil
}

// row handles a trade, cancel or correction. Those of a connection follow one another. A resume by
// position may repeat what came on an earlier connection, also after CaughtUp if this edge is behind
// the previous one.
func (c *raw) row(id string, n uint64, text []byte) {
	if last, ok := c.here[id]; ok && n != last+1 {
		c.fail("%s: N %d after %d on one connection", id, n, last)
	}
	c.here[id] = n
	if c.names == nil && n <= c.before[id] {
		return
	}
	c.trade(id, n, text)
}

// Of the clients with package client.
const (
	withPassword = 80  // of the demo user, which may have 100 connections
	withPackage  = 500 // the others have a token
)

// clientsOfBot is how many clients share the token of a user.
const clientsOfBot = 10

// swarm starts the clients of the rig: a fifth of them with package client, up to a limit, and the
// others without it. They connect over a millisecond for each.
func (r *rig) swarm(ctx context.Context, all *sync.WaitGroup) (list []*follower) {
	r.t.Helper()
	var token string
	var names []string
	spread := time.Duration(r.clients) * time.Millisecond
	for i := range r.clients {
		if i%clientsOfBot == 0 {
			token = r.login(i / clientsOfBot)
		}
		if i == 0 {
			names = r.instruments(token)
		}
		switch {
		case i%5 == 0 && i/5 < withPassword:
			list = append(list, r.follow(ctx, all))
		case i%5 == 0 && i/5 < withPackage:
			list = append(list, r.followAs(ctx, all, client.Options{Tokens: given{Access: client.Secret(token), Expires: time.Now().Add(20 * time.Hour)}}))
		case i%2 == 0:
			list = append(list, r.followRaw(ctx, all, i, token, names, spread))
		default:
			list = append(list, r.followRaw(ctx, all, i, token, nil, spread))
		}
	}
	return list
}

// instruments waits for the instrument of the producer, and returns all that clients follow.
func (r *rig) instruments(token string) (names []string) {
	r.t.Helper()
	for until := time.Now().Add(time.Minute); !slices.Contains(names, ownInstrument); {
		if time.Now().After(until) {
			r.t.Fatalf("%s is not one of the instruments %q", ownInstrument, names)
		}
		time.Sleep(20 * time.Millisecond)
		names = slices.DeleteFunc(r.listed(token), func(x string) bool { return !strings.Contains(x, "|BYMA|") && x != ownInstrument })
	}
	return names
}

// listed returns the names of all instruments.
func (r *rig) listed(token string) (names []string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.edges[0].address+"/market/instruments?limit=1000", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		Data struct {
			Instruments []struct{ Instrument string }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		r.t.Fatal(err)
	}
	for _, x := range list.Data.Instruments {
		names = append(names, x.Instrument)
	}
	return names
}

// awaitTrades waits until all clients have received some more trades.
func (r *rig) awaitTrades(all []*follower, n int) {
	r.t.Helper()
	want := make([]int, len(all))
	for i, f := range all {
		want[i] = f.received() + n
	}
	until := time.Now().Add(2 * time.Minute)
	for i, f := range all {
		for f.received() < want[i] {
			if time.Now().After(until) {
				f.mu.Lock()
				wrong := slices.Clone(f.wrong)
				f.mu.Unlock()
				r.t.Fatalf("client %d (%s) receives nothing: %q", i, f.name, wrong)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// awaitEnd waits until all clients have the newest rows that one of them has.
func (r *rig) awaitEnd(all []*follower) {
	r.t.Helper()
	until := time.Now().Add(2 * time.Minute)
	for {
		newest := map[string]uint64{}
		for _, f := range all {
			for id, n := range f.lasts() {
				newest[id] = max(newest[id], n)
			}
		}
		late := ""
		for i, f := range all {
			for id, n := range f.lasts() {
				if n < newest[id] {
					late = fmt.Sprintf("client %d (%s) has %s up to %d of %d", i, f.name, id, n, newest[id])
				}
			}
		}
		switch {
		case late == "":
			return
		case time.Now().After(until):
			r.t.Errorf("after the end: %s", late)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// logged are the trades of an instrument in the log: sums[i] is that of the first i ones.
type logged struct {
	first uint64
	sums  []uint64
	ids   []string // of the trades of the producer
}

// readLog reads the journal of a node, and checks that its positions have no gap. It returns the
// trades of each instrument, and the hash of the rows.
func (r *rig) readLog(p *process) (log map[string]*logged, hash string) {
	t := r.t
	t.Helper()
	j, err := journal.OpenReader(t.Context(), filepath.Join(r.folder, p.name, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	log = map[string]*logged{}
	last := uint64(0)
	var text []byte
	err = j.Scan(t.Context(), journal.ScanStart{}, nil, ^journal.Checkpoints, func(row *journal.Row) bool {
		if row.Position != last+1 {
			t.Errorf("%s: position %d comes after %d", p.name, row.Position, last)
		}
		last = row.Position
		if row.Kind != journal.Trade && row.Kind != journal.Cancel && row.Kind != journal.Correct {
			return true
		}
		def, ok := j.Instrument(row.Instrument)
		if !ok {
			t.Errorf("%s: no instrument %d", p.name, row.Instrument)
			return false
		}
		x := log[def.ID.String()]
		if x == nil {
			x = &logged{first: row.N, sums: []uint64{0}}
			log[def.ID.String()] = x
		}
		if row.N != x.first+uint64(len(x.sums))-1 {
			t.Errorf("%s: %s has N %d after %d rows from %d", p.name, def.ID, row.N, len(x.sums)-1, x.first)
		}
		text = recent.AppendRow(text[:0], wire.MakeIdent(def.ID), time.UTC, row)
		x.sums = append(x.sums, x.sums[len(x.sums)-1]+hashOf(text))
		if def.ID.String() == ownInstrument {
			x.ids = append(x.ids, row.ID)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if hash, err = j.Hash(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d rows, hash %.12s", p.name, last, hash)
	return log, hash
}

// checkAll stops the sequencers, waits until the clients have all rows, and stops them and the
// edges. It checks that the journals have the same rows, and that each client has received those
// of the log, byte for byte, each once.
func (r *rig) checkAll(all []*follower, cancel context.CancelFunc, running *sync.WaitGroup) map[string]*logged {
	t := r.t
	t.Helper()
	for _, p := range r.nodes[:2] {
		p.signal(syscall.SIGTERM)
	}
	r.awaitEnd(all)
	cancel()
	running.Wait()
	for _, p := range r.edges {
		p.signal(syscall.SIGTERM)
	}
	var log map[string]*logged
	first := ""
	for i, p := range r.edges {
		own, hash := r.readLog(p)
		if i == 0 {
			log, first = own, hash
		} else if hash != first {
			t.Errorf("the journal of %s differs", p.name)
		}
	}
	rows, ends := 0, 0
	for i, f := range all {
		for _, text := range f.wrong {
			t.Errorf("client %d (%s): %s", i, f.name, text)
		}
		for id, s := range f.series {
			if err := s.compare(log[id]); err != nil {
				t.Errorf("client %d (%s): %s: %v", i, f.name, id, err)
			}
		}
		if f.count < 100 {
			t.Errorf("client %d (%s) has only %d trades", i, f.name, f.count)
		}
		rows, ends = rows+f.count, ends+f.total
	}
	t.Logf("figure: %d clients, %d trades, %d connections ended; none was lost or doubled", len(all), rows, ends)
	return log
}

// compare compares what a client has with the log.
func (s *series) compare(l *logged) error {
	switch {
	case l == nil:
		return errors.New("the log does not have it")
	case s.first < l.first || s.last != l.first+uint64(len(l.sums))-2:
		return fmt.Errorf("received %d to %d, the log has %d to %d", s.first, s.last, l.first, l.first+uint64(len(l.sums))-2)
	case s.sum != l.sums[s.last+1-l.first]-l.sums[s.first-l.first]:
		return fmt.Errorf("other content than the log between %d and %d", s.first, s.last)
	}
	return nil
}

// TestCompare checks that a lost, doubled or changed row is found.
func TestCompare(t *testing.T) {
	f := follower{series: map[string]*series{}}
	l := &logged{first: 5, sums: []uint64{0}}
	for n := uint64(5); n < 10; n++ {
		text := fmt.Appendf(nil, "row %d", n)
		l.sums = append(l.sums, l.sums[len(l.sums)-1]+hashOf(text))
		if n >= 7 {
			f.trade("A|B|C", n, text)
		}
	}
	s := f.series["A|B|C"]
	if err := s.compare(l); err != nil || len(f.wrong) > 0 {
		t.Errorf("the same rows: %v, %q", err, f.wrong)
	}
	for name, wrong := range map[string]series{"a changed row": {7, 9, s.sum + 1}, "a lost end": {7, 8, s.sum}, "a row too many": {7, 10, s.sum}, "before the log": {4, 9, s.sum}} {
		if wrong.compare(l) == nil {
			t.Errorf("%s was not found", name)
		}
	}
	f.trade("A|B|C", 9, nil)
	f.trade("A|B|C", 11, nil)
	if len(f.wrong) != 2 {
		t.Errorf("a doubled and a lost row: %q", f.wrong)
	}
}

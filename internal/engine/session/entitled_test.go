package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
)

// TestThreat23EntitlementEscalation makes random changes of rights, random subscriptions (patterns
// too) and random events, and checks every frame that a client receives. No frame exceeds the
// user's rights at that time, and none is early. No trade comes twice, and none that the user may
// have is missing.
func TestThreat23EntitlementEscalation(t *testing.T) {
	steps, runs := 2_000, 10
	if os.Getenv("RUEDA_SOAK") != "" {
		steps, runs = 100_000, 200
	}
	var sum tally
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			w := newEntitledWorld(t, uint64(seed))
			for i := range steps / runs {
				w.step(i)
			}
			w.end()
			sum.add(w.tally)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if sum.frames < steps/2 || sum.late < steps/20 || sum.changes < steps/20 || sum.followed < steps/100 {
		t.Errorf("too little was seen: %+v", sum)
	}
	t.Logf("figure: entitlements: %d steps, %d changes of rights, %d data frames, %d of them delayed, %d moves to another delay, %d trades followed across one", steps, sum.changes, sum.frames, sum.late, sum.moves, sum.followed)
}

// tally has the counts of a run.
type tally struct{ changes, frames, late, moves, followed int }

func (t *tally) add(o tally) {
	t.changes, t.frames, t.late = t.changes+o.changes, t.frames+o.frames, t.late+o.late
	t.moves, t.followed = t.moves+o.moves, t.followed+o.followed
}

var (
	entitledNames    = []string{"A|M1|X", "B|M1|X", "C|M1|Y", "D|M2|X", "E|M2|Y"}
	entitledPatterns = []string{"*|M1|*", "*|M1|X", "*|M2|*", "*|*|*", "A|*|*", "*|*|Y"}
	entitledDelays   = []int{5, 20}
)

// entitledWorld is a market with clients of one goroutine.
type entitledWorld struct {
	t       *testing.T
	rng     *rand.Rand
	hub     *hub.Hub
	shard   *subscription.Shard
	env     *session.Env
	handles []market.Handle
	traded  map[string]uint64 // N of the last trade
	clients []*entitledClient
	tally
}

func newEntitledWorld(t *testing.T, seed uint64) *entitledWorld {
	w := &entitledWorld{t: t, rng: rand.New(rand.NewPCG(seed, 23)), traded: map[string]uint64{}}
	var delays []time.Duration
	for _, d := range entitledDelays {
		delays = append(delays, time.Duration(d)*time.Second)
	}
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	w.hub = hub.New(hub.Config{Journal: j, Delays: delays})
	if err := w.hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = w.hub.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait(); _ = j.Close() })
	w.shard = subscription.NewShard(w.hub, func(bool) {})
	w.env = &session.Env{
		Version:  "test",
		Registry: &session.Registry{}, Origin: time.Now(), BookWildcards: true,
		MessagesPerSecond: 1 << 20, Subscriptions: 1 << 20, BadMessages: 1 << 20, PingInterval: time.Hour,
	}
	if seed%2 == 1 {
		w.env.SetPiece(1)
	}
	for i, name := range entitledNames {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.hub.Define(market.Instrument{ID: id, StartsEmpty: true, QuotesFromFeed: i%2 == 1})
		if err != nil {
			t.Fatal(err)
		}
		w.handles = append(w.handles, h)
	}
	for i := range 3 {
		c := &entitledClient{w: w, user: fmt.Sprintf("u%d", i/2), set: map[entry]bool{}, follows: map[string]*followed{}, books: map[string]book{}, sess: new(session.Session)}
		c.grants = w.randomGrants()
		if i == 1 {
			c.grants = w.clients[0].grants // another connection of the same user
		}
		id := &session.Identity{User: c.user, Family: "f", Expires: time.Now().Add(1e6 * time.Second), Grants: *c.grants}
		c.sess.Start(w.env, session.Peer{Identity: id}, w.shard, c, time.Now())
		w.clients = append(w.clients, c)
		t.Cleanup(c.sess.PeerGone)
		c.take()
	}
	return w
}

// randomGrants returns rights to a few markets, some limited in time, and sometimes fewer scopes.
func (w *entitledWorld) randomGrants() *session.Grants {
	g := &session.Grants{Scopes: []string{"marketdata:read"}}
	for _, scope := range []string{"marketdata:depth", "marketdata:wildcard"} {
		if w.rng.IntN(8) > 0 {
			g.Scopes = append(g.Scopes, scope)
		}
	}
	for range 1 + w.rng.IntN(4) {
		r := broker.Entitlement{
			Market: []string{"M1", "M1", "M2", "*"}[w.rng.IntN(4)],
			Trades: w.rng.IntN(4) > 0, Quotes: w.rng.IntN(3) > 0,
			Depth: []int{0, 1, 5, -1}[w.rng.IntN(4)],
			Delay: []int{0, 0, 5, 20}[w.rng.IntN(4)],
		}
		if w.rng.IntN(3) == 0 {
			r.From = time.Now().Add(time.Duration(w.rng.IntN(20)) * time.Second)
		}
		if w.rng.IntN(3) == 0 {
			r.Until = time.Now().Add(time.Duration(w.rng.IntN(40)) * time.Second)
		}
		if w.rng.IntN(5) == 0 {
			r.Instruments = 1 + w.rng.IntN(3)
		}
		g.Rights = append(g.Rights, r)
	}
	return g
}

// keepDelays has the data of delays loaded, so that nobody waits for it.
func keepDelays(t *testing.T, hub *hub.Hub, delays ...int) {
	t.Helper()
	for _, d := range delays {
		if err := hub.AwaitDelay(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// step does one random action.
func (w *entitledWorld) step(i int) {
	keepDelays(w.t, w.hub, entitledDelays...)
	switch w.rng.IntN(12) {
	case 0:
		c := w.clients[w.rng.IntN(len(w.clients))]
		g, user := w.randomGrants(), c.user
		if w.rng.IntN(3) > 0 { // the same at other delays
			*g = *c.grants
			g.Rights = slices.Clone(g.Rights)
			for i := range g.Rights {
				g.Rights[i].Delay = []int{0, 5, 20}[w.rng.IntN(3)]
			}
		}
		w.env.Registry.GrantsChanged(user, *g)
		for _, c := range w.clients {
			if c.user == user {
				c.grants = g
				c.hear()
			}
		}
		w.changes++
	case 1, 2, 3:
		switch c := w.clients[w.rng.IntN(len(w.clients))]; {
		case c.paused > 0:
		case w.rng.IntN(8) == 0:
			c.paused = 1 + w.rng.IntN(10)
		case w.rng.IntN(3) == 0:
			c.unsubscribe()
		default:
			c.subscribe()
		}
	case 4:
		w.pass(time.Duration(w.rng.IntN(8_000)) * time.Millisecond)
	default:
		for range 1 + w.rng.IntN(3) {
			w.publish(i)
		}
	}
	for _, c := range w.clients {
		c.paused = max(0, c.paused-1)
	}
	w.pass(time.Duration(w.rng.IntN(700)) * time.Millisecond)
	w.look()
}

// pass advances time, in steps of the sessions' deadlines.
func (w *entitledWorld) pass(span time.Duration) {
	end := time.Now().Add(span)
	for {
		next := end
		for _, c := range w.clients {
			if d := c.sess.Deadline(); !d.IsZero() && d.Before(next) {
				next = d
			}
		}
		time.Sleep(max(0, time.Until(next)))
		synctest.Wait()
		now := time.Now()
		for _, c := range w.clients {
			if d := c.sess.Deadline(); !d.IsZero() && !d.After(now) {
				c.sess.Handle(now, session.Event{Kind: session.Timer})
			}
		}
		w.look()
		if !now.Before(end) {
			return
		}
	}
}

// look makes all clients read pending messages.
func (w *entitledWorld) look() {
	for w.shard.Turn(); w.shard.Next() != nil; {
	}
	for _, c := range w.clients {
		if c.nextPiece(); c.paused == 0 {
			c.take()
		}
	}
}

func (w *entitledWorld) publish(i int) {
	k := w.rng.IntN(len(w.handles))
	level := func(p int64) market.Level {
		return market.Level{Price: market.Price(p * int64(market.Scale)), Size: market.Size((1 + w.rng.Int64N(9)) * int64(market.Scale))}
	}
	e := market.Event{Handle: w.handles[k], Time: time.Now().UnixNano()}
	switch w.rng.IntN(5) {
	case 0:
		if k%2 == 0 {
			e.Kind = market.KindSnapshot
			e.Bids, e.Asks = []market.Level{level(90 + w.rng.Int64N(5))}, []market.Level{level(100 + w.rng.Int64N(5))}
			break
		}
		e.Kind = market.KindQuote
		e.Bids, e.Asks = []market.Level{level(90 + w.rng.Int64N(5))}, []market.Level{level(100 + w.rng.Int64N(5))}
	case 1:
		e.Kind = market.KindUpdate
		e.Bids, e.Asks = []market.Level{level(80 + w.rng.Int64N(20))}, []market.Level{level(101 + w.rng.Int64N(20))}
	case 2:
		e.Kind, e.Phase = market.KindStatus, []market.Phase{market.Open, market.Halt}[w.rng.IntN(2)]
	default:
		e.Kind, e.Price, e.Size, e.TradeID = market.KindTrade, 95*market.Scale, market.Scale, fmt.Sprint(i, w.rng.Uint32())
		w.traded[entitledNames[k]]++
	}
	if err := w.hub.Publish([]market.Event{e}); err != nil {
		w.t.Fatal(err)
	}
}

// end waits for the slowest delay, after which subscribers have received all trades.
func (w *entitledWorld) end() {
	for _, c := range w.clients {
		c.paused = 0
		g := &session.Grants{Scopes: c.grants.Scopes}
		for _, r := range c.grants.Rights { // so that no right ends meanwhile
			if r.From.After(time.Now()) || !r.Until.IsZero() && !r.Until.After(time.Now()) {
				continue
			}
			r.From, r.Until = time.Time{}, time.Time{}
			g.Rights = append(g.Rights, r)
		}
		c.grants = g
		c.sess.Handle(time.Now(), session.Event{Kind: session.GrantsChanged, Grants: g})
		c.take()
	}
	w.pass(time.Minute)
	for slices.ContainsFunc(w.clients, func(c *entitledClient) bool { return len(c.pieces) > 0 }) {
		w.look()
	}
	w.pass(time.Minute)
	for _, c := range w.clients {
		for name, f := range c.follows {
			if f.n != 0 && f.n != w.traded[name] {
				w.t.Fatalf("%s: trades of %s came up to %d of %d\n%s", c.user, name, f.n, w.traded[name], c.story())
			}
		}
	}
}

// entitledClient is a simple client that knows its rights and its requests.
type entitledClient struct {
	w       *entitledWorld
	user    string
	sess    *session.Session
	grants  *session.Grants
	notices []session.Event
	pieces  []session.Event // NextPiece
	set     map[entry]bool
	follows map[string]*followed // instruments whose trades are subscribed
	paused  int                  // steps for which it reads nothing
	books   map[string]book
	log     []string
}

// followed is the newest trade of an instrument; 0: none yet.
type followed struct {
	n     uint64
	moved bool
}

func (c *entitledClient) Post(n session.Event) {
	if n.Kind == session.NextPiece {
		c.pieces = append(c.pieces, n)
		return
	}
	c.notices = append(c.notices, n)
}

// nextPiece handles a piece of a message, if one is left.
func (c *entitledClient) nextPiece() {
	if len(c.pieces) > 0 {
		n := c.pieces[0]
		c.pieces = c.pieces[1:]
		c.sess.Handle(time.Now(), n)
	}
}

func (c *entitledClient) hear() {
	for len(c.notices) > 0 {
		n := c.notices[0]
		c.notices = c.notices[1:]
		c.sess.Handle(time.Now(), n)
		if n.Grants != nil {
			c.note(fmt.Sprintf("rights %+v", *n.Grants))
		}
	}
	if c.paused == 0 {
		c.take()
	}
}

func (c *entitledClient) note(text string) {
	c.log = append(c.log, time.Now().Format("05.000 ")+text)
}

func (c *entitledClient) story() string {
	return strings.Join(c.log[max(0, len(c.log)-25):], "\n")
}

func (c *entitledClient) subscribe() {
	rng := c.w.rng
	list := func() []string {
		names := []string{}
		for range rng.IntN(3) {
			if rng.IntN(4) == 0 {
				names = append(names, entitledPatterns[rng.IntN(len(entitledPatterns))])
			} else {
				names = append(names, entitledNames[rng.IntN(len(entitledNames))])
			}
		}
		return names
	}
	c.send(map[string]any{
		"action": "subscribe", "replace": rng.IntN(8) == 0, "depth": []int{0, 1, 5}[rng.IntN(3)],
		"trades": list(), "quotes": list(), "order_book": list(), "status": list(), "summary": list(), "bars": list(),
	})
}

func (c *entitledClient) unsubscribe() {
	trades, quotes := []string{}, []string{}
	for e := range c.set {
		if e.channel == "trades" {
			trades = append(trades, e.name)
		} else if e.channel == "quotes" {
			quotes = append(quotes, e.name)
		}
	}
	slices.Sort(trades)
	slices.Sort(quotes)
	c.send(map[string]any{"action": "unsubscribe", "trades": trades[:min(1, len(trades))], "quotes": quotes[:min(1, len(quotes))]})
}

func (c *entitledClient) send(m map[string]any) {
	text, err := json.Marshal(m)
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.note("> " + string(text))
	asyncapitest.Sent(c.w.t, text)
	c.sess.Handle(time.Now(), session.Event{Kind: session.Text, Message: text})
	c.take()
}

// entitledMessage has the members that a client checks.
type entitledMessage struct {
	Type, Msg, I, T, Reason string
	N, DE                   uint64
	D                       *int64
	DL                      int
	L                       uint64
	R                       bool
	Trades, Quotes, Status  []string
	OrderBook               []string `json:"order_book"`
	Summary, Bars           []string
	Removed                 []struct{ Channel, Instrument string }
	Moved                   []struct{ Channel, Instrument string }
	Lost                    map[string]json.RawMessage
}

// take reads and checks the pending messages.
func (c *entitledClient) take() {
	for {
		now := time.Now()
		b := c.sess.Output(now, nil, 64<<10)
		if len(b) == 0 {
			return
		}
		c.sess.Sent(now, len(b), len(b))
		texts, err := split(b)
		if err != nil {
			c.w.t.Fatal(err)
		}
		for _, text := range texts {
			c.note("< " + text)
			var m entitledMessage
			// D is a number in data messages, and encoding/json ignores case: members that clash
			// are read separately.
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				c.w.t.Fatalf("%v in %s", err, text)
			}
			if len(m.Type) == 1 {
				c.data(&m, text)
			} else {
				c.control(&m, text)
			}
		}
	}
}

func (c *entitledClient) control(m *entitledMessage, text string) {
	if m.Type != "Subscription" {
		if m.Type == "Error" && m.Reason == "internal" {
			c.w.t.Fatal(text)
		}
		return
	}
	lists := map[string][]string{"trades": m.Trades, "quotes": m.Quotes, "order_book": m.OrderBook, "status": m.Status, "summary": m.Summary, "bars": m.Bars}
	switch m.Msg {
	case "Subscribed":
		if strings.Contains(c.lastSent(), `"replace":true`) {
			clear(c.set)
		}
		c.insert(lists)
	case "Unsubscribed":
		for channel, names := range lists {
			for _, name := range names {
				delete(c.set, entry{channel, name})
			}
		}
	case "Rights changed":
		for _, r := range m.Removed {
			delete(c.set, entry{r.Channel, strings.TrimSuffix(r.Instrument, "|1m")})
		}
		c.w.moves += len(m.Moved)
		for _, f := range c.follows {
			f.moved = f.moved || len(m.Moved) > 0
		}
		if len(m.Lost) > 0 {
			c.w.t.Errorf("lost in memory: %s", text)
		}
	default:
		c.w.t.Errorf("unexpected %s", text)
	}
	// A new subscription starts again, and so does one that an identifier has joined.
	for _, name := range entitledNames {
		switch covered := c.covered("trades", name); {
		case !covered:
			delete(c.follows, name)
		case c.follows[name] == nil || m.Msg == "Subscribed" && len(m.Trades) > 0:
			c.follows[name] = &followed{}
		}
	}
}

func (c *entitledClient) insert(lists map[string][]string) {
	for channel, names := range lists {
		for _, name := range names {
			c.set[entry{channel, name}] = true
		}
	}
}

func (c *entitledClient) lastSent() string {
	for _, text := range slices.Backward(c.log) {
		if strings.Contains(text, " > ") {
			return text
		}
	}
	return ""
}

func (c *entitledClient) covered(channel, name string) bool {
	id, err := market.ParseInstrumentID(name)
	if err != nil {
		return false
	}
	for e := range c.set {
		if p, err := market.ParsePattern(e.name); err == nil && e.channel == channel && p.Matches(id) {
			return true
		}
	}
	return false
}

// data checks a data message.
func (c *entitledClient) data(m *entitledMessage, text string) {
	t, now := c.w.t, time.Now()
	channel := map[string]string{"T": "trades", "Q": "quotes", "O": "order_book", "H": "status", "D": "summary", "K": "bars"}[m.Type]
	c.w.frames++
	if m.DE > 0 {
		c.w.late++
	}
	// Subscribers of books or quotes are notified when the feed is down, which does not happen here.
	if !c.covered(channel, m.I) {
		t.Fatalf("%s: not subscribed: %s\n%s", c.user, text, c.story())
	}
	if m.Type == "O" {
		c.chain(m, text)
	}
	if !c.allowed(channel, m, now) {
		t.Fatalf("%s: outside of the rights %+v: %s\n%s", c.user, *c.grants, text, c.story())
	}
	at, err := time.Parse(time.RFC3339Nano, m.T)
	listing := m.N == 1 && (m.Type == "H" || m.Type == "O") // created by the delayed topic itself
	if err != nil || !listing && at.Add(time.Duration(m.DE)*time.Second).After(now) {
		t.Fatalf("%s: early at %v: %s", c.user, now.UTC(), text)
	}
	if m.Type != "K" && (m.D != nil && *m.D < int64(m.DE)*1e9) {
		t.Fatalf("%s: published early: %s", c.user, text)
	}
	if m.Type != "T" {
		return
	}
	f := c.follows[m.I]
	if f == nil {
		return // said above
	}
	if f.n != 0 && m.N != f.n+1 {
		t.Fatalf("%s: trade %d of %s follows %d: %s\n%s", c.user, m.N, m.I, f.n, text, c.story())
	}
	if f.moved && f.n != 0 {
		c.w.followed++
		f.moved = false
	}
	f.n = m.N
}

// book is the newest message of an instrument's book.
type book struct {
	depth int
	n     uint64
}

// chain checks that an update follows the previous message, and copies the depth of that.
func (c *entitledClient) chain(m *entitledMessage, text string) {
	if !m.R {
		b := c.books[m.I]
		if m.L != b.n {
			c.w.t.Fatalf("%s: an update of %d follows %d: %s\n%s", c.user, m.L, b.n, text, c.story())
		}
		m.DL = b.depth
	}
	c.books[m.I] = book{m.DL, m.N}
}

// allowed states the rule independently: a current right covers this market, this level and this
// delay, and no right covers them with a shorter delay.
func (c *entitledClient) allowed(channel string, m *entitledMessage, now time.Time) bool {
	if !slices.Contains(c.grants.Scopes, "marketdata:read") || channel == "order_book" && !slices.Contains(c.grants.Scopes, "marketdata:depth") {
		return false
	}
	_, rest, _ := strings.Cut(m.I, "|")
	name, _, _ := strings.Cut(rest, "|")
	for _, r := range c.grants.Rights {
		if r.Market != "*" && r.Market != name || now.Before(r.From) || !r.Until.IsZero() && !now.Before(r.Until) || r.Delay != int(m.DE) {
			continue
		}
		switch channel {
		case "quotes":
			if r.Quotes {
				return true
			}
		case "order_book":
			if r.Depth < 0 || m.DL > 0 && m.DL <= r.Depth {
				return true
			}
		case "status":
			if r.Trades || r.Quotes || r.Depth != 0 {
				return true
			}
		default:
			if r.Trades {
				return true
			}
		}
	}
	return false
}

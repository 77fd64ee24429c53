package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
)

// TestRecoveryModel runs random clients against a gateway with a journal and checks every frame
// that they receive. The clients use overlapping patterns, resumes by N and by position,
// unsubscribes and slow reads. In half of the runs, messages are handled in small pieces. Rights
// change, data is delayed, and the gateway restarts cleanly or after a kill.
//
// Trades and statuses must have no gap and no repetition. Updates of a book must fit together.
// Delayed data must not come early. An N of an epoch must mean the same row for every client.
func TestRecoveryModel(t *testing.T) { runRecoveryModel(t, 3) }

// TestRecoveryModelE2E runs more seeds, without the race detector.
func TestRecoveryModelE2E(t *testing.T) {
	runs := 8
	if os.Getenv("RUEDA_SOAK") != "" {
		runs = 400
	}
	runRecoveryModel(t, runs)
}

func runRecoveryModel(t *testing.T, runs int) {
	const steps = 400
	first := uint64(1)
	if s := os.Getenv("RUEDA_MODEL_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatal(err)
		}
		runs = 1
	}
	var sum recoveryCount
	for run := range runs {
		seed := first + uint64(run)
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecoveryWorld(t, seed)
				for range steps {
					w.step()
				}
				w.finish()
				sum.add(w.count)
			})
		})
		if !ok {
			return
		}
	}
	t.Logf("figure: recovery model: %d runs: %+v", runs, sum)
	if runs > 1 && (sum.Frames < runs*steps || sum.Replayed == 0 || sum.Kills == 0 || sum.Moves == 0 || sum.Pieces == 0) {
		t.Errorf("the model reached too little: %+v", sum)
	}
}

// recoveryCount counts what happened in a run.
type recoveryCount struct {
	Frames, Resumes, Replayed, Lost, Restarts, Kills, Moves, SlowClosed, Pieces int
}

func (c *recoveryCount) add(o recoveryCount) {
	c.Frames += o.Frames
	c.Resumes += o.Resumes
	c.Replayed += o.Replayed
	c.Lost += o.Lost
	c.Restarts += o.Restarts
	c.Kills += o.Kills
	c.Moves += o.Moves
	c.SlowClosed += o.SlowClosed
	c.Pieces += o.Pieces
}

var (
	recoveryNames    = []string{"A|M1|X", "B|M1|X", "C|M1|Y", "D|M2|X", "E|M2|Y"}
	recoveryPatterns = []string{"*|M1|*", "*|M1|X", "*|M2|*", "*|*|*", "A|*|*", "*|*|Y"}
	recoveryUsers    = []string{"ana", "luis"}
)

const recoveryDelay = 5 // seconds

// recoveryWorld is a gateway without sockets, with its clients.
type recoveryWorld struct {
	t       *testing.T
	rng     *rand.Rand
	seed    uint64
	folder  string
	copies  int
	perTurn int
	kept    int

	journal *journal.Journal
	hub     *hub.Hub
	shards  []*subscription.Shard
	env     *session.Env
	handles []market.Handle
	stop    func()
	woken   atomic.Bool // a shard has something to take note of

	grants  map[string]*session.Grants
	clients []*recoveryClient
	given   map[string]string // content of each row that a client received, by epoch, channel, I and N
	trades  int               // published, for trade ids
	count   recoveryCount
}

func newRecoveryWorld(t *testing.T, seed uint64) *recoveryWorld {
	w := &recoveryWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 13)), seed: seed,
		folder: filepath.Join(t.TempDir(), "journal"),
		grants: map[string]*session.Grants{}, given: map[string]string{},
	}
	w.kept = []int{1, 10, 10_000}[w.rng.IntN(3)]
	if w.rng.IntN(2) == 0 {
		w.perTurn = 1 + w.rng.IntN(5)
	}
	for _, user := range recoveryUsers {
		w.grants[user] = w.randomGrants()
	}
	w.start()
	for i := range 4 {
		c := &recoveryClient{w: w, name: fmt.Sprintf("client %d", i), user: recoveryUsers[i%2]}
		c.connect()
		w.clients = append(w.clients, c)
	}
	return w
}

// start starts a gateway on the folder.
func (w *recoveryWorld) start() {
	var err error
	w.journal, err = journal.Open(w.t.Context(), journal.Config{Folder: w.folder, Segment: 64 << 10, BootID: "one"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.hub = hub.New(hub.Config{
		Journal: w.journal, TradesKept: w.kept, PerTurn: w.perTurn,
		Delays: []time.Duration{recoveryDelay * time.Second},
	})
	if err := w.hub.Restore(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.hub.Run(ctx) })
	running.Go(func() { _ = w.journal.Run(ctx) })
	w.stop = func() { cancel(); running.Wait() }
	w.t.Cleanup(w.stop)
	w.shards = nil
	for range 2 {
		w.shards = append(w.shards, subscription.NewShard(w.hub, func(bool) { w.woken.Store(true) }))
	}
	w.env = &session.Env{
		Version:  "test",
		Registry: &session.Registry{}, Origin: time.Now(), BookWildcards: true, Connections: 100,
		MessagesPerSecond: 1 << 20, Subscriptions: 1 << 20, BadMessages: 1 << 20,
		PingInterval: 1000 * time.Hour,
	}
	if w.seed%2 == 0 {
		w.env.SetPiece(1 + int(w.seed/2%3))
	}
	w.handles = nil
	for i, name := range recoveryNames {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			w.t.Fatal(err)
		}
		h, err := w.hub.Define(market.Instrument{ID: id, StartsEmpty: true, QuotesFromFeed: i%2 == 1})
		if err != nil {
			w.t.Fatal(err)
		}
		w.handles = append(w.handles, h)
	}
	keepDelays(w.t, w.hub, recoveryDelay)
}

// restart stops the gateway, by a kill or cleanly, and starts it again. All clients reconnect.
func (w *recoveryWorld) restart(kill bool) {
	w.count.Restarts++
	synctest.Wait()
	if kill {
		// The disk as a killed process leaves it: rows in memory are missing.
		w.count.Kills++
		w.copies++
		to := filepath.Join(w.t.TempDir(), fmt.Sprintf("journal%d", w.copies))
		if err := os.CopyFS(to, os.DirFS(w.folder)); err != nil {
			w.t.Fatal(err)
		}
		w.folder = to
	}
	for _, c := range w.clients {
		c.disconnect()
	}
	w.stop()
	if err := w.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start()
	for _, c := range w.clients {
		c.note("-- restart, killed %v", kill)
		c.reconnect()
	}
}

func (w *recoveryWorld) randomGrants() *session.Grants {
	g := &session.Grants{Scopes: []string{"marketdata:read", "marketdata:depth", "marketdata:wildcard"}}
	for _, name := range []string{"M1", "M2"} {
		r := broker.Entitlement{Market: name, Trades: true, Quotes: true, Depth: -1}
		if name == "M1" && w.rng.IntN(3) == 0 {
			r.Delay = recoveryDelay
		}
		if w.rng.IntN(12) > 0 {
			g.Rights = append(g.Rights, r)
		}
	}
	return g
}

func (w *recoveryWorld) step() {
	keepDelays(w.t, w.hub, recoveryDelay)
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch w.rng.IntN(26) {
	case 0, 1:
		c.subscribe()
	case 2, 11:
		c.unsubscribe()
		if c.paused == 0 && w.chance(2) {
			c.read(64 << 10)
		}
		if w.chance(10) {
			w.restart(true)
		}
	case 3:
		c.note("-- reconnects")
		c.disconnect()
		c.reconnect()
	case 4:
		c.paused = 1 + w.rng.IntN(12)
	case 5:
		if w.rng.IntN(3) == 0 {
			w.changeRights()
		}
	case 6:
		if w.rng.IntN(8) == 0 {
			w.restart(w.rng.IntN(3) > 0)
		}
	case 7:
		c.resync()
	case 8, 9, 10:
		w.pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	default:
		w.publish()
	}
	for _, c := range w.clients {
		c.paused = max(0, c.paused-1)
	}
	if w.chance(2) { // otherwise the next step comes before any turn of a shard
		w.pass(time.Duration(w.rng.IntN(30)) * time.Millisecond)
	}
}

func (w *recoveryWorld) changeRights() {
	user := recoveryUsers[w.rng.IntN(len(recoveryUsers))]
	w.grants[user] = w.randomGrants()
	w.env.Registry.GrantsChanged(user, *w.grants[user])
	for _, c := range w.clients {
		c.hear()
	}
}

// pass advances time, with the due ticks of the sessions and iterations of the shards.
func (w *recoveryWorld) pass(span time.Duration) {
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
		w.turn()
		if !now.Before(end) {
			return
		}
	}
}

// turn makes the shards read new messages, and the reading clients read some of them.
func (w *recoveryWorld) turn() {
	for _, s := range w.shards {
		for s.Turn(); s.Next() != nil; {
		}
	}
	for _, c := range w.clients {
		if c.nextPieces(); c.paused == 0 {
			c.read([]int{200, 2000, 64 << 10}[w.rng.IntN(3)])
		}
	}
}

func (w *recoveryWorld) publish() {
	level := func(p int64) []market.Level {
		return []market.Level{{
			Price: market.Price(p * int64(market.Scale)),
			Size:  market.Size((1 + w.rng.Int64N(9)) * int64(market.Scale)),
		}}
	}
	var batch []market.Event
	for range 1 + w.rng.IntN(12) {
		k := w.rng.IntN(len(w.handles))
		if w.rng.IntN(2) == 0 {
			k = 0 // one instrument is busy
		}
		e := market.Event{Handle: w.handles[k], Time: time.Now().UnixNano()}
		switch w.rng.IntN(9) {
		case 0:
			e.Kind = market.KindSnapshot
			if k%2 == 1 {
				e.Kind = market.KindQuote
			}
			e.Bids, e.Asks = level(90+w.rng.Int64N(5)), level(100+w.rng.Int64N(5))
		case 1:
			e.Kind = market.KindUpdate
			e.Bids, e.Asks = level(80+w.rng.Int64N(20)), level(101+w.rng.Int64N(20))
		case 2:
			e.Kind, e.Phase = market.KindStatus, []market.Phase{market.Open, market.Halt}[w.rng.IntN(2)]
		case 3:
			e.Kind, e.TradeID = market.KindCancel, fmt.Sprint(w.rng.IntN(w.trades+1))
			e.Price, e.Size = 95*market.Scale, market.Scale
		default:
			w.trades++
			e.Kind, e.TradeID = market.KindTrade, fmt.Sprint(w.trades)
			e.Price, e.Size = market.Price(90+w.rng.Int64N(9))*market.Scale, market.Scale
		}
		batch = append(batch, e)
	}
	if err := w.hub.Publish(batch); err != nil {
		w.t.Fatal(err)
	}
}

// finish lets all clients read to the end, and compares their progress with the answer to a resume
// from there. Nothing may be missing.
func (w *recoveryWorld) finish() {
	for range 40 {
		w.pass(time.Second)
		for w.woken.Store(true); w.woken.Load(); w.turn() {
			w.woken.Store(false)
			for _, c := range w.clients {
				c.paused = 0
				if len(c.pieces) > 0 {
					w.woken.Store(true)
				}
			}
		}
	}
	all := &session.Grants{Scopes: []string{"marketdata:read", "marketdata:wildcard"}}
	all.Rights = entitlement.Set{{Market: "*", Trades: true, Quotes: true}}
	w.grants["judge"] = all
	for _, c := range w.clients {
		if len(c.waits) > 0 {
			c.fatal("%d requests were never answered: %v", len(c.waits), c.waits)
		}
		judge := &recoveryClient{w: w, name: "judge of " + c.name, user: "judge", log: c.log}
		judge.connect()
		want := map[string]uint64{}
		for k, p := range c.follows {
			if k.channel == "trades" && p.known && p.n > 0 {
				want[k.name] = p.n
			}
		}
		var names []string
		for name := range want {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) > 0 {
			judge.send(map[string]any{"action": "subscribe", "trades": names,
				"resume": map[string]any{"epoch": w.hub.Epoch(), "trades": want}}, &recoveryRequest{resumed: want})
			for len(judge.pieces) > 0 {
				judge.nextPieces()
			}
			judge.read(64 << 10)
			for _, name := range names {
				if n := judge.resumed[name]; n != want[name] {
					c.fatal("%s: the trades came up to %d, and there are %d", name, want[name], n)
				}
			}
		}
		judge.disconnect()
	}
	for _, c := range w.clients {
		c.disconnect()
	}
	w.stop()
	if err := w.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// chance is true once in n times.
func (w *recoveryWorld) chance(n int) bool { return w.rng.IntN(n) == 0 }

// names returns random identifiers for a request.
func (w *recoveryWorld) names(most int) []string {
	list := []string{}
	for range w.rng.IntN(most + 1) {
		name := recoveryNames[w.rng.IntN(len(recoveryNames))]
		if w.chance(3) {
			name = recoveryPatterns[w.rng.IntN(len(recoveryPatterns))]
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// sameRow checks that an N always has the same row.
func (c *recoveryClient) sameRow(channel string, text string, m *recoveryMessage) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		c.fatal("%v in %s", err, text)
	}
	delete(fields, "D")  // how long ago it was published
	delete(fields, "DE") // how late it is served
	row, err := json.Marshal(fields)
	if err != nil {
		c.fatal("%v", err)
	}
	key := fmt.Sprint(c.w.hub.Epoch(), " ", channel, " ", m.I, " ", m.N)
	if was, ok := c.w.given[key]; ok && was != string(row) {
		c.fatal("%s was given out twice:\n%s\n%s", key, was, row)
	}
	c.w.given[key] = string(row)
}

package subscription_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestOwnersAndDelays checks random changes of sets whose identifiers overlap and have several
// delays. The changes are subscribes, moves to another delay, replacements, changes of rights and
// resumes by N, and clients read slowly. Each client receives each trade and status that it follows
// once, in order and not early, and all of them in the end. A new status begins with its snapshot.
// A snapshot never skips a status of an older subscription. One seed runs alone with -run
// 'TestOwnersAndDelays/seed_7$'.
func TestOwnersAndDelays(t *testing.T) {
	runs, steps := 15, 600
	if os.Getenv("RUEDA_SOAK") != "" {
		runs, steps = 2000, 2000
	}
	var ran, frames, moves, taken, resumes int
	for seed := range runs {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOwnersWorld(t, uint64(seed))
				for range steps {
					w.step()
				}
				w.end()
				frames, moves, taken, resumes = frames+w.frames, moves+w.moves, taken+w.taken, resumes+w.resumes
			})
			ran++
		})
	}
	if ran < runs {
		return // a seed was chosen with -run, or one failed
	}
	if frames < runs*steps/2 || moves < runs*5 || taken < runs*5 || resumes < runs*5 {
		t.Errorf("too little was seen: %d frames, %d moves, %d take-overs at another delay, %d resumes", frames, moves, taken, resumes)
	}
	t.Logf("figure: owners: %d frames, %d moves, %d take-overs at another delay, %d resumes", frames, moves, taken, resumes)
}

var (
	ownersNames    = []string{"A|M1|X", "B|M1|X", "C|M1|Y", "D|M2|X"}
	ownersPatterns = []string{"*|M1|*", "*|M1|X", "*|*|*", "A|*|*", "*|*|X"}
	ownersDelays   = []int{0, 5, 20}
)

// ownersKey is a sequence that a client follows.
type ownersKey struct {
	channel wire.Channel
	name    string
}

type ownersWorld struct {
	t       *testing.T
	rng     *rand.Rand
	hub     *hub.Hub
	shard   *subscription.Shard
	handles []market.Handle
	at      map[ownersKey][]time.Time // times of publication, by N - 1
	clients []*ownersClient

	frames, moves, taken, resumes int
}

func newOwnersWorld(t *testing.T, seed uint64) *ownersWorld {
	w := &ownersWorld{t: t, rng: rand.New(rand.NewPCG(seed, 8)), at: map[ownersKey][]time.Time{}}
	w.hub = streamtest.RunningHub(t, hub.Config{Delays: []time.Duration{5 * time.Second, 20 * time.Second}, PerTurn: w.rng.IntN(4)})
	w.shard = subscription.NewShard(w.hub, func(bool) {})
	for _, name := range ownersNames {
		w.handles = append(w.handles, streamtest.Define(t, w.hub, name, nil))
		k := ownersKey{wire.Status, name}
		w.at[k] = append(w.at[k], time.Now())
	}
	time.Sleep(time.Minute)
	for range 3 {
		w.clients = append(w.clients, &ownersClient{w: w, sub: streamtest.Open(w.shard), last: map[ownersKey]uint64{}, fresh: map[ownersKey]bool{}, loose: map[ownersKey]bool{}})
	}
	return w
}

func (w *ownersWorld) step() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch w.rng.IntN(16) {
	case 0, 1:
		c.subscribe(c.pick(), w.rng.IntN(4) == 0, nil)
	case 2:
		c.unsubscribe()
	case 3:
		c.change()
	case 4:
		c.reconnect()
	case 5, 6:
		w.shard.Turn()
	case 7, 8, 9:
		c.gather([]int{1, 300, 1 << 16}[w.rng.IntN(3)])
	case 10:
		time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		synctest.Wait()
	default:
		w.publish()
	}
}

func (w *ownersWorld) publish() {
	for range 1 + w.rng.IntN(5) {
		i := w.rng.IntN(len(w.handles))
		e, k := streamtest.Trade(w.handles[i], w.rng.IntN(1000)), ownersKey{wire.Trades, ownersNames[i]}
		if w.rng.IntN(4) == 0 {
			phases := []market.Phase{market.Open, market.Halt, market.Auction}
			e, k.channel = market.Event{Kind: market.KindStatus, Handle: w.handles[i], Phase: phases[w.rng.IntN(3)]}, wire.Status
		}
		w.at[k] = append(w.at[k], time.Now())
		streamtest.Publish(w.t, w.hub, e)
	}
	w.hub.Commit()
}

// end lets all messages come, and checks that each client has all of them.
func (w *ownersWorld) end() {
	time.Sleep(time.Minute)
	synctest.Wait()
	for more := true; more; {
		ready := streamtest.Turn(w.shard)
		more = ready > 0
		for _, c := range w.clients {
			for c.sub.Pending() {
				c.gather(1 << 16)
				more = true
			}
		}
	}
	for i, c := range w.clients {
		for k, n := range c.last {
			if want := uint64(len(w.at[k])); n != want {
				c.fatal("client %d has %s %s up to %d of %d", i, k.channel, k.name, n, want)
			}
		}
		c.sub.Close()
	}
}

// ownersClient is a client with what it expects.
type ownersClient struct {
	w     *ownersWorld
	sub   *subscription.Subscriber
	log   []string
	set   []hub.Item // in the order of the subscribes
	last  map[ownersKey]uint64
	fresh map[ownersKey]bool // its snapshot must come first
	loose map[ownersKey]bool // its owner changed before the snapshot: any message may be first
}

func (c *ownersClient) fatal(format string, args ...any) {
	c.w.t.Helper()
	c.w.t.Fatalf(format+"\nset %v\n%s", append(args, c.set, strings.Join(c.log[max(0, len(c.log)-30):], "\n"))...)
}

func (c *ownersClient) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// owner returns the item by which a set has a sequence: the exact one, or else the first pattern.
func owner(set []hub.Item, k ownersKey) (x hub.Item, ok bool) {
	for _, y := range set {
		if y.Channel != k.channel || !y.ID.Matches(streamtest.ID(k.name)) {
			continue
		}
		if !y.ID.IsPattern() {
			return y, true
		}
		if !ok {
			x, ok = y, true
		}
	}
	return x, ok
}

func (c *ownersClient) pick() (items []hub.Item) {
	for range 1 + c.w.rng.IntN(3) {
		name := ownersNames[c.w.rng.IntN(len(ownersNames))]
		if c.w.rng.IntN(3) == 0 {
			name = ownersPatterns[c.w.rng.IntN(len(ownersPatterns))]
		}
		x := hub.Item{Channel: []wire.Channel{wire.Trades, wire.Status}[c.w.rng.IntN(2)], ID: streamtest.ID(name)}
		if x.Tier.Delay = ownersDelays[c.w.rng.IntN(3)]; !holdsItem(items, x) {
			items = append(items, x)
		}
	}
	return items
}

func holdsItem(items []hub.Item, x hub.Item) bool {
	for _, y := range items {
		if y.Channel == x.Channel && y.ID == x.ID {
			return true
		}
	}
	return false
}

// subscribe adds, moves or replaces items. seen is a resume.
func (c *ownersClient) subscribe(items []hub.Item, replace bool, seen map[ownersKey]uint64) {
	before := c.set
	o := subscription.Options{Replace: replace, NoSnapshot: c.w.rng.IntN(2) == 0}
	if seen != nil {
		o.Resume = &wire.Resume{Epoch: c.w.hub.Epoch()}
	}
	for _, x := range items {
		n, ok := seen[ownersKey{x.Channel, x.ID.String()}]
		if ok && !x.ID.IsPattern() {
			if o.Resume.Seen[x.Channel] == nil {
				o.Resume.Seen[x.Channel] = map[string]uint64{}
			}
			o.Resume.Seen[x.Channel][x.ID.String()] = n
		}
	}
	c.note("subscribe %v replace %v, no snapshot %v, resume %v", items, replace, o.NoSnapshot, seen)
	out := c.sub.Subscribe(items, o)
	c.take(c.sub.TakeCarry(nil)) // these messages are sent before the answer
	c.w.moves += len(out.Moved)
	if len(out.Rejected) > 0 || out.Fault != nil {
		c.fatal("%+v", out)
	}
	var set []hub.Item
	for _, y := range c.set {
		if !replace || holdsItem(items, y) {
			set = append(set, y)
		}
	}
	// Exact identifiers come before patterns.
	for _, patterns := range []bool{false, true} {
		for _, x := range items {
			if x.ID.IsPattern() != patterns {
				continue
			}
			known := false
			for i := range set {
				if set[i].Channel == x.Channel && set[i].ID == x.ID {
					set[i], known = x, true
				}
			}
			if !known {
				set = append(set, x)
			}
		}
	}
	c.become(before, set, &out, seen, !o.NoSnapshot)
}

// become changes what the client expects after a change of its set.
func (c *ownersClient) become(before, set []hub.Item, out *subscription.Outcome, seen map[ownersKey]uint64, states bool) {
	c.set = set
	for _, ch := range []wire.Channel{wire.Trades, wire.Status} {
		for _, name := range ownersNames {
			k := ownersKey{ch, name}
			was, had := owner(before, k)
			x, has := owner(set, k)
			switch {
			case !has:
				delete(c.last, k)
				delete(c.fresh, k)
				delete(c.loose, k)
			case had && was == x:
			case had:
				if was.Tier != x.Tier {
					c.w.taken++
				}
				c.loose[k] = c.fresh[k] || c.loose[k]
				c.fresh[k] = false
			case out != nil && out.Lost[ch][name] != (subscription.Lost{}):
				c.fatal("lost %+v", out.Lost)
			default:
				n, resumed := seen[k]
				if resumed = resumed && !x.ID.IsPattern(); !resumed {
					peek(c.w.hub, streamtest.ID(name), func(in *hub.Instrument) { n = in.AtDelay(x.Tier.Delay).Recent(ch).Last })
				}
				c.last[k] = n
				c.fresh[k] = ch == wire.Status && states && !resumed
			}
		}
	}
}

func (c *ownersClient) unsubscribe() {
	items := c.pick()
	c.note("unsubscribe %v", items)
	c.sub.Unsubscribe(items)
	c.take(c.sub.TakeCarry(nil))
	var set []hub.Item
	for _, y := range c.set {
		if !holdsItem(items, y) {
			set = append(set, y)
		}
	}
	c.become(c.set, set, nil, nil, false)
}

// change removes the rights to some items, and moves others to another delay.
func (c *ownersClient) change() {
	var gone, moved, set []hub.Item
	for _, y := range c.set {
		switch c.w.rng.IntN(4) {
		case 0:
			gone = append(gone, y)
			continue
		case 1, 2:
			if d := ownersDelays[c.w.rng.IntN(3)]; d != y.Tier.Delay {
				y.Tier.Delay = d
				moved = append(moved, y)
			}
		}
		set = append(set, y)
	}
	c.note("change: gone %v, moved %v", gone, moved)
	lost := c.sub.Change(gone, moved)
	c.take(c.sub.TakeCarry(nil))
	c.become(c.set, set, &subscription.Outcome{Lost: lost}, nil, false)
}

// reconnect opens another connection. Exact identifiers resume by N.
func (c *ownersClient) reconnect() {
	c.sub.Close()
	seen, set := c.last, c.set
	for k := range seen {
		if c.fresh[k] || c.loose[k] { // no message of it has come
			delete(seen, k)
		}
	}
	c.sub = streamtest.Open(c.w.shard)
	c.set, c.last, c.fresh, c.loose = nil, map[ownersKey]uint64{}, map[ownersKey]bool{}, map[ownersKey]bool{}
	c.w.resumes++
	if len(set) > 0 {
		c.subscribe(set, false, seen)
		c.sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: nil})
	}
}

func (c *ownersClient) gather(max int) {
	c.take(c.sub.Gather(nil, max, wire.JSON, false))
}

func (c *ownersClient) take(b []byte) {
	for _, m := range streamtest.Frames(c.w.t, b) {
		k := ownersKey{wire.Trades, m.I}
		switch m.Type {
		case "T":
		case "H":
			k.channel = wire.Status
		default:
			continue
		}
		c.w.frames++
		c.note("got %s %s %d R %v", k.channel, k.name, m.N, m.R)
		x, ok := owner(c.set, k)
		last := c.last[k]
		switch at := c.w.at[k][m.N-1]; {
		case !ok:
			c.fatal("%s %s %d is not in the set", k.channel, k.name, m.N)
		case time.Since(at) < time.Duration(x.Tier.Delay)*time.Second:
			c.fatal("%s %s %d is early: %v", k.channel, k.name, m.N, time.Since(at))
		case m.R && c.fresh[k] && m.N >= last, !m.R && !c.fresh[k] && m.N == last+1, c.loose[k]:
			c.last[k], c.fresh[k], c.loose[k] = m.N, false, false
		case m.R && !c.fresh[k] && m.N <= last:
		default:
			c.fatal("%s %s %d (R %v, state first %v) after %d", k.channel, k.name, m.N, m.R, c.fresh[k], last)
		}
	}
}

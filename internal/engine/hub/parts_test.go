package hub_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// slowParts keeps the lock for longer than a millisecond in a commit, so that the mutex then passes
// to a goroutine that waits.
type slowParts struct {
	waiting atomic.Bool
	parts   int // holds of commits after their first
}

func (w *slowParts) Locked(function string) {
	if !strings.HasSuffix(function, ".endCommit") {
		return
	}
	w.parts++
	for began := time.Now(); w.waiting.Load() && time.Since(began) < 1100*time.Microsecond; {
		runtime.Gosched()
	}
}

func (w *slowParts) Unlocking(int) {}

// partsTest is a hub of many instruments whose commits are made by another goroutine.
type partsTest struct {
	*slowHub
	t         *testing.T
	random    *rand.Rand
	handles   []market.Handle
	exact     []hub.Item
	published map[string]uint64 // trades by instrument
	n         int               // trades of all
	clients   []*streamtest.Client
}

func newPartsTest(t *testing.T, instruments int) *partsTest {
	w := &partsTest{slowHub: newSlowHub(t, t.TempDir(), hub.Config{}), t: t, random: rand.New(rand.NewPCG(1, 7)), published: map[string]uint64{}}
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		w.handles = append(w.handles, streamtest.Define(t, w.Hub, name, nil))
		w.exact = append(w.exact, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
	}
	return w
}

// publish publishes trades of random instruments.
func (w *partsTest) publish(count int) {
	for range count {
		w.n++
		i := w.random.IntN(len(w.handles))
		w.published[w.exact[i].ID.String()]++
		streamtest.Publish(w.t, w.Hub, streamtest.Trade(w.handles[i], w.n))
	}
}

// open opens a client of all instruments, by their names or by a pattern. Half of the clients
// resume from the committed position.
func (w *partsTest) open() {
	c := streamtest.NewClient(w.t, w.shard)
	var o subscription.Options
	items := w.exact
	if w.random.IntN(2) == 0 {
		items = []hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}
	}
	if w.random.IntN(2) == 0 {
		_, c.Place = w.Position()
		w.publish(50)
		o.Resume = &wire.Resume{Epoch: w.Epoch(), Position: c.Place}
	}
	if out := c.Sub.Subscribe(items, o); out.Fault != nil {
		w.t.Fatal(out.Fault)
	}
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: []byte{}})
	w.clients = append(w.clients, c)
}

// check checks that all clients have the last trade of each instrument. Client checks the order.
func (w *partsTest) check() {
	for _, c := range w.clients {
		for range 3 {
			w.take(c)
		}
		for name, last := range c.Last {
			if last != w.published[name] {
				w.t.Errorf("%s: %d is the last trade, not %d", name, last, w.published[name])
			}
		}
		if len(c.Last) == 0 {
			w.t.Error("a client has received nothing")
		}
	}
}

// TestCommitInParts checks clients that subscribe, resume and read between two parts of commits,
// while trades of many instruments come. Each client receives every trade from its start once, in
// order.
func TestCommitInParts(t *testing.T) {
	const instruments = 6 * hub.LockPiece
	w := newPartsTest(t, instruments)
	watch := &slowParts{}
	w.Mu().Lock()
	w.Mu().Watch(watch)
	w.Mu().Unlock()
	commits := make(chan struct{})
	var committer sync.WaitGroup
	committer.Go(func() {
		for range commits {
			w.CommitOnce()
		}
	})
	rounds := streamtest.Soak(100)
	for range rounds {
		w.open()
		w.publish(instruments)
		watch.waiting.Store(true)
		commits <- struct{}{}
		for range 6 {
			w.open()
			w.publish(instruments / 4)
			w.take(w.clients[w.random.IntN(len(w.clients))])
		}
		watch.waiting.Store(false)
		for len(w.clients) > 8 {
			i := w.random.IntN(len(w.clients))
			w.clients[i].Sub.Close()
			w.clients = append(w.clients[:i], w.clients[i+1:]...)
		}
	}
	close(commits)
	committer.Wait()
	w.CommitOnce()
	w.check()
	if watch.parts < 5*rounds {
		t.Errorf("%d parts of %d commits", watch.parts, rounds)
	}
}

// TestPartsAreBounded checks how many topics a commit visits in one hold, after a time in which the
// disk wrote nothing.
func TestPartsAreBounded(t *testing.T) {
	w := newSlowHub(t, t.TempDir(), hub.Config{})
	c := streamtest.NewClient(t, w.shard)
	const instruments = 20 * hub.LockPiece
	for i := range instruments {
		name := fmt.Sprintf("S%d|M|CI", i)
		hd := streamtest.Define(t, w.Hub, name, nil)
		streamtest.Subscribe(t, c.Sub, wire.Trades, name)
		streamtest.Publish(t, w.Hub, streamtest.Trade(hd, i))
	}
	most := &holds{}
	w.Mu().Watch(most)
	w.CommitOnce()
	w.Mu().Watch(nil)
	if most.visited > 2*hub.LockPiece || most.count < instruments/(2*hub.LockPiece) {
		t.Errorf("%s visited %d in one of %d holds", most.most, most.visited, most.count)
	}
	w.take(c)
	if len(c.Trades) != instruments {
		t.Errorf("the trades of %d instruments came", len(c.Trades))
	}
}

package hub_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// hoarder is an environment variable. It makes the test binary the process that TestHoarderE2E
// measures.
const hoarder = "RUEDA_TEST_HOARDER"

// TestHoarderE2E checks the memory of a process of its own in which one user requests all that a
// user can. On 8 connections it reads thousands of tiers of books, slowly. On 8 more it resumes as
// many instruments and reads almost nothing. The hub stays within Config.Memory and a quarter more.
// The process stays within twice the sum of that limit and the memory of the market, because the
// garbage collector lets the heap double.
func TestHoarderE2E(t *testing.T) {
	if os.Getenv(hoarder) != "" {
		hoard(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHoarderE2E$", "-test.v", "-test.timeout", "30m")
	cmd.Env = append(os.Environ(), hoarder+"=1", "GOGC=100", "GOMEMLIMIT=off")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// resident returns a figure of this process's memory in bytes, such as VmRSS or its peak VmHWM.
func resident(t *testing.T, name string) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}

// hoardWorld is the market of TestHoarderE2E and its one user.
type hoardWorld struct {
	t           *testing.T
	hub         *hub.Hub
	shards      []*subscription.Shard
	handles     []market.Handle
	tiers, back []*subscription.Subscriber
	closed      int
	gone        map[*subscription.Subscriber]bool
	most        int64  // most memory that was counted
	parts       string // parts of most
}

// note records the counted memory if it is the most so far.
func (w *hoardWorld) note() {
	h := w.hub
	h.Mu().Lock()
	defer h.Mu().Unlock()
	if n := h.Memory().Used; n > w.most {
		w.most = n
		w.parts = fmt.Sprintf("rings %d, rows %d, deals %d, topics %d, output %d MiB", h.Memory().Rings>>20, h.Shared().Rows*recent.RowBytes>>20,
			h.Shared().Trades*bars.TradeBytes>>20, h.Memory().TopicBytes>>20, h.Memory().Own>>20)
	}
}

func hoard(t *testing.T) {
	instruments, each, limit, rounds := streamtest.Soak(50_000), streamtest.Soak(2000), int64(24<<20), 200
	if instruments == 50_000 {
		limit, rounds = 512<<20, 200
	}
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	w := &hoardWorld{t: t, gone: map[*subscription.Subscriber]bool{}, hub: hub.New(hub.Config{Journal: j, Memory: limit, RecentBytes: limit / 4})}
	if err := w.hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.handles = streamtest.DefineMany(t, w.hub, instruments, nil)
	w.shards = []*subscription.Shard{subscription.NewShard(w.hub, func(bool) {}), subscription.NewShard(w.hub, func(bool) {})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.hub.Run(ctx) })
	for k := range 40 {
		w.round(k)
	}
	debug.FreeOSMemory()
	market, before := resident(t, "VmRSS"), used(w.hub)
	w.ask(each)
	for k := range rounds {
		w.round(40 + k)
		for i, s := range append(w.tiers, w.back...) {
			w.look(s, 4000*(1-i/len(w.tiers))+1)
		}
	}
	peak := resident(t, "VmHWM")
	t.Logf("%d instruments, %d tiers: the market takes %d MiB, of which %d count; the bound is %d; at most %d counted (%s), %d MiB were resident; %d connections were closed",
		instruments, 8*each, market>>20, before>>20, limit>>20, w.most>>20, w.parts, peak>>20, w.closed)
	if w.most > limit+limit/4 {
		t.Errorf("%d bytes counted of %d", w.most, limit)
	}
	if peak > 2*(market+limit) {
		t.Errorf("%d bytes were resident", peak)
	}
	cancel()
	running.Wait()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// round publishes a trade and a change of the book of each instrument.
func (w *hoardWorld) round(k int) {
	var batch []market.Event
	for i, hd := range w.handles {
		size := int64(1 + (k+i)%9)
		batch = append(batch, streamtest.Trade(hd, k), market.Event{Kind: market.KindUpdate, Handle: hd,
			Bids: []market.Level{streamtest.Level(100-int64(k%25), size)}, Asks: []market.Level{streamtest.Level(101+int64(k%25), size)}})
		if len(batch) >= 2000 || i == len(w.handles)-1 {
			streamtest.Publish(w.t, w.hub, batch...)
			batch = batch[:0]
			for _, sh := range w.shards {
				streamtest.Turn(sh)
			}
			w.note()
		}
	}
}

// ask subscribes to all books and resumes all trades that a user may.
func (w *hoardWorld) ask(each int) {
	for c := range 8 {
		books, trades := streamtest.Open(w.shards[c%2]), streamtest.Open(w.shards[c%2])
		r := &wire.Resume{Epoch: w.hub.Epoch()}
		r.Seen[wire.Trades] = map[string]uint64{}
		var tiers, back []hub.Item
		for i := range each {
			name := streamtest.ID(fmt.Sprintf("S%d|M|CI", i))
			tier := hub.Tier{Depth: []int{1, 5, 10, 25, 0}[(c+i)%5], Conflate: []int{0, 100, 250, 1000}[c%4]}
			tiers = append(tiers, hub.Item{wire.OrderBook, name, tier})
			back = append(back, hub.Item{Channel: wire.Trades, ID: name})
			r.Seen[wire.Trades][name.String()] = 1
		}
		books.Subscribe(tiers, subscription.Options{})
		if out := trades.Subscribe(back, subscription.Options{Resume: r}); len(out.Resumed[wire.Trades]) != each {
			w.t.Fatalf("%d of %d are resumed", len(out.Resumed[wire.Trades]), each)
		}
		w.tiers, w.back = append(w.tiers, books), append(w.back, trades)
	}
}

// look lets a connection read some bytes, and then closes it or collapses its backlog as a session
// does.
func (w *hoardWorld) look(s *subscription.Subscriber, bytes int) {
	if w.gone[s] {
		return
	}
	s.Gather(nil, bytes, wire.JSON, false)
	lag := s.Lag()
	switch {
	case lag.KeptBytes > 1<<20 || s.Excess():
		s.Close()
		w.gone[s] = true
		w.closed++
	case lag.Bytes > 1<<20:
		s.Collapse()
	}
}

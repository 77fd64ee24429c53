package startpoint_test

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/wire"
)

// searchHouse returns a house with trades that are in its journal but not in memory. Only the test
// reads them.
func searchHouse(t *testing.T) (w *streamtest.House, items []hub.Item, o subscription.Options, ended *int) {
	t.Helper()
	w = streamtest.LongHouse(t, 3, 3000)
	w.End()
	jobs(w.Hub).Start(t.Context(), 0)
	for _, name := range w.Names {
		items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
	}
	ended = new(int)
	t.Cleanup(func() { w.Leave(true) })
	return w, items, subscription.Options{Start: startpoint.Start{Time: 1}, Found: func() { *ended++ }}, ended
}

// TestStartIsLookedForElsewhere checks a subscribe whose start is in the journal. It begins a
// search, but changes nothing and reads nothing. The same subscribe after the search replays from
// the first trade, and its position is the one before that trade.
func TestStartIsLookedForElsewhere(t *testing.T) {
	w, items, o, ended := searchHouse(t)
	c := streamtest.NewClient(t, w.Shard)
	out := c.Sub.Subscribe(items, o)
	if out.Search == nil || out.Search.Over() || c.Sub.Len() != 0 || *ended != 0 || out.Search.Points() != 0 {
		t.Fatalf("%+v, %d in the set, ended %d", out, c.Sub.Len(), *ended)
	}
	if again := c.Sub.Subscribe(items[:0], subscription.Options{}); again.Search != nil || again.Fault != nil {
		t.Errorf("another subscribe: %+v", again)
	}
	for jobs(w.Hub).Next(t.Context(), readjob.Search) {
	}
	if *ended != 1 || !out.Search.Over() {
		t.Fatalf("ended %d", *ended)
	}
	// The market may have new instruments by then. The hub searches for their start too.
	o.Search = out.Search
	o.Search.Forget(lookup(w.Hub, streamtest.ID(w.Names[2])), wire.Trades)
	if out = c.Sub.Subscribe(items, o); out.Search == nil || out.Search.Left() != 1 {
		t.Fatalf("%+v", out)
	}
	for jobs(w.Hub).Next(t.Context(), readjob.Search) {
	}
	o.Search = out.Search
	out = c.Sub.Subscribe(items, o)
	_, pos, err := position.Parse(out.Position)
	if out.Search != nil || out.Fault != nil || c.Sub.Len() != 3 || *ended != 2 || err != nil || pos.For(0) == 0 || pos.For(0) > 10 {
		t.Fatalf("%+v, %d in the set", out, c.Sub.Len())
	}
	for { // read the rows
		for c.Sub.Pending() {
			c.Read(1<<16, false)
		}
		if !jobs(w.Hub).Next(t.Context(), readjob.Rows) {
			break
		}
		streamtest.Turn(w.Shard)
	}
	for _, name := range w.Names {
		if got, want := c.Trades[name], lookup(w.Hub, streamtest.ID(name)).Trades.Last; uint64(len(got)) != want {
			t.Errorf("%s: %d trades of %d", name, len(got), want)
		}
	}
}

// TestSearchEnds checks that a search for which no client waits is not made, and that a search that
// cannot be made ends with a fault.
func TestSearchEnds(t *testing.T) {
	w, items, o, ended := searchHouse(t)
	sub := streamtest.Open(w.Shard)
	first, second := sub.Subscribe(items, o).Search, sub.Subscribe(items, o).Search
	first.Stop()
	if n := jobs(w.Hub).Len(readjob.Search); n != 1 {
		t.Fatalf("%d searches", n)
	}
	second.Stop()
	if n := jobs(w.Hub).Len(readjob.Search); n != 0 || *ended != 0 {
		t.Errorf("%d searches, ended %d", n, *ended)
	}
	fault := func(what string, x *startpoint.Search, reason wire.Reason) {
		t.Helper()
		p := o
		p.Search = x
		if out := sub.Subscribe(items, p); !x.Over() || out.Fault == nil || out.Fault.Reason != reason || sub.Len() != 0 {
			t.Errorf("%s: over %v, %+v", what, x.Over(), out)
		}
	}
	o.Search = startpoint.LateSearch()
	late := sub.Subscribe(items, o).Search
	o.Search = nil
	jobs(w.Hub).Next(t.Context(), readjob.Search)
	fault("too late", late, wire.RangeTooLarge)
	long := sub.Subscribe(items, o).Search
	long.UseUp()
	jobs(w.Hub).Next(t.Context(), readjob.Search)
	fault("too long", long, wire.RangeTooLarge)
	stop := jobs(w.Hub).Start(t.Context(), 0)
	left := sub.Subscribe(items, o).Search
	stop()
	fault("the readers end", left, wire.Internal)
	if n := jobs(w.Hub).Len(readjob.Search); *ended != 3 || n != 0 {
		t.Errorf("ended %d, %d searches", *ended, n)
	}
	if out := sub.Subscribe(items, o); out.Search != nil || out.Fault != nil || sub.Len() != 3 {
		t.Errorf("without readers: %+v", out)
	}
}

// TestSearchesTakeTurns checks that a search stops after a while so that others can run.
func TestSearchesTakeTurns(t *testing.T) {
	w, items, o, _ := searchHouse(t)
	x := streamtest.Open(w.Shard).Subscribe(items, o).Search
	if more := x.Read(0); !more || x.Points() != 1 || x.Used() <= 0 || x.Used() > time.Minute {
		t.Errorf("more %v, found %d in %v", more, x.Points(), x.Used())
	}
	for more := true; more; {
		more = x.Read(0)
	}
	if x.Points() != 3 {
		t.Errorf("found %d", x.Points())
	}
}

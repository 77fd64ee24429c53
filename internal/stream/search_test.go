package stream

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/wire"
)

// searchHouse returns a house with trades that are in its journal but not in memory. Only the test
// reads them.
func searchHouse(t *testing.T) (w *house, items []Item, o Options, ended *int) {
	t.Helper()
	w = longHouse(t, 3, 3000)
	w.end()
	w.hub.setReaders(true)
	for _, name := range w.names {
		items = append(items, Item{Channel: wire.Trades, ID: id(name)})
	}
	ended = new(int)
	t.Cleanup(func() { w.leave(true) })
	return w, items, Options{Start: Start{Time: 1}, Found: func() { *ended++ }}, ended
}

// TestStartIsLookedForElsewhere checks a subscribe whose start is in the journal. It begins a
// search, but changes nothing and reads nothing. The same subscribe after the search replays from
// the first trade, and its position is the one before that trade.
func TestStartIsLookedForElsewhere(t *testing.T) {
	w, items, o, ended := searchHouse(t)
	c := newClient(t, w.shard)
	out := c.sub.Subscribe(items, o)
	if out.Search == nil || out.Search.Over() || c.sub.Len() != 0 || *ended != 0 || len(out.Search.point) != 0 {
		t.Fatalf("%+v, %d in the set, ended %d", out, c.sub.Len(), *ended)
	}
	if again := c.sub.Subscribe(items[:0], Options{}); again.Search != nil || again.Fault != nil {
		t.Errorf("another subscribe: %+v", again)
	}
	for w.hub.searchNext(t.Context()) {
	}
	if *ended != 1 || !out.Search.Over() {
		t.Fatalf("ended %d", *ended)
	}
	// The market may have new instruments by then. The hub searches for their start too.
	o.Search = out.Search
	delete(o.Search.point, pointKey{w.hub.lookup(id(w.names[2])), wire.Trades})
	if out = c.sub.Subscribe(items, o); out.Search == nil || len(out.Search.ask) != 1 {
		t.Fatalf("%+v", out)
	}
	for w.hub.searchNext(t.Context()) {
	}
	o.Search = out.Search
	out = c.sub.Subscribe(items, o)
	_, pos, err := position.Parse(out.Position)
	if out.Search != nil || out.Fault != nil || c.sub.Len() != 3 || *ended != 2 || err != nil || pos.For(0) == 0 || pos.For(0) > 10 {
		t.Fatalf("%+v, %d in the set", out, c.sub.Len())
	}
	for { // read the rows
		for c.sub.Pending() {
			c.read(1<<16, false)
		}
		if !w.hub.readNext(t.Context()) {
			break
		}
		turn(w.shard)
	}
	for _, name := range w.names {
		if got, want := c.trades[name], w.hub.lookup(id(name)).Trades.Last; uint64(len(got)) != want {
			t.Errorf("%s: %d trades of %d", name, len(got), want)
		}
	}
}

// TestSearchEnds checks that a search for which no client waits is not made, and that a search that
// cannot be made ends with a fault.
func TestSearchEnds(t *testing.T) {
	w, items, o, ended := searchHouse(t)
	sub := open(w.shard)
	first, second := sub.Subscribe(items, o).Search, sub.Subscribe(items, o).Search
	first.Stop()
	if len(w.hub.searches) != 1 || w.hub.searches[0] != second {
		t.Fatalf("%d searches", len(w.hub.searches))
	}
	stopped := false
	if x, _ := w.hub.nextSearch(func() { stopped = true }); x != second {
		t.Fatal("the second was not next")
	}
	if second.Stop(); !stopped || *ended != 0 {
		t.Errorf("stopped %v, ended %d", stopped, *ended)
	}
	fault := func(what string, x *Search, reason wire.Reason) {
		t.Helper()
		p := o
		p.Search = x
		if out := sub.Subscribe(items, p); !x.Over() || out.Fault == nil || out.Fault.Reason != reason || sub.Len() != 0 {
			t.Errorf("%s: over %v, %+v", what, x.Over(), out)
		}
	}
	late := sub.Subscribe(items, o).Search
	late.until = 0
	w.hub.searchNext(t.Context())
	fault("too late", late, wire.RangeTooLarge)
	long := sub.Subscribe(items, o).Search
	long.used = searchTime
	w.hub.searchNext(t.Context())
	fault("too long", long, wire.RangeTooLarge)
	left := sub.Subscribe(items, o).Search
	w.hub.setReaders(false)
	fault("the readers end", left, wire.Internal)
	if *ended != 3 || len(w.hub.searches) != 0 {
		t.Errorf("ended %d, %d searches", *ended, len(w.hub.searches))
	}
	if out := sub.Subscribe(items, o); out.Search != nil || out.Fault != nil || sub.Len() != 3 {
		t.Errorf("without readers: %+v", out)
	}
}

// TestSearchesTakeTurns checks that a search stops after a while so that others can run.
func TestSearchesTakeTurns(t *testing.T) {
	w, items, o, _ := searchHouse(t)
	x := open(w.shard).Subscribe(items, o).Search
	if more := x.read(t.Context(), 0); !more || len(x.point) != 1 || x.used <= 0 || x.used > time.Minute {
		t.Errorf("more %v, found %d in %v", more, len(x.point), x.used)
	}
	for more := true; more; {
		more = x.read(t.Context(), 0)
	}
	if len(x.point) != 3 {
		t.Errorf("found %d", len(x.point))
	}
}

package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestStartIsBoundedE2E checks that a start with too many searches is refused before the journal is
// read. Each sequence counts once, however often it is named, and rejected items do not count.
func TestStartIsBoundedE2E(t *testing.T) {
	w := &house{t: t, folder: t.TempDir(), kept: 1}
	for i := range maxSearched + 1 {
		w.names = append(w.names, fmt.Sprintf("S%d|M|CI", i))
	}
	w.begin()
	defer w.leave(true)
	for i := range 2 * recent.ChunkRows {
		list := make([]market.Event, 0, len(w.handles))
		for _, hd := range w.handles {
			e := trade(hd, i)
			e.Time = int64(1e9 + i)
			list = append(list, e)
		}
		publish(t, w.hub, list...)
	}
	ask := func(start int64, names ...string) Outcome {
		var items []Item
		for _, name := range names {
			items = append(items, Item{Channel: wire.Trades, ID: id(name)})
		}
		sub := open(w.shard)
		defer sub.Close()
		return sub.Subscribe(items, Options{Start: Start{Time: start}})
	}
	if out := ask(1, "*|M|CI"); out.Fault == nil || out.Fault.Reason != wire.RangeTooLarge || !strings.Contains(out.Fault.Hint+out.Fault.Msg, "fewer instruments") {
		t.Errorf("more searches than one message may have: %+v", out.Fault)
	}
	if out := ask(1e9+2*recent.ChunkRows-5, "*|M|CI"); out.Fault != nil {
		t.Errorf("what is in memory needs no search: %+v", out.Fault)
	}
	if out := ask(1, w.names[:maxSearched]...); out.Fault != nil {
		t.Errorf("as many searches as one message may have: %+v", out.Fault)
	}
	most := make([]string, 0, 3*maxSearched)
	for range 3 {
		most = append(most, w.names[:maxSearched]...)
	}
	if out := ask(1, append(most, "S1|NOWHERE|CI")...); out.Fault != nil || len(out.Rejected) != 1 {
		t.Errorf("each named three times: %+v", out)
	}
	// A hub without a journal refuses too many rows in memory.
	in := w.hub.lookup(id("S0|M|CI"))
	points := map[pointKey]uint64{{in, wire.Trades}: 0}
	in.Trades.Last += maxStarted
	if f := new(Hub).tooMany(points); f == nil || f.Reason != wire.RangeTooLarge {
		t.Errorf("a million rows: %+v", f)
	}
	in.Trades.Last -= maxStarted
}

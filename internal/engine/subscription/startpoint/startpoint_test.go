package startpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestStartIsBoundedE2E checks that a start with too many searches is refused before the journal is
// read. Each sequence counts once, however often it is named, and rejected items do not count.
func TestStartIsBoundedE2E(t *testing.T) {
	w := &streamtest.House{T: t, Folder: t.TempDir(), Kept: 1}
	for i := range startpoint.MaxSearched + 1 {
		w.Names = append(w.Names, fmt.Sprintf("S%d|M|CI", i))
	}
	w.Begin()
	defer w.Leave(true)
	for i := range 2 * recent.ChunkRows {
		list := make([]market.Event, 0, len(w.Handles))
		for _, hd := range w.Handles {
			e := streamtest.Trade(hd, i)
			e.Time = int64(1e9 + i)
			list = append(list, e)
		}
		streamtest.Publish(t, w.Hub, list...)
	}
	ask := func(start int64, names ...string) subscription.Outcome {
		var items []hub.Item
		for _, name := range names {
			items = append(items, hub.Item{Channel: wire.Trades, ID: streamtest.ID(name)})
		}
		sub := streamtest.Open(w.Shard)
		defer sub.Close()
		return sub.Subscribe(items, subscription.Options{Start: startpoint.Start{Time: start}})
	}
	if out := ask(1, "*|M|CI"); out.Fault == nil || out.Fault.Reason != wire.RangeTooLarge || !strings.Contains(out.Fault.Hint+out.Fault.Msg, "fewer instruments") {
		t.Errorf("more searches than one message may have: %+v", out.Fault)
	}
	if out := ask(1e9+2*recent.ChunkRows-5, "*|M|CI"); out.Fault != nil {
		t.Errorf("what is in memory needs no search: %+v", out.Fault)
	}
	if out := ask(1, w.Names[:startpoint.MaxSearched]...); out.Fault != nil {
		t.Errorf("as many searches as one message may have: %+v", out.Fault)
	}
	most := make([]string, 0, 3*startpoint.MaxSearched)
	for range 3 {
		most = append(most, w.Names[:startpoint.MaxSearched]...)
	}
	if out := ask(1, append(most, "S1|NOWHERE|CI")...); out.Fault != nil || len(out.Rejected) != 1 {
		t.Errorf("each named three times: %+v", out)
	}
	// A hub without a journal refuses too many rows in memory.
	in := lookup(w.Hub, streamtest.ID("S0|M|CI"))
	in.Trades.Last += startpoint.MaxRows
	if f := startpoint.TooMany(w.Hub.NewPort(func(bool) {}), in, wire.Trades); f == nil || f.Reason != wire.RangeTooLarge {
		t.Errorf("a million rows: %+v", f)
	}
	in.Trades.Last -= startpoint.MaxRows
}

// lookup returns a listed instrument.
func lookup(h *hub.Hub, id market.InstrumentID) *hub.Instrument {
	p := h.NewPort(func(bool) {})
	p.Lock()
	defer p.Unlock()
	return p.Lookup(id, 0)
}

// jobs returns the queue of reads of a hub's journal.
func jobs(h *hub.Hub) *readjob.Queue { return h.NewPort(func(bool) {}).Jobs() }

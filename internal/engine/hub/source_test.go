package hub_test

import (
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
)

// TestNumberingEnds checks that the numbers of a source without a numbering do not become those of
// the one before, which would then leave out events.
func TestNumberingEnds(t *testing.T) {
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	handle, err := h.Define(market.Instrument{ID: streamtest.ID("GGAL|BYMA|24hs"), NoBook: true})
	if err != nil {
		t.Fatal(err)
	}
	trade := func(sequence uint64) {
		t.Helper()
		err := h.Publish([]market.Event{{Kind: market.KindTrade, Handle: handle, Sequence: sequence, Price: 7000 * market.Scale, Size: market.Scale}})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Number(handle, "day-1")
	trade(5)
	if list, ok := h.Resume("day-1"); !ok || len(list) != 1 || list[0].Sequence != 5 {
		t.Errorf("stored %+v, %v", list, ok)
	}
	h.Number(handle, "")
	trade(5000)
	if list, _ := h.Resume("day-1"); len(list) != 0 {
		t.Errorf("of another source: %+v", list)
	}
	h.Commit()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if j.Sources()[0].Sequence != 5 {
		t.Errorf("the journal has %+v", j.Sources())
	}
}

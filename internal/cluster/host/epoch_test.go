package host

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestNumbersOfTheLog checks that a node takes the numbers of instruments from the log, in any
// order, and that numbers which its journal uses otherwise are an error.
func TestNumbersOfTheLog(t *testing.T) {
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same", Copy: true, Epoch: "log"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := hub.New(hub.Config{Journal: j, Following: true})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := applying{hub: h, journal: j}
	define := func(number uint32, symbol string) error {
		text, err := json.Marshal(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "M", Term: "CI"}})
		if err != nil {
			t.Fatal(err)
		}
		return h.Follow(func(f *hub.Follower) error { return x.define(f, number, text) })
	}
	for number, symbol := range map[uint32]string{7: "A", 3: "B"} {
		for range 2 {
			if err := define(number, symbol); err != nil {
				t.Error(err)
			}
		}
		if n, ok := j.Lookup(market.InstrumentID{Symbol: symbol, Market: "M", Term: "CI"}); !ok || n != number {
			t.Errorf("%s has the number %d, want %d", symbol, n, number)
		}
	}
	if err := define(7, "C"); !errors.Is(err, errNumber) {
		t.Errorf("another instrument with a number that is used: %v", err)
	}
	if err := define(8, "B"); !errors.Is(err, errNumber) {
		t.Errorf("another number of an instrument: %v", err)
	}
}

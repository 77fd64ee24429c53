package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// definitions is a sink that counts the instruments.
type definitions int

func (d *definitions) Define(market.Instrument) (market.Handle, error) {
	*d++
	return market.Handle(*d - 1), nil
}

func (*definitions) Publish([]market.Event) error { return nil }

// TestThreat48Instruments plays a file with another instrument in each record. Only so many are
// played, unless symbols are chosen.
func TestThreat48Instruments(t *testing.T) {
	w := dbnHeader(replaytest.SchemaTrades)
	for i := range uint32(maxInstruments + 1000) {
		w.Levels(&replaytest.Record{Instrument: 1_000_000 + i, Time: opening, Receive: opening, Action: 'T', Side: 'B', Price: 1e9, Size: 1}, 0)
	}
	path := filepath.Join(t.TempDir(), "many.dbn")
	if err := os.WriteFile(path, w.Bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	var all definitions
	err := open(t, path, Config{Speed: -1}).Run(t.Context(), &all)
	if err == nil || !strings.Contains(err.Error(), path+": offset ") || !strings.Contains(err.Error(), "more than 200000 instruments") || all != maxInstruments {
		t.Errorf("%v after %d instruments", err, all)
	}
	var one definitions
	if err := open(t, path, Config{Speed: -1, Symbols: []string{"1000001"}}).Run(t.Context(), &one); err != nil || one != 1 {
		t.Errorf("of one symbol: %v, %d instruments", err, one)
	}
}

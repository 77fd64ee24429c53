package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestThreat48MarketOfPath exports a journal of somebody else, in which the name of a market is a
// path. No file is written outside of the folder.
func TestThreat48MarketOfPath(t *testing.T) {
	id := market.InstrumentID{Symbol: "A", Market: "../../../../../elsewhere", Term: "CI"}
	f := newFixture(t, market.Instrument{ID: id, VirtualClock: true})
	f.add(id.String(), journal.Row{Kind: journal.Trade, Time: noon(0), Price: market.Scale, Size: market.Scale, ID: "1"})
	f.add(id.String(), journal.Row{Kind: journal.Trade, Time: noon(26 * 3600e9), Price: market.Scale, Size: market.Scale, ID: "2"})
	if err := f.journal.Close(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	job := Job{Folder: filepath.Join(parent, "out"), Request: Request{Date: testDate, Format: CSV, Unfinished: true}}
	r, err := journal.OpenReader(t.Context(), f.folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	files, err := Day(t.Context(), r.Archive, job)
	if len(files) > 0 {
		t.Errorf("wrote %v, %v", files, err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "out") {
			t.Errorf("wrote %s", e.Name())
		}
	}
}

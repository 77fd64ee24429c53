package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestLeave requires that a former node begins an epoch, with the numbers of sources that it knew
// at the end of its journal. The node of another journal in the same place stays.
func TestLeave(t *testing.T) {
	t.Parallel()
	sources := []cluster.Source{{Name: "1", Sequence: 7}, {Name: "1.0", Sequence: 42}, {Name: "2.0", Sequence: 5}}
	held := []journal.Source{{Instrument: 1, Channel: 0, Numbering: 7, Sequence: 42}}
	for name, c := range map[string]struct {
		state cluster.State
		left  bool
		held  []journal.Source
	}{
		"no node":           {},
		"a former node":     {state: cluster.State{History: cluster.History{Epoch: "log"}, Sources: sources, SourcesAt: 1}, left: true, held: held},
		"newer rows":        {state: cluster.State{History: cluster.History{Epoch: "log"}, Sources: sources}, left: true},
		"uncertain numbers": {state: cluster.State{History: cluster.History{Epoch: "log"}, Sources: sources, SourcesAt: 1, Unsure: true}, left: true},
		"another journal":   {state: cluster.State{History: cluster.History{Epoch: "other"}, Sources: sources, SourcesAt: 1}},
	} {
		folder := filepath.Join(t.TempDir(), "journal")
		j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same", Copy: true, Epoch: "log"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Start(func(uint32, func(*journal.Row)) {}); err != nil {
			t.Fatal(err)
		}
		number := j.Define(market.Instrument{ID: market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}})
		j.Append(&journal.Row{Kind: journal.Trade, Instrument: number, Position: 1, N: 1, Latency: -1, Price: market.Scale, Size: market.Scale})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if c.state.History.Epoch != "" {
			if err := os.Mkdir(nodeFolder(folder), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := writeState(nodeFolder(folder), c.state, false); err != nil {
				t.Fatal(err)
			}
		}
		if j, err = journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := Leave(j, folder, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if (j.Epoch() != "log") != c.left || !slices.Equal(j.Sources(), c.held) {
			t.Errorf("%s: epoch %s, numbers %v", name, j.Epoch(), j.Sources())
		}
		_, err = os.Stat(statePath(nodeFolder(folder)))
		if gone := errors.Is(err, fs.ErrNotExist); gone != (c.left || c.state.History.Epoch == "") {
			t.Errorf("%s: the state is gone: %v", name, gone)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

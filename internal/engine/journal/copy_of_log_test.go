package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// TestCopyOfALog checks that the journal of a follower keeps the epoch of its log, where a journal
// of its own would begin another one. It also states whether rows are missing at its end.
func TestCopyOfALog(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger, cfg.Copy, cfg.Epoch, cfg.Segment = nil, true, "log-1", 20_000
	src := newRowSource(1, 3)
	j := begin(t, cfg, src)
	if j.Epoch() != "log-1" || j.Whole() {
		t.Fatalf("a new journal has the epoch %s, whole %v", j.Epoch(), j.Whole())
	}
	src.write(j, 2000, true)
	// The machine fails, and the last rows were not on the disk.
	last := j.lastSegment()
	crash := func() {
		t.Helper()
		if err := errors.Join(j.state.Close(), j.highWater.Close(), j.Archive.close(), j.lock.Close()); err != nil {
			t.Fatal(err)
		}
	}
	crash()
	if err := os.Truncate(last.path(false), last.end-100); err != nil {
		t.Fatal(err)
	}
	cfg.BootID, cfg.Epoch = "boot-2", ""
	j = mustOpen(t, cfg)
	kept := lastPosition(j.views(""))
	if j.Epoch() != "log-1" || j.Whole() || kept == 0 || kept >= src.position {
		t.Fatalf("after a crash: epoch %s, whole %v, position %d of %d", j.Epoch(), j.Whole(), kept, src.position)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A clean end, and the same epoch.
	j = mustOpen(t, cfg)
	if j.Epoch() != "log-1" || !j.Whole() {
		t.Errorf("after a clean end: epoch %s, whole %v", j.Epoch(), j.Whole())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// The log has begun another epoch meanwhile.
	cfg.Epoch = "log-2"
	j = mustOpen(t, cfg)
	if j.Epoch() != "log-2" || lastPosition(j.views("")) != 0 {
		t.Errorf("in another epoch: %s, position %d", j.Epoch(), lastPosition(j.views("")))
	}
	if err := errors.Join(j.BeginEpoch("log-3", 0), j.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.Epoch = ""
	if j = mustOpen(t, cfg); j.Epoch() != "log-3" {
		t.Errorf("the epoch %s was stored", j.Epoch())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCopyWithDamage checks that a copy of a log in which a segment was changed is refused.
func TestCopyWithDamage(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger, cfg.Copy, cfg.Epoch, cfg.Segment = nil, true, "log-1", 20_000
	src := newRowSource(2, 3)
	j := begin(t, cfg, src)
	src.write(j, 3000, true)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(cfg.Folder, "*", "*.seg"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2+record.HeaderSize] ^= 0xff
	if err := os.WriteFile(files[1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrIncomplete) {
		t.Errorf("opened with a damaged segment: %v", err)
	}
}

// TestDefinitionOfALog checks that the number of an instrument of the log is kept, although it has
// no rows yet: otherwise this node would give it to another one if it became the sequencer.
func TestDefinitionOfALog(t *testing.T) {
	cfg := testConfig(t)
	cfg.Copy, cfg.Epoch = true, "log-1"
	src := newRowSource(1, 3)
	j := begin(t, cfg, src)
	src.write(j, 100, true)
	def := market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: "LATE", Term: market.Any}}
	if !j.DefineAs(9, def) || j.Define(def) != 9 {
		t.Fatal("the instrument does not have the number of the log")
	}
	src.write(j, 100, true)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, cfg)
	if n, ok := j.Lookup(def.ID); !ok || n != 9 {
		t.Errorf("after a restart the instrument has the number %d, %v", n, ok)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

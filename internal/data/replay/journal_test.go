package replay_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// writeJournal runs a source through a hub and leaves its journal in a folder.
func writeJournal(t *testing.T, folder string, source feed.Source) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := source.Run(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// rows describes the rows of a series of a journal, without their time of publication.
func rows(t *testing.T, r *journal.Reader, s journal.Series) (list []string) {
	t.Helper()
	err := r.Read(t.Context(), s, journal.Range{}, func(_ string, x *journal.Row) bool {
		list = append(list, fmt.Sprint(x.Kind, x.N, x.Time, x.Side, x.Price, x.Size, x.OldPrice, x.OldSize, x.RefN, x.ID, x.Conditions, x.Bids, x.Asks, x.Bar))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestJournal plays the journal of a simulated morning. The journal of the replay equals the
// original.
func TestJournal(t *testing.T) { replayJournal(t, 8*time.Minute) }

// TestJournalE2E plays a longer morning without the race detector.
func TestJournalE2E(t *testing.T) { replayJournal(t, 50*time.Minute) }

func replayJournal(t *testing.T, length time.Duration) {
	simulated, err := sim.New(sim.Config{
		Seed: 5, Clock: sim.Virtual, Instruments: 12, Speed: math.Inf(1),
		Start: time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC), Duration: length,
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	writeJournal(t, first, simulated)
	source, err := replay.Open(first, replay.Config{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(source.Instruments()); n != 12 {
		t.Fatalf("%d instruments", n)
	}
	writeJournal(t, second, source)
	a, err := journal.OpenReader(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(0)
	for _, d := range a.Days() {
		bytes += d.Bytes
	}
	if read, total := source.Progress(); read == 0 || read > total || total != bytes {
		t.Errorf("progress %d of %d bytes, the journal has %d", read, total, bytes)
	}
	defer a.Close()
	b, err := journal.OpenReader(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	compared := 0
	var trades, quotes int
	for _, in := range source.Instruments() {
		for _, s := range []journal.Series{
			{Instrument: in.ID, Channel: journal.Trades}, {Instrument: in.ID, Channel: journal.Quotes},
			{Instrument: in.ID, Channel: journal.Bars, Interval: 0}, {Instrument: in.ID, Channel: journal.Bars, Interval: 1},
		} {
			x, y := rows(t, a, s), rows(t, b, s)
			for i := range min(len(x), len(y)) {
				if x[i] != y[i] {
					t.Fatalf("%v, row %d:\n%s\nplayed:\n%s", s, i, x[i], y[i])
				}
			}
			if len(x) != len(y) {
				t.Fatalf("%v: %d rows, played %d", s, len(x), len(y))
			}
			compared += len(x)
			switch s.Channel {
			case journal.Trades:
				trades += len(x)
			case journal.Quotes:
				quotes += len(x)
			}
		}
	}
	if s := source.Stats(); s.Trades != trades || s.Quotes != quotes || s.Depth < 1000 || s.Statuses < 12 || s.Lines < s.Trades+s.Quotes || s.Passes != 1 {
		t.Errorf("counted %+v of %d trades and %d quotes", s, trades, quotes)
	}
	if compared < 1000 {
		t.Fatalf("only %d rows were compared", compared)
	}
}

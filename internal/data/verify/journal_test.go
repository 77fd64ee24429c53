package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/wire"
)

// exchange returns the opening of a trading day of the simulated exchange at full speed; with
// RUEDA_SOAK the whole day and more instruments.
func exchange(t *testing.T, seed uint64) *sim.Source {
	t.Helper()
	c := sim.Config{
		Seed: seed, Instruments: 3, Clock: sim.Virtual, Days: 1, Speed: -1, Start: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Duration: time.Hour,
	}
	if os.Getenv("RUEDA_SOAK") != "" {
		c.Instruments, c.Duration = 40, 0
	}
	source, err := sim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// tradingDay writes a trading day to a journal of small segments and returns its folder.
func tradingDay(t *testing.T, seed uint64) string {
	t.Helper()
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 19})
	if err != nil {
		t.Fatal(err)
	}
	hub := hub.New(hub.Config{Journal: j})
	if err := hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := exchange(t, seed).Run(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	hub.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestJournalE2E checks that nothing is wrong with the journal of a trading day with auctions,
// halt, cancellations and corrections, and that two runs of one seed have the same hash.
func TestJournalE2E(t *testing.T) {
	folder := tradingDay(t, 5)
	begun := time.Now()
	r, err := Journal(t.Context(), folder, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: a journal of %d rows verified in %v", r.Figure("rows"), time.Since(begun).Round(time.Millisecond))
	if r.Wrong() > 0 {
		t.Errorf("%s", text(r))
	}
	for c, least := range map[Check]uint64{Chain: 1000, Crossed: 1000, Quote: 1000, Sequence: 1000, Bars: 200, Time: 1000} {
		if got := r.Result(c); got.Judged < least {
			t.Errorf("%s was judged %d times, want %d at least:\n%s", c, got.Judged, least, text(r))
		}
	}
	again, err := Journal(t.Context(), tradingDay(t, 5), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash != r.Hash || len(r.Hash) != 64 {
		t.Errorf("two runs of one seed: %s and %s", r.Hash, again.Hash)
	}
	if other, err := Journal(t.Context(), tradingDay(t, 6), 0, nil); err != nil || other.Hash == r.Hash {
		t.Errorf("another seed: %v, %v", err, other)
	}
}

// TestDamagedJournal corrupts bytes in the middle of a segment. The damage and the gap are found.
func TestDamagedJournal(t *testing.T) {
	folder := tradingDay(t, 5)
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.seg"))
	if err != nil || len(files) < 3 {
		t.Fatalf("segments %v, %v", files, err)
	}
	name, rows := files[1], tradesOf(t, folder)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		b[len(b)/2+i] ^= 0x55
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Journal(t.Context(), folder, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Result(Message); m.Wrong == 0 || !strings.Contains(m.Findings[0].Text, "damaged at byte") {
		t.Errorf("the damage was not found:\n%s", text(r))
	}
	wantMissing(t, folder, rows, r)
	if is, err := IsJournal(folder); !is || err != nil {
		t.Errorf("the folder: %v, %v", is, err)
	}
	if is, err := IsJournal(name); !is || err != nil {
		t.Errorf("the segment: %v, %v", is, err)
	}
	if is, err := IsJournal(t.TempDir()); is || err != nil {
		t.Errorf("an empty folder: %v, %v", is, err)
	}
}

// tradesOf returns N and time of the trades of a journal that can be read, by instrument.
func tradesOf(t *testing.T, folder string) map[string]map[uint64]int64 {
	t.Helper()
	in, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	list := map[string]map[uint64]int64{}
	err = in.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Trade, journal.Cancel, journal.Correct), func(r *journal.Row) bool {
		def, _ := in.Instrument(r.Instrument)
		id := def.ID.String()
		if list[id] == nil {
			list[id] = map[uint64]int64{}
		}
		list[id][r.N] = r.Time
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantMissing checks that a report names the trades that a scan does not find any more.
func wantMissing(t *testing.T, folder string, before map[string]map[uint64]int64, r *Report) {
	t.Helper()
	found := 0
	for id, left := range tradesOf(t, folder) {
		var from, to uint64
		for n := uint64(1); n <= uint64(len(before[id])); n++ {
			if _, ok := left[n]; ok {
				continue
			}
			if to = n; from == 0 {
				from = n
			}
		}
		if from == 0 {
			continue
		}
		found++
		at := func(n uint64) string { return string(wire.AppendTime(nil, before[id][n])) }
		want := fmt.Sprintf(": trades of %s: N %d to %d are missing, after %s, before %s", id, from, to, at(from-1), at(to+1))
		if !slices.ContainsFunc(r.Notes, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("the report does not say%s\n%s", want, text(r))
		}
	}
	if found == 0 {
		t.Error("no trade is missing")
	}
}

// TestSimulatedDay checks that nothing is wrong with the events of a trading day.
func TestSimulatedDay(t *testing.T) {
	s := NewSink(Config{})
	if err := exchange(t, 9).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	r := s.Report()
	if r.Wrong() > 0 || r.Figure("trades") == 0 {
		t.Errorf("%s", text(r))
	}
}

package journal

import (
	"fmt"
	"os"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestSourcesOfATornEndLong cuts a journal at many places, as kills do. The newest number of a
// source that a restart finds is always that of the newest row.
func TestSourcesOfATornEndLong(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger, cfg.Copy, cfg.Epoch = nil, true, "log-1" // a copy keeps its epoch when rows are missing
	j := mustOpen(t, cfg)
	if err := j.Start(func(uint32, func(*Row)) {}); err != nil {
		t.Fatal(err)
	}
	id := market.InstrumentID{Symbol: "A", Market: "M", Term: "CI"}
	number := j.Define(market.Instrument{ID: id})
	for i := range uint64(60) {
		s := Source{Instrument: number, Channel: Trades, Numbering: 7, Sequence: 1000 + i + 1}
		j.Append(&Row{Kind: Trade, Instrument: number, Position: i + 1, N: i + 1, Latency: -1, Price: market.Scale, Size: market.Scale, Source: &s})
		if i%4 == 3 {
			j.Commit()
		}
	}
	last := j.lastSegment().path(false)
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	found := map[uint64]bool{}
	for n := len(text); n >= 64; n -= 13 {
		name := fmt.Sprint(n, " bytes")
		cut := cfg
		cut.Folder = copyFolder(t, cfg.Folder)
		if err := os.Truncate(segmentFiles(t, cut.Folder)[0], int64(n)); err != nil {
			t.Fatal(err)
		}
		k := mustOpen(t, cut)
		restoreAll(t, k)
		newest, held := lastPosition(k.views("")), k.Sources()
		found[newest] = true
		switch {
		case len(held) == 0 && newest > 0, len(held) > 1:
			t.Errorf("%s: %d rows, numbers %v", name, newest, held)
		case len(held) == 1 && held[0] != (Source{Instrument: number, Channel: Trades, Numbering: 7, Sequence: 1000 + newest}):
			t.Errorf("%s: %d rows, numbers %v", name, newest, held)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 10 {
		t.Errorf("only %d different ends were found", len(found))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSourcesOfCheckpoint checks that numbers stay known when their rows are in earlier segments,
// and that a number without a row is stored by the next commit.
func TestSourcesOfCheckpoint(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 20_000
	src := newRowSource(5, 4)
	src.resumes = false
	j := begin(t, cfg, src)
	number := src.numbers[1]
	src.write(j, 10, true)
	j.NoteSource(&Source{Instrument: number, Channel: Quotes, Numbering: 3, Sequence: 41})
	if !j.Pending() {
		t.Error("the number does not wait to be written")
	}
	j.Commit()
	src.write(j, 3000, true)
	j.NoteSource(&Source{Instrument: number, Channel: Books, Numbering: 3, Sequence: 9})
	j.Commit()
	cfg.Folder = copyFolder(t, cfg.Folder) // as after a kill
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	k := mustOpen(t, cfg)
	restoreAll(t, k)
	held := map[Channel]uint64{}
	for _, s := range k.Sources() {
		held[s.Channel] = s.Sequence
	}
	if len(held) != 2 || held[Quotes] != 41 || held[Books] != 9 {
		t.Errorf("numbers %v", held)
	}
	if len(segmentFiles(t, cfg.Folder)) < 3 {
		t.Error("the journal has too few segments")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

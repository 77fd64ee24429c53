package replay_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/feed/replay"
	"github.com/ruedahq/rueda/feed/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// played returns what a source publishes, and its counters.
func played(t *testing.T, s *replay.Source) (events []string, stats replay.Stats) {
	t.Helper()
	var r feedtest.Recorder
	if err := s.Run(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Events() {
		events = append(events, fmt.Sprint(e.Kind, r.ID(e.Handle), e.Time, e.Sequence, e.Price, e.Size, e.Reason, e.Bids, e.Asks))
	}
	return events, s.Stats()
}

func openSource(t *testing.T, path string) *replay.Source {
	t.Helper()
	s, err := replay.Open(path, replay.Config{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestThenBinance checks that a capture in several files plays as in one, wherever it is divided:
// the books continue.
func TestThenBinance(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "all.jsonl")
	writeDays(t, path, 3)
	want, all := played(t, openSource(t, path))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for _, cuts := range [][]int{{3}, {len(lines) / 2}, {10, 11, len(lines) / 3}} {
		var s *replay.Source
		from := 0
		for i, to := range append(cuts, len(lines)) {
			part := filepath.Join(folder, fmt.Sprint(i))
			if err := os.WriteFile(part, bytes.Join(lines[from:to], nil), 0o600); err != nil {
				t.Fatal(err)
			}
			if next := openSource(t, part); s == nil {
				s = next
			} else {
				s.Then(next)
			}
			from = to
		}
		got, stats := played(t, s)
		if !slices.Equal(got, want) {
			t.Errorf("divided at %v: %d events, want %d", cuts, len(got), len(want))
		}
		if stats != all {
			t.Errorf("divided at %v: counted %+v, want %+v", cuts, stats, all)
		}
		read, total := s.Progress()
		if read != total || total != int64(len(data)) {
			t.Errorf("progress %d of %d", read, total)
		}
	}
}

// TestThenSnapshot checks that a book which the next recording begins again is stale until then.
func TestThenSnapshot(t *testing.T) {
	const second, begin = 1_000_000_000, int64(1_704_205_800_000_000_000)
	day := func(i int64, price int64) string {
		w := &replaytest.DBN{Version: 3}
		w.Header("XNAS.ITCH", replaytest.SchemaMBO)
		at := begin + i*24*3600*second
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'R', Side: 'N', Flags: replaytest.Last})
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'A', Side: 'B', OrderID: 1, Price: price, Size: 1, Flags: replaytest.Last})
		path := filepath.Join(t.TempDir(), "day.dbn")
		if err := os.WriteFile(path, w.Bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, next := day(0, second), day(1, 2*second)
	s := openSource(t, first)
	s.Then(openSource(t, next))
	one, _ := played(t, openSource(t, first))
	two, _ := played(t, openSource(t, next))
	id := market.InstrumentID{Symbol: "7", Market: "XNAS", Term: "24hs"}
	gap := fmt.Sprint(market.KindGap, id, begin, 0, 0, 0, "next_recording", []market.Level(nil), []market.Level(nil))
	got, stats := played(t, s)
	if want := slices.Concat(one, []string{gap}, two); len(got) != 5 || !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if stats.Lines != 4 || stats.Used != 4 || stats.Passes != 1 {
		t.Errorf("counted %+v", stats)
	}
}

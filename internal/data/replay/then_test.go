package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
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

// TestThenUnused checks that the recordings after one of which nothing can be played are played,
// and that the error names that one.
func TestThenUnused(t *testing.T) {
	folder := t.TempDir()
	part := func(name string, write func(w *replaytest.Binance)) string {
		w := replaytest.Binance{}
		write(&w)
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, w.Bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const at = 1723161255000000000
	first := part("1", func(w *replaytest.Binance) { w.Trade(at, at/1e6, 1, "100", "1", true) })
	second := part("2", func(w *replaytest.Binance) { w.Depth(at, at/1e6, 5, 6, 4, nil, nil) })
	third := part("3", func(w *replaytest.Binance) { w.Trade(at, at/1e6, 2, "100", "1", true) })
	s := openSource(t, first)
	s.Then(openSource(t, second))
	s.Then(openSource(t, third))
	var r feedtest.Recorder
	err := s.Run(t.Context(), &r)
	unused, ok := errors.AsType[*replay.UnusedError](err)
	if !ok || unused.File != second || unused.Records != 1 || unused.Skipped.String() != "1 unknown_book" || !unused.Final() {
		t.Errorf("Run returned %v", err)
	}
	if stats := s.Stats(); stats.Trades != 2 || stats.Damaged != 0 {
		t.Errorf("counted %+v", stats)
	}
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

// TestThenAfterDamage checks that the recordings after a damaged one are played. A gap comes before
// them, the books are stale until their snapshots, and the damage is counted, logged and returned.
func TestThenAfterDamage(t *testing.T) {
	const second, begin = 1_000_000_000, int64(1_704_205_800_000_000_000)
	trade := func(day, id int64) string {
		at := begin/1e6 + day*24*3600*1000 + id
		return fmt.Sprintf(`%d000000 {"stream":"xusdt@trade","data":{"e":"trade","E":%d,"T":%d,"s":"XUSDT","t":%d,"p":"100","q":"1","m":true,"M":true}}`+"\n", at, at, at, id)
	}
	depth := func(day, id int64) string {
		at := begin/1e6 + day*24*3600*1000 + id
		return fmt.Sprintf(`%d000000 {"stream":"xusdt@depth","data":{"e":"depthUpdate","E":%d,"s":"XUSDT","U":%d,"u":%d,"b":[["99","%d"]],"a":[]}}`+"\n", at, at, id, id, id)
	}
	snapshot := func(day, id int64) string {
		return fmt.Sprintf(`%d000000 {"lastUpdateId":%d,"bids":[["98","1"]],"asks":[]}`+"\n", begin/1e6+day*24*3600*1000+id, id)
	}
	dbn := func(day int64, cut int) string {
		w := &replaytest.DBN{Version: 3}
		w.Header("XNAS.ITCH", replaytest.SchemaMBO)
		at := begin + day*24*3600*second
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'R', Side: 'N', Flags: replaytest.Last})
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'A', Side: 'B', OrderID: 1, Price: second, Size: 1, Flags: replaytest.Last})
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: 'C', Side: 'B', OrderID: 1, Price: second, Size: 1, Flags: replaytest.Last})
		return string(w.Bytes[:len(w.Bytes)-cut])
	}
	for _, tt := range []struct {
		name  string
		files []string
		want  string // kinds of the events

		damaged, continued int
	}{
		{"Binance", []string{
			trade(0, 1) + snapshot(0, 10) + depth(0, 11) + "damage\n" + depth(0, 12) + trade(0, 2),
			depth(1, 13) + trade(1, 13) + snapshot(1, 13) + depth(1, 14),
			depth(2, 15) + "damage\n",
			trade(3, 9),
		}, "trade snapshot update gap trade snapshot update update gap trade", 2, 2},
		{"DBN", []string{dbn(0, 10), dbn(1, 0), dbn(2, 0)}, "snapshot update gap snapshot update update gap snapshot update update", 1, 1},
		{"the last one", []string{dbn(0, 0), dbn(1, 10)}, "snapshot update update gap snapshot update", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			var s *replay.Source
			for i, text := range tt.files {
				path := filepath.Join(t.TempDir(), fmt.Sprint(i))
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				next, err := replay.Open(path, replay.Config{Speed: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				if s == nil {
					s = next
				} else {
					s.Then(next)
				}
			}
			var r feedtest.Recorder
			err := s.Run(t.Context(), &r)
			if bad, ok := errors.AsType[*replay.Error](err); !ok || bad.Offset == 0 || strings.Count(err.Error(), "offset") != tt.damaged || s.Stats().Damaged != tt.damaged {
				t.Errorf("%d damaged, Run returned %v", s.Stats().Damaged, err)
			}
			if n := strings.Count(log.String(), "the next one is played"); n != tt.continued {
				t.Errorf("%d continued:\n%s", n, log.String())
			}
			var got []string
			for _, e := range r.Events() {
				got = append(got, map[market.Kind]string{market.KindTrade: "trade", market.KindSnapshot: "snapshot", market.KindUpdate: "update", market.KindGap: "gap"}[e.Kind])
				if e.Kind == market.KindGap && e.Time == 0 {
					t.Errorf("a gap without a time: %+v", e)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("played %s, want %s", text, tt.want)
			}
		})
	}
}

package journal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
	"github.com/ruedahq/rueda/market"
)

// bigRowSource returns a source of instruments with books of levels levels on each side.
func bigRowSource(instruments, levels int) *rowSource {
	t := newRowSource(3, instruments)
	t.clone = false
	for i := range t.defs {
		t.known[i], t.counts[i].N[Books] = true, 1
		for k := range levels {
			t.books[i].Set(market.Buy, market.Level{Price: market.Price(9_000_000_000 - k*1_000_000), Size: market.Scale, Orders: 1})
			t.books[i].Set(market.Sell, market.Level{Price: market.Price(9_100_000_000 + k*1_000_000), Size: market.Scale, Orders: 1})
		}
	}
	return t
}

// TestCheckpointLargerThanSegment writes one row in each commit with a checkpoint of ten times a
// segment.
func TestCheckpointLargerThanSegment(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger, cfg.Segment = nil, 1<<20
	src := bigRowSource(4_000, 50)
	src.resumes = false
	j := begin(t, cfg, src)
	defer j.Close()
	for range 500 {
		j.Append(src.next(false))
		j.Commit()
	}
	if n := len(segmentFiles(t, cfg.Folder)); n != 1 || j.CheckpointPending() {
		t.Errorf("%d segments after 500 rows; unfinished %v", n, j.CheckpointPending())
	}
	if whole := j.point.end; whole < 5<<20 {
		t.Errorf("the checkpoint has %d bytes", whole)
	}
	// A segment has its configured size after its checkpoint.
	for range 25_000 {
		j.Append(src.next(false))
		j.Commit()
	}
	if n := len(segmentFiles(t, cfg.Folder)); n != 2 {
		t.Errorf("%d segments after 1.2 MB of rows", n)
	}
}

// TestPieceIsBoundedE2E checks the size of the checkpoint in a commit, with 20,000 instruments of
// 50 levels on each side.
func TestPieceIsBoundedE2E(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	src := bigRowSource(20_000, 50)
	j := begin(t, cfg, src)
	defer j.Close()
	byNumber := make(map[uint32]int, len(src.numbers))
	for i, n := range src.numbers {
		byNumber[n] = i
	}
	instruments := 0
	j.checkpoint = func(number uint32, emit func(*Row)) {
		instruments++
		i := byNumber[number]
		emit(&Row{Kind: Numbers, Instrument: number, Counts: src.counts[i]})
		emit(&Row{Kind: BookState, Instrument: number, N: 1, Bids: src.books[i].Append(nil, market.Buy, 0), Asks: src.books[i].Append(nil, market.Sell, 0)})
	}
	const one = 4 << 10 // an instrument: definition, counters and book
	pieces, most := 0, int64(0)
	j.Append(src.next(false))
	for first := true; first || j.CheckpointPending(); first = false {
		before, counted := j.written, instruments
		j.Commit()
		pieces++
		most = max(most, j.written-before)
		if instruments-counted > checkpointInstruments {
			t.Fatalf("a piece of %d instruments", instruments-counted)
		}
	}
	if most > checkpointBytes+one || instruments != len(src.defs) {
		t.Errorf("the longest piece has %d bytes; %d instruments", most, instruments)
	}
	t.Logf("figure: a checkpoint of %d bytes in %d pieces, the longest of %d bytes", j.point.bytes, pieces, most)
}

// frameEnds returns the offsets of the ends of frames of a segment, and that of its header.
func frameEnds(t *testing.T, file string) []int64 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int64{record.HeaderSize}
	for at := int64(record.HeaderSize); at < int64(len(b)); {
		n, ok := record.FrameSize(b[at:])
		if !ok {
			t.Fatalf("%s: no frame at %d", file, at)
		}
		at += record.FrameHead + int64(n)
		ends = append(ends, at)
	}
	return ends
}

// killedAt returns a copy of a journal as after a kill when the last write ended at an offset of a
// segment.
func killedAt(t *testing.T, folder string, files []string, file int, end int64) string {
	t.Helper()
	to := t.TempDir()
	for i, name := range append([]string{filepath.Join(folder, stateName)}, files[:file+1]...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i == file+1 {
			b = b[:end]
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		rel = filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(rel, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, found, err := state.Open(to, realSystem())
	if err != nil || !found {
		t.Fatal(found, err)
	}
	s.Clean, s.Suspended, s.Segment = false, false, uint32(file+1)
	if end == record.HeaderSize {
		s.Segment = uint32(file) // published nothing yet
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	given, err := state.OpenHighWater(to, to, s.Journal)
	if err != nil {
		t.Fatal(err)
	}
	given.Begin(s.Journal, s.Epoch, 0)
	if err := given.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

// hubState is what a restart must know.
type hubState struct {
	Position uint64
	Counts   []Counts
	Books    []string
}

func (t *rowSource) state() (s hubState) {
	s.Position, s.Counts = t.position, t.counts
	for i := range t.books {
		text := "not known"
		if t.known[i] {
			text = fmt.Sprint(t.books[i].Append(nil, market.Buy, 0), t.books[i].Append(nil, market.Sell, 0))
		}
		s.Books = append(s.Books, text)
	}
	return s
}

// TestRestoreFromEveryFrame kills a writer after each of its frames, with checkpoints in pieces of
// every size, segments that end at any time and instruments that are added later. Restore returns
// the state of all rows up to there, and so does BookAt.
func TestRestoreFromEveryFrame(t *testing.T) { restoreFromEveryFrame(t, 1) }

// TestRestoreFromEveryFrameE2E does so with more seeds, without the race detector.
func TestRestoreFromEveryFrameE2E(t *testing.T) { restoreFromEveryFrame(t, soak(100)) }

func restoreFromEveryFrame(t *testing.T, seeds int) {
	places := 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := testConfig(t)
		cfg.Logger, cfg.Segment, cfg.checkpoint = nil, int64(2_000+rng.IntN(20_000)), int64(1+rng.IntN(3_000))
		src := newRowSource(seed, 2+rng.IntN(8))
		late := src.defs[1:]
		j := begin(t, cfg, src)
		for range 60 {
			for range 1 + rng.IntN(20) {
				j.Append(src.next(true))
			}
			if rng.IntN(3) > 0 {
				j.Commit()
			}
			if rng.IntN(20) == 0 {
				src.at += dayNanos
			}
			if rng.IntN(10) == 0 { // a definition changes meanwhile
				k := rng.IntN(len(late))
				late[k].Name += "."
				j.Define(late[k])
			}
		}
		j.Commit()
		files := segmentFiles(t, cfg.Folder)
		for f, name := range files {
			for _, end := range frameEnds(t, name) {
				places++
				cfg.Folder = killedAt(t, filepath.Dir(filepath.Dir(name)), files, f, end)
				wantRestored(t, cfg, src, j.Epoch(), fmt.Sprintf("seed %d, segment %d, place %d", seed, f+1, end))
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("figure: %d places", places)
}

// wantRestored checks a journal after a kill.
func wantRestored(t *testing.T, cfg Config, all *rowSource, epoch, what string) {
	t.Helper()
	j := mustOpen(t, cfg)
	defer j.Close()
	if j.Epoch() != epoch {
		t.Fatalf("%s: a new epoch", what)
	}
	rows := scanAll(t, j.Archive, ScanStart{})
	sameRows(t, what, rows, all.rows[:len(rows)])
	want, got := newRowSource(0, len(all.defs)), newRowSource(0, len(all.defs))
	for i := range rows {
		want.follow(&rows[i])
	}
	if err := j.Restore(func(r *Row) error {
		got.follow(r)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got, want := got.state(), want.state(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: restored\n%+v\nwant\n%+v", what, got, want)
	}
	if len(rows) == 0 {
		return
	}
	i, at := len(rows)%len(all.defs), rows[len(rows)*2/3].At
	b, known := bookOf(rows, all.numbers[i], at, math.MaxInt64)
	if s, err := j.BookAt(t.Context(), all.defs[i].ID, at, math.MaxInt64); known != (err == nil) || known && fmt.Sprint(s.N, s.Bids, s.Asks) != fmt.Sprint(b.N, b.Bids, b.Asks) {
		t.Fatalf("%s: book %+v, %v; want %v %+v", what, s, err, known, b)
	}
}

// TestKillAfterGap kills a writer while the checkpoint after a gap is written: the lost rows are
// unknown, and a new epoch begins. When the checkpoint is complete, the epoch continues.
func TestKillAfterGap(t *testing.T) {
	cfg := testConfig(t)
	cfg.checkpoint = 100
	disk := &smallDisk{space: 20_000}
	cfg.sys.Write = disk.write
	src := newRowSource(5, 6)
	j := begin(t, cfg, src)
	for _, _, ok := j.Suspended(); !ok; _, _, ok = j.Suspended() {
		src.write(j, 5, true)
	}
	src.write(j, 50, true)
	disk.grow()
	j.space.Store(true)
	j.Commit()
	for pieces := 0; ; pieces++ {
		if _, err, ok := j.Suspended(); ok {
			t.Fatal(err)
		}
		unfinished, copied := j.CheckpointPending(), cfg
		copied.Folder, copied.sys.Write = copyFolder(t, cfg.Folder), nil
		k := mustOpen(t, copied)
		if again := k.Epoch() == j.Epoch(); again == unfinished {
			t.Fatalf("piece %d: unfinished %v, the epoch goes on %v", pieces, unfinished, again)
		}
		if !unfinished {
			got := newRowSource(0, len(src.defs))
			if err := k.Restore(func(r *Row) error { got.follow(r); return nil }); err != nil {
				t.Fatal(err)
			}
			if got, want := got.state(), src.state(); !reflect.DeepEqual(got, want) {
				t.Fatalf("restored\n%+v\nwant\n%+v", got, want)
			}
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if !unfinished {
			if pieces < 3 {
				t.Errorf("%d pieces", pieces)
			}
			break
		}
		src.write(j, 3, true)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOlderCheckpoints opens a journal with checkpoints in one piece at the beginning of each
// segment, definitions before them, and a gap after one.
func TestOlderCheckpoints(t *testing.T) {
	cfg := testConfig(t)
	if err := os.CopyFS(cfg.Folder, os.DirFS("testdata/whole")); err != nil {
		t.Fatal(err)
	}
	src := newRowSource(9, 3)
	src.at += 365 * dayNanos // the date of the checkpoint files
	for i := range src.numbers {
		src.numbers[i] = uint32(i + 1)
	}
	for range 280 {
		src.next(true)
	}
	j := mustOpen(t, cfg)
	defer j.Close()
	if len(j.Epochs()) != 1 || j.Epoch() != j.Epochs()[0] || len(j.Damage()) > 0 {
		t.Fatalf("epoch %s of %v, damage %v", j.Epoch(), j.Epochs(), j.Damage())
	}
	var kept []Row
	lost := 0
	for _, r := range scanAll(t, j.Archive, ScanStart{}) {
		if r.Kind != Gap {
			kept = append(kept, r)
			continue
		}
		if lost = int(r.N); r.CheckpointFollows || r.Position != uint64(len(kept)+lost) {
			t.Errorf("gap %+v after %d rows", r, len(kept))
		}
	}
	if lost != 35 {
		t.Fatalf("%d rows are lost", lost)
	}
	sameRows(t, "older", kept, append(slices.Clone(src.rows[:280-100-lost]), src.rows[280-100:]...))
	got := newRowSource(0, 3)
	if err := j.Restore(func(r *Row) error { got.follow(r); return nil }); err != nil {
		t.Fatal(err)
	}
	if got, want := got.state(), src.state(); !reflect.DeepEqual(got, want) {
		t.Fatalf("restored\n%+v\nwant\n%+v", got, want)
	}
	for i, def := range src.defs {
		b, err := j.BookAt(t.Context(), def.ID, src.at, math.MaxInt64)
		if err != nil || b.N != src.counts[i].N[Books] || !slices.Equal(b.Bids, src.books[i].Append(nil, market.Buy, 0)) {
			t.Errorf("book of %s: %+v, %v", def.ID, b, err)
		}
	}
	if err := j.Start(src.checkpoint); err != nil {
		t.Fatal(err)
	}
	src.define(j)
	src.write(j, 50, true)
	if rows := scanAll(t, j.Archive, ScanStart{}); len(rows) != 280-35+1+50 {
		t.Errorf("%d rows", len(rows))
	}
}

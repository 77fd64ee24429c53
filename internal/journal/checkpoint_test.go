package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// bigTape is a market of instruments with books of so many levels a side.
func bigTape(instruments, levels int) *tape {
	t := newTape(3, instruments)
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

// TestCheckpointLargerThanSegment writes one row a commit where a checkpoint is ten times a segment.
func TestCheckpointLargerThanSegment(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger, cfg.Segment = nil, 1<<20
	tape := bigTape(4_000, 50)
	j := begin(t, cfg, tape)
	defer j.Close()
	for range 500 {
		j.Append(tape.next(false))
		j.Commit()
	}
	if n := len(segmentFiles(t, cfg.Folder)); n != 1 || j.Unfinished() {
		t.Errorf("%d segments after 500 rows; unfinished %v", n, j.Unfinished())
	}
	if whole := j.point.end; whole < 5<<20 {
		t.Errorf("the checkpoint has %d bytes", whole)
	}
	// A segment is as long as configured behind its checkpoint.
	for range 25_000 {
		j.Append(tape.next(false))
		j.Commit()
	}
	if n := len(segmentFiles(t, cfg.Folder)); n != 2 {
		t.Errorf("%d segments after 1.2 MB of rows", n)
	}
}

// TestPieceIsBounded counts what a commit adds for a checkpoint of 20,000 instruments of 50 levels a side.
func TestPieceIsBounded(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	tape := bigTape(20_000, 50)
	j := begin(t, cfg, tape)
	defer j.Close()
	byNumber := make(map[uint32]int, len(tape.numbers))
	for i, n := range tape.numbers {
		byNumber[n] = i
	}
	instruments := 0
	j.checkpoint = func(number uint32, emit func(*Row)) {
		instruments++
		i := byNumber[number]
		emit(&Row{Kind: Numbers, Instrument: number, Counts: tape.counts[i]})
		emit(&Row{Kind: BookState, Instrument: number, N: 1, Bids: tape.books[i].Append(nil, market.Buy, 0), Asks: tape.books[i].Append(nil, market.Sell, 0)})
	}
	const one = 4 << 10 // an instrument: its definition, its counters and its book
	pieces, most := 0, int64(0)
	j.Append(tape.next(false))
	for first := true; first || j.Unfinished(); first = false {
		before, counted := j.written, instruments
		j.Commit()
		pieces++
		most = max(most, j.written-before)
		if instruments-counted > checkpointInstruments {
			t.Fatalf("a piece of %d instruments", instruments-counted)
		}
	}
	if most > checkpointBytes+one || instruments != len(tape.defs) {
		t.Errorf("the longest piece has %d bytes; %d instruments", most, instruments)
	}
	t.Logf("figure: a checkpoint of %d bytes in %d pieces, the longest of %d bytes", j.point.bytes, pieces, most)
}

// frameEnds are the places of a segment behind its frames, and that behind its header.
func frameEnds(t *testing.T, file string) []int64 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int64{headerSize}
	for at := int64(headerSize); at < int64(len(b)); {
		n, ok := frameSize(b[at:])
		if !ok {
			t.Fatalf("%s: no frame at %d", file, at)
		}
		at += frameHead + int64(n)
		ends = append(ends, at)
	}
	return ends
}

// killedAt is a copy of a journal as a kill leaves it when the last write ended at a place of a segment.
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
	s, found, err := openState(to, realSystem())
	if err != nil || !found {
		t.Fatal(found, err)
	}
	s.clean, s.suspended, s.segment = false, false, uint32(file+1)
	if end == headerSize {
		s.segment = uint32(file) // of which nothing was listed yet
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	given, err := openHighWater(to, to, s.journal)
	if err != nil {
		t.Fatal(err)
	}
	given.begin(s.journal, s.epoch, 0)
	if err := given.close(false); err != nil {
		t.Fatal(err)
	}
	return to
}

// stands is what of a tape a restart has to know.
type stands struct {
	Position uint64
	Counts   []Counts
	Books    []string
}

func (t *tape) stands() (s stands) {
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

// TestRestoreFromEveryFrame kills a writer behind each frame that it wrote, with checkpoints in pieces of every size,
// rotations at any moment and instruments that come later: what Restore tells comes to what the rows up to
// there come to, a book at any time too.
func TestRestoreFromEveryFrame(t *testing.T) {
	places := 0
	for seed := range uint64(soak(100)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := testConfig(t)
		cfg.Logger, cfg.Segment, cfg.checkpoint = nil, int64(2_000+rng.IntN(20_000)), int64(1+rng.IntN(3_000))
		tape := newTape(seed, 2+rng.IntN(8))
		late := tape.defs[1:]
		j := begin(t, cfg, tape)
		for range 60 {
			for range 1 + rng.IntN(20) {
				j.Append(tape.next(true))
			}
			if rng.IntN(3) > 0 {
				j.Commit()
			}
			if rng.IntN(20) == 0 {
				tape.at += dayNanos
			}
			if rng.IntN(10) == 0 { // a definition changes in the middle
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
				wantRestored(t, cfg, tape, j.Epoch(), fmt.Sprintf("seed %d, segment %d, place %d", seed, f+1, end))
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("figure: %d places", places)
}

// wantRestored opens what a kill left.
func wantRestored(t *testing.T, cfg Config, all *tape, epoch, what string) {
	t.Helper()
	j := mustOpen(t, cfg)
	defer j.Close()
	if j.Epoch() != epoch {
		t.Fatalf("%s: a new epoch", what)
	}
	rows := scanAll(t, j.Archive, Place{})
	sameRows(t, what, rows, all.rows[:len(rows)])
	want, got := newTape(0, len(all.defs)), newTape(0, len(all.defs))
	for i := range rows {
		want.follow(&rows[i])
	}
	if err := j.Restore(func(r *Row) error {
		got.follow(r)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got, want := got.stands(), want.stands(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: restored\n%+v\nwant\n%+v", what, got, want)
	}
	if len(rows) == 0 {
		return
	}
	i, at := len(rows)%len(all.defs), rows[len(rows)*2/3].At
	b, known := bookOf(rows, all.numbers[i], at)
	if s, err := j.BookAt(t.Context(), all.defs[i].ID, at); known != (err == nil) || known && fmt.Sprint(s.N, s.Bids, s.Asks) != fmt.Sprint(b.N, b.Bids, b.Asks) {
		t.Fatalf("%s: book %+v, %v; want %v %+v", what, s, err, known, b)
	}
}

// TestKillBehindHole kills a writer while the checkpoint behind a hole is written: what was lost is not known, and a
// new epoch begins. When it is whole the epoch goes on.
func TestKillBehindHole(t *testing.T) {
	cfg := testConfig(t)
	cfg.checkpoint = 100
	disk := &smallDisk{room: 20_000}
	cfg.write = disk.write
	tape := newTape(5, 6)
	j := begin(t, cfg, tape)
	for _, _, ok := j.Suspended(); !ok; _, _, ok = j.Suspended() {
		tape.write(j, 5, true)
	}
	tape.write(j, 50, true)
	disk.grow()
	j.space.Store(true)
	j.Commit()
	for pieces := 0; ; pieces++ {
		if _, err, ok := j.Suspended(); ok {
			t.Fatal(err)
		}
		unfinished, copied := j.Unfinished(), cfg
		copied.Folder, copied.write = copyFolder(t, cfg.Folder), nil
		k := mustOpen(t, copied)
		if again := k.Epoch() == j.Epoch(); again == unfinished {
			t.Fatalf("piece %d: unfinished %v, the epoch goes on %v", pieces, unfinished, again)
		}
		if !unfinished {
			got := newTape(0, len(tape.defs))
			if err := k.Restore(func(r *Row) error { got.follow(r); return nil }); err != nil {
				t.Fatal(err)
			}
			if got, want := got.stands(), tape.stands(); !reflect.DeepEqual(got, want) {
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
		tape.write(j, 3, true)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOlderCheckpoints takes up a journal with checkpoints in one piece at the head of each segment, definitions in
// front of them, and a hole behind one.
func TestOlderCheckpoints(t *testing.T) {
	cfg := testConfig(t)
	if err := os.CopyFS(cfg.Folder, os.DirFS("testdata/whole")); err != nil {
		t.Fatal(err)
	}
	tape := newTape(9, 3)
	tape.at += 365 * dayNanos // the date of the checkpoint files
	for i := range tape.numbers {
		tape.numbers[i] = uint32(i + 1)
	}
	for range 280 {
		tape.next(true)
	}
	j := mustOpen(t, cfg)
	defer j.Close()
	if len(j.Epochs()) != 1 || j.Epoch() != j.Epochs()[0] || len(j.Damage()) > 0 {
		t.Fatalf("epoch %s of %v, damage %v", j.Epoch(), j.Epochs(), j.Damage())
	}
	var kept []Row
	lost := 0
	for _, r := range scanAll(t, j.Archive, Place{}) {
		if r.Kind != Hole {
			kept = append(kept, r)
			continue
		}
		if lost = int(r.N); r.CheckpointBehind || r.Position != uint64(len(kept)+lost) {
			t.Errorf("hole %+v behind %d rows", r, len(kept))
		}
	}
	if lost != 35 {
		t.Fatalf("%d rows are lost", lost)
	}
	sameRows(t, "older", kept, append(slices.Clone(tape.rows[:280-100-lost]), tape.rows[280-100:]...))
	got := newTape(0, 3)
	if err := j.Restore(func(r *Row) error { got.follow(r); return nil }); err != nil {
		t.Fatal(err)
	}
	if got, want := got.stands(), tape.stands(); !reflect.DeepEqual(got, want) {
		t.Fatalf("restored\n%+v\nwant\n%+v", got, want)
	}
	for i, def := range tape.defs {
		b, err := j.BookAt(t.Context(), def.ID, tape.at)
		if err != nil || b.N != tape.counts[i].N[Books] || !slices.Equal(b.Bids, tape.books[i].Append(nil, market.Buy, 0)) {
			t.Errorf("book of %s: %+v, %v", def.ID, b, err)
		}
	}
	if err := j.Start(tape.checkpoint); err != nil {
		t.Fatal(err)
	}
	tape.define(j)
	tape.write(j, 50, true)
	if rows := scanAll(t, j.Archive, Place{}); len(rows) != 280-35+1+50 {
		t.Errorf("%d rows", len(rows))
	}
}

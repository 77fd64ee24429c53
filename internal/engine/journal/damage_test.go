package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// change changes a byte of the newest segment, at a hundredth of its length, and cuts off its last
// bytes.
func change(t *testing.T, folder string, hundredths, cut int) {
	t.Helper()
	files := segmentFiles(t, folder)
	name := files[len(files)-1]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)*hundredths/100] ^= 0x40
	if err := os.WriteFile(name, b[:len(b)-cut], 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamageAndTornEnd ends the epoch if rows in the middle of a segment are lost, even if its end
// is torn too: a torn end is no loss, and must not hide one.
func TestDamageAndTornEnd(t *testing.T) {
	for _, cut := range []int{0, 5} {
		cfg := testConfig(t)
		src := newRowSource(5, 8)
		j := begin(t, cfg, src)
		src.write(j, 5_000, true)
		epoch := j.Epoch()
		cfg.Folder = copyFolder(t, cfg.Folder) // as after a kill
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		change(t, cfg.Folder, 50, cut)
		j = mustOpen(t, cfg)
		if j.Epoch() == epoch {
			t.Errorf("%d bytes cut off: the epoch goes on", cut)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBookAfterDamage returns no incomplete book: after damaged rows there is ErrNotKept, before
// them the book.
func TestBookAfterDamage(t *testing.T) {
	cfg := testConfig(t)
	src := newRowSource(5, 3)
	j := begin(t, cfg, src)
	src.write(j, 5_000, true)
	before := src.at
	want := src.books[0].Append(nil, market.Buy, 0)
	src.write(j, 15_000, false)
	id := src.defs[0].ID
	if _, err := j.BookAt(t.Context(), id, src.at, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, cfg.Folder, 92, 0)
	j = mustOpen(t, cfg)
	defer j.Close()
	if s, err := j.BookAt(t.Context(), id, src.at, math.MaxInt64); !errors.Is(err, ErrNotKept) {
		t.Errorf("behind the damage: N %d, %v", s.N, err)
	}
	s, err := j.BookAt(t.Context(), id, before, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Bids, want) {
		t.Errorf("in front of the damage\n got %v\nwant %v", s.Bids, want)
	}
}

// closedDay returns a journal with a closed day, the path of its index, and its rows.
func closedDay(t *testing.T) (cfg Config, index string, src *rowSource) {
	t.Helper()
	cfg = testConfig(t)
	src = newRowSource(14, 2)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 150)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg, filepath.Join(cfg.Folder, dateOf(dayOf(start)), dayfile.Name), src
}

// TestDamagedIndexLong checks that an index of a day with any wrong byte or length loses nothing,
// because it is built again from the segments.
func TestDamagedIndexLong(t *testing.T) {
	cfg, file, src := closedDay(t)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(good))
	step := max(1, len(good)/soak(40*20))
	if soak(20) == 20 {
		step = 1
	}
	enc := testEncoder(t)
	check := func(what string, at int, bad []byte) {
		var log bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		what = fmt.Sprintf("%s at %d of %d", what, at, len(good))
		r, err := OpenReader(t.Context(), cfg.Folder)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		checkAll(t, what, r.Archive, src)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, cfg)
		checkAll(t, what, j.Archive, src)
		if !strings.Contains(log.String(), "built again") {
			t.Errorf("%s: not logged: %s", what, &log)
		}
		if err := j.closeDays(t.Context(), enc); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		checkAll(t, what+", closed again", j.Archive, src)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		j = mustOpen(t, cfg)
		checkAll(t, what+", opened again", j.Archive, src)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if log.Len() > 0 {
			t.Errorf("%s: the new index: %s", what, &log)
		}
	}
	for at := 0; at < len(good); at += step {
		bad := slices.Clone(good)
		bad[at] ^= 1 << (at % 8)
		check("a wrong byte", at, bad)
		check("cut off", at, good[:at])
	}
	for at := len(good) - 16; at < len(good)-8; at++ { // the checksum of the footer, a word of 64 bits
		bad := slices.Clone(good)
		bad[at] ^= 1
		check("a wrong checksum", at, bad)
	}
	check("longer", len(good), append(slices.Clone(good), 0))
}

// TestIndexDamagedWhileOpen checks that reads find all rows if an index is damaged after it was
// opened, in both directions and by several readers.
func TestIndexDamagedWhileOpen(t *testing.T) {
	cfg, file, src := closedDay(t)
	for _, damage := range []func(b []byte, blocks int) []byte{
		func(b []byte, _ int) []byte { return b[:9] },
		func(b []byte, blocks int) []byte { return b[:blocks/2] },
		func(b []byte, blocks int) []byte { clear(b[9:blocks]); return b },
		func(b []byte, blocks int) []byte { clear(b[blocks/2 : blocks]); return b },
		func(b []byte, blocks int) []byte { b[blocks*9/10]++; return b },
		func(b []byte, _ int) []byte { return bytes.Repeat([]byte{0xff}, len(b)) },
	} {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, cfg)
		blocks := int(record.Word(good[len(good)-4*24-16:], 0)) // they end where the first section begins
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(damage(good, blocks)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for i, def := range src.defs {
					for slot := range record.NumSlots {
						var rows []Row
						err := j.Read(t.Context(), seriesOf(def.ID, slot), Range{Reverse: i == 1}, func(_ string, r *Row) bool {
							rows = append(rows, cloneRow(r))
							return true
						})
						if want := of(src.rows, src.numbers[i], slot); err != nil || len(rows) != len(want) {
							t.Errorf("%d rows, want %d: %v", len(rows), len(want), err)
						}
					}
				}
			})
		}
		readers.Wait()
		checkAll(t, "after the damage", j.Archive, src)
		if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostileDay reads the segments of a day whose index has more spans than it can, although its
// checksums are valid.
func TestHostileDay(t *testing.T) {
	cfg, file, src := closedDay(t)
	for _, spans := range []int{1 << 59, 1 << 20, -1} {
		forge(t, file, func(m *dayfile.Meta) { m.Segments[0].Spans = spans })
		r, err := OpenReader(t.Context(), cfg.Folder)
		if err != nil {
			t.Fatal(err)
		}
		checkAll(t, fmt.Sprintf("%d spans", spans), r.Archive, src)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// forge changes the description in the index of a day, with its checksums.
func forge(t *testing.T, file string, change func(*dayfile.Meta)) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const sums = 4 * 24 // offset, length and checksum of four sections
	body, foot := b[:len(b)-sums-16], slices.Clone(b[len(b)-sums-16:])
	at := record.Word(foot, 0)
	var m dayfile.Meta
	if err := json.Unmarshal(body[at:at+record.Word(foot, 1)], &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(foot, uint64(len(body)))
	binary.LittleEndian.PutUint64(foot[8:], uint64(len(text)))
	binary.LittleEndian.PutUint64(foot[16:], uint64(record.Checksum(text)))
	binary.LittleEndian.PutUint64(foot[sums:], uint64(record.Checksum(foot[:sums])))
	if err := os.WriteFile(file, slices.Concat(body, text, foot), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOldestBySegmentsAndIndex damages the list of blocks of a closed day's first segment. Its rows
// are also in the index, so that every series but books begins where it began before.
func TestOldestBySegmentsAndIndex(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 80_000
	src := newRowSource(21, 3)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 3_000)
	if err := errors.Join(j.closeDays(t.Context(), testEncoder(t)), j.Close()); err != nil {
		t.Fatal(err)
	}
	oldest := func() map[Series]uint64 {
		j := begin(t, cfg, newRowSource(22, 3))
		defer func() { _ = j.Close() }()
		list := map[Series]uint64{}
		for _, def := range src.defs {
			for slot := range record.NumSlots {
				if slot != record.SlotSummaries { // its rows do not have every N
					list[seriesOf(def.ID, slot)] = j.Oldest(seriesOf(def.ID, slot))
				}
			}
		}
		return list
	}
	want := oldest()
	first := segmentFiles(t, cfg.Folder)[0]
	info, err := os.Stat(first)
	if err != nil || filepath.Ext(first) != packedEnding {
		t.Fatalf("%s: %v", first, err)
	}
	if err := os.Truncate(first, info.Size()-footerSize); err != nil {
		t.Fatal(err)
	}
	if got := oldest(); !maps.Equal(got, want) {
		t.Errorf("series begin at\n%v, before the damage at\n%v", got, want)
	}
}

package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/journal/dayfile"
	"github.com/ruedahq/rueda/internal/journal/record"
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
	if _, err := j.BookAt(t.Context(), id, src.at); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, cfg.Folder, 92, 0)
	j = mustOpen(t, cfg)
	defer j.Close()
	if s, err := j.BookAt(t.Context(), id, src.at); !errors.Is(err, ErrNotKept) {
		t.Errorf("behind the damage: N %d, %v", s.N, err)
	}
	s, err := j.BookAt(t.Context(), id, before)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Bids, want) {
		t.Errorf("in front of the damage\n got %v\nwant %v", s.Bids, want)
	}
}

// TestHostileDay refuses an index of a day with more spans than it has, although its checksums are
// valid.
func TestHostileDay(t *testing.T) {
	cfg := testConfig(t)
	cfg.Logger = nil
	src := newRowSource(14, 4)
	j := begin(t, cfg, src)
	writeDays(t, j, src, 2, 1_000)
	if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, spans := range []int{1 << 59, 1 << 20, -1} {
		forge(t, filepath.Join(cfg.Folder, dateOf(dayOf(start)), dayfile.Name), func(m *dayfile.Meta) { m.Segments[0].Spans = spans })
		r, err := OpenReader(cfg.Folder)
		if err != nil {
			t.Fatal(err)
		}
		var d *Damage
		if err := r.Scan(t.Context(), ScanStart{}, nil, allKinds, func(*Row) bool { return true }); !errors.As(err, &d) {
			t.Errorf("%d spans: %v", spans, err)
		}
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

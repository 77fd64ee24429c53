package upgrade_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/data/verify"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// TestRowsAreOnDisk reads the segments in order, from the first record to the last and without an
// index. All rows have the times and positions there that were streamed. Some blocks of both days
// begin empty.
func TestRowsAreOnDisk(t *testing.T) {
	folder := filepath.Join(copied(t, "sqlite"), "data", "journal")
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.seg*"))
	if err != nil {
		t.Fatal(err)
	}
	disk, empty := map[place]row{}, map[bool]int{}
	for _, name := range names {
		walk(t, name, func(c *record.Cursor) {
			if c.Begins && c.Pos == c.End {
				empty[filepath.Ext(name) == ".segz"]++
			}
		}, func(x *record.Row) {
			def, ok := r.Instrument(x.Instrument)
			if !ok {
				t.Errorf("position %d is of an unknown instrument", x.Position)
			}
			at := place{Instrument: def.ID.String(), N: x.N}
			switch x.Kind {
			case record.Trade, record.Correct:
				at.Channel = "trades"
			case record.Quote:
				at.Channel = "quotes"
			default:
				return
			}
			disk[at] = row{time.Unix(0, x.Time).UTC(), fmt.Sprintf("%s:%d", r.Epoch(), x.Position)}
		})
	}
	if empty[true] == 0 || empty[false] == 0 {
		t.Errorf("%d blocks of closed days and %d of days that are not closed have no row: both are what this folder is for", empty[true], empty[false])
	}
	compared := 0
	for _, m := range streamed(t) {
		at, published := placeOf(t, m.Data)
		if at.Channel == "" {
			continue
		}
		compared++
		if is := disk[at]; !is.time.Equal(published) || m.Position != "" && is.position != m.Position {
			t.Errorf("%v: at %v and %s on disk, streamed at %v and %s", at, is.time, is.position, published, m.Position)
		}
	}
	if compared < 1500 || compared != len(disk) {
		t.Errorf("%d rows were streamed, and %d are on disk", compared, len(disk))
	}
}

// TestVerify checks that verify names the days whose rows earlier programs may have answered
// wrongly, and no others.
func TestVerify(t *testing.T) {
	for folder, want := range map[string][]string{
		filepath.Join(copied(t, "sqlite"), "data", "journal"): {"2026-11-29", "2026-11-30"},
		filepath.Join("0.1.0", "data", "journal"):             nil,
	} {
		r, err := verify.Journal(t.Context(), folder, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		var days []string
		for _, note := range r.Notes {
			if day, _, ok := strings.Cut(note, ": builds of 0.2.0-dev"); ok {
				days = append(days, day)
			}
		}
		if !slices.Equal(days, want) {
			t.Errorf("%s: days %v, want %v", folder, days, want)
		}
	}
}

// row is what can be wrong about a row.
type row struct {
	time     time.Time
	position string
}

// walk calls frame for each frame of a segment and yield for each message.
func walk(t *testing.T, name string, frame func(*record.Cursor), yield func(*record.Row)) {
	t.Helper()
	text := unpacked(t, name)
	c := record.Cursor{File: filepath.Base(name), Salt: binary.LittleEndian.Uint32(text[60:])}
	c.Reset(record.HeaderSize, text[record.HeaderSize:])
	var d record.Decoder
	for {
		err := c.Enter()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		frame(&c)
		for c.Pos < c.End {
			rec, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !record.IsMessage(rec) {
				continue
			}
			x, err := c.Row(&d, rec)
			if err != nil {
				t.Fatal(err)
			}
			yield(x)
		}
	}
}

// unpacked returns the bytes of a segment before a closed day was compressed: units, whose list is
// at the end.
func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".segz") {
		return text
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	end := text[len(text)-32:]
	list := text[record.Word(end, 1) : len(text)-32]
	whole := text[:record.HeaderSize:record.HeaderSize]
	for ; len(list) > 0; list = list[32:] {
		at, packed := record.Word(list, 1), uint64(binary.LittleEndian.Uint32(list[24:]))
		unit, err := record.Unpack(d, nil, text[at:at+packed], binary.LittleEndian.Uint32(list[28:]), int64(record.Word(list, 2)))
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, unit...)
	}
	return whole
}

package journal

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// FuzzRecord decodes any bytes as a record. What can be decoded encodes to the same row again.
func FuzzRecord(f *testing.F) {
	src := newRowSource(1, 3)
	for range 300 {
		f.Add(record.Append(nil, record.Base{Position: src.position, At: src.at}, src.next(true)), src.position, src.at)
	}
	f.Fuzz(func(t *testing.T, rec []byte, position uint64, at int64) {
		b := record.Base{Position: position, At: at}
		n := record.Size(rec)
		if n == 0 {
			return
		}
		var d record.Decoder
		r, ok := d.Decode(rec[:n], b)
		if !ok {
			return
		}
		if !b.Fits(r) {
			b = record.Base{Position: r.Position, At: r.At}
		}
		one := cloneRow(r)
		again := record.Append(nil, b, &one)
		r, ok = d.Decode(again, b)
		if !ok || record.Size(again) != len(again) || !equalRows(r, &one) && r.Latency == one.Latency {
			t.Fatalf("encoded again:\n got %+v\nwant %+v", *r, one)
		}
	})
}

// FuzzSegment opens any bytes as a segment, with corrected checksums.
func FuzzSegment(f *testing.F) {
	folder := f.TempDir()
	cfg := Config{Folder: folder, BootID: "boot"}
	src := newRowSource(2, 2)
	j := begin(f, cfg, src)
	src.write(j, 40, true)
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(segmentFiles(f, folder)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, true)
	f.Add(whole[:len(whole)-5], false)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix {
			b = fixSums(b)
		}
		file := filepath.Join(t.TempDir(), "any")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReader(t.Context(), file)
		if err != nil {
			var d *Damage
			if !errors.As(err, &d) {
				t.Fatalf("an error that is no damage: %v", err)
			}
			return
		}
		defer r.Close()
		readEverything(t, r.Archive)
	})
}

// readEverything reads everything; errors must be Damage.
func readEverything(t *testing.T, a *Archive) {
	t.Helper()
	check := func(err error) {
		var d *Damage
		if err != nil && !errors.As(err, &d) && !errors.Is(err, ErrNoBook) && !errors.Is(err, ErrNotKept) {
			t.Fatal(err)
		}
	}
	check(a.Scan(t.Context(), ScanStart{}, nil, allKinds|Checkpoints, func(*Row) bool { return true }))
	for n := uint32(1); n < 4; n++ {
		def, ok := a.Instrument(n)
		if !ok {
			continue
		}
		for slot := range record.NumSlots {
			check(a.Read(t.Context(), seriesOf(def.ID, slot), Range{Reverse: slot%2 == 0}, func(string, *Row) bool { return true }))
		}
		_, err := a.BookAt(t.Context(), def.ID, start+1e9, math.MaxInt64)
		check(err)
	}
	_, err := a.Hash(t.Context(), "")
	check(err)
}

// fixSums corrects the checksums of a segment, as far as its lengths are valid.
func fixSums(b []byte) []byte {
	b = append([]byte(nil), b...)
	var h header
	if len(b) < record.HeaderSize {
		return b
	}
	h.number, h.epoch, h.day = 1, "fuzz", dayOf(start)
	copy(b, h.append(nil, segmentMagic))
	_, _ = h.parse(b)
	c := record.Cursor{Salt: h.salt, Offset: record.HeaderSize, Buf: b[record.HeaderSize:]}
	for {
		err := c.Enter()
		var d *Damage
		switch {
		case errors.Is(err, io.EOF):
			return b
		case errors.As(err, &d) && d.Reason == record.ReasonSum:
			n, _ := record.FrameSize(c.Buf[c.Frame:])
			record.FinishFrame(c.Buf[c.Frame:c.Frame+record.FrameHead+n], h.salt, record.HeaderSize+int64(c.Frame))
		case err != nil:
			return b
		default:
			c.Pos = c.End
		}
	}
}

// FuzzDayFile opens any bytes as an index of a closed day.
func FuzzDayFile(f *testing.F) {
	folder := f.TempDir()
	src := newRowSource(3, 2)
	j := begin(f, Config{Folder: folder, BootID: "boot"}, src)
	writeDays(f, j, src, 2, 60)
	if err := j.closeDays(f.Context(), testEncoder(f)); err != nil {
		f.Fatal(err)
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(folder, dateOf(dayOf(start)), dayfile.Name))
	if err != nil {
		f.Fatal(err)
	}
	packed, err := os.ReadFile(segmentFiles(f, folder)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(packed)
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(record.MaxUnpacked))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(unpack.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "any")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := dayfile.Open(file, unpack)
		if err == nil {
			for _, def := range d.Meta.Definitions {
				var in market.Instrument
				_ = json.Unmarshal(def.Text, &in)
				for slot := range record.NumSlots {
					found, _ := d.Find(in.ID, slot)
					for i := range found {
						blocks, _ := d.Blocks(&found[i])
						for k := range blocks {
							_, _, _ = d.ReadBlock(&blocks[k], nil, nil)
						}
					}
				}
			}
			for _, s := range segmentsOf(&d.Meta) {
				_, _ = d.Spans(s.number)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := OpenReader(t.Context(), file); err == nil {
			readEverything(t, r.Archive)
			r.Close()
		}
	})
}

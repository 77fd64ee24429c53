package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzRecord decodes any bytes as a record. What can be decoded encodes to the same row again.
func FuzzRecord(f *testing.F) {
	src := newRowSource(1, 3)
	for range 300 {
		f.Add(appendRow(nil, base{src.position, src.at}, src.next(true)), src.position, src.at)
	}
	f.Fuzz(func(t *testing.T, rec []byte, position uint64, at int64) {
		b := base{position, at}
		n := recordSize(rec)
		if n == 0 {
			return
		}
		var d decoder
		r, ok := d.row(rec[:n], b)
		if !ok {
			return
		}
		if !b.fits(r) {
			b = base{r.Position, r.At}
		}
		one := cloneRow(r)
		again := appendRow(nil, b, &one)
		r, ok = d.row(again, b)
		if !ok || recordSize(again) != len(again) || !equalRows(r, &one) && r.Latency == one.Latency {
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
		r, err := OpenReader(file)
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
		for slot := range numSlots {
			check(a.Read(t.Context(), seriesOf(def.ID, slot), Range{Reverse: slot%2 == 0}, func(string, *Row) bool { return true }))
		}
		_, err := a.BookAt(t.Context(), def.ID, start+1e9)
		check(err)
	}
	_, err := a.Hash(t.Context(), "")
	check(err)
}

// fixSums corrects the checksums of a segment, as far as its lengths are valid.
func fixSums(b []byte) []byte {
	b = append([]byte(nil), b...)
	var h header
	if len(b) < headerSize {
		return b
	}
	h.number, h.epoch, h.day = 1, "fuzz", dayOf(start)
	copy(b, h.append(nil, segmentMagic))
	_, _ = h.parse(b)
	c := cursor{salt: h.salt, offset: headerSize, buf: b[headerSize:]}
	for {
		err := c.enter()
		var d *Damage
		switch {
		case errors.Is(err, io.EOF):
			return b
		case errors.As(err, &d) && d.Reason == reasonSum:
			n, _ := frameSize(c.buf[c.frame:])
			finishFrame(c.buf[c.frame:c.frame+frameHead+n], h.salt, headerSize+int64(c.frame))
		case err != nil:
			return b
		default:
			c.pos = c.end
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
	whole, err := os.ReadFile(filepath.Join(folder, dateOf(dayOf(start)), dayFileName))
	if err != nil {
		f.Fatal(err)
	}
	packed, err := os.ReadFile(segmentFiles(f, folder)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(packed)
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(unpack.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "any")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := openDayFile(file, unpack)
		if err == nil {
			for i := range d.sections[sectionSeries].bytes / daySeriesSize {
				b, err := d.entries(sectionSeries, daySeriesSize, i, 1)
				if err != nil {
					t.Fatal(err)
				}
				e, _ := d.seriesEntry(b)
				blocks, _ := d.blockList(&e)
				for i := range blocks {
					_, _, _ = d.block(&blocks[i], nil, nil)
				}
			}
			for _, s := range d.segments() {
				_, _ = d.spans(s.number)
			}
			if err := d.close(); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := OpenReader(file); err == nil {
			readEverything(t, r.Archive)
			r.Close()
		}
	})
}

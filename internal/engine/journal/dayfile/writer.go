package dayfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/base/sched"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/rowsort"
)

// Writer writes the index of a day: it sorts the rows by series and compresses each series in
// blocks.
type Writer struct {
	out     *disk.TempFile
	enc     *zstd.Encoder
	rows    *rowsort.Sorter
	list    []Series // sorted
	blocks  []Block
	spans   []byte
	sum     hash.Hash // of all rows
	scratch []byte
	books   record.Set // see Meta

	// The current series.
	dec    record.Decoder
	series Series
	buf    []byte
	base   record.Base
	now    Block // description of buf
	pack   []byte
}

// Create creates an index for rows of that many bytes.
func Create(sys *disk.System, path string, bytes int64, enc *zstd.Encoder) (*Writer, error) {
	out, err := disk.CreateTemp(sys, path)
	if err != nil {
		return nil, err
	}
	out.Add([]byte(magic))
	return &Writer{out: out, enc: enc, sum: sha256.New(), rows: rowsort.New(sys, path+".rows", bytes)}, nil
}

// AddSpans adds the spans of the next segment.
func (w *Writer) AddSpans(list []record.Span) {
	for _, p := range list {
		w.spans = record.AppendWords(w.spans, uint64(p.Offset), uint64(p.Bytes), p.Position, uint64(p.High))
	}
}

// Add adds the last record of a cursor. epoch is the index of its epoch. Records that are not
// messages have no effect.
func (w *Writer) Add(c *record.Cursor, rec []byte, epoch uint16) error {
	if !record.IsMessage(rec) {
		return nil
	}
	var h record.Head
	if !h.Parse(rec, c.Base) {
		return c.BadRecord(rec)
	}
	w.scratch = record.AppendCanonical(w.scratch[:0], &h, rec)
	w.sum.Write(w.scratch)
	slot := h.Slot(rec)
	if slot == record.NoSlot {
		if h.Kind != record.BookLost {
			w.books.Add(h.Instrument)
		}
		return nil
	}
	// The order of these keys is that of compareSeries.
	return w.rows.Add(uint64(h.Instrument)<<32|uint64(slot)<<16|uint64(epoch), c.Base, rec)
}

// addRow adds a row to the current series.
func (w *Writer) addRow(from record.Base, rec []byte) error {
	r, ok := w.dec.Decode(rec, from)
	if !ok {
		return fmt.Errorf("sort the day: %w", record.ErrChecksum)
	}
	// Rows of a series may be minutes apart: their At then takes a full word.
	if len(w.buf) > 0 && (len(w.buf) >= record.SpanBytes || r.Position-w.base.Position > math.MaxUint32) {
		w.endBlock()
	}
	if len(w.buf) == 0 {
		w.base = record.Base{Position: r.Position, At: r.At}
		w.buf = append(w.buf, make([]byte, record.FrameHead+record.BlockSize)...)
		w.now = Block{First: r.N, Least: r.Time, Most: r.Time}
	}
	w.buf = record.Append(w.buf, w.base, r)
	w.now.Last = r.N
	w.now.Least, w.now.Most = min(w.now.Least, r.Time), max(w.now.Most, r.Time)
	w.series.Rows++
	return nil
}

// endBlock writes the current block. Its frame has offset 0.
func (w *Writer) endBlock() {
	if len(w.buf) == 0 {
		return
	}
	sched.Yield()
	record.AppendBlock(w.buf[:record.FrameHead], w.base, 0)
	record.FinishFrame(w.buf, Salt, 0)
	w.pack = w.enc.EncodeAll(w.buf, w.pack[:0])
	k := &w.now
	k.At, k.packed, k.raw = w.out.Size, uint32(len(w.pack)), uint32(len(w.buf))
	k.sum = record.Checksum(w.pack)
	e := &w.series
	if e.blocks == 0 {
		e.block, e.First, e.Least, e.Most = uint32(len(w.blocks)), k.First, k.Least, k.Most
	}
	e.blocks++
	e.Last, e.Least, e.Most = k.Last, min(e.Least, k.Least), max(e.Most, k.Most)
	w.out.Add(w.pack)
	w.blocks = append(w.blocks, *k)
	w.buf = w.buf[:0]
}

// endSeries ends the current series.
func (w *Writer) endSeries(key uint64) error {
	w.endBlock()
	w.series.Key, w.series.Epoch = record.SeriesKey{Instrument: uint32(key >> 32), Slot: uint8(key >> 16)}, uint16(key)
	w.list = append(w.list, w.series)
	w.series = Series{}
	return w.out.Err
}

// Abandon removes the file and returns err.
func (w *Writer) Abandon(err error) error {
	return w.out.Finish(errors.Join(err, w.rows.Close()))
}

// Finish sorts the rows and completes the file. It sets Version, Hash and Books of the description.
func (w *Writer) Finish(ctx context.Context, meta *Meta) error {
	err := w.rows.Each(ctx, w.addRow, w.endSeries)
	if err = errors.Join(err, w.rows.Close()); err == nil {
		err = w.addSections(meta)
	}
	return w.out.Finish(err)
}

// addSections writes the sections and the footer.
func (w *Writer) addSections(meta *Meta) error {
	meta.Version, meta.Hash = Version, hex.EncodeToString(w.sum.Sum(nil))
	meta.Books = slices.Collect(w.books.All())
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe the day: %w", err)
	}
	var series, blocks []byte
	for _, e := range w.list {
		series = record.AppendWords(series, uint64(e.Key.Instrument)|uint64(e.Key.Slot)<<32|uint64(e.Epoch)<<48,
			uint64(e.block)|uint64(e.blocks)<<32, e.First, e.Last, e.Rows, uint64(e.Least), uint64(e.Most))
	}
	for _, k := range w.blocks {
		blocks = record.AppendWords(blocks, uint64(k.At), uint64(k.packed)|uint64(k.raw)<<32, k.First, k.Last,
			uint64(k.Least), uint64(k.Most), uint64(k.sum))
	}
	var foot []byte
	for _, b := range [numSections][]byte{text, series, blocks, w.spans} {
		foot = record.AppendWords(foot, uint64(w.out.Size), uint64(len(b)), uint64(record.Checksum(b)))
		w.out.Add(b)
	}
	foot = record.AppendWords(foot, uint64(record.Checksum(foot)))
	w.out.Add(append(foot, magic...))
	return nil
}

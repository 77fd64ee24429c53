// Package dayfile has the index of a closed day: a file that has the rows of the day again, except
// those of books, sorted by series. A [Writer] sorts the rows and writes the file, a [File] finds
// and reads the rows of a series.
package dayfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// The index of a closed day has its rows, except those of books, again, sorted by instrument and
// channel, so that a page can be read without the rest of the day. After a magic come compressed
// blocks, each with rows of one series, then four sections: a description in JSON, the list of
// series, the list of blocks, and the spans of each segment. The footer has the offset, length and
// CRC32C of each section, then their own CRC32C and the magic again.
const (
	Name = "day.idx"

	// Version is that of new indexes. In version 1, the greatest times of publication of spans and
	// segments, and the last positions of segments, may be too low.
	Version = 2
	oldest  = 1

	magic    = "RUEDADAY"
	footSize = numSections*24 + 16

	sectionMeta    = 0
	sectionSeries  = 1
	sectionBlocks  = 2
	sectionSpans   = 3
	numSections    = 4
	seriesSize     = 56
	blockSize      = 56
	spanSize       = 32
	maxSectionSize = 1 << 30
)

// Gap is a place where rows were lost.
type Gap struct {
	Position uint64
	At       int64
}

// Meta describes a closed day.
type Meta struct {
	Version     int
	Date        string
	Journal     string // hexadecimal
	Hash        string
	Epochs      []string
	Segments    []Segment
	Definitions []Definition
	Books       []uint32 `json:",omitempty"` // instruments with rows of books, not only BookLost; 0.1.0 did not write it
}

type Definition struct {
	Number    uint32
	Text      json.RawMessage
	RealClock bool `json:",omitempty"` // this or an earlier definition has no virtual clock
}

// Segment describes a segment.
type Segment struct {
	Number      uint32
	Name        string
	Epoch       string
	Salt        uint32
	Day         int32
	End         int64
	Rows        uint64
	First, Last uint64
	From, To    int64
	Least, Most int64
	Resumed     int64
	Gaps        []Gap `json:"Holes"` // the key of version 1
	Damage      []record.Damage
	Torn        bool
	Spans       int
}

// Series is a series of a closed day in one epoch.
type Series struct {
	Key         record.SeriesKey
	Epoch       uint16
	block       uint32 // first block
	blocks      uint32
	First, Last uint64 // N
	Rows        uint64
	Least, Most int64 // Time
}

// Block is a compressed block of rows of one series.
type Block struct {
	At          int64
	packed, raw uint32
	First, Last uint64
	Least, Most int64
	sum         uint32
}

// section is a section of the file.
type section struct {
	at, bytes int64
	sum       uint32
}

// File is the open index of a closed day. It counts its users, so that a day that is removed
// meanwhile can be read to its end.
type File struct {
	holders  atomic.Int32
	file     *os.File
	Name     string // its path
	Size     int64  // in bytes
	sections [numSections]section
	Meta     Meta
	Recorded record.Set // instruments with rows; see Meta.Books
	seed     maphash.Seed
	ids      []identifier // sorted
	unpack   *zstd.Decoder
}

// identifier is the number of an instrument in a day, with a hash of its identifier. It takes
// sixteen bytes instead of the text.
type identifier struct {
	hash   uint64
	number uint32
}

// Open opens an index and verifies it, except for its blocks. The error is a *record.Damage if it
// cannot be used.
func Open(path string, unpack *zstd.Decoder) (*File, error) {
	f, err := disk.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("open index of a day: %w", err)
	}
	d := &File{file: f, Name: path, unpack: unpack, seed: maphash.MakeSeed()}
	d.holders.Store(1)
	if err := d.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// Old reports whether the index has an older version than new ones.
func (d *File) Old() bool { return d.Meta.Version < Version }

// Hold keeps the file open until Close is called once more. The file must be open.
func (d *File) Hold() { d.holders.Add(1) }

// Close releases a reference; the last one closes the file.
func (d *File) Close() error {
	if d.holders.Add(-1) > 0 {
		return nil
	}
	return d.file.Close()
}

func (d *File) bad(offset int64) error {
	return &record.Damage{File: d.Name, Offset: offset, Reason: record.ReasonIndex}
}

func (d *File) open() error {
	info, err := d.file.Stat()
	if err != nil {
		return fmt.Errorf("open index of a day: %w", err)
	}
	d.Size = info.Size()
	if d.Size < int64(len(magic))+footSize {
		return d.bad(0)
	}
	head, foot := make([]byte, len(magic)), make([]byte, footSize)
	if _, err := d.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read index of a day: %w", err)
	}
	if string(head) != magic {
		return d.bad(0)
	}
	if _, err := d.file.ReadAt(foot, d.Size-footSize); err != nil {
		return fmt.Errorf("read index of a day: %w", err)
	}
	n := numSections * 24
	if string(foot[n+8:]) != magic || record.Word(foot, 3*numSections) != uint64(record.Checksum(foot[:n])) {
		return d.bad(d.Size - footSize)
	}
	for i := range d.sections {
		s := section{int64(record.Word(foot, 3*i)), int64(record.Word(foot, 3*i+1)), uint32(record.Word(foot, 3*i+2))}
		if s.at < 0 || s.bytes < 0 || s.bytes > maxSectionSize || s.at > d.Size-footSize-s.bytes {
			return d.bad(d.Size - footSize)
		}
		d.sections[i] = s
	}
	// Verify all sections now: if one is damaged, the segments are read instead.
	var text []byte
	for i := range d.sections {
		b, err := d.section(i)
		if err != nil {
			return err
		}
		switch i {
		case sectionMeta:
			text = b
		case sectionSeries:
			for ; len(b) >= seriesSize; b = b[seriesSize:] {
				d.Recorded.Add(uint32(record.Word(b, 0)))
			}
		}
	}
	if err := json.Unmarshal(text, &d.Meta); err != nil || d.Meta.Version < oldest || d.Meta.Version > Version {
		return d.bad(d.sections[sectionMeta].at)
	}
	for _, n := range d.Meta.Books {
		d.Recorded.Add(n)
	}
	d.ids = make([]identifier, 0, len(d.Meta.Definitions))
	for _, def := range d.Meta.Definitions {
		var in struct{ ID market.InstrumentID }
		if err := json.Unmarshal(def.Text, &in); err != nil {
			return d.bad(d.sections[sectionMeta].at)
		}
		d.ids = append(d.ids, identifier{maphash.Comparable(d.seed, in.ID), def.Number})
	}
	// If an identifier occurs twice, the last one is used.
	slices.SortStableFunc(d.ids, func(x, y identifier) int { return cmp.Compare(x.hash, y.hash) })
	return nil
}

// number returns the number of an instrument in this day.
func (d *File) number(id market.InstrumentID) (uint32, bool) {
	hash := maphash.Comparable(d.seed, id)
	i := sort.Search(len(d.ids), func(i int) bool { return d.ids[i].hash > hash }) - 1
	if i < 0 || d.ids[i].hash != hash {
		return 0, false
	}
	return d.ids[i].number, true
}

func (d *File) section(i int) ([]byte, error) {
	s := d.sections[i]
	b := make([]byte, s.bytes)
	if _, err := d.file.ReadAt(b, s.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index of a day: %w", err)
	}
	if record.Checksum(b) != s.sum {
		return nil, d.bad(s.at)
	}
	return b, nil
}

// Spans returns the spans of one segment.
func (d *File) Spans(number uint32) ([]record.Span, error) {
	b, err := d.section(sectionSpans)
	if err != nil {
		return nil, err
	}
	for _, m := range d.Meta.Segments {
		if m.Spans < 0 || m.Spans > len(b)/spanSize {
			return nil, d.bad(d.sections[sectionSpans].at)
		}
		if m.Number != number {
			b = b[m.Spans*spanSize:]
			continue
		}
		list := make([]record.Span, m.Spans)
		for i := range list {
			w := b[i*spanSize:]
			list[i] = record.Span{
				Offset: int64(record.Word(w, 0)), Bytes: int64(record.Word(w, 1)),
				Position: record.Word(w, 2), High: int64(record.Word(w, 3)),
			}
			if d.Old() {
				list[i].High = math.MaxInt64
			}
			if list[i].Bytes <= 0 || list[i].Bytes > record.MaxUnpacked || list[i].Offset < record.HeaderSize {
				return nil, d.bad(d.sections[sectionSpans].at)
			}
		}
		return list, nil
	}
	return nil, nil
}

// entries reads entries of a list, which was verified when the file was opened.
func (d *File) entries(list, size int, from, count int64) ([]byte, error) {
	s := d.sections[list]
	if from < 0 || count < 0 || from+count > s.bytes/int64(size) {
		return nil, d.bad(s.at)
	}
	b := make([]byte, count*int64(size))
	if _, err := d.file.ReadAt(b, s.at+from*int64(size)); errors.Is(err, io.EOF) {
		return nil, d.bad(s.at) // it has become shorter
	} else if err != nil {
		return nil, fmt.Errorf("read index of a day: %w", err)
	}
	return b, nil
}

// Blocks reads the blocks of a series.
func (d *File) Blocks(e *Series) ([]Block, error) {
	b, err := d.entries(sectionBlocks, blockSize, int64(e.block), int64(e.blocks))
	if err != nil {
		return nil, err
	}
	blocks := make([]Block, e.blocks)
	for i := range blocks {
		w := b[i*blockSize:]
		k := Block{
			At: int64(record.Word(w, 0)), packed: uint32(record.Word(w, 1)), raw: uint32(record.Word(w, 1) >> 32), First: record.Word(w, 2), Last: record.Word(w, 3),
			Least: int64(record.Word(w, 4)), Most: int64(record.Word(w, 5)), sum: uint32(record.Word(w, 6)),
		}
		if k.At < 0 || int64(k.packed) > d.Size || k.At > d.Size-int64(k.packed) || k.raw > record.MaxUnpacked {
			return nil, d.bad(d.sections[sectionBlocks].at)
		}
		blocks[i] = k
	}
	return blocks, nil
}

// seriesEntry decodes an entry of the list of series.
func (d *File) seriesEntry(w []byte) (Series, error) {
	head := record.Word(w, 0)
	s := Series{
		Key: record.SeriesKey{Instrument: uint32(head), Slot: uint8(head >> 32)}, Epoch: uint16(head >> 48),
		block: uint32(record.Word(w, 1)), blocks: uint32(record.Word(w, 1) >> 32),
		First: record.Word(w, 2), Last: record.Word(w, 3), Rows: record.Word(w, 4), Least: int64(record.Word(w, 5)), Most: int64(record.Word(w, 6)),
	}
	if int(s.Epoch) >= len(d.Meta.Epochs) {
		return s, d.bad(d.sections[sectionSeries].at)
	}
	return s, nil
}

func compareSeries(x, y Series) int {
	return cmp.Or(cmp.Compare(x.Key.Instrument, y.Key.Instrument), cmp.Compare(x.Key.Slot, y.Key.Slot), cmp.Compare(x.Epoch, y.Epoch))
}

// Find returns the series of an instrument and slot, one for each epoch. It searches on disk; the
// lists of many days are not kept in memory.
func (d *File) Find(id market.InstrumentID, slot int) ([]Series, error) {
	number, ok := d.number(id)
	if !ok {
		return nil, nil
	}
	key := record.SeriesKey{Instrument: number, Slot: uint8(slot)}
	low, high := int64(0), d.sections[sectionSeries].bytes/seriesSize
	end := high
	for high-low > searchedAtOnce {
		mid := low + (high-low)/2
		b, err := d.entries(sectionSeries, seriesSize, mid, 1)
		if err != nil {
			return nil, err
		}
		if s, err := d.seriesEntry(b); err != nil {
			return nil, err
		} else if compareSeries(s, Series{Key: key}) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	// The first one is here or close after it, and there are at most as many as epochs.
	b, err := d.entries(sectionSeries, seriesSize, low, min(high+int64(len(d.Meta.Epochs)), end)-low)
	if err != nil {
		return nil, err
	}
	var list []Series
	for ; len(b) > 0; b = b[seriesSize:] {
		s, err := d.seriesEntry(b)
		if err != nil {
			return nil, err
		}
		if s.Key == key {
			list = append(list, s)
		}
	}
	return list, nil
}

// searchedAtOnce is the number of entries that are read together.
const searchedAtOnce = 64

// Salt is the salt of frames in an index.
const Salt = 0x59414452

// ReadBlock reads and decompresses a block.
func (d *File) ReadBlock(k *Block, raw, dst []byte) (newRaw, rows []byte, err error) {
	raw = slices.Grow(raw[:0], int(k.packed))[:k.packed]
	if _, err := d.file.ReadAt(raw, k.At); errors.Is(err, io.EOF) {
		return raw, dst, d.bad(k.At)
	} else if err != nil {
		return raw, dst, fmt.Errorf("read %s: %w", d.Name, err)
	}
	dst, err = record.Unpack(d.unpack, dst, raw, k.sum, int64(k.raw))
	if err != nil {
		return raw, dst, &record.Damage{File: d.Name, Offset: k.At, Bytes: int64(k.packed), Reason: record.ReasonPacked}
	}
	return raw, dst, nil
}

package journal

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/market"
)

// The index of a closed day has its rows, except those of books, again, sorted by instrument and
// channel, so that a page can be read without the rest of the day. After a magic come compressed
// blocks, each with rows of one series, then four sections: a description in JSON, the list of
// series, the list of blocks, and the spans of each segment. The footer has the offset, length and
// CRC32C of each section, then their own CRC32C and the magic again.
const (
	dayMagic    = "RUEDADAY"
	dayFootSize = numSections*24 + 16

	sectionMeta    = 0
	sectionSeries  = 1
	sectionBlocks  = 2
	sectionSpans   = 3
	numSections    = 4
	daySeriesSize  = 56
	dayBlockSize   = 56
	daySpanSize    = 32
	maxSectionSize = 1 << 30
)

// dayMeta describes a closed day.
type dayMeta struct {
	Version     int
	Date        string
	Journal     string // hexadecimal
	Hash        string
	Epochs      []string
	Segments    []segmentMeta
	Definitions []definitionMeta
}

type definitionMeta struct {
	Number    uint32
	Text      json.RawMessage
	RealClock bool `json:",omitempty"` // this or an earlier definition has no virtual clock
}

// segmentMeta describes a segment.
type segmentMeta struct {
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
	Gaps        []gap `json:"Holes"` // the key of version 1
	Damage      []Damage
	Torn        bool
	Spans       int
}

// daySeries is a series of a closed day in one epoch.
type daySeries struct {
	key         seriesKey
	epoch       uint16
	block       uint32 // first block
	blocks      uint32
	first, last uint64 // N
	rows        uint64
	least, most int64 // Time
}

// dayBlock is a compressed block of rows of one series.
type dayBlock struct {
	at          int64
	packed, raw uint32
	first, last uint64
	least, most int64
	sum         uint32
}

// section is a section of the file.
type section struct {
	at, bytes int64
	sum       uint32
}

// dayFile is the open index of a closed day, with a reference count of the archive and its readers:
// a day that is removed meanwhile can be read to its end.
type dayFile struct {
	holders  atomic.Int32
	file     *os.File
	name     string
	size     int64
	sections [numSections]section
	meta     dayMeta // without definitions once the table has them
	seed     maphash.Seed
	ids      []dayID // sorted
	unpack   *zstd.Decoder
}

// dayID is the number of an instrument in a day, with a hash of its identifier. It takes sixteen
// bytes instead of the text.
type dayID struct {
	hash   uint64
	number uint32
}

func openDayFile(path string, unpack *zstd.Decoder) (*dayFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open index of a day: %w", err)
	}
	d := &dayFile{file: f, name: path, unpack: unpack, seed: maphash.MakeSeed()}
	d.holders.Store(1)
	if err := d.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// hold keeps the file open until close. The caller holds Archive.mu.
func (d *dayFile) hold() { d.holders.Add(1) }

// close releases a reference; the last one closes the file.
func (d *dayFile) close() error {
	if d.holders.Add(-1) > 0 {
		return nil
	}
	return d.file.Close()
}

func (d *dayFile) bad(offset int64) error {
	return &Damage{File: d.name, Offset: offset, Reason: reasonIndex}
}

func (d *dayFile) open() error {
	info, err := d.file.Stat()
	if err != nil {
		return fmt.Errorf("open index of a day: %w", err)
	}
	d.size = info.Size()
	if d.size < int64(len(dayMagic))+dayFootSize {
		return d.bad(0)
	}
	foot := make([]byte, dayFootSize)
	if _, err := d.file.ReadAt(foot, d.size-dayFootSize); err != nil {
		return fmt.Errorf("read index of a day: %w", err)
	}
	n := numSections * 24
	if string(foot[n+8:]) != dayMagic || binary.LittleEndian.Uint32(foot[n:]) != crc32.Checksum(foot[:n], castagnoli()) {
		return d.bad(d.size - dayFootSize)
	}
	for i := range d.sections {
		s := section{int64(word(foot, 3*i)), int64(word(foot, 3*i+1)), uint32(word(foot, 3*i+2))}
		if s.at < 0 || s.bytes < 0 || s.bytes > maxSectionSize || s.at > d.size-dayFootSize-s.bytes {
			return d.bad(d.size - dayFootSize)
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
		if i == sectionMeta {
			text = b
		}
	}
	if err := json.Unmarshal(text, &d.meta); err != nil || d.meta.Version != version {
		return d.bad(d.sections[sectionMeta].at)
	}
	d.ids = make([]dayID, 0, len(d.meta.Definitions))
	for _, def := range d.meta.Definitions {
		var in struct{ ID market.InstrumentID }
		if err := json.Unmarshal(def.Text, &in); err != nil {
			return d.bad(d.sections[sectionMeta].at)
		}
		d.ids = append(d.ids, dayID{maphash.Comparable(d.seed, in.ID), def.Number})
	}
	// If an identifier occurs twice, the last one is used.
	slices.SortStableFunc(d.ids, func(x, y dayID) int { return cmp.Compare(x.hash, y.hash) })
	return nil
}

// number returns the number of an instrument in this day.
func (d *dayFile) number(id market.InstrumentID) (uint32, bool) {
	hash := maphash.Comparable(d.seed, id)
	i := sort.Search(len(d.ids), func(i int) bool { return d.ids[i].hash > hash }) - 1
	if i < 0 || d.ids[i].hash != hash {
		return 0, false
	}
	return d.ids[i].number, true
}

func (d *dayFile) section(i int) ([]byte, error) {
	s := d.sections[i]
	b := make([]byte, s.bytes)
	if _, err := d.file.ReadAt(b, s.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index of a day: %w", err)
	}
	if crc32.Checksum(b, castagnoli()) != s.sum {
		return nil, d.bad(s.at)
	}
	return b, nil
}

// segments returns the segments of the day.
func (d *dayFile) segments() []*segment {
	var list []*segment
	for _, m := range d.meta.Segments {
		s := &segment{name: filepath.Base(m.Name), end: m.End, gaps: m.Gaps, damage: m.Damage, torn: m.Torn, resumed: m.Resumed}
		s.header = header{number: m.Number, epoch: m.Epoch, day: m.Day, salt: m.Salt}
		// An invalid id makes the segments foreign, which is reported.
		_, _ = hex.Decode(s.journal[:], []byte(d.meta.Journal)[:min(32, len(d.meta.Journal))])
		s.summary = summary{m.Rows, m.First, m.Last, m.From, m.To, m.Least, m.Most}
		list = append(list, s)
	}
	return list
}

// spans returns the spans of one segment.
func (d *dayFile) spans(number uint32) ([]span, error) {
	b, err := d.section(sectionSpans)
	if err != nil {
		return nil, err
	}
	for _, m := range d.meta.Segments {
		if m.Spans < 0 || m.Spans > len(b)/daySpanSize {
			return nil, d.bad(d.sections[sectionSpans].at)
		}
		if m.Number != number {
			b = b[m.Spans*daySpanSize:]
			continue
		}
		list := make([]span, m.Spans)
		for i := range list {
			w := b[i*daySpanSize:]
			list[i] = span{int64(word(w, 0)), int64(word(w, 1)), word(w, 2), int64(word(w, 3))}
			if list[i].bytes <= 0 || list[i].bytes > maxUnpacked || list[i].offset < headerSize {
				return nil, d.bad(d.sections[sectionSpans].at)
			}
		}
		return list, nil
	}
	return nil, nil
}

// entries reads entries of a list, which was verified when the file was opened.
func (d *dayFile) entries(list, size int, from, count int64) ([]byte, error) {
	s := d.sections[list]
	if from < 0 || count < 0 || from+count > s.bytes/int64(size) {
		return nil, d.bad(s.at)
	}
	b := make([]byte, count*int64(size))
	if _, err := d.file.ReadAt(b, s.at+from*int64(size)); err != nil {
		return nil, fmt.Errorf("read index of a day: %w", err)
	}
	return b, nil
}

// blockList reads the blocks of a series.
func (d *dayFile) blockList(e *daySeries) ([]dayBlock, error) {
	b, err := d.entries(sectionBlocks, dayBlockSize, int64(e.block), int64(e.blocks))
	if err != nil {
		return nil, err
	}
	blocks := make([]dayBlock, e.blocks)
	for i := range blocks {
		w := b[i*dayBlockSize:]
		k := dayBlock{
			at: int64(word(w, 0)), packed: uint32(word(w, 1)), raw: uint32(word(w, 1) >> 32), first: word(w, 2), last: word(w, 3),
			least: int64(word(w, 4)), most: int64(word(w, 5)), sum: uint32(word(w, 6)),
		}
		if k.at < 0 || int64(k.packed) > d.size || k.at > d.size-int64(k.packed) || k.raw > maxUnpacked {
			return nil, d.bad(d.sections[sectionBlocks].at)
		}
		blocks[i] = k
	}
	return blocks, nil
}

// seriesEntry decodes an entry of the list of series.
func (d *dayFile) seriesEntry(w []byte) (daySeries, error) {
	head := word(w, 0)
	s := daySeries{
		key: seriesKey{uint32(head), uint8(head >> 32)}, epoch: uint16(head >> 48),
		block: uint32(word(w, 1)), blocks: uint32(word(w, 1) >> 32),
		first: word(w, 2), last: word(w, 3), rows: word(w, 4), least: int64(word(w, 5)), most: int64(word(w, 6)),
	}
	if int(s.epoch) >= len(d.meta.Epochs) {
		return s, d.bad(d.sections[sectionSeries].at)
	}
	return s, nil
}

func compareSeries(x, y daySeries) int {
	return cmp.Or(cmp.Compare(x.key.instrument, y.key.instrument), cmp.Compare(x.key.slot, y.key.slot), cmp.Compare(x.epoch, y.epoch))
}

// find returns the series of an instrument and slot, one for each epoch. It searches on disk; the
// lists of many days are not kept in memory.
func (d *dayFile) find(id market.InstrumentID, slot int) ([]daySeries, error) {
	number, ok := d.number(id)
	if !ok {
		return nil, nil
	}
	key := seriesKey{number, uint8(slot)}
	low, high := int64(0), d.sections[sectionSeries].bytes/daySeriesSize
	end := high
	for high-low > searchedAtOnce {
		mid := low + (high-low)/2
		b, err := d.entries(sectionSeries, daySeriesSize, mid, 1)
		if err != nil {
			return nil, err
		}
		if s, err := d.seriesEntry(b); err != nil {
			return nil, err
		} else if compareSeries(s, daySeries{key: key}) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	// The first one is here or close after it, and there are at most as many as epochs.
	b, err := d.entries(sectionSeries, daySeriesSize, low, min(high+int64(len(d.meta.Epochs)), end)-low)
	if err != nil {
		return nil, err
	}
	var list []daySeries
	for ; len(b) > 0; b = b[daySeriesSize:] {
		s, err := d.seriesEntry(b)
		if err != nil {
			return nil, err
		}
		if s.key == key {
			list = append(list, s)
		}
	}
	return list, nil
}

// searchedAtOnce is the number of entries that are read together.
const searchedAtOnce = 64

// daySalt is the salt of frames in an index.
const daySalt = 0x59414452

// block reads and decompresses a block.
func (d *dayFile) block(k *dayBlock, raw, dst []byte) (newRaw, rows []byte, err error) {
	raw = grow(raw, int(k.packed))
	if _, err := d.file.ReadAt(raw, k.at); err != nil {
		return raw, dst, fmt.Errorf("read %s: %w", d.name, err)
	}
	dst, err = unpackInto(d.unpack, dst, raw, k.sum, int64(k.raw))
	if err != nil {
		return raw, dst, &Damage{File: d.name, Offset: k.at, Bytes: int64(k.packed), Reason: reasonPacked}
	}
	return raw, dst, nil
}

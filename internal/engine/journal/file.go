package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/base/sched"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// A packed segment is the compressed form of a complete one: its header with another magic, units
// of about 64 KiB that are compressed separately, and the list of units. So offsets of the segment
// stay valid. At the end:
//
//	0 length of the segment    8 where the list begins    16 units    20 CRC32C of the list
//	24 magic
const (
	unitSize   = 32
	footerSize = 32
)

// unit is a compressed part of a segment.
type unit struct {
	offset, bytes int64 // in the segment
	at            int64 // in the file
	packed        uint32
	sum           uint32 // CRC32C of the compressed data
}

func (u unit) append(b []byte) []byte {
	b = record.AppendWords(b, uint64(u.offset), uint64(u.at), uint64(u.bytes))
	b = binary.LittleEndian.AppendUint32(b, u.packed)
	return binary.LittleEndian.AppendUint32(b, u.sum)
}

// segmentFile is a segment that is open for reading, packed or not. ReadAt returns the original
// bytes. One goroutine uses it.
type segmentFile struct {
	*os.File
	header
	name   string
	reason string // why it cannot be read; "": readable
	packed bool
	size   int64 // of the segment

	units  []unit
	unpack *zstd.Decoder
	have   int // unit in piece; -1: none
	raw    []byte
	piece  []byte
}

// openSegment opens the file of a segment in its current form.
func (a *Archive) openSegment(s *segment) (*segmentFile, error) {
	a.mu.RLock()
	packed := s.packed
	a.mu.RUnlock()
	// A raw file may be replaced by a packed one at any time. A reader of another process does not
	// know which one exists.
	var err error
	for _, p := range []bool{packed, !packed, packed} {
		var f *os.File
		if f, err = disk.OpenFile(s.path(p)); err == nil {
			return newSegmentFile(f, a.unpack)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open segment: %w", err)
}

func newSegmentFile(f *os.File, unpack *zstd.Decoder) (*segmentFile, error) {
	s := &segmentFile{File: f, name: f.Name(), unpack: unpack, have: -1}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open segment %s: %w", s.name, err), f.Close())
	}
	s.size = info.Size()
	h := make([]byte, record.HeaderSize)
	if _, err := f.ReadAt(h, 0); err != nil {
		s.reason = record.ReasonHeader
		if !errors.Is(err, io.EOF) {
			return nil, errors.Join(fmt.Errorf("read segment: %w", err), f.Close())
		}
		return s, nil
	}
	if s.packed, s.reason = s.header.parse(h); s.packed && s.reason == "" {
		s.reason = s.readUnits()
	}
	return s, nil
}

// readUnits reads the list of a packed segment. It returns the reason if it is invalid.
func (s *segmentFile) readUnits() string {
	size := s.size
	f := make([]byte, footerSize)
	if size < record.HeaderSize+footerSize {
		return record.ReasonPacked
	}
	if _, err := s.File.ReadAt(f, size-footerSize); err != nil || string(f[24:32]) != packedMagic {
		return record.ReasonPacked
	}
	list := int64(binary.LittleEndian.Uint64(f[8:]))
	count := int64(binary.LittleEndian.Uint32(f[16:]))
	if list < record.HeaderSize || count > size/unitSize || list != size-footerSize-count*unitSize {
		return record.ReasonPacked
	}
	b := make([]byte, count*unitSize)
	if _, err := s.File.ReadAt(b, list); err != nil || record.Checksum(b) != binary.LittleEndian.Uint32(f[20:]) {
		return record.ReasonPacked
	}
	s.units = make([]unit, count)
	next, at := int64(record.HeaderSize), int64(record.HeaderSize)
	for i := range s.units {
		w := b[i*unitSize:]
		u := unit{
			offset: int64(record.Word(w, 0)), at: int64(record.Word(w, 1)), bytes: int64(record.Word(w, 2)),
			packed: binary.LittleEndian.Uint32(w[24:]), sum: binary.LittleEndian.Uint32(w[28:]),
		}
		if u.offset != next || u.at != at || u.bytes <= 0 || u.bytes > record.MaxUnpacked || u.packed > record.MaxUnpacked || u.at+int64(u.packed) > list {
			return record.ReasonPacked
		}
		s.units[i] = u
		next += u.bytes
		at += int64(u.packed)
	}
	s.size = next
	if next != int64(record.Word(f, 0)) {
		return record.ReasonPacked
	}
	return ""
}

// ReadAt reads bytes of the segment.
func (s *segmentFile) ReadAt(p []byte, offset int64) (n int, err error) {
	sched.Yield() // let writers and their clients run first
	if !s.packed {
		return s.File.ReadAt(p, offset)
	}
	for n < len(p) {
		if offset >= s.size {
			return n, io.EOF
		}
		k := sort.Search(len(s.units), func(i int) bool { return s.units[i].offset > offset }) - 1
		if k < 0 {
			return n, fmt.Errorf("read %s: byte %d is not part of its frames", s.name, offset)
		}
		if err := s.load(k); err != nil {
			return n, err
		}
		m := copy(p[n:], s.piece[offset-s.units[k].offset:])
		n, offset = n+m, offset+int64(m)
	}
	return n, nil
}

// load decompresses a unit.
func (s *segmentFile) load(k int) error {
	if s.have == k {
		return nil
	}
	u := s.units[k]
	s.have = -1
	s.raw = slices.Grow(s.raw[:0], int(u.packed))[:u.packed]
	if _, err := s.File.ReadAt(s.raw, u.at); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	var err error
	s.piece, err = record.Unpack(s.unpack, s.piece, s.raw, u.sum, u.bytes)
	if err != nil {
		return &Damage{File: s.name, Offset: u.at, Bytes: int64(u.packed), Reason: record.ReasonPacked}
	}
	s.have = k
	return nil
}

// packSegment writes the compressed form of a segment.
func packSegment(sys *disk.System, from *segmentFile, s *segment, spans []record.Span, enc *zstd.Encoder) (int64, error) {
	t, err := disk.CreateTemp(sys, s.path(true))
	if err != nil {
		return 0, err
	}
	var units []unit
	var raw, packed []byte
	t.Add(s.header.append(nil, packedMagic))
	for i := range spans {
		start, end := spans[i].Offset, s.end
		if i == 0 {
			start = record.HeaderSize
		}
		if i+1 < len(spans) {
			end = spans[i+1].Offset
		}
		raw = slices.Grow(raw[:0], int(end-start))[:end-start]
		if _, err := from.ReadAt(raw, start); err != nil {
			return 0, t.Finish(fmt.Errorf("compress segment: %w", err))
		}
		packed = enc.EncodeAll(raw, packed[:0])
		units = append(units, unit{start, end - start, t.Size, uint32(len(packed)), record.Checksum(packed)})
		t.Add(packed)
	}
	var list []byte
	for _, u := range units {
		list = u.append(list)
	}
	foot := record.AppendWords(nil, uint64(max(s.end, record.HeaderSize)), uint64(t.Size), 0)
	binary.LittleEndian.PutUint32(foot[16:], uint32(len(units)))
	binary.LittleEndian.PutUint32(foot[20:], record.Checksum(list))
	t.Add(append(append(list, foot...), packedMagic...))
	size := t.Size
	return size, t.Finish(nil)
}

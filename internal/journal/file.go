package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/sched"
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
	b = appendWords(b, uint64(u.offset), uint64(u.at), uint64(u.bytes))
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
		if f, err = os.Open(s.path(p)); err == nil {
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
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open segment %s: %w", s.name, err), f.Close())
	}
	s.size = info.Size()
	h := make([]byte, headerSize)
	if _, err := f.ReadAt(h, 0); err != nil {
		s.reason = reasonHeader
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
	if size < headerSize+footerSize {
		return reasonPacked
	}
	if _, err := s.File.ReadAt(f, size-footerSize); err != nil || string(f[24:32]) != packedMagic {
		return reasonPacked
	}
	list := int64(binary.LittleEndian.Uint64(f[8:]))
	count := int64(binary.LittleEndian.Uint32(f[16:]))
	if list < headerSize || count > size/unitSize || list != size-footerSize-count*unitSize {
		return reasonPacked
	}
	b := make([]byte, count*unitSize)
	if _, err := s.File.ReadAt(b, list); err != nil || crc32.Checksum(b, castagnoli()) != binary.LittleEndian.Uint32(f[20:]) {
		return reasonPacked
	}
	s.units = make([]unit, count)
	next, at := int64(headerSize), int64(headerSize)
	for i := range s.units {
		w := b[i*unitSize:]
		u := unit{
			offset: int64(word(w, 0)), at: int64(word(w, 1)), bytes: int64(word(w, 2)),
			packed: binary.LittleEndian.Uint32(w[24:]), sum: binary.LittleEndian.Uint32(w[28:]),
		}
		if u.offset != next || u.at != at || u.bytes <= 0 || u.bytes > maxUnpacked || u.packed > maxUnpacked || u.at+int64(u.packed) > list {
			return reasonPacked
		}
		s.units[i] = u
		next += u.bytes
		at += int64(u.packed)
	}
	s.size = next
	if next != int64(word(f, 0)) {
		return reasonPacked
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
	s.raw = grow(s.raw, int(u.packed))
	if _, err := s.File.ReadAt(s.raw, u.at); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	var err error
	s.piece, err = unpackInto(s.unpack, s.piece, s.raw, u.sum, u.bytes)
	if err != nil {
		return &Damage{File: s.name, Offset: u.at, Bytes: int64(u.packed), Reason: reasonPacked}
	}
	s.have = k
	return nil
}

// grow returns b with n bytes of any content.
func grow(b []byte, n int) []byte {
	if n <= cap(b) {
		return b[:n]
	}
	return make([]byte, n, n+n/4)
}

var errSum = errors.New("wrong checksum or length")

// unpackInto decompresses data whose checksum and length are known.
func unpackInto(d *zstd.Decoder, dst, raw []byte, sum uint32, bytes int64) ([]byte, error) {
	if crc32.Checksum(raw, castagnoli()) != sum {
		return dst, errSum
	}
	dst, err := d.DecodeAll(raw, dst[:0])
	if err != nil {
		return dst, err
	}
	if int64(len(dst)) != bytes {
		return dst, errSum
	}
	return dst, nil
}

// tempFile is a file that gets its final name when it is complete and synced.
type tempFile struct {
	*os.File
	sys  *system
	path string
	size int64
	err  error // the first one
	put  func(*os.File, []byte) (int, error)
}

func makeTemp(sys *system, path string, put func(*os.File, []byte) (int, error)) (*tempFile, error) {
	f, err := sys.open(path+tempEnding, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("create file: %w", err)
	}
	return &tempFile{File: f, sys: sys, path: path, put: put}, nil
}

// add appends b.
func (t *tempFile) add(b []byte) {
	if t.err != nil {
		return
	}
	n, err := t.put(t.File, b)
	t.size += int64(n)
	if err != nil {
		t.err = fmt.Errorf("write %s: %w", t.Name(), err)
	}
}

// finish renames the file, or removes it after an error.
func (t *tempFile) finish(err error) error {
	err = cmp.Or(err, t.err)
	if err == nil {
		err = t.sys.sync(t.File)
	}
	err = errors.Join(err, t.Close())
	if err == nil {
		err = t.sys.rename(t.Name(), t.path)
	}
	if err != nil {
		return errors.Join(err, t.sys.remove(t.Name()))
	}
	return nil
}

// packSegment writes the compressed form of a segment.
func packSegment(sys *system, from *segmentFile, s *segment, spans []span, enc *zstd.Encoder, put func(*os.File, []byte) (int, error)) (int64, error) {
	t, err := makeTemp(sys, s.path(true), put)
	if err != nil {
		return 0, err
	}
	var units []unit
	var raw, packed []byte
	t.add(s.header.append(nil, packedMagic))
	for i := range spans {
		start, end := spans[i].offset, s.end
		if i == 0 {
			start = headerSize
		}
		if i+1 < len(spans) {
			end = spans[i+1].offset
		}
		raw = grow(raw, int(end-start))
		if _, err := from.ReadAt(raw, start); err != nil {
			return 0, t.finish(fmt.Errorf("compress segment: %w", err))
		}
		packed = enc.EncodeAll(raw, packed[:0])
		units = append(units, unit{start, end - start, t.size, uint32(len(packed)), crc32.Checksum(packed, castagnoli())})
		t.add(packed)
	}
	var list []byte
	for _, u := range units {
		list = u.append(list)
	}
	foot := appendWords(nil, uint64(max(s.end, headerSize)), uint64(t.size), 0)
	binary.LittleEndian.PutUint32(foot[16:], uint32(len(units)))
	binary.LittleEndian.PutUint32(foot[20:], crc32.Checksum(list, castagnoli()))
	t.add(append(append(list, foot...), packedMagic...))
	size := t.size
	return size, t.finish(nil)
}

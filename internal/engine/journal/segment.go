package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// A segment file begins with
//
//	 0 magic    8 version    12 number    16 journal    32 epoch, padded with zeros
//	48 day, from 1970    52 reserved    60 CRC32C of these
//
// and then holds frames. The CRC is the salt of the frames.
const (
	segmentMagic = "RUEDAJRN"
	packedMagic  = "RUEDAJRZ"

	segmentEnding = ".seg"
	packedEnding  = ".segz"
)

// header is the header of a segment.
type header struct {
	number  uint32
	journal [16]byte
	epoch   string
	day     int32
	salt    uint32
}

func (h *header) append(b []byte, magic string) []byte {
	start := len(b)
	b = append(b, make([]byte, record.HeaderSize)...)
	f := b[start:]
	copy(f, magic)
	binary.LittleEndian.PutUint32(f[8:], record.Version)
	binary.LittleEndian.PutUint32(f[12:], h.number)
	copy(f[16:], h.journal[:])
	copy(f[32:48], h.epoch)
	binary.LittleEndian.PutUint32(f[48:], uint32(h.day))
	binary.LittleEndian.PutUint32(f[60:], record.Checksum(f[8:60]))
	return b
}

// parse decodes the header of a segment and reports whether it is compressed. reason is "" if it is
// valid.
func (h *header) parse(f []byte) (packed bool, reason string) {
	if len(f) < record.HeaderSize {
		return false, record.ReasonHeader
	}
	switch string(f[:8]) {
	case segmentMagic:
	case packedMagic:
		packed = true
	default:
		return false, record.ReasonHeader
	}
	sum := binary.LittleEndian.Uint32(f[60:])
	if sum != record.Checksum(f[8:60]) {
		return packed, record.ReasonHeader
	}
	if binary.LittleEndian.Uint32(f[8:]) != record.Version {
		return packed, record.ReasonVersion
	}
	h.number = binary.LittleEndian.Uint32(f[12:])
	copy(h.journal[:], f[16:])
	h.epoch = string(bytes.TrimRight(f[32:48], "\x00"))
	h.day = int32(binary.LittleEndian.Uint32(f[48:]))
	h.salt = sum
	return packed, ""
}

const secondsOfDay = 24 * 60 * 60

// dayOf returns the UTC date of a time, in days from 1970.
func dayOf(at int64) int32 {
	d := at / (secondsOfDay * 1e9)
	if at < 0 {
		d = (at+1)/(secondsOfDay*1e9) - 1
	}
	return int32(d)
}

// dateOf returns the date of a day as text.
func dateOf(day int32) string {
	return time.Unix(int64(day)*secondsOfDay, 0).UTC().Format(time.DateOnly)
}

// parseDate parses the name of a day's folder.
func parseDate(s string) (day int32, ok bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Format(time.DateOnly) != s {
		return 0, false
	}
	return int32(t.Unix() / secondsOfDay), true
}

// segmentName returns the name of a segment's file without extension.
func segmentName(number uint32) string { return fmt.Sprintf("%08d", number) }

// parseSegmentName parses the name of a segment's file with extension.
func parseSegmentName(name string) (number uint32, packed, ok bool) {
	digits, found := strings.CutSuffix(name, packedEnding)
	packed = found
	if !found {
		if digits, found = strings.CutSuffix(name, segmentEnding); !found {
			return 0, false, false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), packed, err == nil && len(digits) >= 8
}

// path returns the file of a segment in one of its two forms.
func (s *segment) path(packed bool) string {
	name := s.name
	switch {
	case s.whole:
	case packed:
		name += packedEnding
	default:
		name += segmentEnding
	}
	return filepath.Join(s.folder, name)
}

// inspector reads a whole segment once.
type inspector struct {
	seg       *segment
	table     *table
	file      io.ReaderAt
	size      int64
	cursor    record.Cursor
	head      record.Head
	high      int64
	mark      int64  // offset of an incomplete checkpoint
	numbers   uint32 // greatest number of an instrument
	last      uint64 // position of the last message or gap; 0: none yet
	lastAt    int64  // its offset
	searching bool   // looking for the next valid block
	torn      bool   // the file ends inside a frame

	part func(done, all int64) // called with the bytes that were read, and all of the segment
}

// windowBytes is the read size, unless a frame is longer.
const windowBytes = 1 << 20

// run reads the whole segment. It returns errors of the file system, or that of ctx. Damage is
// recorded in the segment.
func (x *inspector) run(ctx context.Context) error {
	x.high = -1 << 63
	x.cursor = record.Cursor{File: x.seg.path(x.seg.packed), Salt: x.seg.salt}
	x.seg.summary, x.seg.end = newSummary(), record.HeaderSize
	window := make([]byte, min(windowBytes, x.size))
	for at := int64(record.HeaderSize); at < x.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(int64(len(window)), x.size-at))
		if _, err := x.file.ReadAt(window[:n], at); err != nil {
			return fmt.Errorf("read %s: %w", x.cursor.File, err)
		}
		next, err := x.window(at, window[:n])
		if err != nil {
			return err
		}
		if next == at { // the frame is longer than the window
			window = make([]byte, min(2*len(window), int(x.size-at)))
		}
		at = next
		x.part(at, x.size)
	}
	x.closeBlock(x.seg.end)
	x.table.reserve(x.numbers)
	return nil
}

// window processes data that was read at an offset and returns the next offset to read, which is
// the same one if the window is too small.
func (x *inspector) window(at int64, b []byte) (int64, error) {
	c := &x.cursor
	last := at+int64(len(b)) == x.size
	begun, base := c.Begun, c.Base
	c.Reset(at, b)
	c.Begun, c.Base = begun, base
	if x.searching {
		next := x.search(at, 0, last)
		if x.searching || next == x.size {
			x.note(Damage{}, at, next)
			return next, nil
		}
		x.note(Damage{}, at, next)
		c.Pos = int(next - at)
	}
	for {
		err := x.next(at)
		var d *Damage
		switch {
		case err == nil:
			if c.Pos == c.End {
				x.seg.end = at + int64(c.End)
			}
			continue
		case errors.Is(err, io.EOF):
			return at + int64(len(b)), nil
		case !errors.As(err, &d):
			return 0, err
		case d.Reason == record.ReasonTorn && !last:
			return at + int64(c.Frame), nil
		}
		return x.skip(at, d, last), nil
	}
}

// next enters a frame, or processes a record of the frame that was entered. In files of 0.2.0-dev,
// the first frame of a block may have no record after the one that begins the block.
func (x *inspector) next(at int64) error {
	c := &x.cursor
	if c.Pos < c.End {
		rec, err := c.Next()
		if err != nil {
			return err
		}
		return x.record(rec)
	}
	err := c.Enter()
	if err == nil && c.Begins {
		x.block(at + int64(c.Frame))
	}
	return err
}

// skip continues at the next valid block after damage.
func (x *inspector) skip(at int64, d *Damage, last bool) int64 {
	c := &x.cursor
	bad := at + int64(c.Frame)
	x.mark = 0 // a part of the checkpoint may be lost
	x.closeBlock(bad)
	c.Begun = false
	// If the frame could not be entered, search inside it, otherwise after it.
	from := c.Frame + 8
	if d.Reason == record.ReasonRecord || d.Reason == record.ReasonBlock {
		from = max(from, c.End)
	}
	next := x.search(at, from, last)
	x.torn = d.Reason == record.ReasonTorn && next == x.size
	x.note(*d, bad, next)
	return next
}

// search returns the next valid block, from an offset in the window. It sets searching if the
// search must continue in the next window.
func (x *inspector) search(at int64, from int, last bool) int64 {
	c := &x.cursor
	k, whole := c.Resync(from, last)
	x.searching = !last && !whole
	switch {
	case k >= 0:
		return at + int64(k)
	case last:
		return x.size
	}
	next := max(from, len(c.Buf)-record.FrameHead-record.BlockSize)
	return at + int64((next+7)&^7)
}

// note records damage. Adjacent damage has one entry.
func (x *inspector) note(d Damage, from, to int64) {
	if k := len(x.seg.damage) - 1; k >= 0 && x.seg.damage[k].Offset+x.seg.damage[k].Bytes >= from {
		x.seg.damage[k].Bytes = to - x.seg.damage[k].Offset
		return
	}
	d.Offset, d.Bytes = from, to-from
	x.seg.damage = append(x.seg.damage, d)
}

func (x *inspector) record(rec []byte) error {
	offset := x.cursor.At(rec)
	switch Kind(rec[0]) {
	case record.Definition:
		number, def, ok := record.DecodeDefinition(rec)
		if !ok || x.table.add(number, def) != nil {
			return x.cursor.BadRecord(rec)
		}
	case record.SourceNumber:
		if _, ok := record.DecodeSource(rec); !ok {
			return x.cursor.BadRecord(rec)
		}
	case record.CheckpointBegin:
		x.mark = x.seg.blocks[len(x.seg.blocks)-1].offset
	case record.CheckpointEnd:
		x.seg.checkpoint, x.mark = x.mark, 0
	default:
		if !x.head.Parse(rec, x.cursor.Base) || x.head.Kind == 0 || x.head.Kind >= record.NumKinds {
			return x.cursor.BadRecord(rec)
		}
		if x.head.Flags&record.FlagCheckpoint == 0 {
			x.high = max(x.high, x.head.At)
			if x.head.Kind != BookLost {
				x.seg.recorded.Add(x.head.Instrument)
			}
			x.follow(offset)
		}
		x.numbers = max(x.numbers, x.head.Instrument)
		x.seg.note(&x.head, rec, offset)
	}
	return nil
}

// follow compares the position of a message with the one before it. Positions are consecutive,
// except at a Gap, and except that 0.1.0 repeated that of a BookLost. Rows between them are
// missing: those of the damage that was found there, or of a file without other damage.
func (x *inspector) follow(offset int64) {
	p, k := x.head.Position, len(x.seg.damage)-1
	switch {
	case x.last == 0 && k >= 0: // of the beginning: the segment before it says where it starts
		x.seg.damage[k].To = p - 1
	case x.last > 0 && p > x.last+1 && x.head.Kind != Gap:
		if k < 0 || x.seg.damage[k].Offset < x.lastAt {
			x.seg.damage = append(x.seg.damage, Damage{File: x.cursor.File, Offset: offset, Reason: record.ReasonMissing})
			k++
		}
		x.seg.damage[k].From, x.seg.damage[k].To = x.last+1, p-1
	}
	x.last, x.lastAt = max(x.last, p), offset
}

// block records that a block begins.
func (x *inspector) block(at int64) {
	x.closeBlock(at)
	x.seg.blocks = append(x.seg.blocks, block{offset: at, base: x.cursor.Base})
}

// closeBlock ends the last block at an offset, unless it has ended.
func (x *inspector) closeBlock(at int64) {
	if k := len(x.seg.blocks) - 1; k >= 0 && x.seg.blocks[k].bytes == 0 {
		x.seg.blocks[k].bytes = at - x.seg.blocks[k].offset
		x.seg.blocks[k].high = x.high
	}
}

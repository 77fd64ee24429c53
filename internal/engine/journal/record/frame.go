package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is the data of one commit: a header of 8 bytes, and records. The header is
//
//	0 a check of the length    1 length in words of 8 bytes    4 CRC32C of the records
//
// The check of the length distinguishes a torn end, which kill -9 leaves, from a changed byte. The
// CRC begins with the salt of the file and the offset of the frame, so that a frame is valid only
// where it was written.
const (
	Version    = 1         // of the format
	HeaderSize = 64        // of a segment, before its first frame
	FrameHead  = 8         // size of the header of a frame
	maxFrame   = 1<<24 - 1 // in words
)

// Damage is a part of a file that cannot be read.
type Damage struct {
	File   string
	Offset int64
	Bytes  int64 // excluded bytes; 0: unknown
	Reason string

	From, To uint64 `json:",omitzero"` // positions of the rows that are missing; 0: unknown
}

func (d *Damage) Error() string {
	at := fmt.Sprintf("%s is damaged at byte %d: %s", d.File, d.Offset, d.Reason)
	switch {
	case d.From > 0 && d.To == 0:
		at += fmt.Sprintf(": rows from position %d on are missing", d.From)
	case d.From > 0:
		at += fmt.Sprintf(": rows of positions %d to %d are missing", d.From, d.To)
	case d.To > 0:
		at += fmt.Sprintf(": rows up to position %d are missing", d.To)
	}
	return at
}

// Reasons of Damage.
const (
	ReasonTorn    = "torn_frame"       // the file ends inside a frame
	reasonLength  = "bad_frame_length" // the check of a frame's length
	ReasonSum     = "bad_checksum"
	ReasonRecord  = "bad_record"
	ReasonBlock   = "bad_block"
	ReasonHeader  = "bad_header"
	ReasonVersion = "unknown_version"
	ReasonForeign = "foreign_segment"   // it belongs to another journal
	ReasonTwice   = "duplicate_segment" // its number occurs twice
	ReasonMoved   = "misplaced_segment" // it is in the folder of another day
	ReasonPacked  = "bad_compressed_block"
	ReasonIndex   = "bad_index"
	ReasonMissing = "missing_rows"   // the file is shorter than at the clean end, or positions are not consecutive
	ReasonBefore  = "missing_before" // rows between the segment before and this one
)

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// lengthCheck changes with any changed byte of the length.
func lengthCheck(words uint32) byte {
	return 0xA5 + byte(words) + 3*byte(words>>8) + 5*byte(words>>16)
}

// FinishFrame writes the header of a frame. offset is that of the frame in the file.
func FinishFrame(frame []byte, salt uint32, offset int64) {
	words := uint32((len(frame) - FrameHead) / 8)
	binary.LittleEndian.PutUint32(frame, words<<8|uint32(lengthCheck(words)))
	binary.LittleEndian.PutUint32(frame[4:], frameSum(frame[FrameHead:], salt, offset))
}

func frameSum(records []byte, salt uint32, offset int64) uint32 {
	return crc32.Update(salt^uint32(offset>>3), castagnoli(), records)
}

// FrameSize returns the length of the records of the frame at the start of b. ok is false if no
// frame begins there.
func FrameSize(b []byte) (n int, ok bool) {
	w := binary.LittleEndian.Uint32(b)
	if byte(w) != lengthCheck(w>>8) || w>>8 == 0 {
		return 0, false
	}
	return int(w>>8) * 8, true
}

// Span is a part of a segment that is read at once: blocks of about 64 KiB.
type Span struct {
	Offset, Bytes int64
	Position      uint64 // of its first row
	High          int64  // greatest At up to its end
}

// SpanBytes is the size of a full block or span.
const SpanBytes = 64 << 10

// Cursor reads the records of a part of a segment and verifies each frame. The part starts with a
// frame that begins a block.
type Cursor struct {
	File     string
	Salt     uint32
	Offset   int64 // of Buf in the segment
	Buf      []byte
	Pos      int // of the next record
	End      int // end of its frame
	Frame    int // start of its frame
	Base     Base
	Begins   bool // the frame begins a block
	Begun    bool // a block was read
	Verified bool // skip checksums
}

// Reset makes the cursor read buf, which is at an offset of the segment.
func (c *Cursor) Reset(offset int64, buf []byte) {
	c.Offset, c.Buf, c.Pos, c.End, c.Begun = offset, buf, 0, 0, false
}

// At returns the offset in the segment of the last record of Next.
func (c *Cursor) At(rec []byte) int64 { return c.Offset + int64(c.Pos-len(rec)) }

// Row decodes the last record of Next. The row is valid until the next use of d.
func (c *Cursor) Row(d *Decoder, rec []byte) (*Row, error) {
	if r, ok := d.Decode(rec, c.Base); ok {
		return r, nil
	}
	return nil, c.BadRecord(rec)
}

// BadRecord returns a *Damage about the last record of Next.
func (c *Cursor) BadRecord(rec []byte) error { return c.Damage(c.Pos-len(rec), ReasonRecord) }

// Damage returns a *Damage at an index of Buf.
func (c *Cursor) Damage(pos int, reason string) error {
	return &Damage{File: c.File, Offset: c.Offset + int64(pos), Reason: reason}
}

// Next returns the next record. The error is io.EOF at the end, or a *Damage; then c.Frame is the
// start of the invalid frame.
func (c *Cursor) Next() (rec []byte, err error) {
	for c.Pos >= c.End {
		if err := c.Enter(); err != nil {
			return nil, err
		}
	}
	n := Size(c.Buf[c.Pos:c.End])
	if n == 0 {
		return nil, c.Damage(c.Pos, ReasonRecord)
	}
	c.Pos += n
	return c.Buf[c.Pos-n : c.Pos], nil
}

// Enter enters the next frame, after the record that begins a block.
func (c *Cursor) Enter() error {
	c.Frame, c.Begins = c.Pos, false
	rest := c.Buf[c.Pos:]
	if len(rest) == 0 {
		return io.EOF
	}
	if len(rest) < FrameHead {
		return c.Damage(c.Pos, ReasonTorn)
	}
	n, ok := FrameSize(rest)
	switch {
	case !ok:
		return c.Damage(c.Pos, reasonLength)
	case n > len(rest)-FrameHead:
		return c.Damage(c.Pos, ReasonTorn)
	}
	records := rest[FrameHead : FrameHead+n]
	if !c.Verified && binary.LittleEndian.Uint32(rest[4:]) != frameSum(records, c.Salt, c.Offset+int64(c.Pos)) {
		return c.Damage(c.Pos, ReasonSum)
	}
	c.Pos += FrameHead
	c.End = c.Pos + n
	if records[0] != byte(recBlock) {
		if !c.Begun {
			return c.Damage(c.Pos, ReasonBlock)
		}
		return nil
	}
	base, offset, ok := decodeBlock(records)
	if !ok || offset != c.Offset+int64(c.Frame) {
		return c.Damage(c.Pos, ReasonBlock)
	}
	c.Base, c.Begins, c.Begun = base, true, true
	c.Pos += BlockSize
	return nil
}

// Resync returns the first offset in Buf, from pos, where a valid frame begins a block; -1 if there
// is none. If Buf is not the last part of the file, whole may be false for a frame that is
// incomplete in Buf.
func (c *Cursor) Resync(pos int, last bool) (at int, whole bool) {
	for pos = (pos + 7) &^ 7; pos+FrameHead+BlockSize <= len(c.Buf); pos += 8 {
		if c.Buf[pos+FrameHead] != byte(recBlock) {
			continue
		}
		n, ok := FrameSize(c.Buf[pos:])
		_, offset, good := decodeBlock(c.Buf[pos+FrameHead:])
		if !ok || !good || n < BlockSize || offset != c.Offset+int64(pos) {
			continue
		}
		if n > len(c.Buf)-pos-FrameHead {
			if !last {
				return pos, false
			}
			continue
		}
		if binary.LittleEndian.Uint32(c.Buf[pos+4:]) == frameSum(c.Buf[pos+FrameHead:pos+FrameHead+n], c.Salt, offset) {
			return pos, true
		}
	}
	return -1, false
}

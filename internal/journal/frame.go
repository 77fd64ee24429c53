package journal

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
	frameHead = 8
	maxFrame  = 1<<24 - 1 // in words
)

// Damage is a part of a file that cannot be read.
type Damage struct {
	File   string
	Offset int64
	Bytes  int64 // excluded bytes; 0: unknown
	Reason string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", d.File, d.Offset, d.Reason)
}

// Reasons of Damage.
const (
	reasonTorn    = "torn_frame"       // the file ends inside a frame
	reasonLength  = "bad_frame_length" // the check of a frame's length
	reasonSum     = "bad_checksum"
	reasonRecord  = "bad_record"
	reasonBlock   = "bad_block"
	reasonHeader  = "bad_header"
	reasonVersion = "unknown_version"
	reasonForeign = "foreign_segment"   // it belongs to another journal
	reasonTwice   = "duplicate_segment" // its number occurs twice
	reasonMoved   = "misplaced_segment" // it is in the folder of another day
	reasonPacked  = "bad_compressed_block"
	reasonIndex   = "bad_index"
	reasonMissing = "missing_rows" // the file is shorter than at the clean end
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// lengthCheck changes with any changed byte of the length.
func lengthCheck(words uint32) byte {
	return 0xA5 + byte(words) + 3*byte(words>>8) + 5*byte(words>>16)
}

// finishFrame writes the header of a frame. offset is that of the frame in the file.
func finishFrame(frame []byte, salt uint32, offset int64) {
	words := uint32((len(frame) - frameHead) / 8)
	binary.LittleEndian.PutUint32(frame, words<<8|uint32(lengthCheck(words)))
	binary.LittleEndian.PutUint32(frame[4:], frameSum(frame[frameHead:], salt, offset))
}

func frameSum(records []byte, salt uint32, offset int64) uint32 {
	return crc32.Update(salt^uint32(offset>>3), castagnoli(), records)
}

// frameSize returns the length of the records of the frame at the start of b. ok is false if no
// frame begins there.
func frameSize(b []byte) (n int, ok bool) {
	w := binary.LittleEndian.Uint32(b)
	if byte(w) != lengthCheck(w>>8) || w>>8 == 0 {
		return 0, false
	}
	return int(w>>8) * 8, true
}

// cursor reads the records of a part of a segment and verifies each frame. The part starts with a
// frame that begins a block.
type cursor struct {
	file     string
	salt     uint32
	offset   int64 // of buf in the segment
	buf      []byte
	pos      int // of the next record
	end      int // end of its frame
	frame    int // start of its frame
	base     base
	begins   bool // the frame begins a block
	begun    bool // a block was read
	verified bool // skip checksums
}

func (c *cursor) set(offset int64, buf []byte) {
	c.offset, c.buf, c.pos, c.end, c.begun = offset, buf, 0, 0, false
}

// at returns the offset in the segment of the last record of next.
func (c *cursor) at(rec []byte) int64 { return c.offset + int64(c.pos-len(rec)) }

func (c *cursor) damage(pos int, reason string) error {
	return &Damage{File: c.file, Offset: c.offset + int64(pos), Reason: reason}
}

// next returns the next record. The error is io.EOF at the end, or a *Damage; then c.frame is the
// start of the invalid frame.
func (c *cursor) next() (rec []byte, err error) {
	for c.pos >= c.end {
		if err := c.enter(); err != nil {
			return nil, err
		}
	}
	n := recordSize(c.buf[c.pos:c.end])
	if n == 0 {
		return nil, c.damage(c.pos, reasonRecord)
	}
	c.pos += n
	return c.buf[c.pos-n : c.pos], nil
}

// enter enters the next frame, after the record that begins a block.
func (c *cursor) enter() error {
	c.frame, c.begins = c.pos, false
	rest := c.buf[c.pos:]
	if len(rest) == 0 {
		return io.EOF
	}
	if len(rest) < frameHead {
		return c.damage(c.pos, reasonTorn)
	}
	n, ok := frameSize(rest)
	switch {
	case !ok:
		return c.damage(c.pos, reasonLength)
	case n > len(rest)-frameHead:
		return c.damage(c.pos, reasonTorn)
	}
	records := rest[frameHead : frameHead+n]
	if !c.verified && binary.LittleEndian.Uint32(rest[4:]) != frameSum(records, c.salt, c.offset+int64(c.pos)) {
		return c.damage(c.pos, reasonSum)
	}
	c.pos += frameHead
	c.end = c.pos + n
	if records[0] != byte(recBlock) {
		if !c.begun {
			return c.damage(c.pos, reasonBlock)
		}
		return nil
	}
	base, offset, ok := decodeBlock(records)
	if !ok || offset != c.offset+int64(c.frame) {
		return c.damage(c.pos, reasonBlock)
	}
	c.base, c.begins, c.begun = base, true, true
	c.pos += blockSize
	return nil
}

// resync returns the first offset in buf, from pos, where a valid frame begins a block; -1 if there
// is none. If buf is not the last part of the file, whole may be false for a frame that is
// incomplete in buf.
func (c *cursor) resync(pos int, last bool) (at int, whole bool) {
	for pos = (pos + 7) &^ 7; pos+frameHead+blockSize <= len(c.buf); pos += 8 {
		if c.buf[pos+frameHead] != byte(recBlock) {
			continue
		}
		n, ok := frameSize(c.buf[pos:])
		_, offset, good := decodeBlock(c.buf[pos+frameHead:])
		if !ok || !good || n < blockSize || offset != c.offset+int64(pos) {
			continue
		}
		if n > len(c.buf)-pos-frameHead {
			if !last {
				return pos, false
			}
			continue
		}
		if binary.LittleEndian.Uint32(c.buf[pos+4:]) == frameSum(c.buf[pos+frameHead:pos+frameHead+n], c.salt, offset) {
			return pos, true
		}
	}
	return -1, false
}

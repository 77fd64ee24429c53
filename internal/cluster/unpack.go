package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// maxGroup bounds the records of a group, in bytes before compression. A leader joins at most
// maxMerged groups in a batch, and a row has at most about 4 MiB.
const (
	maxGroup  = 16 << 20
	maxMerged = 32
)

// unpacker decompresses and checks the records of groups.
type unpacker struct{ buf []byte }

// group returns the decompressed records of a group. They are valid until the next call. The rows
// must be those after the position prev up to last, each once. The error wraps ErrBatch.
func (u *unpacker) group(data []byte, prev, last uint64) ([]byte, error) {
	plain, err := u.plain(data)
	if err != nil {
		return nil, err
	}
	at := prev
	for rest := plain; len(rest) > 0; {
		head := pieceOf(rest)
		if at, err = checkPiece(head.records, head.base, at); err != nil {
			return nil, err
		}
		rest = rest[pieceHead+len(head.records):]
	}
	if at != last {
		return nil, fmt.Errorf("rows after position %d end at %d, and not at %d: %w", prev, at, last, ErrBatch)
	}
	return plain, nil
}

// plain returns the pieces of a group without compression. If none is compressed, it is data.
func (u *unpacker) plain(data []byte) ([]byte, error) {
	compressed := false
	for rest := data; len(rest) > 0; {
		p := pieceOf(rest)
		if !p.valid {
			return nil, fmt.Errorf("records: %w", ErrBatch)
		}
		compressed = compressed || p.compressed
		rest = rest[pieceHead+len(p.records):]
	}
	if len(data) > maxGroup {
		return nil, tooLong(len(data))
	}
	if !compressed {
		return data, nil
	}
	u.buf = u.buf[:0]
	for rest := data; len(rest) > 0; {
		p := pieceOf(rest)
		if err := u.append(rest[:pieceHead+len(p.records)], p); err != nil {
			return nil, err
		}
		rest = rest[pieceHead+len(p.records):]
	}
	return u.buf, nil
}

// append appends a piece without compression to the buffer.
func (u *unpacker) append(data []byte, p piece) error {
	size := len(p.records)
	if p.compressed {
		var err error
		if size, err = s2.DecodedLen(p.records); err != nil {
			return fmt.Errorf("compressed records: %w: %w", ErrBatch, err)
		}
	}
	start := len(u.buf)
	if size > maxGroup-start {
		return tooLong(size)
	}
	if !p.compressed {
		u.buf = append(u.buf, data...)
		return nil
	}
	u.buf = append(u.buf, data[:pieceHead]...)
	u.buf = append(u.buf, make([]byte, size)...)
	to := u.buf[start+pieceHead:]
	got, err := s2.Decode(to, p.records)
	if err != nil {
		return fmt.Errorf("compressed records: %w: %w", ErrBatch, err)
	}
	binary.LittleEndian.PutUint64(u.buf[start:], uint64(len(got)))
	return nil
}

func tooLong(n int) error {
	return fmt.Errorf("%d bytes of records, and a group has at most %d: %w", n, maxGroup, ErrBatch)
}

// piece is a part of a group whose records have the same base.
type piece struct {
	base       record.Base
	records    []byte
	compressed bool
	valid      bool
}

// pieceOf returns the first piece of a group, which is not empty.
func pieceOf(data []byte) (p piece) {
	if len(data) < pieceHead {
		return p
	}
	head := binary.LittleEndian.Uint64(data)
	p.base = record.Base{Position: record.Word(data, 1), At: int64(record.Word(data, 2))}
	p.compressed = head&pieceCompressed != 0
	if size := head &^ pieceCompressed; size <= uint64(len(data)-pieceHead) {
		p.records, p.valid = data[pieceHead:pieceHead+size], true
	}
	return p
}

// checkPiece checks that the rows of a piece follow the position at, and returns that of its last
// row.
func checkPiece(records []byte, base record.Base, at uint64) (uint64, error) {
	var h record.Head
	for len(records) > 0 {
		n := record.Size(records)
		if n == 0 {
			return at, fmt.Errorf("records: %w", ErrBatch)
		}
		rec := records[:n]
		records = records[n:]
		if record.Kind(rec[0]) == record.Definition {
			continue
		}
		if !record.IsMessage(rec) || !h.Parse(rec, base) || h.Position != at+1 {
			return at, fmt.Errorf("no row follows position %d: %w", at, ErrBatch)
		}
		at++
	}
	return at, nil
}

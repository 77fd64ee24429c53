package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// Group has consecutive rows, and the definitions that come before them.
type Group struct {
	Prev    uint64 // position before the rows
	Last    uint64 // position of the newest row; Prev: there are only definitions
	Data    []byte // for Records.Each
	Sources []Source
}

// Encoder collects rows and definitions as records. The zero Encoder is ready. It copies
// rows, so the caller may reuse them.
//
// A piece of records begins with its length and with the position and the time to which its records
// are relative. Pieces can be joined.
type Encoder struct {
	Compress bool // compress pieces that become smaller; readers need format 2

	buf     []byte
	packed  []byte // memory for compression
	base    record.Base
	begun   bool
	last    uint64
	size    int // of the last group: the next one is probably as long
	sources []Source
}

const (
	pieceHead       = 24      // of a piece: length, position, time
	pieceCompressed = 1 << 63 // of the length: the records are compressed with S2
	minCompressed   = 512     // bytes of the records of a compressed piece
	maxCompressed   = 1 << 20
)

// Fits reports whether a row can be added to the rows that were collected. If it cannot, the caller
// takes them with Group first.
func (e *Encoder) Fits(r *record.Row) bool {
	return !e.begun || r.Position >= e.base.Position && r.Position-e.base.Position <= math.MaxUint32
}

// Append adds a row that fits.
func (e *Encoder) Append(r *record.Row) {
	e.begin(record.Base{Position: r.Position, At: r.At})
	e.buf = record.Append(e.buf, e.base, r)
	e.last = r.Position
}

// Define adds the definition of an instrument, as JSON, before the next row.
func (e *Encoder) Define(number uint32, def []byte) {
	e.begin(record.Base{Position: e.last})
	e.buf = record.AppendDefinition(e.buf, number, def)
}

// begin begins a piece, if none has begun. A piece that begins with a definition is relative to
// the newest position before it, or to 0. Fits reports whether a row can follow.
func (e *Encoder) begin(base record.Base) {
	if e.begun {
		return
	}
	e.begun, e.base = true, base
	e.buf = slices.Grow(e.buf[:0], pieceHead+e.size+256)[:pieceHead]
}

// Source notes the newest sequence of a feed.
func (e *Encoder) Source(name string, sequence uint64) {
	for i := range e.sources {
		if e.sources[i].Name == name {
			e.sources[i].Sequence = sequence
			return
		}
	}
	e.sources = append(e.sources, Source{name, sequence})
}

// Empty reports whether nothing was collected.
func (e *Encoder) Empty() bool { return !e.begun && len(e.sources) == 0 }

// Len returns the size of what was collected, in bytes.
func (e *Encoder) Len() int { return len(e.buf) }

// Group returns what was collected since the last call, and resets the encoder. prev is the
// position before the rows. The caller owns the result.
func (e *Encoder) Group(prev uint64) Group {
	g := Group{Prev: prev, Last: max(prev, e.last), Sources: e.sources}
	if e.begun {
		binary.LittleEndian.PutUint64(e.buf, uint64(len(e.buf)-pieceHead))
		binary.LittleEndian.PutUint64(e.buf[8:], e.base.Position)
		binary.LittleEndian.PutUint64(e.buf[16:], uint64(e.base.At))
		g.Data = e.pack()
	}
	size := len(e.buf)
	if !e.Compress {
		e.buf = nil // the caller has it
	}
	*e = Encoder{Compress: e.Compress, buf: e.buf[:0], packed: e.packed, last: g.Last, size: size}
	return g
}

// pack returns the piece itself. With Compress it returns a copy, compressed if it becomes smaller.
func (e *Encoder) pack() []byte {
	if !e.Compress {
		return e.buf
	}
	head, records := e.buf[:pieceHead], e.buf[pieceHead:]
	if n := len(records); n >= minCompressed && n <= maxCompressed {
		e.packed = s2.Encode(e.packed[:cap(e.packed)], records)
		if len(e.packed) < n {
			binary.LittleEndian.PutUint64(head, pieceCompressed|uint64(len(e.packed)))
			records = e.packed
		}
	}
	return slices.Concat(head, records)
}

// Records reads the records of groups that are not compressed. It caches texts between calls.
type Records struct{ dec record.Decoder }

// Each calls define with each definition and row with each row, in their order. A row is valid
// until row returns. The error is that of a function, or wraps ErrBatch.
func (d *Records) Each(data []byte, define func(number uint32, def []byte) error, row func(*record.Row) error) error {
	for len(data) > 0 {
		p := pieceOf(data)
		if !p.valid || p.compressed {
			return fmt.Errorf("records: %w", ErrBatch)
		}
		if err := d.piece(p.records, p.base, define, row); err != nil {
			return err
		}
		data = data[pieceHead+len(p.records):]
	}
	return nil
}

func (d *Records) piece(data []byte, base record.Base, define func(uint32, []byte) error, row func(*record.Row) error) error {
	for len(data) > 0 {
		n := record.Size(data)
		if n == 0 {
			return fmt.Errorf("records: %w", ErrBatch)
		}
		rec := data[:n]
		data = data[n:]
		if record.Kind(rec[0]) == record.Definition {
			number, def, ok := record.DecodeDefinition(rec)
			if !ok {
				return fmt.Errorf("definition: %w", ErrBatch)
			}
			if err := define(number, def); err != nil {
				return err
			}
			continue
		}
		r, ok := d.dec.Decode(rec, base)
		if !ok || r.Checkpoint {
			return fmt.Errorf("row: %w", ErrBatch)
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return nil
}

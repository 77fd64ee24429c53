package cluster

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ruedahq/rueda/internal/journal/record"
)

// Group has consecutive rows, and the definitions that come before them.
type Group struct {
	Prev    uint64 // position before the rows
	Last    uint64 // position of the newest row; Prev: there are only definitions
	Data    []byte // for Records.Each
	Sources []Source
}

// Encoder collects rows and definitions as records. The zero Encoder is ready. It keeps no row.
//
// A piece of records begins with its length and with the position and the time to which its records
// are relative. Pieces can be joined.
type Encoder struct {
	buf     []byte
	base    record.Base
	begun   bool
	last    uint64
	size    int // of the last group: the next one is probably as long
	sources []Source
}

// pieceHead is the size of the head of a piece: length, position, time.
const pieceHead = 24

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

// begin begins a piece, if none has begun. A piece that begins with a definition has the base 0,
// which fits no row with a great position, so a definition does not set the base.
func (e *Encoder) begin(base record.Base) {
	if e.begun {
		return
	}
	e.begun, e.base = true, base
	e.buf = make([]byte, pieceHead, e.size+256)
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
		g.Data = e.buf
	}
	*e = Encoder{last: g.Last, size: len(e.buf)}
	return g
}

// Records reads the records of groups. It keeps known texts between calls.
type Records struct{ dec record.Decoder }

// Each calls define with each definition and row with each row, in their order. A row is valid
// until row returns. The error is that of a function, or wraps ErrBatch.
func (d *Records) Each(data []byte, define func(number uint32, def []byte) error, row func(*record.Row) error) error {
	for len(data) > 0 {
		if len(data) < pieceHead {
			return fmt.Errorf("records: %w", ErrBatch)
		}
		size := binary.LittleEndian.Uint64(data)
		base := record.Base{Position: record.Word(data, 1), At: int64(record.Word(data, 2))}
		data = data[pieceHead:]
		if size > uint64(len(data)) {
			return fmt.Errorf("records: %w", ErrBatch)
		}
		if err := d.piece(data[:size], base, define, row); err != nil {
			return err
		}
		data = data[size:]
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

// Package rowsort sorts the rows of a day by series in bounded memory.
package rowsort

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/ruedahq/rueda/internal/base/sched"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// Sorter sorts the rows of a day by series in one pass and bounded memory. Rows are collected in
// an arena, where those of a series are linked. A full arena is written to a temporary file as a
// run, series by series, and in the end all runs are merged.
//
// A row in the arena is the offset of the next one of its series (0: none), its length, its base
// and its record. A run is compressed in chunks; there the key of the series replaces the offset.
type Sorter struct {
	sys  *disk.System // of the temporary file
	path string       // of the runs

	arena  []byte
	series map[uint64]*chain
	file   *disk.TempFile // nil: no runs
	runs   []*run
	chunk  []byte
	packed []byte
}

// chain links the rows of a series in the arena.
type chain struct {
	first, last uint32 // 0: none
}

const (
	arenaBytes = 32 << 20
	chunkBytes = 64 << 10
	rowHead    = 32 // of a row
	chunkHead  = 8  // of a chunk: compressed length and CRC32C
)

// New returns a sorter for rows of that many bytes.
func New(sys *disk.System, path string, bytes int64) *Sorter {
	arena := make([]byte, rowHead, rowHead+min(2*bytes, arenaBytes)) // offset 0 is unused
	return &Sorter{sys: sys, path: path, arena: arena, series: map[uint64]*chain{}}
}

// Add adds a row.
func (g *Sorter) Add(key uint64, base record.Base, rec []byte) error {
	if len(g.arena)+rowHead+len(rec) > cap(g.arena) && len(g.arena) > rowHead {
		if err := g.spill(); err != nil {
			return err
		}
	}
	c := g.series[key]
	if c == nil {
		c = &chain{}
		g.series[key] = c
	}
	at := uint32(len(g.arena))
	if c.first == 0 {
		c.first = at
	} else {
		binary.LittleEndian.PutUint64(g.arena[c.last:], uint64(at))
	}
	c.last = at
	g.arena = record.AppendWords(g.arena, 0, uint64(len(rec)), base.Position, uint64(base.At))
	g.arena = append(g.arena, rec...)
	return nil
}

// sortedRow is a row with its header in the arena.
type sortedRow []byte

func (r sortedRow) key() uint64 { return record.Word(r, 0) } // in a run
func (r sortedRow) base() record.Base {
	return record.Base{Position: record.Word(r, 2), At: int64(record.Word(r, 3))}
}
func (r sortedRow) rec() []byte { return r[rowHead:] }
func (g *Sorter) row(at uint64) sortedRow {
	return sortedRow(g.arena[at:][:rowHead+record.Word(g.arena[at:], 1)])
}

// spill writes the arena as a run and empties it.
func (g *Sorter) spill() error {
	if g.file == nil {
		var err error
		if g.file, err = disk.CreateTemp(g.sys, g.path); err != nil {
			return err
		}
	}
	r := &run{from: g.file, at: g.file.Size}
	for _, key := range slices.Sorted(maps.Keys(g.series)) {
		c := g.series[key]
		for at := uint64(c.first); at != 0; {
			row := g.row(at)
			from := len(g.chunk)
			g.chunk = append(g.chunk, row...)
			at = record.Word(row, 0)
			binary.LittleEndian.PutUint64(g.chunk[from:], key)
			if len(g.chunk) >= chunkBytes {
				g.flushChunk()
			}
		}
		*c = chain{}
	}
	g.flushChunk()
	r.end = g.file.Size
	g.runs = append(g.runs, r)
	g.arena = g.arena[:rowHead]
	return g.file.Err
}

func (g *Sorter) flushChunk() {
	if len(g.chunk) == 0 {
		return
	}
	sched.Yield()
	size := chunkHead + s2.MaxEncodedLen(len(g.chunk))
	g.packed = slices.Grow(g.packed[:0], size)[:size]
	packed := s2.Encode(g.packed[chunkHead:], g.chunk)
	binary.LittleEndian.PutUint32(g.packed, uint32(len(packed)))
	binary.LittleEndian.PutUint32(g.packed[4:], record.Checksum(packed))
	g.file.Add(g.packed[:chunkHead+len(packed)])
	g.chunk = g.chunk[:0]
}

// Each calls f for all rows, sorted by series and in the order of add. After the last row of a
// series it calls end.
func (g *Sorter) Each(ctx context.Context, f func(base record.Base, rec []byte) error, end func(key uint64) error) error {
	for _, r := range g.runs {
		if err := r.next(); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(g.series)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, r := range g.runs {
			for r.row != nil && r.row.key() == key {
				if err := f(r.row.base(), r.row.rec()); err != nil {
					return err
				}
				if err := r.next(); err != nil {
					return err
				}
			}
		}
		for at := uint64(g.series[key].first); at != 0; {
			row := g.row(at)
			if err := f(row.base(), row.rec()); err != nil {
				return err
			}
			at = record.Word(row, 0)
		}
		if err := end(key); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the temporary file.
func (g *Sorter) Close() error {
	if g.file == nil {
		return nil
	}
	return errors.Join(g.file.Close(), g.sys.Remove(g.file.Name()))
}

// run is a sequential reader of a part of the temporary file.
type run struct {
	from    io.ReaderAt
	at, end int64
	row     sortedRow // next row; nil: none
	rest    []byte    // rest of chunk after row
	chunk   []byte
	packed  []byte
}

// next advances by one row.
func (r *run) next() error {
	r.row = nil
	if len(r.rest) == 0 {
		if r.at == r.end {
			r.chunk, r.packed = nil, nil
			return nil
		}
		if err := r.load(); err != nil {
			return fmt.Errorf("read temporary rows of the day: %w", err)
		}
	}
	n := rowHead + record.Word(r.rest, 1)
	r.row, r.rest = sortedRow(r.rest[:n]), r.rest[n:]
	return nil
}

// load reads the next chunk.
func (r *run) load() error {
	var head [chunkHead]byte
	if _, err := r.from.ReadAt(head[:], r.at); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > r.end-r.at-chunkHead {
		return record.ErrChecksum
	}
	r.packed = slices.Grow(r.packed[:0], int(size))[:size]
	if _, err := r.from.ReadAt(r.packed, r.at+chunkHead); err != nil {
		return err
	}
	if record.Checksum(r.packed) != binary.LittleEndian.Uint32(head[4:]) {
		return record.ErrChecksum
	}
	var err error
	if r.chunk, err = s2.Decode(r.chunk[:cap(r.chunk)], r.packed); err != nil {
		return err
	}
	r.at += chunkHead + size
	r.rest = r.chunk
	return nil
}

package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/ruedahq/rueda/internal/sched"
)

// gatherer sorts the rows of a day by series in one pass and bounded memory. Rows are collected in
// an arena, where those of a series are linked. A full arena is written to a temporary file as a
// run, series by series, and in the end all runs are merged.
//
// A row in the arena is the offset of the next one of its series (0: none), its length, its base
// and its record. A run is compressed in chunks; there the key of the series replaces the offset.
type gatherer struct {
	sys  *system // of the temporary file
	path string  // of the runs
	put  func(*os.File, []byte) (int, error)

	arena  []byte
	series map[uint64]*chain
	file   *tempFile // nil: no runs
	runs   []*run
	chunk  []byte
	packed []byte
}

// chain links the rows of a series in the arena.
type chain struct {
	first, last uint32 // 0: none
}

const (
	gatherBytes = 32 << 20
	gatherChunk = 64 << 10
	gatherHead  = 32 // of a row
	chunkHead   = 8  // of a chunk: compressed length and CRC32C
)

// gatherKey returns a series as a number, in the order of compareSeries.
func gatherKey(key seriesKey, epoch uint16) uint64 {
	return uint64(key.instrument)<<32 | uint64(key.slot)<<16 | uint64(epoch)
}

// newGatherer returns a gatherer for rows of that many bytes.
func newGatherer(sys *system, path string, bytes int64, put func(*os.File, []byte) (int, error)) *gatherer {
	arena := make([]byte, gatherHead, gatherHead+min(2*bytes, gatherBytes)) // offset 0 is unused
	return &gatherer{sys: sys, path: path, put: put, arena: arena, series: map[uint64]*chain{}}
}

// add adds a row.
func (g *gatherer) add(key uint64, base base, rec []byte) error {
	if len(g.arena)+gatherHead+len(rec) > cap(g.arena) && len(g.arena) > gatherHead {
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
	g.arena = appendWords(g.arena, 0, uint64(len(rec)), base.position, uint64(base.at))
	g.arena = append(g.arena, rec...)
	return nil
}

// gathered is a row with its header in the arena.
type gathered []byte

func (r gathered) key() uint64 { return word(r, 0) } // in a run
func (r gathered) base() base  { return base{word(r, 2), int64(word(r, 3))} }
func (r gathered) rec() []byte { return r[gatherHead:] }
func (g *gatherer) row(at uint64) gathered {
	return gathered(g.arena[at:][:gatherHead+word(g.arena[at:], 1)])
}

// spill writes the arena as a run and empties it.
func (g *gatherer) spill() error {
	if g.file == nil {
		var err error
		if g.file, err = makeTemp(g.sys, g.path, g.put); err != nil {
			return err
		}
	}
	r := &run{from: g.file, at: g.file.size}
	for _, key := range slices.Sorted(maps.Keys(g.series)) {
		c := g.series[key]
		for at := uint64(c.first); at != 0; {
			row := g.row(at)
			from := len(g.chunk)
			g.chunk = append(g.chunk, row...)
			at = word(row, 0)
			binary.LittleEndian.PutUint64(g.chunk[from:], key)
			if len(g.chunk) >= gatherChunk {
				g.flushChunk()
			}
		}
		*c = chain{}
	}
	g.flushChunk()
	r.end = g.file.size
	g.runs = append(g.runs, r)
	g.arena = g.arena[:gatherHead]
	return g.file.err
}

func (g *gatherer) flushChunk() {
	if len(g.chunk) == 0 {
		return
	}
	sched.Yield()
	g.packed = grow(g.packed, chunkHead+s2.MaxEncodedLen(len(g.chunk)))
	packed := s2.Encode(g.packed[chunkHead:], g.chunk)
	binary.LittleEndian.PutUint32(g.packed, uint32(len(packed)))
	binary.LittleEndian.PutUint32(g.packed[4:], crc32.Checksum(packed, castagnoli()))
	g.file.add(g.packed[:chunkHead+len(packed)])
	g.chunk = g.chunk[:0]
}

// each calls f for all rows, sorted by series and in the order of add. After the last row of a
// series it calls end.
func (g *gatherer) each(ctx context.Context, f func(base base, rec []byte) error, end func(key uint64) error) error {
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
			at = word(row, 0)
		}
		if err := end(key); err != nil {
			return err
		}
	}
	return nil
}

// close removes the temporary file.
func (g *gatherer) close() error {
	if g.file == nil {
		return nil
	}
	return errors.Join(g.file.Close(), g.sys.remove(g.file.Name()))
}

// run is a sequential reader of a part of the temporary file.
type run struct {
	from    io.ReaderAt
	at, end int64
	row     gathered // next row; nil: none
	rest    []byte   // rest of chunk after row
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
	n := gatherHead + word(r.rest, 1)
	r.row, r.rest = gathered(r.rest[:n]), r.rest[n:]
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
		return errSum
	}
	r.packed = grow(r.packed, int(size))
	if _, err := r.from.ReadAt(r.packed, r.at+chunkHead); err != nil {
		return err
	}
	if crc32.Checksum(r.packed, castagnoli()) != binary.LittleEndian.Uint32(head[4:]) {
		return errSum
	}
	var err error
	if r.chunk, err = s2.Decode(r.chunk[:cap(r.chunk)], r.packed); err != nil {
		return err
	}
	r.at += chunkHead + size
	r.rest = r.chunk
	return nil
}

// Package replay has the rows that a subscription sends before it continues with its ring.
//
// [Rows] takes them from memory and from the journal, and keeps them in the order of sending. Rows
// in memory are views that were taken under the hub's lock. A view does not change while it is
// used. Therefore a promised range can be sent completely, even if this takes long. With a journal,
// Rows keeps the numbers of its rows instead of the rows, and reads them again when they are sent.
//
// A Rows belongs to the goroutine of its shard. A [Reading] may be read by another one.
package replay

import (
	"math"
	"slices"
	"unsafe"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/wire"
)

// Rows has the rows of a replay of one channel that are not sent yet.
type Rows struct {
	ranges []*Range // rows that only the journal has; they are sent first
	read   []Part   // rows that were read from the journal
	parts  []Part   // views of rows in memory
	spans  []span   // sent after parts
	kept   []kept   // live messages that are sent after the rows, by position
	bytes  int      // size of the frames in kept
}

// Part has rows of an instrument that follow each other.
type Part struct {
	In   *hub.Instrument
	N    uint64 // N of the next row
	Rows [][]recent.Row
}

// PartOf returns the recent rows with N above n, up to last.
func PartOf(in *hub.Instrument, t *recent.Rows, n, last uint64) Part {
	p := Part{In: in, N: n + 1}
	if n < last && n+1 >= t.First() {
		p.Rows = firstRows(t.After(n), int(last-n))
	}
	return p
}

// Range is a range of rows of a replay that only the journal has: those of one instrument with N
// above N, up to To. Readings do not change it.
type Range struct {
	In     *hub.Instrument
	Series journal.Series
	N, To  uint64
	Pos    uint64 // unread rows are after this position
	Until  uint64 // rows after this position are not read; 0: no limit
	Seek   bool   // N is only a lower bound; the rows begin after Pos
	Open   bool   // it is not known which of the missing rows before the first one are after Pos
	ByN    bool   // Pos holds for a client that has row N of this instrument; false once rows were read
}

// span is a range of rows of an instrument that are not sent, with N from n to to.
type span struct {
	in    *hub.Instrument
	n, to uint64
	pos   uint64 // all rows of the span are after this position
}

// kept is a message that was taken out of its ring before it is sent.
type kept struct {
	rec   *hub.Record
	frame []byte
}

// Add adds rows at the end, before the live messages. Rows takes over the lists.
func (r *Rows) Add(parts []Part, ranges []*Range) {
	if len(r.parts)+len(r.ranges) == 0 { // long lists are not copied under the lock
		r.parts, r.ranges = parts, ranges
		return
	}
	r.parts, r.ranges = append(r.parts, parts...), append(r.ranges, ranges...)
}

// Push appends a copy of a live message after the rows.
func (r *Rows) Push(rec *hub.Record, frame []byte) {
	x := *rec
	k := kept{&x, slices.Clone(frame)} // a copy, so that the segment can be freed
	r.kept = append(r.kept, k)
	r.bytes += len(k.frame)
}

// Next returns the next row, and moves past it. ok is false at the end, and while rows of the
// journal must be read; see AtJournal.
func (r *Rows) Next(h *hub.Port, c wire.Channel) (in *hub.Instrument, n uint64, row *recent.Row, ok bool) {
	if in, n, row, ok = takeRow(&r.read); ok || len(r.ranges) > 0 {
		return in, n, row, ok
	}
	if in, n, row, ok = takeRow(&r.parts); ok || len(r.spans) == 0 {
		return in, n, row, ok
	}
	r.view(h, c)
	return takeRow(&r.parts)
}

// NextKept returns the next live message behind the rows, and moves past it.
func (r *Rows) NextKept() (frame []byte, ok bool) {
	if len(r.kept) == 0 {
		return nil, false
	}
	frame = r.kept[0].frame
	r.bytes -= len(frame)
	r.kept = r.kept[1:]
	return frame, true
}

// AtJournal reports whether rows of the journal must be read before others are sent.
func (r *Rows) AtJournal() bool { return len(r.ranges) > 0 }

// HasRead reports whether rows that were read from the journal are left.
func (r *Rows) HasRead() bool { return len(r.read) > 0 }

// Kept returns the number of live messages behind the rows, their bytes, and the first one, or nil.
func (r *Rows) Kept() (messages, bytes int, first *hub.Record) {
	if len(r.kept) > 0 {
		first = r.kept[0].rec
	}
	return len(r.kept), r.bytes, first
}

// Parts returns the views of rows in memory.
func (r *Rows) Parts() []Part { return r.parts }

// takeRow returns the next row of a list of parts, and moves past it. ok is false at the end.
func takeRow(parts *[]Part) (in *hub.Instrument, n uint64, row *recent.Row, ok bool) {
	for len(*parts) > 0 {
		p := &(*parts)[0]
		for len(p.Rows) > 0 && len(p.Rows[0]) == 0 {
			p.Rows = p.Rows[1:]
		}
		if len(p.Rows) > 0 {
			row = &p.Rows[0][0]
			n = p.N
			p.Rows[0] = p.Rows[0][1:]
			p.N++
			return p.In, n, row, true
		}
		*parts = (*parts)[1:]
	}
	return nil, 0, nil, false
}

// firstRows returns the first n rows of a list.
func firstRows(list [][]recent.Row, n int) [][]recent.Row {
	for i, rows := range list {
		if len(rows) >= n {
			list[i] = rows[:n]
			return list[:i+1]
		}
		n -= len(rows)
	}
	return list
}

// Position returns a position before all rows and messages that are not sent.
func (r *Rows) Position() uint64 {
	low := uint64(math.MaxUint64)
	if len(r.kept) > 0 {
		low = r.kept[0].rec.Position - 1
	}
	for _, parts := range [2][]Part{r.read, r.parts} {
		for _, p := range parts {
			for _, c := range p.Rows {
				if len(c) > 0 {
					low = min(low, c[0].Pos-1)
					break
				}
			}
		}
	}
	for _, o := range r.ranges {
		low = min(low, o.Pos)
	}
	for i := range r.spans {
		low = min(low, r.spans[i].pos)
	}
	return low
}

// Progress is the progress of a replay in one instrument.
type Progress struct {
	N, Pos uint64 // last N that was sent, 0: not known; position up to which all rows were sent
	ByN    bool   // Pos holds for a client that has row N
}

// Progress returns the progress in the instruments that have rows or messages left.
func (r *Rows) Progress() map[*hub.Instrument]Progress {
	m := make(map[*hub.Instrument]Progress)
	put := func(in *hub.Instrument, x Progress) {
		if _, ok := m[in]; !ok {
			m[in] = x
		}
	}
	putPart := func(p *Part) {
		for _, rows := range p.Rows {
			if len(rows) > 0 {
				put(p.In, Progress{N: p.N - 1, Pos: rows[0].Pos - 1})
				return
			}
		}
	}
	for i := range r.read {
		putPart(&r.read[i])
	}
	for _, o := range r.ranges {
		x := Progress{N: o.N, Pos: o.Pos, ByN: o.ByN}
		if o.Seek {
			x.N = 0 // only a lower bound
		}
		put(o.In, x)
	}
	for i := range r.parts {
		putPart(&r.parts[i])
	}
	for _, x := range r.spans {
		put(x.in, Progress{N: x.n - 1, Pos: x.pos})
	}
	for _, k := range r.kept {
		if k.rec.Flag&ring.Echo == 0 {
			put(k.rec.Of, Progress{N: k.rec.N - 1, Pos: k.rec.Position - 1})
		}
	}
	return m
}

// Without returns a copy without some of the instruments.
func (r *Rows) Without(taken map[*hub.Instrument]bool) Rows {
	rest, of := Rows{}, func(p Part) bool { return taken[p.In] }
	rest.read = slices.DeleteFunc(slices.Clone(r.read), of)
	rest.parts = slices.DeleteFunc(slices.Clone(r.parts), of)
	rest.ranges = slices.DeleteFunc(slices.Clone(r.ranges), func(o *Range) bool { return taken[o.In] })
	rest.spans = slices.DeleteFunc(slices.Clone(r.spans), func(x span) bool { return taken[x.in] })
	for _, k := range r.kept {
		if !taken[k.rec.Of] {
			rest.Push(k.rec, k.frame)
		}
	}
	return rest
}

// Held returns the memory in bytes: rows that were read, live messages, and the lists. Rows that
// are in memory for all clients do not count.
func (r *Rows) Held() (bytes int) {
	for _, p := range r.read {
		for _, rows := range p.Rows {
			for i := range rows {
				bytes += rows[i].Bytes()
			}
		}
	}
	for _, parts := range [2][]Part{r.read, r.parts} {
		bytes += cap(parts) * int(unsafe.Sizeof(Part{}))
		for i := range parts {
			bytes += cap(parts[i].Rows) * int(unsafe.Sizeof(parts[i].Rows))
		}
	}
	bytes += cap(r.spans)*int(unsafe.Sizeof(span{})) + len(r.ranges)*int(unsafe.Sizeof(Range{})+unsafe.Sizeof(r.ranges[0]))
	return bytes + r.bytes + cap(r.kept)*int(unsafe.Sizeof(kept{})) + len(r.kept)*int(unsafe.Sizeof(hub.Record{}))
}

// DroppedBytes estimates the memory of rows that only these Rows keep in memory, in bytes.
func (r *Rows) DroppedBytes(h *hub.Port, c wire.Channel) (bytes int) {
	if len(r.parts) == 0 {
		return 0
	}
	h.Lock()
	defer h.Unlock()
	for _, p := range r.parts {
		h.Step(1)
		first := p.In.Recent(c).First()
		if p.N >= first {
			continue
		}
		rows := 0
		for _, list := range p.Rows {
			rows += len(list)
		}
		bytes += recent.RowBytes * min(rows, int(first-p.N))
	}
	return bytes
}

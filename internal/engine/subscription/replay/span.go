package replay

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/wire"
)

// ToSpans replaces views by spans if the journal has their rows. These are sent before the other
// spans. Views of rows that the journal has lost stay, and are sent before all spans.
func (r *Rows) ToSpans(h *hub.Port, c wire.Channel) {
	if h.Journal() == nil || len(r.parts) == 0 {
		return
	}
	list := make([]span, 0, len(r.parts)+len(r.spans))
	var left []Part
	for _, p := range r.parts {
		if p.N < inJournalFrom(h, p.In, c) {
			left = append(left, p)
			continue
		}
		x := span{in: p.In, n: p.N, to: p.N - 1}
		for _, rows := range p.Rows {
			if x.to < x.n && len(rows) > 0 {
				x.pos = rows[0].Pos - 1
			}
			x.to += uint64(len(rows))
		}
		if x.to >= x.n {
			list = append(list, x)
		}
	}
	if n := len(list); n > 0 && len(r.spans) > 0 && list[n-1].in == r.spans[0].in && list[n-1].to+1 == r.spans[0].n {
		list[n-1].to = r.spans[0].to
		r.spans = r.spans[1:]
	}
	r.parts, r.spans = left, append(list, r.spans...)
}

// inJournalFrom returns the N of the oldest row of an instrument that the journal has, at least 1.
func inJournalFrom(h *hub.Port, in *hub.Instrument, c wire.Channel) uint64 {
	return h.Journal().Oldest(in.Series(c))
}

// maxViewed limits the rows of a span that view visits in one hold of the hub's lock.
const maxViewed = 1024

// view adds the next rows of the first span to parts. If they are not in memory, it adds them to
// ranges, to be read from the journal.
func (r *Rows) view(h *hub.Port, c wire.Channel) {
	if len(r.spans) == 0 || len(r.parts) > 0 {
		return
	}
	h.Lock()
	defer h.Unlock()
	x := &r.spans[0]
	t := x.in.Recent(c)
	if first := t.First(); x.n < first {
		to := min(first-1, x.to)
		r.ranges = append(r.ranges, &Range{In: x.in, Series: x.in.Series(c), N: x.n - 1, To: to, Pos: x.pos})
		x.n = to + 1
	} else {
		rows := firstRows(t.After(x.n-1), int(min(x.to-x.n+1, maxViewed)))
		p := Part{x.in, x.n, rows}
		for _, list := range rows {
			x.n += uint64(len(list))
			x.pos = list[len(list)-1].Pos
		}
		r.parts = append(r.parts, p)
	}
	if x.n > x.to {
		r.spans = r.spans[1:]
	}
}

// Release releases the memory of live messages: those that are kept, and those that are added. It
// keeps the numbers of the messages in spans, and their rows are read again when they are sent.
// Messages that the journal does not have stay.
type Release struct {
	rows   *Rows
	hub    *hub.Port
	c      wire.Channel
	last   map[*hub.Instrument]int    // index of the last span
	oldest map[*hub.Instrument]uint64 // N of the oldest row that the journal has; 0: it does not have all
}

// Release begins to release live messages. It returns nil if the journal stores no rows now.
func (r *Rows) Release(h *hub.Port, c wire.Channel) *Release {
	if h.Journal() == nil {
		return nil
	}
	if _, _, suspended := h.Journal().Suspended(); suspended {
		return nil
	}
	r.ToSpans(h, c)
	x := &Release{rows: r, hub: h, c: c, last: make(map[*hub.Instrument]int), oldest: make(map[*hub.Instrument]uint64)}
	for i := range r.spans {
		x.last[r.spans[i].in] = i
	}
	list := r.kept
	r.kept, r.bytes = nil, 0
	for _, k := range list {
		x.Add(k.rec, k.frame)
	}
	return x
}

// Add adds a live message after the others.
func (x *Release) Add(rec *hub.Record, frame []byte) {
	if x.stays(rec) {
		x.rows.Push(rec, frame)
	} else {
		x.extend(rec)
	}
}

// extend adds a message to the last span of its instrument, or to a new one.
func (x *Release) extend(rec *hub.Record) {
	r := x.rows
	i, ok := x.last[rec.Of]
	if !ok || r.spans[i].to+1 != rec.N {
		i = len(r.spans)
		x.last[rec.Of] = i
		r.spans = append(r.spans, span{rec.Of, rec.N, rec.N, rec.Position - 1})
	}
	r.spans[i].to = rec.N
}

// stays reports whether the journal does not have the row of a message, or of an earlier one of the
// instrument.
func (x *Release) stays(rec *hub.Record) bool {
	if rec.Flag&ring.Echo != 0 {
		return true
	}
	n, ok := x.oldest[rec.Of]
	if !ok {
		n = inJournalFrom(x.hub, rec.Of, x.c)
	}
	if rec.N < n {
		n = 0
	}
	x.oldest[rec.Of] = n
	return n == 0
}

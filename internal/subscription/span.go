package subscription

import (
	"math"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/wire"
)

// With a journal, a replay keeps the numbers of its rows instead of the rows. When it sends the
// rows, it reads them from the recent rows, or from the journal if the recent rows no longer have
// them. Without a journal it keeps views of the rows, because they were promised.

// span is a range of rows of an instrument that a replay has not sent, with N from n to to.
type span struct {
	in    *hub.Instrument
	n, to uint64
	pos   uint64 // all rows of the span are after this position
}

// toSpans converts views into spans if the journal has their rows. These are sent before the other
// spans. Views of rows that the journal has lost stay, and are sent before all spans.
func (r *replay) toSpans(h *hub.Port, c wire.Channel) {
	if h.Journal() == nil || len(r.parts) == 0 {
		return
	}
	list := make([]span, 0, len(r.parts)+len(r.spans))
	var left []part
	for _, p := range r.parts {
		if p.n < inJournalFrom(h, p.in, c) {
			left = append(left, p)
			continue
		}
		x := span{in: p.in, n: p.n, to: p.n - 1}
		for _, rows := range p.rows {
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
// old, to be read from the journal.
func (r *replay) view(h *hub.Port, c wire.Channel) {
	if len(r.spans) == 0 || len(r.parts) > 0 {
		return
	}
	h.Lock()
	defer h.Unlock()
	x := &r.spans[0]
	t := x.in.Recent(c)
	if first := t.First(); x.n < first {
		to := min(first-1, x.to)
		r.old = append(r.old, &old{in: x.in, series: x.in.Series(c), n: x.n - 1, to: to, pos: x.pos})
		x.n = to + 1
	} else {
		rows := firstRows(t.After(x.n-1), int(min(x.to-x.n+1, maxViewed)))
		p := part{x.in, x.n, rows}
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

// letGo releases the messages that wait behind the item's replay, so that their segments can be
// freed. It keeps their numbers in spans, and the rows are read again when they are sent. Messages
// that the journal does not have stay.
func (it *item) letGo() {
	h, l := it.sub.shard.hub, it.late
	r := l.replay
	if h.Journal() == nil || l.at == it.view.tail && len(r.after) == 0 {
		return
	}
	if _, _, suspended := h.Journal().Suspended(); suspended {
		return
	}
	r.toSpans(h, it.channel())
	last := make(map[*hub.Instrument]int) // index of the last span
	for i := range r.spans {
		last[r.spans[i].in] = i
	}
	extend := func(rec *hub.Record) {
		i, ok := last[rec.Of]
		if !ok || r.spans[i].to+1 != rec.N {
			i = len(r.spans)
			last[rec.Of] = i
			r.spans = append(r.spans, span{rec.Of, rec.N, rec.N, rec.Position - 1})
		}
		r.spans[i].to = rec.N
	}
	oldest := make(map[*hub.Instrument]uint64) // N of the oldest row that the journal has; 0: it does not have all
	stays := func(rec *hub.Record) bool {
		if rec.Flag&ring.Echo != 0 {
			return true
		}
		n, ok := oldest[rec.Of]
		if !ok {
			n = inJournalFrom(h, rec.Of, it.channel())
		}
		if rec.N < n {
			n = 0
		}
		oldest[rec.Of] = n
		return n == 0
	}
	behind := r.after
	r.after, r.bytes = nil, 0
	for _, k := range behind {
		if stays(k.rec) {
			r.push(k)
		} else {
			extend(k.rec)
		}
	}
	for {
		rec, frame, ok := it.take(it.view.tail)
		switch {
		case !ok:
			return
		case !it.wants(rec):
		case stays(rec):
			r.push(kept{rec, frame})
		default:
			extend(rec)
		}
	}
}

// spansPosition returns a position before all rows of the spans.
func (r *replay) spansPosition() uint64 {
	low := uint64(math.MaxUint64)
	for i := range r.spans {
		low = min(low, r.spans[i].pos)
	}
	return low
}

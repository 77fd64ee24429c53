package stream

import (
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// replay is what an item sends again before it goes on with its ring. Its rows
// are views taken under the hub's lock: they stay while anyone looks at them, so
// that a gap which was promised is sent whole however long it takes.
type replay struct {
	batches []*batch // that wait for it
	parts   []part
	after   []kept // live messages that go out behind the rows
	bytes   int    // of those
}

// push puts a live message behind the rows.
func (r *replay) push(k kept) {
	r.after = append(r.after, k)
	r.bytes += len(k.frame)
}

// kept is a message that left its ring before it was gathered.
type kept struct {
	rec   *record
	frame []byte
}

type part struct {
	in   *instrument
	n    uint64 // of the next row
	rows [][]row
}

// batch is the replays of one Subscribe; when the last has ended, its message goes out.
type batch struct {
	left  int
	frame []byte
}

// done tells the batches that the rows have gone, once.
func (r *replay) done(s *Subscriber) {
	for _, b := range r.batches {
		b.left--
		if b.left == 0 {
			w := s.waiting()
			w.carry = append(w.carry, b.frame...)
			b.frame = nil
		}
	}
	r.batches = nil
}

// AfterReplay sends a framed message right after the last row that the last
// Subscribe replays; at once where it replays none. The frame is copied.
func (s *Subscriber) AfterReplay(frame []byte) {
	w := s.waiting()
	if w.batch == nil || w.batch.left == 0 {
		w.carry = append(w.carry, frame...)
		return
	}
	w.batch.frame = append([]byte(nil), frame...)
}

// resumed tells where an item stands that was there already.
func (s *Subscriber) resumed(out *Outcome, it *item, r *wire.Resume) {
	if r == nil || it.id().IsPattern() || (it.channel() != wire.Trades && it.channel() != wire.Status) {
		return
	}
	name := it.id().String()
	if _, ok := r.Seen[it.channel()][name]; ok {
		out.resume(it.channel(), name, s.shard.hub.lookupItem(it.item()).tape(it.channel()).last)
	}
}

func (o *Outcome) resume(c wire.Channel, name string, n uint64) {
	if o.Resumed[c] == nil {
		o.Resumed[c] = make(map[string]uint64)
	}
	o.Resumed[c][name] = n
}

func (o *Outcome) lose(c wire.Channel, name string, l Lost) {
	if o.Lost[c] == nil {
		o.Lost[c] = make(map[string]Lost)
	}
	o.Lost[c][name] = l
}

// resume gives a fresh item of trades or status its replay, or says what is lost.
func (s *Subscriber) resume(out *Outcome, it *item, r *wire.Resume, since position) {
	h := s.shard.hub
	name := it.id().String()
	n, byN := r.Seen[it.channel()][name]
	switch {
	case byN && r.Epoch != h.epoch:
		out.lose(it.channel(), name, Lost{From: n + 1, Reason: "epoch_changed"})
		return
	case byN:
		s.resumeByN(out, it, h.lookupItem(it.item()), n)
		return
	case since.epoch == "":
		return
	case since.epoch != h.epoch || r.Epoch != h.epoch:
		out.lose(it.channel(), name, Lost{Reason: "epoch_changed"})
		return
	case since.pos > h.position:
		out.lose(it.channel(), name, Lost{Reason: "ahead"})
		return
	}
	s.resumeByPosition(out, it, since.pos)
}

func (s *Subscriber) resumeByN(out *Outcome, it *item, in *instrument, n uint64) {
	name, t := it.id().String(), in.tape(it.channel())
	switch {
	case n > t.last:
		out.lose(it.channel(), name, Lost{Reason: "ahead"})
	case n+1 < t.first():
		out.lose(it.channel(), name, Lost{From: n + 1, To: t.last, Reason: "buffer_exceeded"})
	default:
		out.resume(it.channel(), name, t.last)
		if n < t.last {
			s.replays(it, []part{{in, n + 1, t.after(n)}})
		}
	}
}

// resumeByPosition replays everything after a position: of one instrument, or of
// all that a pattern covers and no other item of the set does.
func (s *Subscriber) resumeByPosition(out *Outcome, it *item, from uint64) {
	var parts []part
	for _, in := range s.shard.hub.covered(it.item()) {
		if s.owner(it.channel(), in.id) != it {
			continue
		}
		name, t := in.id.String(), in.tape(it.channel())
		if t.dropped > from {
			out.lose(it.channel(), name, Lost{To: t.last, Reason: "buffer_exceeded"})
			continue
		}
		if !it.id().IsPattern() {
			out.resume(it.channel(), name, t.last)
		}
		if n := t.seek(from); n < t.last {
			parts = append(parts, part{in, n + 1, t.after(n)})
		}
	}
	s.replays(it, parts)
}

func (s *Subscriber) replays(it *item, parts []part) {
	if len(parts) > 0 {
		b := s.wait.batch
		b.left++
		it.behind().replay = &replay{batches: []*batch{b}, parts: parts}
	}
}

// lookup is a listed instrument. The hub's lock is held.
func (h *Hub) lookup(id market.InstrumentID) *instrument {
	i, ok := h.catalog.Index(id)
	if !ok {
		return nil
	}
	return h.listed[i]
}

// covered is the instruments, or the markets as a whole, of an item.
func (h *Hub) covered(x Item) []*instrument {
	var list []*instrument
	for i := range h.catalog.Match(x.ID) {
		if in := h.listed[i].under(x.Tier.Delay); in != nil {
			list = append(list, in)
		}
	}
	return list
}

func (in *instrument) tape(c wire.Channel) *tape {
	if c == wire.Trades {
		return &in.trades
	}
	return &in.statuses
}

// next takes the next row of a replay; ok is false at its end.
func (r *replay) next() (in *instrument, n uint64, rw *row, ok bool) {
	for len(r.parts) > 0 {
		p := &r.parts[0]
		for len(p.rows) > 0 && len(p.rows[0]) == 0 {
			p.rows = p.rows[1:]
		}
		if len(p.rows) > 0 {
			rw = &p.rows[0][0]
			n = p.n
			p.rows[0] = p.rows[0][1:]
			p.n++
			return p.in, n, rw, true
		}
		r.parts = r.parts[1:]
	}
	return nil, 0, nil, false
}

// position is a place that nothing unsent of the replay lies at or before.
func (r *replay) position() uint64 {
	low := ^uint64(0)
	if len(r.after) > 0 {
		low = r.after[0].rec.pos - 1
	}
	for _, p := range r.parts {
		for _, c := range p.rows {
			if len(c) > 0 {
				low = min(low, c[0].pos-1)
				break
			}
		}
	}
	return low
}

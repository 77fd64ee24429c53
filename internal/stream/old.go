package stream

import (
	"context"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Rows that left memory are read from the journal by goroutines of the hub's, some at a
// time, while the item that wants them waits, off its subscriber's queue. A shard never
// waits for a disk.

const (
	oldRows    = 1000 // read at once
	oldReaders = 2    // goroutines
)

// old is rows of a replay that only the journal has. It is the shard's; readers do
// not change it.
type old struct {
	shard *Shard
	it    *item
	r     *replay

	channel wire.Channel

	// Either those of one instrument above n, up to to,
	in     *instrument
	series journal.Series
	n, to  uint64
	// or, in is nil, the trades or statuses of several above a position, each up to a
	// position of its own.
	pos  uint64
	cuts map[uint32]cut
	set  journal.KindSet
}

// cut is where the rows of an instrument begin that are in memory.
type cut struct {
	in  *instrument
	pos uint64
}

// fetch is what a reader is to read, and then what it has read.
type fetch struct {
	old    *old
	n, pos uint64 // where it begins, and then where it goes on
	parts  []part
	end    bool
	err    error
}

// fetch has a reader read the next rows. The item waits from now on.
func (o *old) fetch() {
	sub := o.it.sub
	h := sub.shard.hub
	o.r.waits = true
	w := sub.waiting()
	w.reading = append(w.reading, o.it)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fetches = append(h.fetches, fetch{old: o, n: o.n, pos: o.pos})
	h.callReader()
}

func (h *Hub) callReader() {
	select {
	case h.fetching <- struct{}{}:
	default: // one is on its way
	}
}

// readOld answers fetches until ctx ends.
func (h *Hub) readOld(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.fetching:
		}
		for f, ok := h.nextFetch(); ok; f, ok = h.nextFetch() {
			f.read(ctx, h.cfg.Journal)
			h.mu.Lock()
			s := f.old.shard
			s.fetched = append(s.fetched, f)
			s.wake(false)
			h.mu.Unlock()
		}
	}
}

func (h *Hub) nextFetch() (f fetch, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.fetches) == 0 {
		return f, false
	}
	f = h.fetches[0]
	h.fetches[0] = fetch{}
	if h.fetches = h.fetches[1:]; len(h.fetches) > 0 {
		h.callReader() // another
	}
	return f, true
}

func (f *fetch) read(ctx context.Context, j *journal.Journal) {
	if f.old.in != nil {
		f.readSeries(ctx, j)
	} else {
		f.readStream(ctx, j)
	}
}

func (f *fetch) readSeries(ctx context.Context, j *journal.Journal) {
	o := f.old
	var rows []row
	from := f.n
	f.err = j.Read(ctx, o.series, journal.Range{Epoch: j.Epoch(), AfterN: f.n, ToN: o.to}, func(_ string, r *journal.Row) bool {
		if r.N != f.n+1 {
			return false
		}
		f.n = r.N
		rows = append(rows, rowOf(r))
		return len(rows) < oldRows
	})
	if f.err == nil && len(rows) == 0 && f.n < o.to {
		f.err = errGone
	}
	f.end = f.err != nil || f.n >= o.to
	f.parts = []part{{in: o.in, n: from + 1, rows: [][]row{rows}}}
}

func (f *fetch) readStream(ctx context.Context, j *journal.Journal) {
	o := f.old
	places := make(map[uint32]int)
	until := uint64(0)
	for _, c := range o.cuts {
		until = max(until, c.pos)
	}
	count := 0
	want := func(number uint32) bool { _, ok := o.cuts[number]; return ok }
	f.err = j.Scan(ctx, journal.Place{Epoch: j.Epoch(), Position: f.pos}, want, o.set, func(r *journal.Row) bool {
		if r.Position > until {
			return false
		}
		c := o.cuts[r.Instrument]
		if r.Position > c.pos || r.Kind == journal.Bar && wire.BarsOf(r.Bar.Interval) != o.channel {
			return true
		}
		i, ok := places[r.Instrument]
		if !ok {
			i = len(f.parts)
			places[r.Instrument] = i
			f.parts = append(f.parts, part{in: c.in, n: r.N, rows: [][]row{nil}})
		}
		rows := &f.parts[i].rows[0]
		*rows = append(*rows, rowOf(r))
		f.pos = r.Position
		count++
		return count < oldRows
	})
	f.end = f.err != nil || count < oldRows
}

// rowOf is a row of the journal as a tape keeps it.
func rowOf(j *journal.Row) row {
	r := row{pos: j.Position, at: j.At, time: j.Time, latency: j.Latency}
	switch j.Kind {
	case journal.Bar:
		b := barOf(j)
		r.bar = &b
		return r
	case journal.Status:
		r.kind, r.phase = market.KindStatus, j.Phase
		if j.Reason != "" || j.Until != 0 {
			r.more = &more{reason: j.Reason, until: j.Until}
		}
		return r
	case journal.Cancel:
		r.kind = market.KindCancel
	case journal.Correct:
		r.kind = market.KindCorrect
	default:
		r.kind = market.KindTrade
	}
	r.price, r.size, r.side, r.id = j.Price, j.Size, j.Side, j.ID
	if r.kind != market.KindTrade || len(j.Conditions) > 0 {
		r.more = &more{oldPrice: j.OldPrice, oldSize: j.OldSize, refN: j.RefN, conditions: clone(j.Conditions)}
	}
	return r
}

// takeFetched gives rows that were read to the items that wait for them.
func (s *Shard) takeFetched(list []fetch) {
	for i := range list {
		f := &list[i]
		o := f.old
		it := o.it
		if it.sub.closed || it.late == nil || it.late.replay != o.r || !o.r.waits || len(o.r.old) == 0 || o.r.old[0] != o {
			continue // unsubscribed meanwhile
		}
		sub := it.sub
		w := sub.waiting()
		w.reading = without(w.reading, it)
		o.r.waits = false
		o.r.read = append(o.r.read, f.parts...)
		o.n, o.pos = f.n, f.pos
		if f.end {
			o.r.old = o.r.old[1:]
		}
		if f.err != nil {
			s.hub.log.Error("rows of the journal could not be read for a client that resumes", "instrument", it.id(), "error", f.err)
			w.carry = wire.AppendText(w.carry, wire.AppendError(nil, wire.NewFault(wire.Internal, "A replay ended before it was complete; resume again"), nil, nil))
		}
		sub.enqueue(it)
		s.mark(sub)
	}
}

// of is the part of o that is an instrument's, for another item; nil where it has none.
func (o *old) of(in *instrument, it *item, r *replay) *old {
	if o.in != nil && o.in != in {
		return nil
	}
	x := *o
	x.it, x.r = it, r
	if o.in == nil {
		c, ok := o.cuts[in.number]
		if !ok {
			return nil
		}
		x.cuts = map[uint32]cut{in.number: c}
	}
	return &x
}

// instruments are those that o has rows of.
func (o *old) instruments() []*instrument {
	if o.in != nil {
		return []*instrument{o.in}
	}
	var list []*instrument
	for _, c := range o.cuts {
		list = append(list, c.in)
	}
	return list
}

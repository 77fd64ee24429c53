package stream

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// Rows that left memory are read from the journal by goroutines of the hub's, some at a
// time, while the item that wants them waits, off its subscriber's queue. A shard does not
// wait for a disk.

const (
	oldRows    = 1000                  // read at once
	oldTime    = 50 * time.Millisecond // of one reading, after which it is another's turn
	oldReaders = 2                     // goroutines
	maxHolders = 2                     // items of a subscriber that rows are read for, or wait of, at a time
)

// old is rows of a replay that only the journal has: those of one instrument above n, up to to. It
// is the shard's; readers do not change it.
type old struct {
	in     *instrument
	series journal.Series
	n, to  uint64
	pos    uint64 // nothing that is still to be read lies at or before it
	until  uint64 // rows behind this position are not read; 0: all up to N to are
	seek   bool   // n is no more than a bound; the rows begin behind pos
	byN    bool   // pos holds for a client that has seen n of this instrument; set until rows were read
}

// fetch is what a reader is to read, and then what it has read.
type fetch struct {
	it    *item
	r     *replay
	shard *Shard
	olds  []*old
	parts []part
	rows  int
	done  int  // of olds, that there is no more of
	rest  *old // what the next one has become, where it was begun
	err   error
}

// await has the next rows of an item read, when it is its turn: it waits from now on.
func (it *item) await() {
	w, r := it.sub.waiting(), it.late.replay
	r.waits = true
	w.reading = append(w.reading, it)
	it.giveBack()
}

// giveBack reports that nothing is held of the rows of the item's replay any more: another replay may
// have rows read.
func (it *item) giveBack() {
	it.sub.shard.hub.mu.Lock()
	defer it.sub.shard.hub.mu.Unlock()
	it.late.replay.release(it.sub, false)
	it.sub.fetchNext()
}

// release ends the reading for a replay; if that is given up, what is read for it is dropped. The
// hub's lock is held.
func (r *replay) release(s *Subscriber, givenUp bool) {
	if !r.holds {
		return
	}
	r.holds = false
	s.wait.holders--
	if givenUp {
		h := s.shard.hub
		if r.stop != nil {
			r.stop()
		}
		h.fetches = slices.DeleteFunc(h.fetches, func(f fetch) bool { return f.r == r })
	}
}

// fetchNext has readers read for the items whose turn it is. The others wait: so a client that does
// not read what it asked for holds little. The hub's lock is held.
func (s *Subscriber) fetchNext() {
	h, w := s.shard.hub, s.waiting()
	for _, it := range w.reading {
		if w.holders == maxHolders {
			return
		}
		r := it.late.replay
		if r.holds {
			continue
		}
		r.holds = true
		w.holders++
		h.fetches = append(h.fetches, fetch{it: it, r: r, shard: s.shard, olds: r.old[:len(r.old):len(r.old)]})
		h.callReader()
	}
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
		for more := true; more; {
			more = h.readNext(ctx)
			more = h.searchNext(ctx) || more
		}
	}
}

// setReaders says whether anybody reads the journal for shards. When that ends, what waits has failed.
func (h *Hub) setReaders(on bool) {
	h.mu.Lock()
	h.readers = on
	var left []*Search
	if !on {
		left, h.searches = h.searches, nil
	}
	for _, x := range left {
		x.fault, x.over = wire.NewFault(wire.Internal, ""), true
	}
	h.mu.Unlock()
	for _, x := range left {
		x.found()
	}
}

// readNext answers the fetch that has waited longest; false: there is none.
func (h *Hub) readNext(ctx context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f, ok := h.nextFetch(stop)
	if !ok {
		return false
	}
	f.read(ctx, h.cfg.Journal)
	h.mu.Lock()
	defer h.mu.Unlock()
	f.r.stop = nil
	if ctx.Err() == nil { // otherwise nobody waits for it
		f.shard.fetched = append(f.shard.fetched, f)
		f.shard.wake(false)
	}
	return true
}

// nextFetch takes the next fetch. stop ends its reading when it is given up.
func (h *Hub) nextFetch(stop context.CancelFunc) (f fetch, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.fetches) == 0 {
		return f, false
	}
	f = h.fetches[0]
	f.r.stop = stop
	h.fetches[0] = fetch{}
	if h.fetches = h.fetches[1:]; len(h.fetches) > 0 {
		h.callReader() // another
	}
	return f, true
}

// read reads until it has enough, or had its time.
func (f *fetch) read(ctx context.Context, j *journal.Journal) {
	for begin := time.Now(); f.done < len(f.olds) && f.rows < oldRows && time.Since(begin) < oldTime; {
		o := *f.olds[f.done]
		if f.err = o.find(ctx, j); f.err == nil {
			f.err = f.readSeries(ctx, j, &o)
		}
		if f.err == nil && o.n < o.to {
			f.rest = &o
			return
		}
		f.done++
		if f.err != nil {
			return
		}
	}
}

// find brings n to the row before the first one behind pos. The positions of a series rise; most who
// resume were there not long ago, so that it looks near the end first.
func (o *old) find(ctx context.Context, j *journal.Journal) error {
	if !o.seek {
		return nil
	}
	high := o.to
	for step := uint64(oldRows); o.n < high; step *= 4 {
		mid := max(o.n+(high-o.n+1)/2, high-min(high, step))
		behind := false // a row that is gone is not behind pos: that was made sure of, and is again below
		err := j.Read(ctx, o.series, journal.Range{Epoch: j.Epoch(), AfterN: mid - 1, ToN: mid}, func(_ string, r *journal.Row) bool {
			behind = r.Position > o.pos
			return false
		})
		if err != nil {
			return err
		}
		if behind {
			high = mid - 1
		} else {
			o.n = mid
		}
	}
	if o.pos < j.Begins() {
		return errGone // a day was removed since; what is lost otherwise is behind the rows that were promised
	}
	o.seek = false
	return nil
}

// readSeries reads rows that follow n, and moves that to the last of them; to where no more is
// to be had.
func (f *fetch) readSeries(ctx context.Context, j *journal.Journal, o *old) error {
	if o.n >= o.to {
		return nil
	}
	var rows []recent.Row
	from, ended := o.n, false
	err := j.Read(ctx, o.series, journal.Range{Epoch: j.Epoch(), AfterN: o.n, ToN: o.to}, func(_ string, r *journal.Row) bool {
		if ended = o.until > 0 && r.Position > o.until; ended || r.N != o.n+1 {
			return false
		}
		o.n, o.pos, o.byN = r.N, r.Position, false
		rows = append(rows, recent.RowOf(r))
		f.rows++
		return f.rows < oldRows
	})
	if len(rows) > 0 {
		f.parts = append(f.parts, part{in: o.in, n: from + 1, rows: [][]recent.Row{rows}})
	}
	switch {
	case ended:
		o.to = o.n
	case err == nil && len(rows) == 0:
		err = errGone
	}
	return err
}

// takeFetched gives rows that were read to the items that wait for them.
func (s *Shard) takeFetched(list []fetch) {
	for i := range list {
		f := &list[i]
		it, r := f.it, f.r
		if it.sub.closed || it.late == nil || it.late.replay != r || !r.waits {
			continue // unsubscribed meanwhile
		}
		sub := it.sub
		w := sub.waiting()
		w.reading = without(w.reading, it)
		r.waits = false
		r.read = append(r.read, f.parts...)
		r.old = r.old[f.done:]
		if f.rest != nil {
			r.old[0] = f.rest
		}
		if f.err != nil {
			s.hub.log.Error("rows of the journal could not be read for a client that resumes", "instrument", it.id(), "error", f.err)
			r.fail(sub)
		}
		sub.enqueue(it)
		s.mark(sub)
	}
}

// held is the bytes of memory of the rows that were read, of the messages behind the replay, and of the lists of
// what it has yet to send. Rows that tapes have are not among them.
func (r *replay) held() (bytes int) {
	for _, p := range r.read {
		for _, rows := range p.rows {
			for i := range rows {
				bytes += rows[i].Bytes()
			}
		}
	}
	for _, parts := range [2][]part{r.read, r.parts} {
		bytes += cap(parts) * int(unsafe.Sizeof(part{}))
		for i := range parts {
			bytes += cap(parts[i].rows) * int(unsafe.Sizeof(parts[i].rows))
		}
	}
	bytes += cap(r.spans)*int(unsafe.Sizeof(span{})) + len(r.old)*int(unsafe.Sizeof(old{})+unsafe.Sizeof(r.old[0]))
	return bytes + r.bytes + cap(r.after)*int(unsafe.Sizeof(kept{})) + len(r.after)*int(unsafe.Sizeof(record{}))
}

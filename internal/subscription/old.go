package subscription

import (
	"context"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/readjob"
	"github.com/ruedahq/rueda/internal/recent"
)

// Goroutines of the hub read rows from the journal that are no longer in memory. The item that
// needs the rows waits outside of its subscriber's queue. A shard never waits for a disk.

const (
	oldRows    = 1000                  // rows of one reading
	oldTime    = 50 * time.Millisecond // time of one reading; then another item is served
	maxHolders = 2                     // replays of a subscriber that hold rows of the journal, or wait for a reading, at a time
)

// old is a range of rows of a replay that only the journal has: those of one instrument with N
// above n, up to to. It belongs to the shard; readers do not change it.
type old struct {
	in     *hub.Instrument
	series journal.Series
	n, to  uint64
	pos    uint64 // unread rows are after this position
	until  uint64 // rows after this position are not read; 0: no limit
	seek   bool   // n is only a lower bound; the rows begin after pos
	byN    bool   // pos holds for a client that has row n of this instrument; false once rows were read
}

// fetch is a request to read rows, and later its result.
type fetch struct {
	it    *item
	r     *replay
	olds  []*old
	parts []part
	rows  int
	done  int  // number of olds that are finished
	rest  *old // the rest of the next one, if its reading has begun
	err   error
}

// await requests the next rows of an item from the journal. The item waits from now on.
func (it *item) await() {
	w, r := it.sub.waiting(), it.late.replay
	r.waits = true
	w.reading = append(w.reading, it)
	it.giveBack()
}

// giveBack ends the hold of an item's replay, which has sent all rows that were read. Then the rows
// of another replay can be read.
func (it *item) giveBack() {
	it.sub.shard.hub.Lock()
	defer it.sub.shard.hub.Unlock()
	it.late.replay.release(it.sub, false)
	it.sub.fetchNext()
}

// release ends the hold of a replay. If the replay is given up, release also cancels its reading.
// The hub's lock is held.
func (r *replay) release(s *Subscriber, givenUp bool) {
	if !r.holds {
		return
	}
	r.holds = false
	s.wait.holders--
	if givenUp {
		s.shard.hub.Jobs().Cancel(r.job)
	}
}

// fetchNext requests rows for the first maxHolders replays. The others wait, so that a client that
// does not read its socket holds little memory. The hub's lock is held.
func (s *Subscriber) fetchNext() {
	w := s.waiting()
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
		r.job = s.shard.fetch(it, r)
		s.shard.hub.Jobs().Submit(readjob.Rows, r.job)
	}
}

// fetch returns a job that reads the next rows of a replay of an item.
func (s *Shard) fetch(it *item, r *replay) *readjob.Job {
	f := &fetch{it: it, r: r, olds: r.old[:len(r.old):len(r.old)]}
	return &readjob.Job{
		Read: func(ctx context.Context) (more bool) {
			f.read(ctx, s.hub.Journal())
			return false
		},
		End: func(err error) {
			if err != nil {
				return // the hub ends
			}
			s.hub.Lock()
			defer s.hub.Unlock()
			s.fetched = append(s.fetched, f)
			s.hub.Wake()
		},
	}
}

// read reads rows until it has enough, or its time is over. It sets err if the journal cannot be
// read.
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

// find sets n to the N before the first row after pos, if seek is set. The positions of a series
// increase. Most clients were connected recently, so the search begins near the end. It returns
// errGone if the journal no longer has the rows.
func (o *old) find(ctx context.Context, j *journal.Journal) error {
	if !o.seek {
		return nil
	}
	high := o.to
	for step := uint64(oldRows); o.n < high; step *= 4 {
		mid := max(o.n+(high-o.n+1)/2, high-min(high, step))
		behind := false // a missing row counts as not after pos; the check below finds lost rows
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
		return errGone // a day was removed meanwhile; other lost rows do not come before the promised rows
	}
	o.seek = false
	return nil
}

// readSeries reads the rows that follow n, and sets n to the last of them. It returns errGone if
// the journal no longer has them.
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

// takeFetched gives the rows that were read to the items that wait for them.
func (s *Shard) takeFetched(list []*fetch) {
	for _, f := range list {
		it, r := f.it, f.r
		if it.sub.closed || it.late == nil || it.late.replay != r || !r.waits {
			continue // the client has unsubscribed it
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
			s.hub.Log().Error("rows of the journal could not be read for a client that resumes", "instrument", it.id(), "error", f.err)
			r.fail(sub)
		}
		sub.enqueue(it)
		s.mark(sub)
	}
}

// held returns the memory of a replay in bytes: rows that were read, messages that wait behind it,
// and its lists. Rows that are in memory for all clients do not count.
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
	return bytes + r.bytes + cap(r.after)*int(unsafe.Sizeof(kept{})) + len(r.after)*int(unsafe.Sizeof(hub.Record{}))
}

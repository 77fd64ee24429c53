package subscription

import (
	"context"

	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/subscription/replay"
	"github.com/ruedahq/rueda/wire"
)

// Goroutines of the hub read rows from the journal that are no longer in memory. The item that
// needs the rows waits outside of its subscriber's queue. A shard never waits for a disk.

const maxHolders = 2 // replays of a subscriber that hold rows of the journal, or wait for a reading, at a time

// itemReplay has the rows that an item sends before it continues with its ring.
type itemReplay struct {
	replay.Rows
	batches []*batch     // calls of Subscribe that wait for its end
	waits   bool         // it waits for the next rows of the journal
	holds   bool         // it counts in wait.holders: rows of the journal are read for it, or it has some
	job     *readjob.Job // reads rows while holds is set; guarded by the hub's lock
}

// batch has the replays of one Subscribe. Its message is sent when the last replay has ended.
type batch struct {
	left int
	end  ReplayEnd

	older, newer *batch // with replays that have not ended; see wait.behind
}

// begin counts a replay of a batch that has not ended.
func (b *batch) begin(w *wait) {
	if b.left++; b.left == 1 {
		if b.older = w.behind; b.older != nil {
			b.older.newer = b
		}
		w.behind = b
	}
}

// finish is called when the last replay of a batch has ended. The position of its message is before
// rows that a later Subscribe still replays, so that it is left out then.
func (b *batch) finish(w *wait) {
	if b.newer != nil {
		if b.newer.older = b.older; b.end.Cut != nil {
			b.end.Whole = b.end.Cut
		}
	} else {
		w.behind = b.older
	}
	if b.older != nil {
		b.older.newer = b.newer
	}
	w.carry = append(w.carry, b.end.Whole...)
	*b = batch{}
}

// ReplayEnd has the framed messages that can end the replays of one Subscribe. One of them is sent.
type ReplayEnd struct {
	Whole  []byte // all rows were sent
	Cut    []byte // without a position: the client removed items with rows left, or a later Subscribe has some; nil: Whole is sent
	Failed []byte // some rows could not be read; it is sent at once, and the others are not sent
}

// done ends a replay for its batches. whole reports whether all of its rows were sent.
func (r *itemReplay) done(s *Subscriber, whole bool) {
	for _, b := range r.batches {
		if !whole && b.end.Cut != nil {
			b.end.Whole = b.end.Cut
		}
		b.left--
		if b.left == 0 {
			b.finish(s.waiting())
		}
	}
	r.batches = nil
}

// fail sends the Failed message of each batch, once. The batches then never send Whole.
func (r *itemReplay) fail(s *Subscriber) {
	w := s.waiting()
	for _, b := range r.batches {
		w.carry = append(w.carry, b.end.Failed...)
		b.end = ReplayEnd{}
	}
}

// fetch is a reading of rows of the journal for an item.
type fetch struct {
	it      *item
	r       *itemReplay
	reading *replay.Reading
}

// await requests the next rows of an item from the journal. The item waits from now on.
func (it *item) await() {
	w, r := it.sub.waiting(), it.late.replay
	r.waits = true
	w.reading = append(w.reading, it)
	it.endHold()
}

// endHold ends the hold of an item's replay, which has sent all rows that were read. Then the rows
// of another replay can be read.
func (it *item) endHold() {
	it.sub.shard.hub.Lock()
	defer it.sub.shard.hub.Unlock()
	it.late.replay.release(it.sub, false)
	it.sub.fetchNext()
}

// release ends the hold of a replay. If the replay is given up, release also cancels its reading.
// The hub's lock is held.
func (r *itemReplay) release(s *Subscriber, givenUp bool) {
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
func (s *Shard) fetch(it *item, r *itemReplay) *readjob.Job {
	f := &fetch{it, r, r.Read()}
	return &readjob.Job{
		Read: func(ctx context.Context) (more bool) {
			f.reading.Do(ctx, s.hub.Journal())
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

// reportLost sends a Subscription with the rows that the journal lacks, before the next rows of the
// replay.
func (it *item) reportLost(list []replay.Lost) {
	if len(list) == 0 {
		return
	}
	h, c := it.sub.shard.hub, it.channel()
	m := wire.Subscription{Msg: rowsLost, Epoch: h.Epoch()}
	m.Lost[c] = make(map[string]wire.Range, len(list))
	for _, l := range list {
		m.Lost[c][string(c.Append(nil, l.In.ID()))] = wire.Range{From: l.From, To: l.To, Reason: "buffer_exceeded"}
		h.Log().Warn("rows of the journal are missing for a client that resumes", "instrument", l.In.ID(), "sequence", l.From, "last", l.To)
	}
	it.sub.shard.Figures.Lost += uint64(len(list))
	w := it.sub.waiting()
	more := SplitLost(&m)
	w.carry = wire.AppendText(w.carry, wire.AppendSubscription(nil, &m))
	for i := range more {
		w.carry = wire.AppendText(w.carry, wire.AppendSubscription(nil, &more[i]))
	}
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
		lost, err := r.Take(f.reading)
		it.reportLost(lost)
		if err != nil {
			s.hub.Log().Error("rows of the journal could not be read for a client that resumes", "instrument", it.id(), "error", err)
			r.fail(sub)
		}
		sub.enqueue(it)
		s.mark(sub)
	}
}

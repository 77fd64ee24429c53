package client

import (
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// queue has the events that the program has not taken. It is guarded by Client.mu. The engine adds
// events, and waits for space if it must; Events takes them.
type queue struct {
	policy Overflow
	most   int
	few    int           // entries that the program takes together at most
	ready  chan struct{} // there are events; capacity 1
	space  chan struct{} // there is space again; capacity 1

	waiting []entry
	head    int                     // of waiting; entries before it were taken
	count   int                     // events in waiting, without empty entries
	first   int                     // index of waiting[0], from the first entry ever
	dropped map[stream.Series]*Lost // ranges that were dropped and not reported
}

// entry is a waiting event, or a mark.
type entry struct {
	event  Event // nil: a mark, or empty
	mark   *mark
	of     *series // nil: none
	n      uint64
	merged bool // a book that replaces others: its state is made when it is taken
	old    bool // of an epoch that has ended: it is never dropped, and not part of a checkpoint
	own    bool // of the client itself: it needs no space
}

// mark says that the program has processed everything before a position.
type mark struct{ epoch, position string }

func newQueue(most int, policy Overflow) queue {
	return queue{
		policy: policy, most: most, few: min(max(most/16, 1), 32), ready: make(chan struct{}, 1), space: make(chan struct{}, 1),
		dropped: map[stream.Series]*Lost{},
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// conflates reports whether a newer event of a series makes a waiting one obsolete.
func (q *queue) conflates(s *series) bool {
	return s != nil && q.policy != Block && !s.Channel.Replays()
}

// data adds market data. It reports false if the queue is full, and the event must wait.
func (q *queue) data(x *entry) bool {
	s := x.of
	switch {
	case q.conflates(s):
		if s.waits >= q.first+q.head {
			q.waiting[s.waits-q.first] = entry{}
			q.count--
			x.merged = s.Channel == wire.OrderBook
		}
	case q.count < q.most:
	case q.policy == Drop && !x.old:
		if d := q.dropped[s.Series]; d != nil {
			d.To = x.n
		} else {
			q.dropped[s.Series] = &Lost{Series: s.Series, From: x.n, To: x.n, Reason: "overflow"}
		}
		return true
	default:
		return false
	}
	if len(q.dropped) > 0 && s != nil {
		if d := q.dropped[s.Series]; d != nil {
			delete(q.dropped, s.Series)
			q.add(entry{event: *d})
		}
	}
	q.add(*x)
	return true
}

// swap gives a list to an empty queue in which nothing is replaced. It returns an empty list for
// what comes next.
func (q *queue) swap(list []entry) (next []entry, ok bool) {
	if q.policy != Block || len(q.waiting) > 0 || len(list) > q.most {
		return list, false
	}
	for i := range list {
		if list[i].event != nil {
			q.count++
		}
	}
	next, q.waiting = q.waiting, list
	return next, true
}

// add adds an entry, whether or not there is space. A mark replaces one that waits last.
func (q *queue) add(e entry) {
	if n := len(q.waiting); e.mark != nil && n > q.head && q.waiting[n-1].mark != nil && q.waiting[n-1].mark.epoch == e.mark.epoch && e.mark.position != "" {
		q.waiting[n-1] = e
		return
	}
	q.makeSpace()
	if q.conflates(e.of) {
		e.of.waits = q.first + len(q.waiting)
	}
	q.waiting = append(q.waiting, e)
	if e.event != nil {
		q.count++
	}
}

// makeSpace compacts the entries if there are many that are not needed.
func (q *queue) makeSpace() {
	if q.head > 1024 && q.head > len(q.waiting)/2 || len(q.waiting)-q.head > 2*q.count+1024 {
		q.compact()
	}
}

// compact removes taken and empty entries.
func (q *queue) compact() {
	all, kept := q.waiting, q.waiting[:0] // kept is never longer than what was read
	q.first += len(all)                   // indexes that are not set below are below it
	for _, e := range all[q.head:] {
		if e.event == nil && e.mark == nil {
			continue
		}
		if q.conflates(e.of) {
			e.of.waits = q.first + len(kept)
		}
		kept = append(kept, e)
	}
	clear(all[len(kept):])
	q.waiting, q.head = kept, 0
}

// takeFew moves the next entries to a slice that is empty. What a newer state may replace comes
// first or not at all, so that it is the newest one when the program gets it.
func (q *queue) takeFew(to []entry) []entry {
	if q.policy == Block {
		return q.takeNext(to)
	}
	for len(to) < q.few {
		q.skip()
		if len(to) > 0 && q.head < len(q.waiting) && q.conflates(q.waiting[q.head].of) {
			break
		}
		e, ok := q.take()
		if !ok {
			break
		}
		to = append(to, e)
	}
	return to
}

// takeNext is takeFew for a queue in which nothing is replaced.
func (q *queue) takeNext(to []entry) []entry {
	if q.head == 0 && len(q.waiting) <= 2*q.few {
		q.first, q.count = q.first+len(q.waiting), 0
		to, q.waiting = q.waiting, to
		signal(q.space)
		return to
	}
	next := q.waiting[q.head:min(q.head+q.few, len(q.waiting))]
	to = append(to, next...)
	for i := range next {
		if next[i].event != nil {
			q.count--
		}
	}
	clear(next)
	q.advance(len(next))
	if q.count < q.most {
		signal(q.space)
	}
	return to
}

// skip removes empty entries before the next one.
func (q *queue) skip() {
	for q.head < len(q.waiting) && q.waiting[q.head].event == nil && q.waiting[q.head].mark == nil {
		q.advance(1)
	}
}

// advance removes entries, which are empty.
func (q *queue) advance(n int) {
	if q.head += n; q.head == len(q.waiting) { // begin at the front again
		q.first += q.head
		q.waiting, q.head = q.waiting[:0], 0
	}
}

// take removes the next entry. ok is false if there is none.
func (q *queue) take() (e entry, ok bool) {
	if q.skip(); q.head < len(q.waiting) {
		e = q.waiting[q.head]
		q.waiting[q.head] = entry{}
		q.advance(1)
		if e.event != nil {
			q.count--
		}
		if q.count < q.most {
			signal(q.space)
		}
		return e, true
	}
	for s, d := range q.dropped {
		delete(q.dropped, s)
		return entry{event: *d}, true
	}
	return entry{}, false
}

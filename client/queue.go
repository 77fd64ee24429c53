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
	ready  chan struct{} // there are events; capacity 1
	held   bool          // ready waits for hold(false)
	space  chan struct{} // there is space again; capacity 1

	waiting []entry
	head    int                     // of waiting; entries before it were taken
	count   int                     // events in waiting, without empty entries
	newest  map[stream.Series]int   // index of the waiting state of a series, from the first entry ever
	first   int                     // index of waiting[0], counted in the same way
	dropped map[stream.Series]*Lost // ranges that were dropped and not reported
}

// entry is a waiting event, or a mark: the program has processed everything before a position.
type entry struct {
	event    Event // nil: a mark, or empty
	series   stream.Series
	n        uint64
	merged   bool // a book that replaces others: its state is made when it is taken
	old      bool // of an epoch that has ended: it is never dropped, and not part of a checkpoint
	mark     bool
	epoch    string // of a mark
	position string
}

func newQueue(most int, policy Overflow) queue {
	return queue{
		policy: policy, most: most, ready: make(chan struct{}, 1), space: make(chan struct{}, 1),
		newest: map[stream.Series]int{}, dropped: map[stream.Series]*Lost{},
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// conflates reports whether a newer event of the channel makes a waiting one obsolete.
func (q *queue) conflates(c wire.Channel) bool { return q.policy != Block && !c.Replays() }

// data adds market data. It reports false if the queue is full, and the event must wait.
func (q *queue) data(x entry) bool {
	s := x.series
	switch {
	case q.conflates(s.Channel):
		if i, ok := q.newest[s]; ok && i >= q.first+q.head {
			q.waiting[i-q.first] = entry{}
			q.count--
			x.merged = s.Channel == wire.OrderBook
		}
	case q.count < q.most:
	case q.policy == Drop && !x.old:
		if d := q.dropped[s]; d != nil {
			d.To = x.n
		} else {
			q.dropped[s] = &Lost{Series: s, From: x.n, To: x.n, Reason: "overflow"}
		}
		return true
	default:
		return false
	}
	if d := q.dropped[s]; d != nil {
		delete(q.dropped, s)
		q.add(entry{event: *d})
	}
	q.add(x)
	return true
}

// add adds an entry, whether or not there is space.
func (q *queue) add(e entry) {
	if q.head > 1024 && q.head > len(q.waiting)/2 || len(q.waiting)-q.head > 2*q.count+1024 {
		q.compact()
	}
	if q.conflates(e.series.Channel) {
		q.newest[e.series] = q.first + len(q.waiting)
	}
	q.waiting = append(q.waiting, e)
	if e.event != nil {
		q.count++
	}
	if !q.held {
		signal(q.ready)
	}
}

// hold delays the signal for the program until hold(false), so that it is not woken for each event
// of a frame.
func (q *queue) hold(on bool) {
	if q.held = on; !on && q.head < len(q.waiting) {
		signal(q.ready)
	}
}

// compact removes taken and empty entries.
func (q *queue) compact() {
	all, kept := q.waiting, q.waiting[:0] // kept is never longer than what was read
	clear(q.newest)
	q.first += len(all) // indexes that are not in newest are below it
	for _, e := range all[q.head:] {
		if e.event == nil && !e.mark {
			continue
		}
		if e.event != nil && q.conflates(e.series.Channel) && e.series != (stream.Series{}) {
			q.newest[e.series] = q.first + len(kept)
		}
		kept = append(kept, e)
	}
	clear(all[len(kept):])
	q.waiting, q.head = kept, 0
}

// take removes the next entry. ok is false if there is none.
func (q *queue) take() (e entry, ok bool) {
	for q.head < len(q.waiting) {
		e = q.waiting[q.head]
		q.waiting[q.head] = entry{}
		if q.head++; q.head == len(q.waiting) { // begin at the front again
			q.first += q.head
			q.waiting, q.head = q.waiting[:0], 0
		}
		if e.event != nil {
			q.count--
			if q.count < q.most {
				signal(q.space)
			}
			return e, true
		}
		if e.mark {
			return e, true
		}
	}
	for s, d := range q.dropped {
		delete(q.dropped, s)
		return entry{event: *d}, true
	}
	return entry{}, false
}

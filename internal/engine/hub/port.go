package hub

import (
	"sync/atomic"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/steplock"
)

// Port connects one shard to the hub. It records which topics of the shard have new messages, and
// up to which position the shard has taken them. The hub's lock guards it, and the caller of its
// methods holds the lock, except where a comment states otherwise.
type Port struct {
	hub   *Hub
	index int               // in Hub.ports
	wake  func(urgent bool) // must not block and must not call back

	touched  []*Topic       // topics with new messages since the last turn
	woken    bool           // wake was called since the last turn
	urgent   bool           // wake was called as urgent since the last turn
	deferred bool           // AwaitCommit postponed a turn
	topics   int            // number of topics that the shard reads
	wakeAt   map[int]uint64 // the first position that the shard waits for, by delay in seconds

	// The last turn took all messages up to these positions. Only the shard's goroutine changes
	// them, and it reads them without the lock.
	position uint64
	delayed  []uint64 // of each replica

	report atomic.Bool // the next turn reports which segments of rings the shard holds
}

// NewPort adds a port for a shard. The hub calls wake under its lock when the shard has something
// new. It calls wake again, with urgent, when many bytes of one topic wait. wake must not block and
// must not call back. The caller does not hold the lock.
func (h *Hub) NewPort(wake func(urgent bool)) *Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &Port{hub: h, index: len(h.ports), wake: wake, wakeAt: make(map[int]uint64), delayed: make([]uint64, len(h.replicas))}
	p.note()
	h.ports = append(h.ports, p)
	for _, tp := range h.topics {
		tp.seen = append(tp.seen, portSeen{})
	}
	return p
}

// Lock takes the hub's lock.
func (p *Port) Lock() { p.hub.mu.Lock() }

// Unlock releases the hub's lock.
func (p *Port) Unlock() { p.hub.mu.Unlock() }

// Visit counts n visited instruments, subscriptions or topics in the present hold of the lock.
func (p *Port) Visit(n int) { p.hub.mu.Visit(n) }

// Step counts n visits, and releases the lock for a short time if the present hold is full. Other
// goroutines may change the state of the hub meanwhile. paused reports whether it has done so.
func (p *Port) Step(n int) (paused bool) { return p.hub.mu.Step(n) }

// ExitOnPanic ends the process if the function that defers it panics. The state of the hub is then
// uncertain, and a restart continues from the journal.
func (p *Port) ExitOnPanic() {
	if r := recover(); r != nil {
		steplock.Exit(p.hub.log, r)
	}
}

// Turn begins a turn of the shard. It commits what was published, notes that the shard takes all
// messages up to now, and appends to list the topics with new messages. The caller takes the
// messages of each topic and calls Took for it. At the end it calls EndTurn.
func (p *Port) Turn(list []*Topic) []*Topic {
	h := p.hub
	h.commit()
	list, p.touched = append(list, p.touched...), p.touched[:0]
	p.woken, p.urgent, p.deferred = false, false, false
	p.note()
	if h.taken != nil {
		close(h.taken)
		h.taken = nil
	}
	return list
}

// EndTurn ends the work of a turn under the lock.
func (p *Port) EndTurn() {
	p.wakeIfTouched() // for the messages that this turn leaves
	if len(p.hub.grown) > 0 {
		p.hub.commitNow()
	}
}

// Took records that the shard has taken the messages of a topic.
func (p *Port) Took(tp *Topic) {
	seen := &tp.seen[p.index]
	seen.touched, seen.bytes = false, 0
}

// Left records that the shard has taken the messages of a topic only up to a position. The others
// are for its next turn.
func (p *Port) Left(tp *Topic, pos uint64) {
	if c := p.hub.replica(tp.key.Tier.Delay); c != nil {
		p.delayed[c.index] = min(p.delayed[c.index], pos)
	} else {
		p.position = min(p.position, pos)
	}
	tp.seen[p.index].touched = true
	p.touched = append(p.touched, tp)
}

// note records that the shard has taken all published messages.
func (p *Port) note() {
	p.position = p.hub.committed
	for i, c := range p.hub.replicas {
		p.delayed[i] = c.position
	}
}

// NoteQuiet records that the shard has taken all published messages, if none of them waits for it.
func (p *Port) NoteQuiet() {
	if len(p.touched) == 0 {
		p.note()
	}
}

// Taken returns the position up to which the last turn took all messages of a delay in seconds. The
// shard's goroutine calls it with or without the lock.
func (p *Port) Taken(delay int) uint64 {
	if delay == 0 {
		return p.position
	}
	if c := p.hub.replica(delay); c != nil {
		return p.delayed[c.index]
	}
	return 0
}

// CommitNewest starts a commit, and wakes the shard when it has reached the newest row. It returns
// the position of that row.
func (p *Port) CommitNewest() uint64 {
	p.WakeAt(0, p.hub.position)
	p.hub.commitNow()
	return p.hub.position
}

// AwaitCommit starts a commit of what was published, if one is needed. If it returns true, the hub
// wakes the shard when the commit has ended. The shard should take its next turn then. AwaitCommit
// is for a shard that takes turns rarely, because the new messages would otherwise wait for one
// turn more. The caller does not hold the lock.
func (p *Port) AwaitCommit() bool {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running || len(h.grown) == 0 || h.writing || p.deferred {
		return false
	}
	p.deferred, p.woken = true, false
	h.commitNow()
	return true
}

// Jobs returns the queue of reads of the journal. The caller does not need the lock.
func (p *Port) Jobs() *readjob.Queue { return p.hub.jobs }

// Topic returns the topic of a key. It makes the topic if there is none. The caller adds a reader.
func (p *Port) Topic(key Item) *Topic { return p.hub.topic(key) }

// AddReader adds a reader of a topic. RemoveReader subtracts it, and drops a topic without readers.
// It reports whether the shard has no more readers of the topic.
func (p *Port) AddReader(tp *Topic) {
	tp.refs++
	seen := &tp.seen[p.index]
	if seen.readers++; seen.readers == 1 {
		seen.oldest = tp.ring.Tail().Segment()
		p.topics++
	}
}

func (p *Port) RemoveReader(tp *Topic) (last bool) {
	tp.refs--
	seen := &tp.seen[p.index]
	if seen.readers--; seen.readers == 0 {
		last = true
		p.topics--
	}
	p.hub.release(tp)
	return last
}

// Report reports the oldest segment that the shard holds of each ring. oldest returns it, or false
// if the shard does not read the topic. The caller does not hold the lock.
func (p *Port) Report(oldest func(tp *Topic) (segment uint64, ok bool)) {
	h := p.hub
	for from, more := 0, true; more; from += measuredPiece {
		h.mu.Lock()
		list := h.memory.listed
		list = list[min(from, len(list)):]
		more = len(list) > measuredPiece
		for _, tp := range list[:min(measuredPiece, len(list))] {
			if segment, ok := oldest(tp); ok {
				tp.seen[p.index].oldest = segment
			}
		}
		h.mu.Unlock()
	}
	p.report.Store(false)
}

// Tail returns the committed end of the topic's ring.
func (tp *Topic) Tail() Cursor { return tp.ring.Tail() }

// End returns the end of the topic's ring, which may be past the committed end.
func (tp *Topic) End() Cursor { return tp.ring.End() }

// Members returns the instruments whose messages the topic takes, in the order of definition. The
// hub's lock is held.
func (tp *Topic) Members() []*Instrument { return tp.group.Members }

// Set returns the indexes of Members. The hub's lock is held.
func (tp *Topic) Set() catalogue.Set { return tp.group.Set }

// Echoes returns how many messages of the topic's ring are echoes, and how many of these are
// committed.
func (tp *Topic) Echoes() (all, committed int) { return tp.ring.Echoes() }

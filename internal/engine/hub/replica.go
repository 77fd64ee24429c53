package hub

import (
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/logage"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/market"
)

// Delayed data comes from a replica, which is a second set of instruments. A replica applies the
// rows of the journal when they are as old as the delay. It is loaded when it is needed, in the
// same way as a hub after a restart. It is released replicaIdleTime after its last use. Its
// messages have the N and the positions of the live messages.

// replica has the state of all instruments at a time in the past. The hub's lock guards it, except
// for the fields that loader guards.
type replica struct {
	hub     *Hub
	delay   int64         // ns
	seconds int           // the same in seconds
	index   int           // in Hub.replicas
	kick    chan struct{} // wakes its goroutine: it is needed, or there are new rows
	times   logage.Samples

	state    replicaState
	position uint64 // all rows up to this position have been applied
	topics   int    // number of topics that read it
	pins     int    // number of calls that are about to read it
	used     int64  // time of the last use, by the hub's clock
	quiet    bool   // no rows wait: the next row wakes its goroutine
	err      error  // error of the last loading
	ended    chan struct{}
	waiting  []*readjob.Wait

	loader  sync.Mutex      // held during loading; guards the following fields; taken before the hub's lock
	virtual map[uint32]bool // instruments with a virtual clock, by number
	batch   []journal.Row   // reused
	levels  []market.Level
}

func newReplica(h *Hub, delay int64, index int) *replica {
	return &replica{hub: h, delay: delay, seconds: int(delay / 1e9), index: index, kick: make(chan struct{}, 1),
		times: logage.New(delay, max(sampleEvery, delay/samplesOfADelay))}
}

type replicaState uint8

const (
	replicaIdle replicaState = iota // not needed
	replicaLoading
	replicaReady
)

const (
	replicaIdleTime = int64(time.Minute) // from the last use until a replica is dropped
	replicaRetry    = 10 * time.Second   // after an error of the journal
	replicaPoll     = 100 * time.Millisecond
	replicaPiece    = time.Millisecond // least time between two looks for rows that are due
	replicaBatch    = 512
	followerBytes   = 4 << 10 // estimated memory of an instrument of a replica
	sampleEvery     = int64(100 * time.Millisecond)
	samplesOfADelay = 8192
)

// noteTime records the time at which the log is at its position. The hub's lock is held.
func (h *publisher) noteTime() {
	if len(h.replicas) == 0 {
		return
	}
	age := h.age()
	for _, c := range h.replicas {
		c.times.Note(age, h.position)
		if c.quiet {
			c.quiet = false
			c.wake()
		}
	}
}

// wake makes the goroutine of a replica serve it.
func (c *replica) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// replica returns the replica of a delay in seconds, or nil if that delay is not served.
func (h *publisher) replica(seconds int) *replica {
	for _, c := range h.replicas {
		if c.seconds == seconds {
			return c
		}
	}
	return nil
}

// Serves reports whether the hub serves data at a delay in seconds. A delay of 0 is real time.
func (h *publisher) Serves(delay int) bool { return delay == 0 || h.replica(delay) != nil }

// AtDelay returns the instrument at a delay in seconds. It returns the instrument itself for 0, and
// nil if no replica of that delay has it.
func (in *Instrument) AtDelay(seconds int) *Instrument {
	if seconds == 0 {
		return in
	}
	for _, x := range in.later {
		if x.replica.seconds == seconds {
			return x
		}
	}
	return nil
}

// reached returns the position up to which readers of a delay have all rows. The hub's lock is
// held.
func (h *publisher) reached(seconds int) uint64 {
	if seconds == 0 {
		return h.committed
	}
	if c := h.replica(seconds); c != nil {
		return c.position
	}
	return 0
}

// newest returns the position up to which rows of instruments of the same delay are published.
func (h *publisher) newest(in *Instrument) uint64 {
	if in.replica != nil {
		return in.replica.position
	}
	return h.position
}

// Due returns the position of the newest row that is as old as a delay in seconds. Rows from before
// the last restart are old enough when the hub has run for the delay, at any time of the row. Due
// returns 0 if the delay is not served.
func (h *Hub) Due(delay int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.replica(delay)
	if c == nil {
		return 0
	}
	age := h.age()
	pos, _ := c.times.Due(age)
	if age >= c.delay {
		pos = max(pos, h.restored)
	}
	return pos
}

// Present returns the time by which data is delayed, Unix ns: a row that was published earlier than
// the delay before it may be sent.
func (h *Hub) Present() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.present()
}

// is reports whether a replica is in a state.
func (c *replica) is(state replicaState) bool {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.state == state
}

// begin begins to load a replica that is idle. The hub's lock is held.
func (c *replica) begin() {
	if c.state == replicaIdle {
		c.state, c.err, c.ended = replicaLoading, nil, make(chan struct{})
		c.wake()
	}
}

// endLoading ends the loading of a replica, and returns the waits for it. The hub's lock is held.
func (c *replica) endLoading() (ended []*readjob.Wait) {
	c.used = c.hub.clock()
	close(c.ended)
	ended, c.waiting = c.waiting, nil
	return ended
}

// isDue reports whether a row is as old as the delay. For a row from before the restart, its wall
// clock time counts. If its instrument has a virtual clock, the time of the restart counts.
func (c *replica) isDue(r *journal.Row, due uint64, age int64) bool {
	h := c.hub
	switch {
	case r.Position > h.restored:
		return r.Position <= due
	case age >= c.delay:
		return true
	case c.isVirtual(r.Instrument):
		return false
	}
	return r.At-h.madeAt+c.delay <= age
}

// isVirtual reports whether an instrument has a virtual clock.
func (c *replica) isVirtual(number uint32) bool {
	h := c.hub
	virtual, ok := c.virtual[number]
	if !ok {
		def, _ := h.cfg.Journal.Instrument(number)
		virtual = def.VirtualClock
		c.virtual[number] = virtual
	}
	return virtual
}

// passRestart makes the books of a replica stale, as the restart did. The hub's lock is held.
func (c *replica) passRestart() {
	c.each(func(_, x *Instrument) { x.Stale = !x.Def.NoBook })
}

// each calls f with each instrument of a replica and the live one. The hub's lock is held, and
// released in between.
func (c *replica) each(f func(live, x *Instrument)) {
	h := c.hub
	for i := 0; i < len(h.numbered); i++ {
		if live := h.numbered[i]; live != nil {
			if x := live.AtDelay(c.seconds); x != nil {
				f(live, x)
			}
		}
		h.mu.Step(1)
	}
}

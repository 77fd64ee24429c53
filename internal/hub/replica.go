package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/logage"
	"github.com/ruedahq/rueda/internal/readjob"
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
	clock := h.clock()
	for _, c := range h.replicas {
		c.times.Note(clock, h.position)
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
	clock := h.clock()
	pos, _ := c.times.Due(clock)
	if clock >= c.delay {
		pos = max(pos, h.restored)
	}
	return pos
}

// follower adds the instrument of a replica that corresponds to a live one. The hub's lock is held.
func (h *Hub) follower(in *Instrument, c *replica) *Instrument {
	x := h.makeInstrument(in.Def, c)
	x.Ident, x.Number, x.handle, x.index = in.Ident.Delayed(c.delay), in.Number, in.handle, in.index
	in.later = append(in.later, x)
	h.memory.followers++
	return x
}

// followNew adds a new instrument to the replicas that are in use. The hub's lock is held.
func (h *Hub) followNew(in *Instrument) {
	for _, c := range h.replicas {
		if c.state != replicaIdle && in.AtDelay(c.seconds) == nil {
			h.follower(in, c)
		}
	}
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

// awaitOne waits until the loading of a replica has ended. The hub's lock is released meanwhile.
func (c *replica) awaitOne() {
	h := c.hub
	ended, own := c.ended, !h.jobs.Served()
	h.mu.Unlock()
	if own {
		c.load(context.Background())
	} else {
		<-ended
	}
	h.mu.Lock()
}

// AwaitDelay waits until the loading of the data at a delay in seconds has ended. The error is the
// cause of the end of ctx.
func (h *Hub) AwaitDelay(ctx context.Context, delay int) error {
	c := h.replica(delay)
	if c == nil {
		return nil
	}
	h.mu.Lock()
	c.used = h.clock()
	if c.state == replicaReady {
		h.mu.Unlock()
		return nil
	}
	c.begin()
	ended, own := c.ended, !h.jobs.Served()
	h.mu.Unlock()
	if own {
		c.load(ctx)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run serves a replica until ctx ends.
func (c *replica) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		if wait := c.serve(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// endReplicas ends the wait for replicas that are no longer loaded.
func (h *Hub) endReplicas() {
	var ended []*readjob.Wait
	h.mu.Lock()
	for _, c := range h.replicas {
		if c.state == replicaLoading {
			c.state, c.err = replicaIdle, context.Canceled
			ended = append(ended, c.endLoading()...)
		}
	}
	h.mu.Unlock()
	for _, w := range ended {
		w.Done()
	}
}

// serve loads, advances or releases a replica. It returns the time until the next call, or 0 if the
// next call is needed only when the replica is woken.
func (c *replica) serve(ctx context.Context) (wait time.Duration) {
	h := c.hub
	h.mu.Lock()
	state := c.state
	unused := state == replicaReady && c.topics == 0 && c.pins == 0 && h.clock() >= c.used+replicaIdleTime
	if unused {
		c.state = replicaIdle
	}
	h.mu.Unlock()
	switch {
	case unused:
		c.drop()
		return 1 // it may have been needed again
	case state == replicaLoading:
		c.load(ctx)
	case state == replicaIdle:
		return 0
	}
	return c.advance(ctx)
}

// advance applies the rows that are due. It returns the time until the next call, or 0 if the next
// call is needed only when the replica is woken.
func (c *replica) advance(ctx context.Context) (wait time.Duration) {
	h := c.hub
	for {
		from, due, next, ok := c.dueRows()
		if !ok {
			return 0
		}
		if due > from || from < h.restored {
			if err := c.readDue(ctx, from, due); err != nil {
				if ctx.Err() == nil {
					h.log.Error("delayed data wait: the journal could not be read", "delay_seconds", c.seconds, "error", err)
				}
				return replicaRetry
			}
		}
		h.mu.Lock()
		behind, clock := c.position < max(due, h.restored), h.clock()
		switch {
		case behind && c.position > from: // there may be more
			h.mu.Unlock()
			continue
		case behind:
			wait = replicaPoll
		case next > 0:
			wait = max(1, time.Duration(next-clock))
		default:
			c.quiet = h.position == c.position
			wait = replicaPoll
			if c.quiet {
				wait = 0
			}
		}
		if c.topics == 0 && c.pins == 0 {
			wait = sooner(wait, max(1, time.Duration(c.used+replicaIdleTime-clock)))
		}
		h.mu.Unlock()
		return wait
	}
}

// dueRows returns the position of a replica and the position up to which rows are due. next is the
// time at which more rows are due. ok is false if the replica is not loaded.
func (c *replica) dueRows() (from, due uint64, next int64, ok bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	due, next = c.times.Due(h.clock())
	return c.position, due, next, c.state == replicaReady
}

// readDue reads the rows of the journal that are due and applies them.
func (c *replica) readDue(ctx context.Context, from, due uint64) error {
	h := c.hub
	c.batch, c.levels = c.batch[:0], c.levels[:0]
	clock := h.clock()
	more := false
	err := h.cfg.Journal.Scan(ctx, journal.ScanStart{Position: from}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
		if more = !c.isDue(r, due, clock); more {
			return false
		}
		c.keep(r)
		if len(c.batch) == replicaBatch {
			c.applyDue()
		}
		return true
	})
	c.applyDue()
	if err == nil && !more {
		h.mu.Lock()
		c.position = max(c.position, h.restored) // all rows before the restart are in the journal
		h.mu.Unlock()
	}
	return err
}

// isDue reports whether a row is as old as the delay. For a row from before the restart, its wall
// clock time counts. If its instrument has a virtual clock, the time of the restart counts.
func (c *replica) isDue(r *journal.Row, due uint64, clock int64) bool {
	h := c.hub
	switch {
	case r.Position > h.restored:
		return r.Position <= due
	case clock >= c.delay:
		return true
	case c.isVirtual(r.Instrument):
		return false
	}
	return r.At-h.madeAt+c.delay <= clock
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

// keep copies a row to the batch. The batch reuses its memory.
func (c *replica) keep(r *journal.Row) {
	x := *r
	keep := func(list []market.Level) []market.Level {
		n := len(c.levels)
		c.levels = append(c.levels, list...)
		return c.levels[n:len(c.levels):len(c.levels)]
	}
	x.Bids, x.Asks, x.Conditions = keep(r.Bids), keep(r.Asks), slices.Clone(r.Conditions)
	c.batch = append(c.batch, x)
}

// applyDue applies the rows of the batch, in pieces.
func (c *replica) applyDue() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	now := time.Now().UnixNano()
	for i := range c.batch {
		c.applyDelayed(&c.batch[i], now)
		if h.mu.Visit(1); (i+1)%publishPiece == 0 {
			h.wakeShards()
			h.mu.Pause()
		}
	}
	h.wakeShards()
	c.batch, c.levels = c.batch[:0], c.levels[:0]
}

// applyDelayed applies a row to a replica, and sets the position of the replica to that of the row.
// The hub's lock is held, and may be released in between.
func (c *replica) applyDelayed(r *journal.Row, now int64) {
	h := c.hub
	if r.Position <= c.position {
		return
	}
	if h.restored > 0 && c.position <= h.restored && r.Position > h.restored {
		c.passRestart()
	}
	if in := c.instrumentOf(r); in != nil {
		if r.Latency >= 0 {
			r.Latency = max(0, now-r.Time)
		}
		in.pos = r.Position
		h.followClock(in, r, now)
		in.SkipLost(r, &h.shared)
		h.applyRow(in, r, now)
	}
	c.position = r.Position
}

// instrumentOf returns the instrument of a row in a replica. It returns nil for a gap, and for an
// unknown instrument.
func (c *replica) instrumentOf(r *journal.Row) *Instrument {
	h := c.hub
	if r.Kind == journal.Gap || int(r.Instrument) >= len(h.numbered) || h.numbered[r.Instrument] == nil {
		return nil
	}
	return h.numbered[r.Instrument].AtDelay(c.seconds)
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

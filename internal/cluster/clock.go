package cluster

import "time"

// Clock is the clock of the log. A new leader continues the clock of the former one, and moves it
// towards the clock of its machine by 1 ms per second. So a wrong clock of a new leader makes no
// delayed data due early.
//
// A node sets its clock by the batches that the leader appends while the node reads the stream. An
// older batch says nothing about the present time. A node takes the clock of another node if that
// clock is of a later term, or if it has no clock itself. If no node that a candidate reaches has a
// clock, the clock of its machine decides how much time has passed.
type Clock struct {
	time int64         // Unix ns
	at   time.Duration // when it was that time
	live bool          // at is valid
	term uint64        // number of the term in which it was heard
}

// slew is the part of the elapsed time by which the clock moves towards that of the machine.
const slew = 1000

// Read returns the time of the clock, Unix ns. now is the time since the process started, and wall
// that of this machine's clock.
func (c *Clock) Read(now time.Duration, wall int64) int64 {
	if !c.live {
		return max(c.time, wall)
	}
	elapsed := int64(now - c.at)
	t := c.time + elapsed
	return t + min(max(wall-t, -elapsed/slew), elapsed/slew)
}

// set sets the clock to a time that was heard in a term.
func (c *Clock) set(now time.Duration, t int64, term uint64) { *c = Clock{t, now, true, term} }

// hear sets the clock to the time of a batch of a term. The batch may have come late, and the clock
// of the leader has moved meanwhile. So a batch of the term of the clock does not set it back.
func (c *Clock) hear(now time.Duration, t int64, term uint64) {
	if c.live && c.term == term {
		elapsed := int64(now - c.at)
		t = max(t, c.time+elapsed-2*elapsed/slew) // not faster than any leader
	}
	c.set(now, t, term)
}

// of reports whether the clock is that of a term.
func (c *Clock) of(t Term) bool { return c.live && c.term >= t.Number }

// setByReport takes the clock of another node if that is newer.
func (c *Clock) setByReport(now time.Duration, r *Report) {
	if r.Time > 0 && (!c.live || r.TimeTerm > c.term) {
		c.set(now, r.Time, r.TimeTerm)
	}
}

package cluster

import "time"

// Clock is the clock of the log. It goes on from leader to leader, so that the clock of a new
// leader does not make delayed data due early: it moves towards that clock by 1 ms in a second.
//
// A node sets its clock by the batches that the leader appends while the node reads the stream. A
// batch that was there before may be old, so that it says nothing about the present time. A node
// takes the clock of another one that heard a later term, or if it has none itself. Only if no node
// that a candidate reaches has a clock does that of its machine decide how much time has passed.
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

// of reports whether the clock is that of a term.
func (c *Clock) of(t Term) bool { return c.live && c.term >= t.Number }

// setByReport takes the clock of another node if that is newer.
func (c *Clock) setByReport(now time.Duration, r *Report) {
	if r.Time > 0 && (!c.live || r.TimeTerm > c.term) {
		c.set(now, r.Time, r.TimeTerm)
	}
}

package cluster

import "time"

// Clock is the clock of the log. It goes on from leader to leader, so that the clock of a new
// leader does not make delayed data due early: it moves towards that clock by 1 ms in a second.
//
// A node sets its clock by the batches of the leader, and a node without one by the reports of the
// others. Only if all nodes were down does the clock of a machine decide how long.
type Clock struct {
	time int64         // Unix ns
	at   time.Duration // when it was that time
	live bool          // at is valid
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

// set sets the clock.
func (c *Clock) set(now time.Duration, t int64) { *c = Clock{t, now, true} }

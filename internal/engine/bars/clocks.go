package bars

import (
	"cmp"
	"time"
)

// Clocks has the clocks of all markets, and knows when the next bar of live data ends. Use
// NewClocks to create one.
type Clocks struct {
	byKey map[ClockKey]*Clock
	live  []*Clock // clocks of live data with the time of this machine, in the order of creation
	due   int64    // earliest end of an open bar of these, Unix ns; 0: no bar is open
}

// ClockKey identifies a clock. A market has at most one of each kind at each delay.
type ClockKey struct {
	Market  string
	Virtual bool
	Delay   int // of the data, in seconds; 0: live data
}

// NewClocks returns Clocks without a clock.
func NewClocks() Clocks { return Clocks{byKey: make(map[ClockKey]*Clock)} }

// Of returns the clock of a key. It makes the clock if there is none, with UTC if zone is nil.
func (c *Clocks) Of(key ClockKey, zone *time.Location) *Clock {
	if x := c.byKey[key]; x != nil {
		return x
	}
	x := NewClock(cmp.Or(zone, time.UTC), key.Virtual)
	c.byKey[key] = x
	if key.Delay == 0 && !key.Virtual {
		x.live = true
		c.live = append(c.live, x)
	}
	return x
}

// Drop removes the clocks of a delay.
func (c *Clocks) Drop(delay int) {
	for key := range c.byKey {
		if key.Delay == delay {
			delete(c.byKey, key)
		}
	}
}

// Due returns the earliest end of an open bar of live data by this machine's clock, or 0 if no bar
// is open.
func (c *Clocks) Due() int64 { return c.due }

// Await notes when the next bar of a clock ends, and reports whether Due has changed.
func (c *Clocks) Await(x *Clock) (changed bool) {
	if !x.live || x.next == 0 || c.due != 0 && c.due <= x.next {
		return false
	}
	c.due = x.next
	return true
}

// Ended calls send with each clock of live data whose next bar has ended at now, by this machine's
// clock.
func (c *Clocks) Ended(now int64, send func(x *Clock)) {
	c.due = 0
	for _, x := range c.live {
		if x.next != 0 && x.next <= now {
			send(x)
		}
		c.Await(x)
	}
}

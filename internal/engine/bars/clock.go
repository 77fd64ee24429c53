package bars

import (
	"time"

	"github.com/ruedahq/rueda/market"
)

// Clock determines when bars end, for the instruments of a market. Its owner calls it with the
// time. The time of a virtual clock is the newest event time of the market. Use NewClock to create
// one.
type Clock struct {
	ClosedUntil int64 // bars that end at or before this time have been sent

	zone     *time.Location
	virtual  bool
	live     bool  // see Clocks
	now      int64 // virtual: the newest event time
	followed int64 // the newest time that was given to Follow
	next     int64 // the earliest end of an open bar; 0: none is open
	due      [market.NumIntervals]int64
	open     [market.NumIntervals][]*Series // series that have an open bar

	// State of the current pass.
	pass    uint32                    // its number
	pending []*Series                 // series with open bars; empty: no pass is active
	done    int                       // number of series in pending that are done
	closing [market.NumIntervals]bool // the intervals with ended bars
	at      int64                     // bars that end at or before this time have ended
	before  int64                     // ClosedUntil before the pass

	dayStart, dayEnd int64 // the last day requested
	// bars before old are no longer revised; oldUntil is when to recompute old
	old, oldUntil int64
}

// NewClock returns a clock whose trading days are calendar days in a time zone.
func NewClock(zone *time.Location, virtual bool) *Clock { return &Clock{zone: zone, virtual: virtual} }

// Like returns a new clock of the same kind.
func (c *Clock) Like() *Clock { return NewClock(c.zone, c.virtual) }

// Zone returns the time zone of the trading days.
func (c *Clock) Zone() *time.Location { return c.zone }

// Virtual reports whether the clock follows event times.
func (c *Clock) Virtual() bool { return c.virtual }

// Now returns the newest event time of a virtual clock, 0 if there is none.
func (c *Clock) Now() int64 { return c.now }

// Next returns the earliest end of an open bar, 0 if none is open.
func (c *Clock) Next() int64 { return c.next }

// Bounds returns the start and the end of the bar of an interval that contains a time.
func (c *Clock) Bounds(i market.Interval, at int64) (start, end int64) {
	if i != market.Day {
		length := int64(i.Length())
		start = at - at%length
		return start, start + length
	}
	if at < c.dayStart || at >= c.dayEnd {
		from, to := market.TradingDay(time.Unix(0, at), c.zone)
		c.dayStart, c.dayEnd = from.UnixNano(), to.UnixNano()
	}
	return c.dayStart, c.dayEnd
}

// Counts reports whether a trade with a time is counted: it must belong to the trading day of now
// or, within the first hour of that, to the previous day. With a real clock it must not be more
// than a day ahead.
func (c *Clock) Counts(at, now int64) bool {
	if !c.virtual && now < c.ClosedUntil-int64(time.Minute) {
		c.ClosedUntil, c.oldUntil = now, 0 // the system clock was ahead and has been set back
	}
	if now >= c.oldUntil {
		c.setOld(now)
	}
	return at >= c.old && (c.virtual || at < now+int64(24*time.Hour))
}

// setOld computes the time before which bars are too old at t.
func (c *Clock) setOld(t int64) {
	start, end := c.Bounds(market.Day, t)
	c.old, c.oldUntil = start, end
	if hour := start + int64(time.Hour); t < hour {
		c.old, _ = c.Bounds(market.Day, start-1)
		c.oldUntil = hour
	}
}

// addOpen records that a series has a bar that is open until end.
func (c *Clock) addOpen(s *Series, i market.Interval, end int64) {
	if len(c.pending) > 0 && s.pass != c.pass && end <= c.at {
		return // the current pass sends it
	}
	if !s.open[i] {
		s.open[i] = true
		c.open[i] = append(c.open[i], s)
	}
	c.due[i], c.next = sooner(c.due[i], end), sooner(c.next, end)
}

// Advance moves a virtual clock forward to the time of an event and sends the bars that have ended.
func (c *Clock) Advance(t int64, send SendFunc) {
	if c.Move(t) {
		c.Close(t, send)
	}
}

// Move moves a virtual clock forward to the time of an event and reports whether bars have ended.
// If so, call Close.
func (c *Clock) Move(t int64) (due bool) {
	if t <= c.now {
		return false
	}
	c.now = t
	return c.next != 0 && c.next <= t
}

// Follow reports whether bars have ended at the time of a row of another hub, in Unix ns. That hub
// checks its clock once for each batch, and all rows of a batch have the same time.
func (c *Clock) Follow(at int64) (due bool) {
	due = at != c.followed && c.next != 0 && c.next <= at
	c.followed = at
	return due
}

// Close sends the bars that have ended at t.
func (c *Clock) Close(t int64, send SendFunc) {
	for c.Begin(t); c.Continue(send); {
	}
}

// Begin starts a pass that sends the bars that have ended at t; Continue sends them, one series at
// a time. A series that trades before its turn sends its bars first.
func (c *Clock) Begin(t int64) {
	if len(c.pending) == 0 {
		c.before, c.at, c.closing = c.ClosedUntil, t, [market.NumIntervals]bool{}
	}
	c.at = max(c.at, t)
	c.pass++
	for i := range market.NumIntervals {
		if c.due[i] == 0 || c.due[i] > t {
			continue
		}
		c.closing[i], c.due[i] = true, 0
		c.pending = append(c.pending, c.open[i]...)
		clear(c.open[i])
		c.open[i] = c.open[i][:0]
	}
	c.next = 0
	for _, due := range c.due {
		c.next = sooner(c.next, due)
	}
	c.ClosedUntil = max(c.ClosedUntil, t)
}

// Continue sends the ended bars of the next series and reports whether there are more.
func (c *Clock) Continue(send SendFunc) (more bool) {
	if c.done < len(c.pending) {
		s := c.pending[c.done]
		c.pending[c.done] = nil
		c.done++
		if s.clock == c { // otherwise the series has moved to another clock
			s.catchUp(send)
		}
	}
	if c.done < len(c.pending) {
		return true
	}
	c.pending, c.done = c.pending[:0], 0
	return false
}

// catchUp sends the bars of a series that the current pass has not sent yet.
func (s *Series) catchUp(send SendFunc) {
	c := s.clock
	if len(c.pending) == 0 || s.pass == c.pass {
		return
	}
	for i := range market.NumIntervals {
		end := s.close(i, c.at, send)
		if c.closing[i] {
			s.open[i] = false
		}
		if end != 0 {
			c.addOpen(s, i, end)
		}
	}
	s.pass, s.unsent = c.pass, false
}

// closedUntil returns the time up to which the bars of a series have been sent.
func (s *Series) closedUntil() int64 {
	if c := s.clock; len(c.pending) > 0 && s.pass != c.pass {
		return c.before
	}
	return s.clock.ClosedUntil
}

// sooner returns the earlier of two times; 0 means none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

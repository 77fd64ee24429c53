package bars

import (
	"time"

	"github.com/ruedahq/rueda/market"
)

// Clock says when bars are over, for the instruments of a market: it is struck by whoever knows
// the time. Virtual, that is the newest event time of the market. Use NewClock.
type Clock struct {
	Struck int64 // bars that ended up to here were told

	zone    *time.Location
	virtual bool
	now     int64 // virtual: the newest event time
	next    int64 // the earliest end of a bar that is open; 0: none is
	due     [market.NumIntervals]int64
	open    [market.NumIntervals][]*Series // that have an open bar

	// The strike under way.
	strike  uint32                    // its number
	left    []*Series                 // whose bars were open; empty: none is under way
	told    int                       // of left
	closing [market.NumIntervals]bool // the intervals of which some were over
	at      int64                     // bars that ended up to here are over
	before  int64                     // Struck until then

	dayStart, dayEnd int64 // of the day that was last asked for
	old, oldUntil    int64 // what is before old is not revised any more; until when that holds
}

// NewClock makes a clock whose trading days are calendar days of a time zone.
func NewClock(zone *time.Location, virtual bool) *Clock { return &Clock{zone: zone, virtual: virtual} }

// Like is a clock of the same kind, which has not begun.
func (c *Clock) Like() *Clock { return NewClock(c.zone, c.virtual) }

// Virtual says whether the clock goes by event times.
func (c *Clock) Virtual() bool { return c.virtual }

// Now is the newest event time of a virtual clock; 0: none was yet.
func (c *Clock) Now() int64 { return c.now }

// Next is the earliest end of an open bar; 0: none is open.
func (c *Clock) Next() int64 { return c.next }

// Bounds is the bar of an interval that a time lies in.
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

// Counts says whether a trade of a time counts: it is of the trading day of now, or of the one
// before it in its first hour; and by a clock of the present, not of more than a day to come.
func (c *Clock) Counts(at, now int64) bool {
	if !c.virtual && now < c.Struck-int64(time.Minute) {
		c.Struck, c.oldUntil = now, 0 // somebody set the clock back: it had been ahead
	}
	if now >= c.oldUntil {
		c.age(now)
	}
	return at >= c.old && (c.virtual || at < now+int64(24*time.Hour))
}

// age finds what is too old at t.
func (c *Clock) age(t int64) {
	start, end := c.Bounds(market.Day, t)
	c.old, c.oldUntil = start, end
	if hour := start + int64(time.Hour); t < hour {
		c.old, _ = c.Bounds(market.Day, start-1)
		c.oldUntil = hour
	}
}

// note takes note that a series has a bar that is open until end.
func (c *Clock) note(s *Series, i market.Interval, end int64) {
	if len(c.left) > 0 && s.strike != c.strike && end <= c.at {
		return // the strike under way tells it
	}
	if !s.open[i] {
		s.open[i] = true
		c.open[i] = append(c.open[i], s)
	}
	c.due[i], c.next = sooner(c.due[i], end), sooner(c.next, end)
}

// Advance brings a virtual clock forward to the time of an event.
func (c *Clock) Advance(t int64, tell Tell) {
	if c.Move(t) {
		c.Strike(t, tell)
	}
}

// Move brings a virtual clock forward to the time of an event, and says whether bars are over by then:
// it is to be struck.
func (c *Clock) Move(t int64) (strike bool) {
	if t <= c.now {
		return false
	}
	c.now = t
	return c.next != 0 && c.next <= t
}

// Strike tells the bars that are over at t.
func (c *Clock) Strike(t int64, tell Tell) {
	for c.Begin(t); c.Continue(tell); {
	}
}

// Begin begins to strike at t. Continue tells the bars that are over, of one series at a time; what is
// traded meanwhile in one whose turn is yet to come has its bars told first.
func (c *Clock) Begin(t int64) {
	if len(c.left) == 0 {
		c.before, c.at, c.closing = c.Struck, t, [market.NumIntervals]bool{}
	}
	c.at = max(c.at, t)
	c.strike++
	for i := range market.NumIntervals {
		if c.due[i] == 0 || c.due[i] > t {
			continue
		}
		c.closing[i], c.due[i] = true, 0
		c.left = append(c.left, c.open[i]...)
		clear(c.open[i])
		c.open[i] = c.open[i][:0]
	}
	c.next = 0
	for _, due := range c.due {
		c.next = sooner(c.next, due)
	}
	c.Struck = max(c.Struck, t)
}

// Continue tells the bars of the next series that are over, and says whether there are more.
func (c *Clock) Continue(tell Tell) (more bool) {
	if c.told < len(c.left) {
		s := c.left[c.told]
		c.left[c.told] = nil
		c.told++
		if s.clock == c { // otherwise it went to another clock
			s.catchUp(tell)
		}
	}
	if c.told < len(c.left) {
		return true
	}
	c.left, c.told = c.left[:0], 0
	return false
}

// catchUp tells the bars of a series that are over by the strike under way.
func (s *Series) catchUp(tell Tell) {
	c := s.clock
	if len(c.left) == 0 || s.strike == c.strike {
		return
	}
	for i := range market.NumIntervals {
		end := s.close(i, c.at, tell)
		if c.closing[i] {
			s.open[i] = false
		}
		if end != 0 {
			c.note(s, i, end)
		}
	}
	s.strike = c.strike
}

// struck is the time up to which the bars of a series were told.
func (s *Series) struck() int64 {
	if c := s.clock; len(c.left) > 0 && s.strike != c.strike {
		return c.before
	}
	return s.clock.Struck
}

// sooner is the earlier of two times, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

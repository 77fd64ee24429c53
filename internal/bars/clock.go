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
	if !s.open[i] {
		s.open[i] = true
		c.open[i] = append(c.open[i], s)
	}
	c.due[i], c.next = sooner(c.due[i], end), sooner(c.next, end)
}

// Advance brings a virtual clock forward to the time of an event.
func (c *Clock) Advance(t int64, tell Tell) {
	if t <= c.now {
		return
	}
	c.now = t
	if c.next != 0 && c.next <= t {
		c.Strike(t, tell)
	}
}

// Strike tells the bars that are over at t: by interval, and of each in the order of listing.
func (c *Clock) Strike(t int64, tell Tell) {
	next := int64(0)
	for i := range market.NumIntervals {
		if c.due[i] != 0 && c.due[i] <= t {
			c.due[i] = c.strike(i, t, tell)
		}
		next = sooner(next, c.due[i])
	}
	c.next = next
	c.Struck = max(c.Struck, t)
}

// sooner is the earlier of two times, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// strike is Strike for an interval, and says when its next bar ends.
func (c *Clock) strike(i market.Interval, t int64, tell Tell) (due int64) {
	kept := c.open[i][:0]
	for _, s := range c.open[i] {
		if s.clock != c {
			continue // it went to another clock
		}
		end := s.close(i, t, tell)
		if s.open[i] = end != 0; end == 0 {
			continue
		}
		kept = append(kept, s)
		due = sooner(due, end)
	}
	clear(c.open[i][len(kept):])
	c.open[i] = kept
	return due
}

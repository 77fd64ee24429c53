package journal

import "time"

// calendar decides which day rows are filed under. Days follow the clock that publishes rows. If a
// clock jumps by more than a day, rows stay in the current day until the clock has shown the new
// day for a minute. If all instruments of a journal have virtual clocks, days follow these clocks,
// which may jump ahead but not back. In other journals, rows of a virtual clock are filed under the
// day of this machine's clock.
//
// Each day begins only once, so that its rows are contiguous in the stream. A day before the
// current one can begin only if the current one came from a wrong clock, which is the case if all
// earlier days are older than both.
type calendar struct {
	begun   map[int32]bool // days that have segments
	known   bool           // at and seen are valid
	at      int64          // time of a row by the accepted clock
	seen    time.Time      // its time by the monotonic clock
	claimed int32          // a day that is not accepted yet
	since   time.Time      // when it was first claimed; zero: none is
}

// clockConfirmation is how long a clock that has jumped must show the same day.
const clockConfirmation = time.Minute

// certain reports whether rows of the current day need no further check.
func (c *calendar) certain() bool { return c.known && c.since.IsZero() }

// day returns the day under which a row is filed that is published at a time by this machine's
// clock. current is the day that is being written.
func (c *calendar) day(current int32, at int64, now time.Time) int32 {
	day := dayOf(at)
	switch {
	case day == current || c.mayFollow(day, current, now):
		c.accept(at, now)
		return day
	case c.begun[day]:
		c.since = time.Time{}
	}
	return current
}

// accept records that the clock is right.
func (c *calendar) accept(at int64, now time.Time) {
	c.known, c.at, c.seen, c.since = true, at, now, time.Time{}
}

// mayFollow reports whether a day may begin after the current one.
func (c *calendar) mayFollow(day, current int32, now time.Time) bool {
	switch {
	case c.begun[day]:
		return false
	case day == current+1:
		return true
	case day > current:
		// After a weekend without rows, or at the start, the clock may be right.
		return !c.known || day <= dayOf(c.at+int64(now.Sub(c.seen)))+1 || c.confirmed(day, now)
	}
	before, ok := c.before(current)
	switch {
	case ok && day < before:
		return false // this clock is wrong
	case ok && !c.known:
		return true
	}
	return c.confirmed(day, now)
}

// virtualDay returns the day of a row in a journal whose instruments all have virtual clocks.
func (c *calendar) virtualDay(current int32, at int64) int32 {
	if day := dayOf(at); day > current && !c.begun[day] {
		return day
	}
	return current
}

// before returns the newest day with segments before a day.
func (c *calendar) before(day int32) (newest int32, ok bool) {
	for d := range c.begun {
		if d < day && (!ok || d > newest) {
			newest, ok = d, true
		}
	}
	return newest, ok
}

// confirmed reports whether the clock has shown a day, and then perhaps the next one, for long
// enough.
func (c *calendar) confirmed(day int32, now time.Time) bool {
	if c.since.IsZero() || day != c.claimed && day != c.claimed+1 {
		c.claimed, c.since = day, now
		return false
	}
	return now.Sub(c.since) >= clockConfirmation
}

// dayOfRow returns the day of a row. It reads the time only if that can matter.
func (j *Journal) dayOfRow(r *Row) int32 {
	day := dayOf(r.At)
	if j.hasDay && day == j.day && j.calendar.certain() {
		return day
	}
	virtual, alone := j.table.hasVirtualClock(r.Instrument), !j.table.hasRealClock()
	switch {
	case virtual && alone && !j.hasDay:
		return day
	case virtual && alone:
		return j.calendar.virtualDay(j.day, r.At)
	}
	at, now := r.At, time.Now()
	if virtual {
		at = now.UnixNano()
	}
	if !j.hasDay {
		j.calendar.accept(at, now)
		return dayOf(at)
	}
	return j.calendar.day(j.day, at, now)
}

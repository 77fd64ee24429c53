package journal

import "time"

// calendar decides which day rows are filed under. Days follow the clock that rows are published
// by. A clock that jumps by more than a day is not believed until it has shown the new day for a
// minute: rows of a wrong clock stay in the day that is written. If all instruments of a journal have
// virtual clocks, days follow these clocks. They may jump ahead and never go back. In any other
// journal, rows of a virtual clock are filed under the day of this machine's clock.
//
// A day is never begun twice, so that the rows of each stand together in the stream. A day
// behind the one that is written is begun where that was of a wrong clock, which shows in that
// the days before it are older than both.
type calendar struct {
	begun   map[int32]bool // days that have segments
	sure    bool           // at and seen are known
	at      int64          // publication of a row by the clock that is right
	seen    time.Time      // and when it came, by the clock that never jumps
	claimed int32          // the day that a clock says which is not believed yet
	since   time.Time      // from when on; zero: there is none
}

// clockProof is how long a clock that jumped has to say the same day.
const clockProof = time.Minute

// settled says that a row of the day that is written has nothing to tell.
func (c *calendar) settled() bool { return c.sure && c.since.IsZero() }

// day returns the day that a row published at a time by this machine's clock is filed under.
// current is the one that is written.
func (c *calendar) day(current int32, at int64, now time.Time) int32 {
	day := dayOf(at)
	switch {
	case day == current || c.follows(day, current, now):
		c.trust(at, now)
		return day
	case c.begun[day]:
		c.since = time.Time{}
	}
	return current
}

// trust notes that the clock is right.
func (c *calendar) trust(at int64, now time.Time) {
	c.sure, c.at, c.seen, c.since = true, at, now, time.Time{}
}

// follows says that a day may be begun behind the one that is written.
func (c *calendar) follows(day, current int32, now time.Time) bool {
	switch {
	case c.begun[day]:
		return false
	case day == current+1:
		return true
	case day > current:
		// After a weekend without rows, or at a start, the clock need not have jumped.
		return !c.sure || day <= dayOf(c.at+int64(now.Sub(c.seen)))+1 || c.proved(day, now)
	}
	before, ok := c.before(current)
	switch {
	case ok && day < before:
		return false // this clock is the wrong one
	case ok && !c.sure:
		return true
	}
	return c.proved(day, now)
}

// virtualDay returns the day of a row in a journal whose instruments all have virtual clocks.
func (c *calendar) virtualDay(current int32, at int64) int32 {
	if day := dayOf(at); day > current && !c.begun[day] {
		return day
	}
	return current
}

// before is the newest of the days that were begun and lie before one.
func (c *calendar) before(day int32) (newest int32, ok bool) {
	for d := range c.begun {
		if d < day && (!ok || d > newest) {
			newest, ok = d, true
		}
	}
	return newest, ok
}

// proved says that the clock has said a day, or then the one behind it, for long enough.
func (c *calendar) proved(day int32, now time.Time) bool {
	if c.since.IsZero() || day != c.claimed && day != c.claimed+1 {
		c.claimed, c.since = day, now
		return false
	}
	return now.Sub(c.since) >= clockProof
}

// fileUnder returns the day for a row. It asks for the time only where that may matter.
func (j *Journal) fileUnder(r *Row) int32 {
	day := dayOf(r.At)
	if j.hasDay && day == j.day && j.calendar.settled() {
		return day
	}
	virtual, alone := j.table.virtual(r.Instrument), !j.table.hasRealClock()
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
		j.calendar.trust(at, now)
		return dayOf(at)
	}
	return j.calendar.day(j.day, at, now)
}

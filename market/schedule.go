package market

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Schedule describes the trading days of a market. The zero Schedule is always open.
//
// A trading day is a calendar day in the market's time zone. A market that trades over midnight has
// two sessions, one that ends at 24h and one that begins at 0.
type Schedule struct {
	// phases of a trading day, by rising Start; closed outside of them; empty: open all day
	Sessions []Session
	// trading days; empty: Monday to Friday if there are Sessions, else every day
	Weekdays []time.Weekday
	Holidays []Holiday
}

// Session is a part of a trading day with one phase.
type Session struct {
	Start time.Duration // since local midnight
	End   time.Duration
	Phase Phase
}

// Holiday is a date without trading, or with an early close.
type Holiday struct {
	Date  string // 2006-01-02, local
	Name  string
	Close time.Duration // early close, since local midnight; 0: no trading that day
	Terms []string      // the terms that do not trade; empty: all
}

// Reasons that Schedule.At returns for Closed.
const (
	ReasonOutsideHours = "outside_hours"
	ReasonWeekend      = "weekend" // not one of the Weekdays
	ReasonHoliday      = "holiday"
	ReasonEarlyClose   = "early_close"
)

const (
	fullDay    = 24 * time.Hour
	dateFormat = "2006-01-02"
)

// At returns the phase of a term at t, the time of the next change of phase (zero if there is
// none), and for Closed one of the reasons above. An empty term means the market as a whole, which
// ignores holidays of single terms. A nil loc means UTC.
//
// Hours are local. A local time that is skipped when the clock jumps forward means the instant of
// the jump. One that occurs twice when the clock falls back means its first occurrence.
func (s Schedule) At(t time.Time, loc *time.Location, term string) (phase Phase, next time.Time, reason string) {
	if len(s.Sessions) == 0 && len(s.Weekdays) == 0 && len(s.Holidays) == 0 {
		return Open, time.Time{}, ""
	}
	if loc == nil {
		loc = time.UTC
	}
	phase, reason = s.phaseAt(t, loc, term)
	return phase, s.change(t, loc, term, phase, s.searchDays(t, loc)), reason
}

// Until is like At for a time t and the changes of phase up to end. It returns end if the phase
// does not change before. The cost grows with the days between t and end.
func (s Schedule) Until(t, end time.Time, loc *time.Location, term string) (phase Phase, next time.Time) {
	if loc == nil {
		loc = time.UTC
	}
	phase, _ = s.phaseAt(t, loc, term)
	next = s.change(t, loc, term, phase, int(end.Sub(t)/fullDay)+2)
	if next.IsZero() || next.After(end) {
		next = end
	}
	return phase, next
}

// searchDays returns the number of days from the day of t in which At looks for the next change.
// Each holiday removes one trading day, and trading days are at most a week apart, so that the
// second week after the last holiday is like the first.
func (s Schedule) searchDays(t time.Time, loc *time.Location) int {
	last := ""
	for _, h := range s.Holidays {
		last = max(last, h.Date)
	}
	days := 8
	if end, err := time.Parse(dateFormat, last); err == nil {
		year, month, day := t.In(loc).Date()
		days += max(0, int(end.Sub(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))/fullDay)+1)
	}
	return min(days, 7*len(s.Holidays)+8)
}

// change returns the next change from a phase in a number of days, or zero if there is none.
func (s Schedule) change(t time.Time, loc *time.Location, term string, phase Phase, days int) time.Time {
	year, month, day := t.In(loc).Date()
	for i := range days {
		d := date{year, month, day + i}
		sessions, _ := s.sessionsOn(d, term)
		for _, session := range sessions {
			for _, since := range [...]time.Duration{session.Start, session.End} {
				b := d.at(since, loc)
				if !b.After(t) {
					continue
				}
				if p, _ := s.phaseAt(b, loc, term); p != phase {
					return b
				}
			}
		}
	}
	return time.Time{}
}

// phaseAt returns the phase and the reason of At, without the next change.
func (s Schedule) phaseAt(t time.Time, loc *time.Location, term string) (Phase, string) {
	var d date
	d.year, d.month, d.day = t.In(loc).Date()
	sessions, reason := s.sessionsOn(d, term)
	for i := len(sessions) - 1; i >= 0; i-- {
		if t.Before(d.at(sessions[i].Start, loc)) {
			// Before the early close, gaps between sessions are ordinary closing hours.
			reason = ReasonOutsideHours
			continue
		}
		if t.Before(d.at(sessions[i].End, loc)) {
			return sessions[i].Phase, ""
		}
		break
	}
	return Closed, reason
}

// sessionsOn returns the sessions of a date and the reason why the market is closed after them.
func (s Schedule) sessionsOn(d date, term string) ([]Session, string) {
	weekdays, sessions := s.Weekdays, s.Sessions
	midday := time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC)
	weekday := midday.Weekday()
	if len(weekdays) > 0 {
		if !slices.Contains(weekdays, weekday) {
			return nil, ReasonWeekend
		}
	} else if len(sessions) > 0 && (weekday == time.Saturday || weekday == time.Sunday) {
		return nil, ReasonWeekend
	}
	if len(sessions) == 0 {
		sessions = []Session{{Start: 0, End: fullDay, Phase: Open}}
	}
	reason := ReasonOutsideHours
	name := midday.Format(dateFormat)
	for _, h := range s.Holidays {
		if h.Date != name || (len(h.Terms) > 0 && !slices.Contains(h.Terms, term)) {
			continue
		}
		if h.Close == 0 {
			return nil, ReasonHoliday
		}
		sessions, reason = clip(sessions, h.Close), ReasonEarlyClose
	}
	return sessions, reason
}

// clip returns the sessions up to a time. It does not change its argument.
func clip(sessions []Session, end time.Duration) []Session {
	var out []Session
	for _, session := range sessions {
		if session.Start < end {
			session.End = min(session.End, end)
			out = append(out, session)
		}
	}
	return out
}

// date is a local calendar date. day may exceed the length of the month.
type date struct {
	year  int
	month time.Month
	day   int
}

// at returns the instant at which the local clock shows the date d and a time since midnight. It
// resolves local times that occur twice or never, for which the result of time.Date is not
// specified.
func (d date) at(since time.Duration, loc *time.Location) time.Time {
	// the local clock time, represented in UTC
	want := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Add(since)
	t := time.Date(want.Year(), want.Month(), want.Day(), want.Hour(), want.Minute(), want.Second(), want.Nanosecond(), loc)
	_, offset := t.Zone()
	face := t.Add(time.Duration(offset) * time.Second).UTC()
	from, until := t.ZoneBounds()
	switch {
	case face.Before(want):
		return until // never shown: t is before the jump
	case face.After(want):
		return from // never shown: t is after the jump
	case from.IsZero():
		return t
	}
	_, before := from.Add(-1).Zone()
	if first := t.Add(time.Duration(offset-before) * time.Second); first.Before(from) && before > offset {
		return first
	}
	return t
}

// Validate returns an error that describes everything that is wrong with the schedule.
func (s Schedule) Validate() error {
	var errs []error
	for i, session := range s.Sessions {
		what := fmt.Sprintf("session %d (%s)", i+1, session.Phase)
		switch {
		case session.Start < 0 || session.End > fullDay:
			errs = append(errs, fmt.Errorf("%s: must be between 00:00 and 24:00; split one that crosses midnight", what))
		case session.Start >= session.End:
			errs = append(errs, fmt.Errorf("%s: start %s is not before end %s; split one that crosses midnight", what, clock(session.Start), clock(session.End)))
		case i > 0 && session.Start < s.Sessions[i-1].End:
			errs = append(errs, fmt.Errorf("%s: starts at %s, before the session above it ends at %s", what, clock(session.Start), clock(s.Sessions[i-1].End)))
		}
		if session.Phase == NoPhase || session.Phase == Unknown || session.Phase.OfFeed() {
			errs = append(errs, fmt.Errorf("%s: phase must be one of pre_open, auction, open, quoting, halt, pause, suspended, pre_close, closed, post_close", what))
		}
	}
	for i, w := range s.Weekdays {
		if w < time.Sunday || w > time.Saturday {
			errs = append(errs, fmt.Errorf("weekday %d: not a day of the week", int(w)))
		} else if slices.Contains(s.Weekdays[:i], w) {
			errs = append(errs, fmt.Errorf("weekday %s: listed twice", w))
		}
	}
	for i, h := range s.Holidays {
		if err := s.validateHoliday(i, h); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s Schedule) validateHoliday(i int, h Holiday) error {
	if _, err := time.Parse(dateFormat, h.Date); err != nil {
		return fmt.Errorf("holiday %d: date %q is not a date like 2026-12-24", i+1, h.Date)
	}
	if h.Close < 0 || h.Close > fullDay {
		return fmt.Errorf("holiday %s: close must be between 00:00 and 24:00", h.Date)
	}
	for _, earlier := range s.Holidays[:i] {
		if earlier.Date == h.Date && shareTerm(earlier.Terms, h.Terms) {
			return fmt.Errorf("holiday %s: listed twice for the same terms", h.Date)
		}
	}
	return nil
}

// shareTerm reports whether two lists of terms overlap. An empty list means all terms.
func shareTerm(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(t string) bool { return slices.Contains(b, t) })
}

// clock formats a time since midnight as 15:04 or 15:04:05.
func clock(d time.Duration) string {
	h, m, sec := int(d/time.Hour), int(d/time.Minute)%60, int(d/time.Second)%60
	if sec != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", h, m, sec)
	}
	return fmt.Sprintf("%02d:%02d", h, m)
}

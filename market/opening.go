package market

import "time"

// Opening returns the time at which the trading day of t opens: the start of its first session of
// phase Open, or of its first session if none is. ok is false if the day has no session or the
// schedule has no sessions at all. A nil loc means UTC.
func (s Schedule) Opening(t time.Time, loc *time.Location, term string) (open time.Time, ok bool) {
	if len(s.Sessions) == 0 {
		return time.Time{}, false
	}
	if loc == nil {
		loc = time.UTC
	}
	var d date
	d.year, d.month, d.day = t.In(loc).Date()
	sessions, _ := s.sessionsOn(d, term)
	if len(sessions) == 0 {
		return time.Time{}, false
	}
	first := sessions[0]
	for _, session := range sessions {
		if session.Phase == Open {
			first = session
			break
		}
	}
	return d.at(first.Start, loc), true
}

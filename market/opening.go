package market

import "time"

// Opening is when the trading day of t opens: its first session of phase Open, or else its
// first. ok is false where there is none that day, or the schedule has no sessions at all. A nil
// loc is UTC.
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

package market

import "time"

// Interval is the length of a bar.
type Interval uint8

// Intervals. All but Day begin at multiples of their length in UTC. Day is a trading day of the
// market (see TradingDay).
const (
	Second Interval = iota
	Minute
	FiveMinutes
	QuarterHour
	Hour
	Day
	NumIntervals
)

var (
	intervalWords   = [NumIntervals]string{"1s", "1m", "5m", "15m", "1h", "1d"}
	intervalLengths = [NumIntervals]time.Duration{
		time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour,
	}
)

// String returns the interval's word on the wire, "" for an invalid interval.
func (i Interval) String() string {
	if i < NumIntervals {
		return intervalWords[i]
	}
	return ""
}

// Length returns the length of a bar. For Day it is 24 hours, although days with a clock change are
// shorter or longer.
func (i Interval) Length() time.Duration {
	if i < NumIntervals {
		return intervalLengths[i]
	}
	return 0
}

// ParseInterval parses an interval's word. ok is false for any other text.
func ParseInterval(s string) (i Interval, ok bool) {
	for i, w := range intervalWords {
		if w == s {
			return Interval(i), true
		}
	}
	return 0, false
}

// TradingDay returns the first instant of the trading day that contains t, and of the next one. A
// trading day is a calendar day in the market's time zone. A nil loc means UTC.
func TradingDay(t time.Time, loc *time.Location) (start, end time.Time) {
	if loc == nil {
		loc = time.UTC
	}
	y, m, d := t.In(loc).Date()
	return date{y, m, d}.at(0, loc), date{y, m, d + 1}.at(0, loc)
}

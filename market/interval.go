package market

import "time"

// Interval is the length of a bar.
type Interval uint8

// Intervals. All but Day begin at whole multiples of their length in UTC; Day is a
// trading day of the market, see TradingDay.
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

// String is the interval's word on the wire; "" for none.
func (i Interval) String() string {
	if i < NumIntervals {
		return intervalWords[i]
	}
	return ""
}

// Length is how long a bar lasts; of Day, the length of most of them.
func (i Interval) Length() time.Duration {
	if i < NumIntervals {
		return intervalLengths[i]
	}
	return 0
}

// ParseInterval reads an interval's word; ok is false for any other.
func ParseInterval(s string) (i Interval, ok bool) {
	for i, w := range intervalWords {
		if w == s {
			return Interval(i), true
		}
	}
	return 0, false
}

// TradingDay is the trading day that t lies in, from its first instant to that of
// the next: a calendar day of the market's time zone. A nil loc is UTC.
func TradingDay(t time.Time, loc *time.Location) (start, end time.Time) {
	if loc == nil {
		loc = time.UTC
	}
	y, m, d := t.In(loc).Date()
	return date{y, m, d}.at(0, loc), date{y, m, d + 1}.at(0, loc)
}

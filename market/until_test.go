package market

import (
	"fmt"
	"testing"
	"time"
)

// TestUntil compares Until with At: both give the same phase and the same changes up to an end.
func TestUntil(t *testing.T) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	weekdays := []Session{{Start: 9 * time.Hour, End: 10 * time.Hour, Phase: Auction}, {Start: 10 * time.Hour, End: 17 * time.Hour, Phase: Open}}
	for name, s := range map[string]Schedule{
		"always open": {},
		"hours":       {Sessions: weekdays, Holidays: []Holiday{{Date: "2026-11-26"}, {Date: "2026-11-27", Close: 13 * time.Hour}, {Date: "2026-03-09", Terms: []string{"CI"}}}},
		"every day":   {Holidays: []Holiday{{Date: "2026-11-26"}, {Date: "2026-11-28", Terms: []string{"CI"}}}},
		"clock":       {Sessions: []Session{{Start: 90 * time.Minute, End: 3 * time.Hour, Phase: Open}}, Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6}},
	} {
		for hour := range 24 * 300 {
			at := time.Date(2026, 3, 5, 0, 30, 0, 0, loc).Add(time.Duration(hour) * time.Hour)
			end := at.Add(36 * time.Hour)
			phase, next, _ := s.At(at, loc, "CI")
			if next.IsZero() || next.After(end) {
				next = end
			}
			if p, n := s.Until(at, end, loc, "CI"); p != phase || !n.Equal(next) {
				t.Fatalf("%s: at %v: %v until %v, want %v until %v", name, at, p, n, phase, next)
			}
		}
	}
}

// TestFarFutureIsCheap checks that a question about a time long after the last holiday looks at few
// days, however many holidays there are.
func TestFarFutureIsCheap(t *testing.T) {
	var s Schedule
	for i := range 300 {
		s.Holidays = append(s.Holidays, Holiday{Date: fmt.Sprintf("20%02d-%02d-15", 20+i/12, 1+i%12)})
	}
	if n := s.searchDays(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC); n != 8 {
		t.Errorf("looks at %d days", n)
	}
	if n := s.searchDays(time.Date(2044, 12, 1, 0, 0, 0, 0, time.UTC), time.UTC); n != 23 {
		t.Errorf("looks at %d days before the last holiday", n)
	}
}

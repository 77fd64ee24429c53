package rest

import (
	"fmt"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestCalendarCost compares the calendar of a year of a market without hours, with three terms and
// many holidays, with that of a market with hours: a request must not cost much more.
func TestCalendarCost(t *testing.T) {
	terms := []market.Term{{Name: "CI"}, {Name: "24hs"}, {Name: "48hs"}}
	with := market.Market{ID: "HOURS", Terms: terms, Schedule: market.Schedule{Sessions: []market.Session{{Start: 11 * time.Hour, End: 17 * time.Hour, Phase: market.Open}}}}
	without := market.Market{ID: "ALWAYS", Terms: terms}
	for i := range 36 {
		day := market.Holiday{Date: fmt.Sprintf("%d-%02d-20", 2026+i/12, 1+i%12)}
		with.Schedule.Holidays, without.Schedule.Holidays = append(with.Schedule.Holidays, day), append(without.Schedule.Holidays, day)
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, year := range []int{2027, 2200} {
		span := dates{time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)}
		cost := func(m *market.Market) (best time.Duration) {
			for range 5 {
				began := time.Now()
				if c := newCalendar(m, time.UTC, now, span); len(c.Days) != 365 {
					t.Fatalf("%d days", len(c.Days))
				}
				if took := time.Since(began); best == 0 || took < best {
					best = took
				}
			}
			return best
		}
		usual, always := cost(&with), cost(&without)
		t.Logf("figure: calendar of %d: with hours %v, without %v", year, usual, always)
		if always > 10*usual {
			t.Errorf("the calendar of %d without hours takes %v, with hours %v", year, always, usual)
		}
	}
}

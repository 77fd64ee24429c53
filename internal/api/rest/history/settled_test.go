package history

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// TestClosedDays checks until when the journal counts as closed: a day of a wrong clock does not
// count.
func TestClosedDays(t *testing.T) {
	day := func(date string, closed bool) journal.Day { return journal.Day{Date: date, Closed: closed} }
	for _, tt := range []struct {
		days        []journal.Day
		from, until string
	}{
		{[]journal.Day{day("2026-11-20", false)}, "", ""},
		{[]journal.Day{day("2026-11-19", true), day("2026-11-20", true), day("2026-11-21", false)}, "2026-11-19", "2026-11-21"},
		{[]journal.Day{day("2026-11-20", true), day("2027-11-20", true), day("2026-11-21", true), day("2026-11-22", false)}, "2026-11-20", "2026-11-22"},
		{[]journal.Day{day("2027-11-20", true), day("2026-11-21", false)}, "", ""},
	} {
		at := func(ns int64) string {
			if ns == 0 {
				return ""
			}
			return time.Unix(0, ns).UTC().Format(time.DateOnly)
		}
		from, until := closedDays(tt.days)
		if at(from) != tt.from || at(until) != tt.until {
			t.Errorf("%v: closed from %s until %s, want %s, %s", tt.days, at(from), at(until), tt.from, tt.until)
		}
	}
}

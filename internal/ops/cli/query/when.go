package query

import (
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/market"
)

// Layouts of times without a zone, which readTime reads in the zone of this machine. Tables print
// times in that zone too.
var (
	localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}
	todayForms = []string{"15:04", "15:04:05"}
)

// timeForms describes the times that flags accept.
const timeForms = "2026-11-20T16:55:00Z, or '2026-11-20 16:55' or 16:55 in the zone of this machine"

// readTime reads a time as people type it. Without a zone it is in that of this machine, and
// without a date it is today. "" is the zero time.
func readTime(s string, now time.Time) (t time.Time, ok bool) {
	if s == "" {
		return t, true
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, true
	}
	for _, form := range localForms {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, true
		}
	}
	for _, form := range todayForms {
		if t, err := time.Parse(form, s); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), true
		}
	}
	return t, false
}

// parseTime parses the value of a flag. "" is the zero time.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	t, ok := readTime(s, now)
	if !ok {
		return t, command.Fail(command.ExitUsage, fmt.Errorf("--%s %q is not a time", flag, s), "It looks like "+timeForms+".")
	}
	return t, nil
}

// parseBound parses the value of a flag that is a time, or the date of a trading day.
func parseBound(flag, s string, now time.Time) (time.Time, market.Date, error) {
	if d, ok := readDate(s, now); ok {
		return time.Time{}, d, nil
	}
	t, ok := readTime(s, now)
	if !ok {
		return t, 0, command.Fail(command.ExitUsage, fmt.Errorf("--%s %q is not a time", flag, s),
			"It looks like "+timeForms+".\n2026-11-20, today and yesterday are the start of that trading day in the market.")
	}
	return t, 0, nil
}

// readDate reads a date, today or yesterday.
func readDate(s string, now time.Time) (market.Date, bool) {
	switch s {
	case "today":
		s = now.Format(time.DateOnly)
	case "yesterday":
		s = now.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	d, err := market.ParseDate(s)
	return d, err == nil
}

// parseSince parses the value of --since: a duration before now, or a date.
func parseSince(s string, now time.Time) (time.Time, market.Date, error) {
	if d, ok := readDate(s, now); ok || s == "" {
		return time.Time{}, d, nil
	}
	ago, err := config.ParseDuration(s)
	if err != nil {
		return time.Time{}, 0, command.Fail(command.ExitUsage, fmt.Errorf("--since %q is not a duration", s),
			"It looks like 10m, 8h or 7d, or is today, yesterday or a date. --from takes a time.")
	}
	return now.Add(-ago), 0, nil
}

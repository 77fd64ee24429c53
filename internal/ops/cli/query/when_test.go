package query

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestTimesOfFlags reads times, dates and durations as people type them.
func TestTimesOfFlags(t *testing.T) {
	zone := time.FixedZone("ART", -3*60*60)
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, zone)
	date := func(s string) market.Date {
		d, err := market.ParseDate(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 11, day, hour, minute, second, 0, zone)
	}
	for text, want := range map[string]struct {
		at  time.Time
		day market.Date
	}{
		"":                     {},
		"2026-11-29T12:45:00Z": {at: at(29, 9, 45, 0)},
		"2026-11-29 09:45":     {at: at(29, 9, 45, 0)},
		"2026-11-29T09:45:10":  {at: at(29, 9, 45, 10)},
		"10:00":                {at: at(30, 10, 0, 0)},
		"10:00:07":             {at: at(30, 10, 0, 7)},
		"2026-11-29":           {day: date("2026-11-29")},
		"today":                {day: date("2026-11-30")},
		"yesterday":            {day: date("2026-11-29")},
	} {
		when, day, err := parseBound("from", text, now)
		if err != nil || !when.Equal(want.at) || day != want.day {
			t.Errorf("--from %q is %v, %v, %v", text, when, day, err)
		}
	}
	for _, text := range []string{"noon", "25:00", "2026-11-31", "10m", "1764403200", "29.11.2026"} {
		if when, day, err := parseBound("from", text, now); err == nil {
			t.Errorf("--from %q is %v, %v", text, when, day)
		}
	}
	for text, want := range map[string]struct {
		at  time.Time
		day market.Date
	}{
		"10m": {at: now.Add(-10 * time.Minute)}, "7d": {at: now.Add(-7 * 24 * time.Hour)}, "1d12h": {at: now.Add(-36 * time.Hour)},
		"yesterday": {day: date("2026-11-29")}, "2026-11-20": {day: date("2026-11-20")},
	} {
		when, day, err := parseSince(text, now)
		if err != nil || !when.Equal(want.at) || day != want.day {
			t.Errorf("--since %q is %v, %v, %v", text, when, day, err)
		}
	}
	for _, text := range []string{"-10m", "week", "10", "1w", "10:00"} {
		if when, day, err := parseSince(text, now); err == nil {
			t.Errorf("--since %q is %v, %v", text, when, day)
		}
	}
}

// TestRangeOfFlags checks that a range without time in it is refused, with the culprit.
func TestRangeOfFlags(t *testing.T) {
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"10:00", "11:00", true}, {"11:00", "10:00", false}, {"10:00", "10:00", false}, {"", "10:00", true},
		{"2026-11-20", "2026-11-21", true}, {"2026-11-20", "2026-11-20", false}, {"today", "yesterday", false},
		{"2026-11-20", "10:00", true}, // the gateway knows when that day of the market begins
	} {
		_, err := (&history{from: c.from, to: c.to, isAfter: func() bool { return false }}).span(now)
		if (err == nil) != c.ok || err != nil && err.Error() != "--from "+c.from+" is not before --to "+c.to {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

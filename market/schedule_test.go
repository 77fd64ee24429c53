package market

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func hm(h, m int) time.Duration {
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
}

func byma() Schedule {
	return Schedule{
		Sessions: []Session{
			{hm(10, 30), hm(11, 0), PreOpen},
			{hm(11, 0), hm(16, 55), Open},
			{hm(16, 55), hm(17, 0), Auction},
		},
		Holidays: []Holiday{
			{Date: "2026-12-24", Name: "short day", Close: hm(15, 0)},
			{Date: "2026-12-25", Name: "Christmas"},
			{Date: "2026-11-23", Name: "settlement holiday", Terms: []string{"CI"}},
		},
	}
}

func TestScheduleAt(t *testing.T) {
	s, loc := byma(), zone(t, "America/Argentina/Buenos_Aires")
	const layout = "2006-01-02 15:04:05"
	for _, tt := range []struct {
		at, term string
		phase    Phase
		next     string
		reason   string
	}{
		{"2026-11-20 00:00:00", "CI", Closed, "2026-11-20 10:30:00", ReasonOutsideHours},
		{"2026-11-20 10:30:00", "CI", PreOpen, "2026-11-20 11:00:00", ""},
		{"2026-11-20 10:59:59", "CI", PreOpen, "2026-11-20 11:00:00", ""},
		{"2026-11-20 11:00:00", "CI", Open, "2026-11-20 16:55:00", ""},
		{"2026-11-20 16:59:59", "CI", Auction, "2026-11-20 17:00:00", ""},
		{"2026-11-20 17:00:00", "24hs", Closed, "2026-11-23 10:30:00", ReasonOutsideHours}, // a Friday
		{"2026-11-20 17:00:00", "CI", Closed, "2026-11-24 10:30:00", ReasonOutsideHours},   // CI has a holiday on Monday
		{"2026-11-20 17:00:00", "", Closed, "2026-11-23 10:30:00", ReasonOutsideHours},     // the market as a whole has none
		{"2026-11-21 12:00:00", "24hs", Closed, "2026-11-23 10:30:00", ReasonWeekend},
		{"2026-11-23 12:00:00", "24hs", Open, "2026-11-23 16:55:00", ""},
		{"2026-11-23 12:00:00", "CI", Closed, "2026-11-24 10:30:00", ReasonHoliday},
		{"2026-12-24 09:00:00", "CI", Closed, "2026-12-24 10:30:00", ReasonOutsideHours},
		{"2026-12-24 14:59:59", "CI", Open, "2026-12-24 15:00:00", ""},
		{"2026-12-24 15:00:00", "CI", Closed, "2026-12-28 10:30:00", ReasonEarlyClose},
		{"2026-12-25 12:00:00", "CI", Closed, "2026-12-28 10:30:00", ReasonHoliday},
	} {
		at, err := time.ParseInLocation(layout, tt.at, loc)
		if err != nil {
			t.Fatal(err)
		}
		phase, next, reason := s.At(at.UTC(), loc, tt.term)
		if got := next.In(loc).Format(layout); phase != tt.phase || got != tt.next || reason != tt.reason {
			t.Errorf("At(%s, %q) = %s, %s, %q, want %s, %s, %q", tt.at, tt.term, phase, got, reason, tt.phase, tt.next, tt.reason)
		}
	}
}

func TestScheduleAlwaysOpen(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC) // a Saturday
	for name, s := range map[string]Schedule{
		"zero":         {},
		"all day":      {Sessions: []Session{{0, 24 * time.Hour, Open}}, Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6}},
		"two sessions": {Sessions: []Session{{0, hm(12, 0), Open}, {hm(12, 0), hm(24, 0), Open}}, Weekdays: []time.Weekday{0, 1, 2, 3, 4, 5, 6}},
	} {
		if phase, next, reason := s.At(at, nil, "SPOT"); phase != Open || !next.IsZero() || reason != "" {
			t.Errorf("%s: %s, %v, %q, want open for ever", name, phase, next, reason)
		}
	}

	// Holidays and weekdays without sessions remove days from an open week.
	s := Schedule{Holidays: []Holiday{{Date: "2026-11-22"}}}
	if phase, next, _ := s.At(at, nil, ""); phase != Open || !next.Equal(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("before a holiday: %s until %v", phase, next)
	}
	if phase, next, reason := s.At(at.AddDate(0, 0, 1), nil, ""); phase != Closed || reason != ReasonHoliday || !next.Equal(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("on a holiday: %s, %q until %v", phase, reason, next)
	}
	s = Schedule{Weekdays: []time.Weekday{time.Monday}, Holidays: []Holiday{{Date: "2026-11-23"}, {Date: "2026-11-30"}}}
	if phase, next, _ := s.At(at, nil, ""); phase != Closed || !next.Equal(time.Date(2026, 12, 7, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("one day a week, two of them holidays: %s until %v", phase, next)
	}
	never := Schedule{Sessions: []Session{{0, hm(1, 0), Closed}}}
	if phase, next, _ := never.At(at, nil, ""); phase != Closed || !next.IsZero() {
		t.Errorf("a market that never opens: %s until %v", phase, next)
	}
}

// TestScheduleClockChange checks days on which the local clock changes.
func TestScheduleClockChange(t *testing.T) {
	every := []time.Weekday{0, 1, 2, 3, 4, 5, 6}
	for _, tt := range []struct {
		name, zone string
		sessions   []Session
		at         string
		phase      Phase
		next       string
	}{
		{"spring: hours after the jump keep the local clock", "America/New_York", []Session{{hm(9, 30), hm(16, 0), Open}},
			"2026-03-08T12:00:00Z", Closed, "2026-03-08T13:30:00Z"},
		{"autumn: the same an hour later", "America/New_York", []Session{{hm(9, 30), hm(16, 0), Open}},
			"2026-11-01T12:00:00Z", Closed, "2026-11-01T14:30:00Z"},
		{"spring: an hour left out begins at the jump", "America/New_York", []Session{{hm(2, 30), hm(4, 0), Open}},
			"2026-03-08T05:00:00Z", Closed, "2026-03-08T07:00:00Z"},
		{"spring: a session left out altogether", "America/New_York", []Session{{hm(2, 15), hm(2, 45), Open}},
			"2026-03-08T05:00:00Z", Closed, "2026-03-09T06:15:00Z"},
		{"autumn: an hour that comes twice counts the first time", "America/New_York", []Session{{hm(1, 30), hm(4, 0), Open}},
			"2026-11-01T05:00:00Z", Closed, "2026-11-01T05:30:00Z"},
		{"autumn: and it has begun the second time", "America/New_York", []Session{{hm(1, 30), hm(4, 0), Open}},
			"2026-11-01T06:10:00Z", Open, "2026-11-01T09:00:00Z"},
		{"a day without midnight begins at the jump", "America/Sao_Paulo", []Session{{0, hm(24, 0), Open}},
			"2018-11-04T02:59:59Z", Open, ""},
		{"a day without midnight", "America/Sao_Paulo", []Session{{0, hm(2, 0), Open}},
			"2018-11-04T02:59:59Z", Closed, "2018-11-04T03:00:00Z"},
		{"an evening hour that comes twice", "America/Sao_Paulo", []Session{{hm(20, 0), hm(24, 0), Open}},
			"2018-02-18T02:30:00Z", Open, "2018-02-18T03:00:00Z"},
		{"half an hour of a change", "Australia/Lord_Howe", []Session{{hm(2, 15), hm(3, 0), Open}},
			"2026-10-03T15:00:00Z", Closed, "2026-10-03T15:30:00Z"},
	} {
		loc := zone(t, tt.zone)
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		s := Schedule{Sessions: tt.sessions, Weekdays: every}
		phase, next, _ := s.At(at, loc, "")
		got := ""
		if !next.IsZero() {
			got = next.UTC().Format(time.RFC3339)
		}
		if phase != tt.phase || got != tt.next {
			t.Errorf("%s: %s until %s, want %s until %s", tt.name, phase, got, tt.phase, tt.next)
		}
	}
}

// TestScheduleNext checks every half hour over years that next is the next change and that nothing
// changes before it.
func TestScheduleNext(t *testing.T) {
	s, loc := byma(), zone(t, "America/New_York")
	at := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC)
	for at.Year() < 2028 {
		phase, next, _ := s.At(at, loc, "CI")
		if !next.After(at) {
			t.Fatalf("at %v next is %v", at, next)
		}
		if p, _, _ := s.At(next.Add(-1), loc, "CI"); p != phase {
			t.Fatalf("at %v: %s until %v, but %s just before", at, phase, next, p)
		}
		if p, _, _ := s.At(next, loc, "CI"); p == phase {
			t.Fatalf("at %v: still %s at %v", at, phase, next)
		}
		at = at.Add((next.Sub(at) + 1) / 2)
	}
}

func TestScheduleValidate(t *testing.T) {
	if err := byma().Validate(); err != nil {
		t.Errorf("a good schedule: %v", err)
	}
	if err := (Schedule{}).Validate(); err != nil {
		t.Errorf("the zero schedule: %v", err)
	}
	for _, tt := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{Sessions: []Session{{hm(17, 0), hm(11, 0), Open}}}, "session 1 (open): start 17:00 is not before end 11:00"},
		{Schedule{Sessions: []Session{{hm(18, 0), hm(26, 0), Open}}}, "session 1 (open): must be between 00:00 and 24:00"},
		{Schedule{Sessions: []Session{{-1, hm(1, 0), Open}}}, "must be between"},
		{Schedule{Sessions: []Session{{hm(9, 0), hm(11, 0), PreOpen}, {hm(10, 59) + 30*time.Second, hm(17, 0), Open}}}, "session 2 (open): starts at 10:59:30, before the session above it ends at 11:00"},
		{Schedule{Sessions: []Session{{0, hm(1, 0), NoPhase}}}, "phase must be one of"},
		{Schedule{Sessions: []Session{{0, hm(1, 0), FeedDown}}}, "phase must be one of"},
		{Schedule{Sessions: []Session{{0, hm(1, 0), Unknown}}}, "phase must be one of"},
		{Schedule{Weekdays: []time.Weekday{7}}, "weekday 7: not a day"},
		{Schedule{Weekdays: []time.Weekday{1, 1}}, "weekday Monday: listed twice"},
		{Schedule{Holidays: []Holiday{{Date: "2026-02-30"}}}, `holiday 1: date "2026-02-30" is not a date like 2026-12-24`},
		{Schedule{Holidays: []Holiday{{Date: "2026-02-03", Close: -1}}}, "holiday 2026-02-03: close must be"},
		{Schedule{Holidays: []Holiday{{Date: "2026-02-03"}, {Date: "2026-02-03", Terms: []string{"CI"}}}}, "listed twice for the same terms"},
	} {
		if err := tt.s.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error %v, want %q", tt.s, err, tt.want)
		}
	}
	twoTerms := Schedule{Holidays: []Holiday{{Date: "2026-02-03", Terms: []string{"24hs"}}, {Date: "2026-02-03", Close: hm(15, 0), Terms: []string{"CI"}}}}
	if err := twoTerms.Validate(); err != nil {
		t.Errorf("one date for two terms: %v", err)
	}
}

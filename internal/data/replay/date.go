package replay

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"
)

var (
	errNoDate   = errors.New("the file does not contain its date: set Date (as 2024-01-31)")
	dateInNames = []dateInName{
		{regexp.MustCompile(`(?:^|[^0-9])(\d{4}-\d{2}-\d{2})(?:[^0-9]|$)`), "2006-01-02"},
		{regexp.MustCompile(`(?:^|[^0-9])(20\d{6})(?:[^0-9]|$)`), "20060102"},
		{regexp.MustCompile(`(?:^|[^0-9])(\d{8})(?:[^0-9]|$)`), "01022006"},
		{regexp.MustCompile(`(?:^|[^0-9])(\d{6})(?:[^0-9]|$)`), "010206"},
	}
)

// dateInName is a way to write a day in a file name: 2012-06-21, 20120621 or, as NASDAQ does,
// 06212012 or 062112.
type dateInName struct {
	pattern *regexp.Regexp
	layout  string
}

// date returns midnight in New York, in Unix nanoseconds, of the day of a recording that does not
// contain it.
func (s *shared) date() (int64, error) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		return 0, fmt.Errorf("time zone of New York: %w", err)
	}
	text, layout := s.config.Date, "2006-01-02"
	if text == "" && s.config.FromName {
		text, layout = dateOf(filepath.Base(s.path))
	}
	if text == "" {
		return 0, errNoDate
	}
	day, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return 0, fmt.Errorf("date %q: %w", text, err)
	}
	if day.Year() < 1990 || day.Year() > 2200 {
		return 0, fmt.Errorf("date %q: the year must be from 1990 to 2200", text)
	}
	return day.UnixNano(), nil
}

// dateOf returns the day in a file name and its layout, or "" if there is none.
func dateOf(name string) (text, layout string) {
	for _, d := range dateInNames {
		if m := d.pattern.FindStringSubmatch(name); m != nil {
			if _, err := time.Parse(d.layout, m[1]); err == nil {
				return m[1], d.layout
			}
		}
	}
	return "", ""
}

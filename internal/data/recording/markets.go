package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
)

// AskMarkets requests from a server its markets and their calendar from today on, and keeps those
// of the recording's instruments. It ignores errors, because a server may not have them. get
// decodes the data of the answer for a path.
func (m *Meta) AskMarkets(get func(path string, data any) error) {
	wanted := map[string]bool{}
	for _, row := range m.Instruments {
		if in, err := definition(row); err == nil {
			wanted[in.ID.Market] = true
		}
	}
	ask := func(path string) (rows []Row) {
		var data struct {
			Markets []Row `json:"markets"`
		}
		if get(path, &data) != nil {
			return nil
		}
		return slices.DeleteFunc(data.Markets, func(row Row) bool {
			var r marketRow
			return json.Unmarshal(row, &r) != nil || !wanted[r.ID]
		})
	}
	m.Markets, m.Calendar = ask("/market/markets"), ask("/market/calendar")
}

// marketRow is a row of either list; each has some of its members.
type marketRow struct {
	ID       string `json:"market"`
	Name     string `json:"name"`
	Timezone string `json:"timezone"`
	Terms    []struct {
		Name string `json:"term"`
		Days int    `json:"settlement_days"`
	} `json:"terms"`
	Holidays []struct {
		Date   string   `json:"date"`
		Name   string   `json:"name"`
		Closes string   `json:"closes"`
		Terms  []string `json:"terms"`
	} `json:"holidays"`
	Days []struct {
		Date     string       `json:"date"`
		Sessions []sessionRow `json:"sessions"`
	} `json:"days"`
}

type sessionRow struct {
	Phase string    `json:"status"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// markets parses the rows of the first line. It returns the valid ones, and one error for all
// others.
func (m *Meta) markets() ([]market.Market, error) {
	var list []market.Market
	var errs []error
	hours := map[string]*marketRow{}
	for _, row := range m.Calendar {
		var r marketRow
		if err := json.Unmarshal(row, &r); err != nil {
			errs = append(errs, fmt.Errorf("a row of the calendar: %w", err))
			continue
		}
		hours[r.ID] = &r
	}
	for _, row := range m.Markets {
		var r marketRow
		if err := json.Unmarshal(row, &r); err != nil {
			errs = append(errs, fmt.Errorf("a row of the markets: %w", err))
			continue
		}
		defined, err := r.market(hours[r.ID])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, defined)
	}
	return list, errors.Join(errs...)
}

// market converts a row to a definition, with the hours of another row.
func (r *marketRow) market(hours *marketRow) (market.Market, error) {
	m := market.Market{ID: r.ID, Name: r.Name, Timezone: r.Timezone}
	zone, err := time.LoadLocation(r.Timezone)
	if err != nil {
		return m, fmt.Errorf("market %s: %w", r.ID, err)
	}
	for _, t := range r.Terms {
		m.Terms = append(m.Terms, market.Term{Name: t.Name, SettlementDays: t.Days})
	}
	if hours != nil {
		if m.Schedule, err = hours.schedule(zone); err != nil {
			return m, fmt.Errorf("market %s: its calendar: %w", r.ID, err)
		}
	}
	return m, m.Validate()
}

// schedule derives the schedule from the days of a calendar: the sessions of its first full day, on
// the weekdays that have sessions. It returns the zero Schedule (always open) if there are too few
// days or if the market is always open.
func (r *marketRow) schedule(zone *time.Location) (s market.Schedule, err error) {
	holidays := map[string]bool{}
	for _, h := range r.Holidays {
		day := market.Holiday{Date: h.Date, Name: h.Name, Terms: h.Terms}
		if h.Closes != "" {
			closes, err := time.Parse(time.TimeOnly, h.Closes)
			if err != nil {
				return s, err
			}
			day.Close = sinceMidnight(closes)
		}
		holidays[h.Date] = true
		s.Holidays = append(s.Holidays, day)
	}
	for _, d := range r.Days {
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			return s, err
		}
		w := date.Weekday()
		// a weekday that is a holiday
		free := holidays[d.Date] && w != time.Saturday && w != time.Sunday
		if (len(d.Sessions) > 0 || free) && !slices.Contains(s.Weekdays, w) {
			s.Weekdays = append(s.Weekdays, w)
		}
		if len(s.Sessions) == 0 && !holidays[d.Date] {
			s.Sessions = sessionsOf(d.Sessions, zone)
		}
	}
	const week = 7
	always := []market.Session{{End: 24 * time.Hour, Phase: market.Open}}
	if len(s.Holidays) == 0 && len(s.Weekdays) == week && slices.Equal(s.Sessions, always) || len(r.Days) < week || s.Sessions == nil {
		return market.Schedule{}, nil
	}
	return s, nil
}

// sessionsOf returns the sessions of a day in local time.
func sessionsOf(rows []sessionRow, zone *time.Location) []market.Session {
	var list []market.Session
	for _, row := range rows {
		phase, _ := market.ParsePhase(row.Phase) // Validate rejects unknown phases
		x := market.Session{Start: sinceMidnight(row.Start.In(zone)), End: sinceMidnight(row.End.In(zone)), Phase: phase}
		if x.End == 0 {
			x.End = 24 * time.Hour
		}
		list = append(list, x)
	}
	return list
}

// sinceMidnight returns the time of day.
func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
}

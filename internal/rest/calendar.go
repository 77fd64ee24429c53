package rest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Bounds of the days of one calendar.
const (
	calendarDays    = 7 // unless from and to say otherwise
	maxCalendarDays = 366
)

const dateFormat = "2006-01-02"

// calendar is GET /market/calendar?market=&from=&to=: the trading days of each market from one
// local date up to, and without, another. It is the plan; /market/status says what is.
func (h *Handler) calendar(q *request) (result, error) {
	name := q.params.get("market")
	span, f := q.params.dates()
	if f != nil {
		return result{}, f
	}
	list := []calendar{}
	for _, m := range h.cfg.Hub.Markets() {
		if name != "" && m.ID != name {
			continue
		}
		loc := h.zones.load(m.Timezone, h.log)
		now := time.Now()
		if m.StatusFromFeed {
			now = h.cfg.Hub.Clock(m.ID)
		}
		list = append(list, newCalendar(&m, loc, now, span.of(now, loc)))
	}
	if len(list) == 0 && name != "" {
		return result{}, wire.NewFailure(wire.BadField, "market", "is not a market of GET /market/markets")
	}
	b := appendJSON(nil, struct {
		Markets []calendar `json:"markets"`
	}{list})
	sum := sha256.Sum256(b)
	q.out.Set("Cache-Control", "private, no-cache")
	return q.tagged(entityTag(sum[:]), result{object: b}), nil
}

// dates are from and to of a calendar; what is not given is the zero Time.
type dates struct{ from, to time.Time }

func (p params) dates() (d dates, f *wire.Failure) {
	for _, m := range []struct {
		name string
		date *time.Time
	}{{"from", &d.from}, {"to", &d.to}} {
		text := p.get(m.name)
		if text == "" {
			continue
		}
		t, err := time.Parse(dateFormat, text)
		if err != nil || t.Year() < 1970 || t.Year() > 2261 {
			return d, wire.NewFailure(wire.BadField, m.name, "must be a date like 2026-12-24")
		}
		*m.date = t
	}
	switch {
	case d.from.IsZero() || d.to.IsZero():
	case !d.to.After(d.from):
		return d, wire.NewFailure(wire.BadField, "to", "must be after from")
	case d.to.Sub(d.from) > maxCalendarDays*24*time.Hour:
		return d, wire.NewFailure(wire.RangeTooLarge, "to", fmt.Sprintf("is more than %d days after from", maxCalendarDays))
	}
	return d, nil
}

// of fills in what was not given: from the local day of now on, for a week.
func (d dates) of(now time.Time, loc *time.Location) dates {
	if d.from.IsZero() && d.to.IsZero() {
		local := now.In(loc)
		d.from = time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	}
	if d.from.IsZero() {
		d.from = d.to.AddDate(0, 0, -calendarDays)
	}
	if d.to.IsZero() {
		d.to = d.from.AddDate(0, 0, calendarDays)
	}
	return d
}

// calendar is the plan of one market.
type calendar struct {
	Market   string `json:"market"`
	Timezone string `json:"timezone"`
	plannedPhase
	Terms    []calendarTerm    `json:"terms"`
	Holidays []calendarHoliday `json:"holidays"`
	Days     []calendarDay     `json:"days"`
}

// plannedPhase is the current phase of a plan, and when it changes.
type plannedPhase struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Next   string `json:"next_change,omitempty"`
}

type calendarTerm struct {
	Term string `json:"term"`
	plannedPhase
}

type calendarHoliday struct {
	Date   string   `json:"date"`
	Name   string   `json:"name,omitempty"`
	Closes string   `json:"closes,omitempty"`
	Terms  []string `json:"terms,omitempty"`
}

type calendarDay struct {
	Date     string            `json:"date"`
	Sessions []calendarSession `json:"sessions"`
	Terms    []calendarDayTerm `json:"terms"`
}

type calendarDayTerm struct {
	Term      string            `json:"term"`
	Available bool              `json:"available"`
	Sessions  []calendarSession `json:"sessions,omitzero"` // nil: those of the day
}

// calendarSession is a span of time in which a market is not closed.
type calendarSession struct {
	Status string `json:"status"`
	Start  string `json:"start"`
	End    string `json:"end"`
}

func newCalendar(m *market.Market, loc *time.Location, now time.Time, span dates) calendar {
	c := calendar{
		Market: m.ID, Timezone: loc.String(), plannedPhase: phaseAt(m, loc, now, ""),
		Terms: []calendarTerm{}, Holidays: []calendarHoliday{}, Days: []calendarDay{},
	}
	for _, t := range m.Terms {
		c.Terms = append(c.Terms, calendarTerm{t.Name, phaseAt(m, loc, now, t.Name)})
	}
	for _, day := range m.Schedule.Holidays {
		date, err := time.Parse(dateFormat, day.Date)
		if err != nil || date.Before(span.from) || !date.Before(span.to) {
			continue
		}
		holiday := calendarHoliday{Date: day.Date, Name: day.Name, Terms: day.Terms}
		if day.Close != 0 {
			holiday.Closes = date.Add(day.Close).Format(time.TimeOnly)
		}
		c.Holidays = append(c.Holidays, holiday)
	}
	for date := span.from; date.Before(span.to); date = date.AddDate(0, 0, 1) {
		day := calendarDay{Date: date.Format(dateFormat), Sessions: sessionsOn(m, loc, date, ""), Terms: []calendarDayTerm{}}
		for _, t := range m.Terms {
			own := sessionsOn(m, loc, date, t.Name)
			term := calendarDayTerm{Term: t.Name, Available: len(own) > 0}
			if !slices.Equal(own, day.Sessions) {
				term.Sessions = own
			}
			day.Terms = append(day.Terms, term)
		}
		c.Days = append(c.Days, day)
	}
	return c
}

func phaseAt(m *market.Market, loc *time.Location, now time.Time, term string) plannedPhase {
	phase, next, reason := m.Schedule.At(now, loc, term)
	p := plannedPhase{Status: phase.String(), Reason: reason}
	if !next.IsZero() {
		p.Next = timeText(next)
	}
	return p
}

// maxSessions bounds the sessions of a day.
const maxSessions = 64

// sessionsOn returns the sessions that are planned for a term on a local date, never nil. It asks the
// schedule from change to change.
func sessionsOn(m *market.Market, loc *time.Location, date time.Time, term string) []calendarSession {
	list := []calendarSession{}
	at, end := midnight(date, loc), midnight(date.AddDate(0, 0, 1), loc)
	for at.Before(end) && len(list) < maxSessions {
		phase, next, _ := m.Schedule.At(at, loc, term)
		until := end
		if !next.IsZero() && next.Before(end) {
			until = next
		}
		if phase != market.Closed {
			list = append(list, calendarSession{phase.String(), timeText(at), timeText(until)})
		}
		at = until
	}
	return list
}

// midnight returns the first instant of a local date. Some days do not have 00:00.
func midnight(date time.Time, loc *time.Location) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, loc)
	if t.Day() != date.Day() { // time.Date took the hour before the change of the clock
		_, t = t.ZoneBounds()
	}
	return t
}

func timeText(t time.Time) string { return string(wire.AppendTime(nil, t.UnixNano())) }

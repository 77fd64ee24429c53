package rest

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Limits of the days in one request for a calendar: the default, the maximum, and the number up to
// which the request needs no reader slot.
const (
	calendarDays    = 7 // if from or to is missing
	maxCalendarDays = 366
	// longer calendars take a reader slot of history, because they take some milliseconds to
	// compute
	freeCalendarDays = 31
)

// calendar serves GET /market/calendar?market=&from=&to=, the planned trading days of each market
// from the local date from until before the date to. GET /market/status serves the actual status.
func (h *Handler) calendar(q *request) (api.Result, error) {
	name := q.Params.Get("market")
	span, f := readDates(q.Params)
	if f != nil {
		return api.Result{}, f
	}
	if !span.from.IsZero() && span.to.Sub(span.from) > freeCalendarDays*24*time.Hour {
		release, err := h.history.Acquire(q.Context(), q.User.ID)
		if err != nil {
			return api.Result{}, err
		}
		defer release()
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
		return api.Result{}, wire.NewFailure(wire.BadField, "market", "is not a market of GET /market/markets")
	}
	b := appendJSON(nil, struct {
		Markets []calendar `json:"markets"`
	}{list})
	q.Out.Set("Cache-Control", "private, no-cache")
	return q.Tagged(api.EntityTag(b), api.Result{Object: b}), nil
}

// dates holds the query parameters from and to of a calendar. A missing date is the zero Time.
type dates struct{ from, to time.Time }

func readDates(p api.Params) (d dates, f *wire.Failure) {
	for _, m := range []struct {
		name string
		date *time.Time
	}{{"from", &d.from}, {"to", &d.to}} {
		text := p.Get(m.name)
		if text == "" {
			continue
		}
		t, err := time.Parse(time.DateOnly, text)
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

// of returns d with missing dates filled in, so that it covers calendarDays. Without any date it
// begins on the local day of now.
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

// calendar describes the planned trading days of one market.
type calendar struct {
	Market   string `json:"market"`
	Timezone string `json:"timezone"`
	plannedPhase
	Terms    []calendarTerm    `json:"terms"`
	Holidays []calendarHoliday `json:"holidays"`
	Days     []calendarDay     `json:"days"`
}

// plannedPhase is the phase that is planned for now, its reason, and the time of the next change.
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

// calendarSession is a period in which the market is planned to be open, in one phase.
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
		date, err := time.Parse(time.DateOnly, day.Date)
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
		day := calendarDay{Date: date.Format(time.DateOnly), Sessions: sessionsOn(m, loc, date, ""), Terms: []calendarDayTerm{}}
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

// maxSessions bounds the sessions of a day in a calendar.
const maxSessions = 64

// sessionsOn returns the planned sessions of a term on a local date, at most maxSessions. The
// result is never nil.
func sessionsOn(m *market.Market, loc *time.Location, date time.Time, term string) []calendarSession {
	list := []calendarSession{}
	at, end := midnight(date, loc), midnight(date.AddDate(0, 0, 1), loc)
	for at.Before(end) && len(list) < maxSessions {
		phase, until := m.Schedule.Until(at, end, loc, term)
		if phase != market.Closed {
			list = append(list, calendarSession{phase.String(), timeText(at), timeText(until)})
		}
		at = until
	}
	return list
}

// midnight returns the first instant of a local date. On some days the clocks change at midnight,
// so that 00:00 does not exist.
func midnight(date time.Time, loc *time.Location) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, loc)
	if t.Day() != date.Day() { // time.Date has chosen the hour before the change of the clock
		_, t = t.ZoneBounds()
	}
	return t
}

func timeText(t time.Time) string { return string(wire.AppendTime(nil, t.UnixNano())) }

// time serves GET /market/time, the current time of the gateway's clock.
func (h *Handler) time(*request) (api.Result, error) {
	b := wire.AppendTime([]byte(`{"time":"`), time.Now().UnixNano())
	return api.Result{Object: append(b, `"}`...)}, nil
}

// marketStatus serves GET /market/status, the phase of each market. It also lists the instruments
// that are in another phase than their market, at the user's delay. A user without a right to the
// market gets no instruments.
func (h *Handler) marketStatus(q *request) (api.Result, error) {
	now := time.Now()
	statuses := h.statusDelays(q)
	b := append([]byte(nil), `{"markets":[`...)
	for i, m := range h.cfg.Hub.Markets() {
		if i > 0 {
			b = append(b, ',')
		}
		delay, err := statuses.of(m.ID)
		if err != nil {
			return api.Result{}, err
		}
		s := h.statusOfMarket(&m, delay, now)
		b = s.Append(b)
	}
	return api.Result{Object: append(b, "]}"...)}, nil
}

// statusOfMarket returns the status of a market, and of its instruments in another phase. delay is
// that of the user's data in seconds; if it is negative, no instruments are listed. A status from
// the feed replaces the one of the schedule. If both have the same phase, the schedule states
// its end.
func (h *Handler) statusOfMarket(m *market.Market, delay int, now time.Time) wire.MarketStatus {
	phase, next, reason := m.Schedule.At(now, h.zones.load(m.Timezone, h.log), "")
	s := wire.MarketStatus{Market: m.ID, Phase: phase, Reason: reason, Next: unixNano(next)}
	usual := phase
	if actual, ok := h.cfg.Hub.MarketStatus(m.ID); ok {
		if actual.Until == 0 && actual.Phase == phase {
			actual.Until = s.Next
		}
		s.Phase, s.Reason, s.Next = actual.Phase, actual.Reason, actual.Until
		if actual.Phase != market.FeedDown { // instruments do not have this phase
			usual = actual.Phase
		}
	}
	if delay < 0 {
		return s
	}
	listing := h.cfg.Hub.Listing()
	var places, delays []int
	for i := range listing.Instruments {
		if listing.Instruments[i].ID.Market == m.ID {
			places, delays = append(places, i), append(delays, delay)
		}
	}
	for i, phase := range h.cfg.Hub.Phases(listing, places, delays) {
		if phase == usual || phase == market.NoPhase { // NoPhase: not known yet
			continue
		}
		id := listing.Instruments[places[i]].ID
		if actual, ok := h.cfg.Hub.Status(id, delay); ok && actual.Phase != usual {
			s.Instruments = append(s.Instruments, wire.InstrumentStatus{ID: id, Phase: actual.Phase, Reason: actual.Reason, Next: actual.Until})
		}
	}
	return s
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// zones caches the time zones of the markets by name.
type zones struct {
	mu     sync.Mutex
	loaded map[string]*time.Location
}

// load returns the time zone with a name. If it cannot be loaded, load logs an error and returns
// UTC. The gateway refuses unknown names at its start.
func (z *zones) load(name string, log *slog.Logger) *time.Location {
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc, ok := z.loaded[name]; ok {
		return loc
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		log.Error("time zone not loaded, UTC stands in", "error", err)
		loc = time.UTC
	}
	if z.loaded == nil {
		z.loaded = make(map[string]*time.Location)
	}
	z.loaded[name] = loc
	return loc
}

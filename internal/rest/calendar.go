package rest

import (
	"crypto/sha256"
	"fmt"
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
	now := time.Now()
	b := append([]byte(nil), `{"markets":[`...)
	found := false
	for _, m := range h.cfg.Hub.Markets() {
		if name != "" && m.ID != name {
			continue
		}
		if found {
			b = append(b, ',')
		}
		found = true
		loc := h.zones.load(m.Timezone, h.log)
		c := calendar{market: &m, loc: loc, now: now}
		if m.StatusFromFeed {
			c.now = h.cfg.Hub.Clock(m.ID)
		}
		b = c.append(b, span.of(c.now, loc))
	}
	if !found && name != "" {
		return result{}, wire.NewFailure(wire.BadField, "market", "is not a market of GET /market/markets")
	}
	b = append(b, "]}"...)
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

// calendar is the days of one market.
type calendar struct {
	market *market.Market
	loc    *time.Location
	now    time.Time
}

func (c *calendar) append(b []byte, span dates) []byte {
	b = append(b, `{"market":`...)
	b = wire.AppendString(b, c.market.ID)
	b = append(b, `,"timezone":`...)
	b = wire.AppendString(b, c.loc.String())
	b = c.appendNow(b, "")
	b = append(b, `,"terms":[`...)
	for i, t := range c.market.Terms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"term":`...)
		b = wire.AppendString(b, t.Name)
		b = c.appendNow(b, t.Name)
		b = append(b, '}')
	}
	b = append(b, `],"holidays":[`...)
	b = c.appendHolidays(b, span)
	b = append(b, `],"days":[`...)
	for d := span.from; d.Before(span.to); d = d.AddDate(0, 0, 1) {
		if d.After(span.from) {
			b = append(b, ',')
		}
		b = c.appendDay(b, d)
	}
	return append(b, "]}"...)
}

// appendNow appends the phase that the plan has for a term now, and when it changes.
func (c *calendar) appendNow(b []byte, term string) []byte {
	phase, next, reason := c.market.Schedule.At(c.now, c.loc, term)
	b = append(b, `,"status":"`...)
	b = append(b, phase.String()...)
	b = append(b, '"')
	if reason != "" {
		b = append(b, `,"reason":`...)
		b = wire.AppendString(b, reason)
	}
	if !next.IsZero() {
		b = append(b, `,"next_change":"`...)
		b = wire.AppendTime(b, next.UnixNano())
		b = append(b, '"')
	}
	return b
}

func (c *calendar) appendHolidays(b []byte, span dates) []byte {
	first := true
	for _, day := range c.market.Schedule.Holidays {
		date, err := time.Parse(dateFormat, day.Date)
		if err != nil || date.Before(span.from) || !date.Before(span.to) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"date":"`...)
		b = append(b, day.Date...)
		b = append(b, '"')
		if day.Name != "" {
			b = append(b, `,"name":`...)
			b = wire.AppendString(b, day.Name)
		}
		if day.Close != 0 {
			b = append(b, `,"closes":"`...)
			b = date.Add(day.Close).AppendFormat(b, time.TimeOnly)
			b = append(b, '"')
		}
		if len(day.Terms) > 0 {
			b = append(b, `,"terms":`...)
			b = wire.AppendStrings(b, day.Terms)
		}
		b = append(b, '}')
	}
	return b
}

// appendDay appends a day: the market's sessions, and those of the terms that differ.
func (c *calendar) appendDay(b []byte, date time.Time) []byte {
	b = append(b, `{"date":"`...)
	b = date.AppendFormat(b, dateFormat)
	b = append(b, `","sessions":`...)
	whole := c.sessions(date, "")
	b = appendSessions(b, whole)
	b = append(b, `,"terms":[`...)
	for i, t := range c.market.Terms {
		own := c.sessions(date, t.Name)
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"term":`...)
		b = wire.AppendString(b, t.Name)
		if len(own) > 0 {
			b = append(b, `,"available":true`...)
		} else {
			b = append(b, `,"available":false`...)
		}
		if !equalSessions(own, whole) {
			b = append(b, `,"sessions":`...)
			b = appendSessions(b, own)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// session is a span of time in which a market is not closed.
type session struct {
	phase      market.Phase
	start, end time.Time
}

// maxSessions bounds the sessions of a day that are told.
const maxSessions = 64

// sessions is what is planned for a term on a local date, by asking the schedule from change to change.
func (c *calendar) sessions(date time.Time, term string) (list []session) {
	at := c.midnight(date)
	end := c.midnight(date.AddDate(0, 0, 1))
	for at.Before(end) && len(list) < maxSessions {
		phase, next, _ := c.market.Schedule.At(at, c.loc, term)
		until := end
		if !next.IsZero() && next.Before(end) {
			until = next
		}
		if phase != market.Closed {
			list = append(list, session{phase, at, until})
		}
		at = until
	}
	return list
}

// midnight is the first instant of a local date, whose 00:00 some days do not have.
func (c *calendar) midnight(date time.Time) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, c.loc)
	if t.Day() != date.Day() { // the clock jumped over it, and time.Date took the hour before
		_, t = t.ZoneBounds()
	}
	return t
}

func appendSessions(b []byte, list []session) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"status":"`...)
		b = append(b, s.phase.String()...)
		b = append(b, `","start":"`...)
		b = wire.AppendTime(b, s.start.UnixNano())
		b = append(b, `","end":"`...)
		b = wire.AppendTime(b, s.end.UnixNano())
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

func equalSessions(a, b []session) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].phase != b[i].phase || !a[i].start.Equal(b[i].start) || !a[i].end.Equal(b[i].end) {
			return false
		}
	}
	return true
}

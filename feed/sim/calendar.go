package sim

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Calendar defines when the market trades.
//
// Its sessions are pre_open, open, auction (the closing auction) and post_close (trade at close),
// each at most once and in this order. Only open is required. A pre_open that ends when the open
// begins is followed by an opening auction, which lasts for a random part of RandomEnd; so does the
// closing auction. A holiday with Close is a short day: the open ends earlier, and the sessions
// after it move forward, so that the closing auction ends at Close.
type Calendar struct {
	Timezone          string // IANA name; "" means UTC
	Schedule          market.Schedule
	RandomEnd         time.Duration // auctions end at a random time within this duration
	VolatilityAuction time.Duration // length of the auction after a price leaves its band
}

//go:embed calendar.json
var calendarJSON []byte

// DefaultCalendar returns hours like those of Buenos Aires, with the holidays of two years. They
// are plausible but not official.
func DefaultCalendar() Calendar {
	c, err := ParseCalendar(calendarJSON)
	if err != nil {
		panic(err) // tests check the embedded file
	}
	return c
}

// maxCalendar limits the text of a calendar, in bytes.
const maxCalendar = 1 << 20

// ParseCalendar parses a calendar in JSON, with the members of calendar.json in this package. They
// are timezone, random_end and volatility_auction (Go durations), sessions (phase, start, end),
// weekdays and holidays (date, name, close, terms). weekdays are 0 for Sunday to 6, and Monday to
// Friday by default. Unknown members are errors.
func ParseCalendar(text []byte) (Calendar, error) {
	if len(text) > maxCalendar {
		return Calendar{}, fmt.Errorf("read calendar: longer than %d bytes", maxCalendar)
	}
	var f struct {
		Timezone          string `json:"timezone"`
		RandomEnd         string `json:"random_end"`
		VolatilityAuction string `json:"volatility_auction"`
		Sessions          []struct {
			Phase string `json:"phase"`
			Start string `json:"start"`
			End   string `json:"end"`
		} `json:"sessions"`
		Weekdays []time.Weekday `json:"weekdays"`
		Holidays []struct {
			Date  string   `json:"date"`
			Name  string   `json:"name"`
			Close string   `json:"close"`
			Terms []string `json:"terms"`
		} `json:"holidays"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Calendar{}, fmt.Errorf("read calendar: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Calendar{}, errors.New("read calendar: more than one JSON value")
	}
	c := Calendar{Timezone: f.Timezone, Schedule: market.Schedule{Weekdays: f.Weekdays}}
	var err error
	span := func(what, s string) (d time.Duration) {
		if s == "" || err != nil {
			return 0
		}
		if d, err = time.ParseDuration(s); err != nil {
			err = fmt.Errorf("read calendar: %s: %w", what, err)
		}
		return d
	}
	hour := func(what, s string) time.Duration {
		at, fault := clockTime(s)
		if fault != nil && err == nil {
			err = fmt.Errorf("read calendar: %s: %w", what, fault)
		}
		return at
	}
	c.RandomEnd = span("random_end", f.RandomEnd)
	c.VolatilityAuction = span("volatility_auction", f.VolatilityAuction)
	for i, s := range f.Sessions {
		phase, ok := market.ParsePhase(s.Phase)
		if !ok {
			return Calendar{}, fmt.Errorf("read calendar: session %d: unknown phase %q", i+1, s.Phase)
		}
		what := fmt.Sprintf("session %d", i+1)
		c.Schedule.Sessions = append(c.Schedule.Sessions, market.Session{
			Phase: phase, Start: hour(what+": start", s.Start), End: hour(what+": end", s.End),
		})
	}
	for _, h := range f.Holidays {
		closes := time.Duration(0)
		if h.Close != "" {
			closes = hour("holiday "+h.Date+": close", h.Close)
		}
		c.Schedule.Holidays = append(c.Schedule.Holidays, market.Holiday{Date: h.Date, Name: h.Name, Close: closes, Terms: h.Terms})
	}
	if err != nil {
		return Calendar{}, err
	}
	return c, c.Validate()
}

// clockTime parses a time of day, 15:04 or 15:04:05. 24:00 is the end of the day.
func clockTime(s string) (time.Duration, error) {
	if s == "24:00" {
		return 24 * time.Hour, nil
	}
	for _, layout := range [...]string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second, nil
		}
	}
	return 0, fmt.Errorf("%q is not a time of day like 16:55", s)
}

// Validate returns an error that describes what is wrong with the calendar.
func (c *Calendar) Validate() error {
	if _, err := time.LoadLocation(c.Timezone); err != nil {
		return fmt.Errorf("calendar: time zone: %w", err)
	}
	if err := c.Schedule.Validate(); err != nil {
		return fmt.Errorf("calendar: %w", err)
	}
	order := [...]market.Phase{market.PreOpen, market.Open, market.Auction, market.PostClose}
	next, opens := 0, false
	for _, s := range c.Schedule.Sessions {
		for next < len(order) && order[next] != s.Phase {
			next++
		}
		if next == len(order) {
			return errors.New("calendar: sessions are pre_open, open, auction and post_close, each at most once and in this order")
		}
		next++
		opens = opens || s.Phase == market.Open
	}
	if !opens {
		return errors.New("calendar: there is no open session")
	}
	if c.RandomEnd < 0 || c.RandomEnd > time.Hour || c.VolatilityAuction < 0 || c.VolatilityAuction > time.Hour {
		return errors.New("calendar: random_end and volatility_auction must be between 0 and 1h")
	}
	for i, s := range c.Schedule.Sessions {
		if i > 0 && s.Start != c.Schedule.Sessions[i-1].End {
			return errors.New("calendar: sessions must follow one another without a gap")
		}
		if i > 0 && s.End-s.Start <= c.RandomEnd {
			return fmt.Errorf("calendar: the %s session is not longer than random_end", s.Phase)
		}
	}
	for _, h := range c.Schedule.Holidays {
		if h.Close != 0 && !slices.ContainsFunc(c.shortened(h.Close), func(s market.Session) bool { return s.Phase == market.Open && s.End-s.Start > c.RandomEnd }) {
			return fmt.Errorf("calendar: holiday %s closes before it opens", h.Date)
		}
	}
	return nil
}

// sessions returns the sessions of a term on a date, none if it does not trade. Term "" is the
// market as a whole. date is a calendar day, whatever its time zone.
func (c *Calendar) sessions(date time.Time, term string) []market.Session {
	weekday := date.Weekday()
	if list := c.Schedule.Weekdays; len(list) > 0 && !slices.Contains(list, weekday) ||
		len(list) == 0 && (weekday == time.Saturday || weekday == time.Sunday) {
		return nil
	}
	name, short := date.Format(time.DateOnly), time.Duration(0)
	for i := range c.Schedule.Holidays {
		h := &c.Schedule.Holidays[i]
		if h.Date != name || len(h.Terms) > 0 && !slices.Contains(h.Terms, term) {
			continue
		}
		if h.Close == 0 {
			return nil
		}
		short = h.Close
	}
	return c.shortened(short)
}

// shortened returns the sessions of a day whose trading ends at a given time; 0 means the usual
// one.
func (c *Calendar) shortened(end time.Duration) []market.Session {
	usual := time.Duration(0) // end of trading: after the closing auction
	for _, s := range c.Schedule.Sessions {
		if s.Phase == market.Open || s.Phase == market.Auction {
			usual = s.End
		}
	}
	early := time.Duration(0)
	if end != 0 {
		early = max(0, usual-end)
	}
	out := make([]market.Session, 0, len(c.Schedule.Sessions))
	for _, s := range c.Schedule.Sessions {
		switch s.Phase {
		case market.Open:
			s.End -= early
		case market.Auction, market.PostClose:
			s.Start, s.End = s.Start-early, s.End-early
		}
		if s.Start < s.End {
			out = append(out, s)
		}
	}
	return out
}

// tradingDay returns the first date, from the given one, on which one of the terms trades. ok is
// false if there is none within a year.
func (c *Calendar) tradingDay(date time.Time, terms ...string) (_ time.Time, ok bool) {
	for i := range 366 {
		d := date.AddDate(0, 0, i)
		for _, term := range terms {
			if len(c.sessions(d, term)) > 0 {
				return d, true
			}
		}
	}
	return time.Time{}, false
}

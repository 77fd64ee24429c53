package sim

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// friday returns an ordinary trading day. The Monday after it is a holiday.
func friday() time.Time { return time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC) }

func buenosAires(t *testing.T) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation("America/Argentina/Buenos_Aires")
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// brief returns a calendar with days of an hour and the usual holidays.
func brief() *Calendar {
	c := DefaultCalendar()
	at := func(h, m int) time.Duration { return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute }
	c.Schedule.Sessions = []market.Session{
		{Start: at(10, 30), End: at(10, 35), Phase: market.PreOpen},
		{Start: at(10, 35), End: at(11, 20), Phase: market.Open},
		{Start: at(11, 20), End: at(11, 25), Phase: market.Auction},
		{Start: at(11, 25), End: at(11, 30), Phase: market.PostClose},
	}
	for i := range c.Schedule.Holidays {
		if h := &c.Schedule.Holidays[i]; h.Close != 0 {
			h.Close = at(11, 5)
		}
	}
	return &c
}

// runDays runs a virtual exchange to its end.
func runDays(t *testing.T, config Config, sink feed.Sink) {
	t.Helper()
	config.Clock, config.Speed = Virtual, -1
	if err := newSource(t, config).Run(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
}

// some is a feed.Sink that records a selection of events.
type some struct {
	feedtest.Recorder
	want func(*market.Event) bool
}

func (s *some) Publish(events []market.Event) error {
	for i := range events {
		if s.want(&events[i]) {
			if err := s.Recorder.Publish(events[i : i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestConformanceOfDaysE2E(t *testing.T) {
	feedtest.Run(t, func(t *testing.T) feed.Source {
		return newSource(t, Config{Seed: 9, Clock: Virtual, Calendar: brief(), Speed: -1, Start: friday(), Days: 2, Instruments: 41})
	}, feedtest.Options{Finite: true, Timeout: 10 * time.Minute})
}

// TestPhasesE2E follows the market and an instrument through two days with a weekend and a holiday
// between them.
func TestPhasesE2E(t *testing.T) {
	loc := buenosAires(t)
	r := &some{want: func(e *market.Event) bool { return e.Kind == market.KindStatus }}
	runDays(t, Config{Seed: 1, Start: friday(), Days: 2, Instruments: 3}, r)
	type line struct {
		at, phase, reason, until string
	}
	of := func(id market.InstrumentID) (out []line) {
		for _, e := range r.Of(id) {
			if e.Kind != market.KindStatus {
				continue
			}
			l := line{time.Unix(0, e.Time).In(loc).Format("02 15:04"), e.Phase.String(), e.Reason, ""}
			if e.Until != 0 {
				l.until = time.Unix(0, e.Until).In(loc).Format("02 15:04:05")
			}
			out = append(out, l)
		}
		return out
	}
	want := []line{
		{"20 10:25", "closed", "outside_hours", "20 10:30:00"},
		{"20 10:30", "pre_open", "", "20 11:00:00"},
		{"20 11:00", "auction", "opening_auction", "20 11:00:30"},
		{"20 11:00", "open", "", "20 16:55:00"},
		{"20 16:55", "auction", "closing_auction", "20 17:00:00"},
		{"20 17:00", "post_close", "trade_at_close", "20 17:15:00"},
		{"20 17:15", "closed", "outside_hours", "24 10:30:00"},
	}
	nights := []line{
		{"21 00:00", "closed", "outside_hours", "24 10:30:00"},
		{"25 00:00", "closed", "outside_hours", "25 10:30:00"},
		{"25 10:25", "closed", "outside_hours", "25 10:30:00"}, // where another day would begin
	}
	all := of(market.InstrumentID{Symbol: market.Any, Market: venueBYMA, Term: market.Any})
	if len(all) < len(want) || !slices.Equal(all[:len(want)], want) {
		t.Errorf("market: %v\nwant    %v", all, want)
	}
	if len(all) != 2*len(want)+len(nights) || all[len(want)] != nights[0] || all[len(want)+1].at != "24 10:25" ||
		!slices.Equal(all[len(all)-2:], nights[1:]) {
		t.Errorf("market, from the first night: %v", all[min(len(all), len(want)):])
	}
	// The market that is always open reports the same times.
	var open []string
	for _, l := range of(market.InstrumentID{Symbol: market.Any, Market: venueSIM, Term: market.Any}) {
		open = append(open, l.at+" "+l.phase)
	}
	if !slices.Equal(open, []string{"20 10:25 open", "21 00:00 open", "25 00:00 open", "25 10:25 open"}) {
		t.Errorf("the market that is always open: %v", open)
	}
	// The instrument also has halts and volatility auctions.
	var plain []line
	own := of(market.InstrumentID{Symbol: "GGAL", Market: venueBYMA, Term: nextDay})
	for i, l := range own {
		trouble := l.phase == "halt" || l.reason == reasonVolatility || l.reason == reasonReopening
		if !trouble && !(i > 0 && l.phase == "open" && own[i-1].reason != reasonOpening) {
			plain = append(plain, l)
		}
	}
	if !slices.Equal(plain[:len(want)], want) {
		t.Errorf("instrument: %v\nwant        %v", plain, want)
	}
	if fake := of(fakeID); len(fake) != 0 {
		t.Errorf("the instrument that is always open: %v", fake)
	}
}

// dayFigures is a feed.Sink that counts what a day of the whole market must have.
type dayFigures struct {
	halts, corrections, cancels, openings, closings, atClose, indicative, volatility int

	t       *testing.T
	events  int
	ids     []market.InstrumentID
	traded  map[market.Handle]bool
	settled map[market.Handle]market.Price
	closed  map[market.Handle]market.Price // in the closing auction
}

func (f *dayFigures) Define(in market.Instrument) (market.Handle, error) {
	f.ids = append(f.ids, in.ID)
	return market.Handle(len(f.ids) - 1), nil
}

func (f *dayFigures) Publish(events []market.Event) error {
	f.events += len(events)
	for i := range events {
		f.take(&events[i])
	}
	return nil
}

func (f *dayFigures) take(e *market.Event) {
	switch e.Kind {
	case market.KindStatus:
		switch {
		case e.Phase == market.Halt:
			f.halts++
		case e.Reason == reasonVolatility:
			f.volatility++
		}
	case market.KindCorrect:
		f.corrections++
	case market.KindCancel:
		f.cancels++
	case market.KindQuote:
		f.indicative++
	case market.KindReference:
		if e.PreviousClose == 0 {
			f.t.Errorf("%s: no previous close", f.ids[e.Handle])
		}
		f.settled[e.Handle] = e.Settlement
	case market.KindTrade:
		f.traded[e.Handle] = true
		switch {
		case slices.Contains(e.Conditions, reasonOpening):
			f.openings++
		case slices.Contains(e.Conditions, reasonClosing):
			f.closings++
			f.closed[e.Handle] = e.Price
		case slices.Contains(e.Conditions, reasonAtClose):
			f.atClose++
			if p := f.closed[e.Handle]; p != 0 && e.Price != p {
				f.t.Errorf("%s: trade at close at %s, the auction was at %s", f.ids[e.Handle], e.Price, p)
			}
		}
	}
}

// TestWholeDayE2E runs a day of the whole market for each of 20 seeds, or a brief day of part of it
// for one. Every day has its auctions, a halt, a correction and a cancel.
func TestWholeDayE2E(t *testing.T) {
	seeds, n, hours := uint64(1), 101, brief()
	if os.Getenv("RUEDA_SOAK") == "1" {
		seeds, n, hours = 20, fullSet, nil
	}
	for seed := range seeds {
		f := dayFigures{t: t, traded: map[market.Handle]bool{}, settled: map[market.Handle]market.Price{}, closed: map[market.Handle]market.Price{}}
		config := Config{Seed: seed, Clock: Virtual, Speed: -1, Start: friday(), Days: 1, Calendar: hours}
		if n != fullSet {
			config.Instruments = n
		}
		if err := newSource(t, config).Run(t.Context(), &f); err != nil {
			t.Fatal(err)
		}
		if len(f.ids) != n+2 {
			t.Errorf("%d definitions", len(f.ids))
		}
		for h, p := range f.closed {
			if f.settled[h] != p {
				t.Errorf("%s: settled at %s, the auction was at %s", f.ids[h], f.settled[h], p)
			}
		}
		t.Logf("figure: day of seed %d: %d events, %d of %d traded, %d opening, %d closing and %d late trades, %d indicative prices, %d interruptions, %d halts, %d corrections, %d cancels",
			seed, f.events, len(f.traded), n, f.openings, f.closings, f.atClose, f.indicative, f.volatility, f.halts, f.corrections, f.cancels)
		if f.halts < 1 || f.corrections < 1 || f.cancels < 1 || f.openings < n || f.closings < n || f.atClose < 1 || f.indicative < 5*n {
			t.Errorf("seed %d: something is missing", seed)
		}
		if len(f.traded) < n*97/100 {
			t.Errorf("seed %d: only %d instruments traded", seed, len(f.traded))
		}
	}
}

// TestSameDayE2E checks that the same seed gives the same days whatever the batches, and another
// seed others.
func TestSameDayE2E(t *testing.T) {
	config := Config{Seed: 3, Clock: Virtual, Speed: -1, Start: friday(), Days: 2, Instruments: 9, Calendar: brief()}
	want, _ := hashOf(t, config, time.Unix(0, 0))
	if got, _ := hashOf(t, config, time.Unix(0, 0)); got != want {
		t.Error("another run differs")
	}
	other := config
	other.Start = friday().Add(-5 * time.Hour) // the same date
	if got, _ := hashOf(t, other, time.Unix(0, 0)); got != want {
		t.Error("another hour of the same date differs")
	}
	synctest.Test(t, func(t *testing.T) {
		paced := config
		paced.Speed = 600
		if got, _ := hashOf(t, paced, time.Unix(0, 0)); got != want {
			t.Error("another pace differs")
		}
	})
	other.Seed++
	if got, _ := hashOf(t, other, time.Unix(0, 0)); got == want {
		t.Error("another seed gives the same day")
	}
}

// TestSpecialDaysE2E checks a short day, a day without settlement, and the time between them.
func TestSpecialDaysE2E(t *testing.T) {
	loc := buenosAires(t)
	r := &some{want: func(e *market.Event) bool { return e.Kind == market.KindTrade }}
	runDays(t, Config{Seed: 2, Start: time.Date(2026, 12, 24, 12, 0, 0, 0, loc), Days: 5, Instruments: 3, Calendar: brief()}, r)
	last := map[string]string{} // last trade of the day, by term and date
	for _, e := range r.Events() {
		if id := r.ID(e.Handle); e.Kind == market.KindTrade && id.Market == venueBYMA {
			at := time.Unix(0, e.Time).In(loc)
			last[id.Term+" "+at.Format("01-02")] = at.Format("15:04")
		}
	}
	for _, want := range []struct{ day, from, to string }{
		{"24hs 12-24", "10:59", "11:10"}, {"CI 12-24", "10:50", "11:10"}, {"24hs 12-25", "", ""},
		{"24hs 12-28", "11:19", "11:30"}, {"24hs 12-31", "11:19", "11:30"}, {"CI 12-31", "", ""}, {"CI 12-30", "11:10", "11:30"},
	} {
		if got := last[want.day]; got < want.from || got > want.to {
			t.Errorf("%s: last trade at %q, want it between %q and %q", want.day, got, want.from, want.to)
		}
	}
}

// TestCarry checks that 24hs exceeds CI by the repo rate over the days to settlement, and that a
// bond's dollar lines are its price divided by the two dollar rates.
func TestCarry(t *testing.T) {
	source := newSource(t, Config{Clock: Virtual, Start: friday()})
	d, err := source.hours()
	if err != nil {
		t.Fatal(err)
	}
	if days := d.carryDays(); days != 4 {
		t.Errorf("%d days from the Friday to the settlement on Tuesday", days)
	}
	x := newExchange(1, source.listings, 0, d)
	value := func(id string) float64 {
		for i := range x.instruments {
			if in := &x.instruments[i]; in.listing.definition.ID.String() == id {
				in.carry = in.listing.carry(d.carryDays())
				in.fair = 0
				in.price(0, &x.world)
				return float64(in.listing.grid.price(int64(in.fair+0.5))) / market.Scale
			}
		}
		t.Fatalf("%s is not listed", id)
		return 0
	}
	for _, pair := range []struct {
		a, b  string
		ratio float64
	}{
		{"AL30|BYMA|24hs", "AL30|BYMA|CI", 1 + .30*4/365},
		{"AL30|BYMA|CI", "AL30D|BYMA|CI", 1440},
		{"AL30|BYMA|24hs", "AL30C|BYMA|24hs", 1480},
		{"GGAL|BYMA|CI", "GGALD|BYMA|CI", 1440},
	} {
		if got := value(pair.a) / value(pair.b) / pair.ratio; math.Abs(got-1) > .003 {
			t.Errorf("%s / %s is %v times what it should be", pair.a, pair.b, got)
		}
	}
	if got := value("AAPL|BYMA|CI"); math.Abs(got/(226*1480/20)-1) > .003 {
		t.Errorf("AAPL is at %v", got)
	}
}

func TestCalendar(t *testing.T) {
	c := DefaultCalendar()
	for _, tt := range []struct {
		date, term, want string
	}{
		{"2026-11-20", "CI", "pre_open 10h30m0s-11h0m0s, open 11h0m0s-16h55m0s, auction 16h55m0s-17h0m0s, post_close 17h0m0s-17h15m0s"},
		{"2026-11-21", "CI", ""},
		{"2026-11-23", "24hs", ""},
		{"2026-11-06", "CI", ""},
		{"2026-11-06", "24hs", "pre_open 10h30m0s-11h0m0s, open 11h0m0s-16h55m0s, auction 16h55m0s-17h0m0s, post_close 17h0m0s-17h15m0s"},
		{"2026-12-24", "24hs", "pre_open 10h30m0s-11h0m0s, open 11h0m0s-14h55m0s, auction 14h55m0s-15h0m0s, post_close 15h0m0s-15h15m0s"},
	} {
		date, err := time.Parse(time.DateOnly, tt.date)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.sessions(date, tt.term) {
			got = append(got, s.Phase.String()+" "+s.Start.String()+"-"+s.End.String())
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.date, tt.term, text, tt.want)
		}
	}
	for text, want := range map[string]string{
		`{`:                      "read calendar",
		`{} {}`:                  "more than one",
		`{"hours":1}`:            "unknown field",
		`{"random_end":"never"}`: "random_end",
		`{"sessions":[]}`:        "no open session",
		`{"sessions":[{"phase":"open","start":"11:00","end":"25:00"}]}`:                                                                       "not a time of day",
		`{"sessions":[{"phase":"noon","start":"11:00","end":"12:00"}]}`:                                                                       "unknown phase",
		`{"sessions":[{"phase":"auction","start":"11:00","end":"12:00"},{"phase":"open","start":"12:00","end":"13:00"}]}`:                     "in this order",
		`{"sessions":[{"phase":"open","start":"11:00","end":"12:00"},{"phase":"auction","start":"12:10","end":"13:00"}]}`:                     "without a gap",
		`{"timezone":"Mars/Base","sessions":[{"phase":"open","start":"11:00","end":"12:00"}]}`:                                                "time zone",
		`{"random_end":"10m","sessions":[{"phase":"pre_open","start":"10:00","end":"11:00"},{"phase":"open","start":"11:00","end":"11:05"}]}`: "not longer than",
		`{"sessions":[{"phase":"open","start":"11:00","end":"12:00"}],"holidays":[{"date":"2026-12-24","close":"10:00"}]}`:                    "closes before it opens",
	} {
		if _, err := ParseCalendar([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseCalendar(%s): %v, want %q", text, err, want)
		}
	}
}

func FuzzParseCalendar(f *testing.F) {
	f.Add(calendarJSON)
	f.Add([]byte(`{"sessions":[{"phase":"open","start":"11:00","end":"24:00"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCalendar(text)
		if err != nil {
			return
		}
		for i := range 40 {
			date := friday().AddDate(0, 0, i)
			last := time.Duration(-1)
			for _, s := range c.sessions(date, spot) {
				if s.Start < last || s.Start >= s.End {
					t.Fatalf("%v: sessions %v", date, c.sessions(date, spot))
				}
				last = s.End
			}
		}
	})
}

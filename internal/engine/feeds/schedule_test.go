package feeds

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/market"
)

// byma returns a market that is open from 11 to 17 with a pre-open phase, from Monday to Friday. A
// bubble's clock starts at midnight UTC of Saturday, 2000-01-01.
func byma() market.Market {
	return market.Market{
		ID:    "BYMA",
		Terms: []market.Term{{Name: "CI"}, {Name: "24hs", SettlementDays: 1}},
		Schedule: market.Schedule{
			Sessions: []market.Session{
				{Start: 10*time.Hour + 30*time.Minute, End: 11 * time.Hour, Phase: market.PreOpen},
				{Start: 11 * time.Hour, End: 17 * time.Hour, Phase: market.Open},
			},
			Holidays: []market.Holiday{{Date: "2000-01-04", Name: "banks closed", Terms: []string{"CI"}}},
		},
	}
}

func TestSchedulePublishesTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		h, err := NewSchedule([]market.Market{byma(), {ID: "SIM"}}, &rec, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"GGAL|BYMA|24hs", "GGAL|BYMA|CI", "FAKE|SIM|CI"} {
			parsed, err := market.ParseInstrumentID(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Define(market.Instrument{ID: parsed}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*24*time.Hour) // to the end of Tuesday
		defer cancel()
		if err := h.Run(ctx); err != nil {
			t.Fatal(err)
		}
		monday := []string{
			"*|BYMA|* pre_open", "GGAL|BYMA|24hs pre_open", "GGAL|BYMA|CI pre_open",
			"*|BYMA|* open", "GGAL|BYMA|24hs open", "GGAL|BYMA|CI open",
			"*|BYMA|* closed outside_hours", "GGAL|BYMA|24hs closed outside_hours", "GGAL|BYMA|CI closed outside_hours",
		}
		want := slices.Concat(
			[]string{"*|BYMA|* listed ", "GGAL|BYMA|24hs listed closed", "GGAL|BYMA|CI listed closed", "FAKE|SIM|CI listed "},
			[]string{"*|BYMA|* closed weekend"},
		)
		if got := rec.events[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("start:\n got %q\nwant %q", got, want)
		}
		i := slices.Index(rec.events, "*|BYMA|* pre_open")
		var day []string
		for _, e := range rec.events[i:] {
			day = append(day, e)
			if len(day) == len(monday) {
				break
			}
		}
		if !slices.Equal(day, monday) {
			t.Errorf("Monday:\n got %q\nwant %q", day, monday)
		}
		tuesday := rec.events[i+len(monday):]
		if !slices.Contains(tuesday, "GGAL|BYMA|24hs open") || slices.Contains(tuesday, "GGAL|BYMA|CI open") ||
			!slices.Contains(tuesday, "GGAL|BYMA|CI closed holiday") {
			t.Errorf("on a holiday of one term: %q", tuesday)
		}
	})
}

func TestNoHoursWithoutSchedule(t *testing.T) {
	h, err := NewSchedule([]market.Market{{ID: "SIM"}}, &recorder{}, slog.New(slog.DiscardHandler))
	if h != nil || err != nil {
		t.Errorf("hours %v, error %v", h, err)
	}
	bad := byma()
	bad.Timezone = "America/Nowhere"
	if _, err := NewSchedule([]market.Market{bad}, &recorder{}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error for an unknown time zone")
	}
}

// TestHoursOwnOpenAndClosed has a feed that publishes open on a weekend, and halts an instrument
// across several phases of a day.
func TestHoursOwnOpenAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		h, err := NewSchedule([]market.Market{byma()}, &rec, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}
		ggal, err := h.Define(market.Instrument{ID: id, Phase: market.Open})
		if err != nil {
			t.Fatal(err)
		}
		whole, err := h.Define(wholeMarket("BYMA"))
		if err != nil {
			t.Fatal(err)
		}
		say := func(handle market.Handle, p market.Phase) {
			t.Helper()
			trade := market.Event{Kind: market.KindTrade, Handle: ggal}
			if err := h.Publish([]market.Event{{Kind: market.KindStatus, Handle: handle, Phase: p}, trade}); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"*|BYMA|* listed ", "*|BYMA|* closed weekend", "GGAL|BYMA|24hs listed closed"}
		check := func(step string, more ...string) {
			t.Helper()
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			want = append(want, more...)
			if !slices.Equal(rec.events, want) {
				t.Errorf("%s:\n got %q\nwant %q", step, rec.events, want)
			}
		}
		const traded = "GGAL|BYMA|24hs trade"
		say(whole, market.Open)
		say(ggal, market.Open)
		check("open on a Saturday", traded, traded)
		say(ggal, market.Halt)
		check("halt while closed", traded)
		time.Sleep(2*24*time.Hour + 12*time.Hour) // Monday noon
		check("a halt outlasts the opening", "*|BYMA|* closed outside_hours", "GGAL|BYMA|24hs closed outside_hours",
			"*|BYMA|* pre_open", "GGAL|BYMA|24hs halt", "*|BYMA|* open")
		say(ggal, market.Open)
		check("the halt ends", "GGAL|BYMA|24hs open", traded)
		say(ggal, market.Closed)
		say(whole, market.FeedDown)
		check("closed is of the hours, feed_down of the feed", traded, "*|BYMA|* feed_down", traded)
		say(ggal, market.Halt)
		say(ggal, market.Unknown)
		check("the hours decide if the source does not know", "GGAL|BYMA|24hs halt", traded, "GGAL|BYMA|24hs open", traded)
		if _, err := h.Define(market.Instrument{ID: market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "24hs"}, Phase: market.Unknown}); err != nil {
			t.Fatal(err)
		}
		check("also at the definition", "AL30|BYMA|24hs listed open")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestSetHours replaces the hours of a market while it is open, and again before they begin.
func TestSetHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		h, err := NewSchedule([]market.Market{byma()}, &rec, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(2*24*time.Hour + 12*time.Hour) // noon of Monday
		count := func() int {                     // rec is written with the lock held
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(rec.events)
		}
		newest := func(want ...string) {
			t.Helper()
			count()
			h.mu.Lock()
			defer h.mu.Unlock()
			if got := rec.events[len(rec.events)-len(want):]; !slices.Equal(got, want) {
				t.Errorf("at %v: %q, want %q", time.Now().UTC(), got, want)
			}
		}
		newest("*|BYMA|* open", "GGAL|BYMA|24hs open")
		before := count()
		h.SetHours("BYMA", byma().Schedule)
		if after := count(); after != before {
			t.Errorf("the same hours: %d statuses", after-before)
		}
		holiday := byma().Schedule
		holiday.Holidays = []market.Holiday{{Date: "2000-01-03", Name: "strike"}}
		h.SetHours("BYMA", holiday)
		newest("*|BYMA|* closed holiday", "GGAL|BYMA|24hs closed holiday")
		late := byma().Schedule
		late.Sessions = []market.Session{{Start: 13 * time.Hour, End: 17 * time.Hour, Phase: market.Open}}
		h.SetHours("BYMA", late)
		newest("*|BYMA|* closed outside_hours", "GGAL|BYMA|24hs closed outside_hours")
		time.Sleep(time.Hour + time.Second)
		newest("*|BYMA|* open", "GGAL|BYMA|24hs open")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestMarketStatus checks that the status from the feed has priority over the schedule.
func TestMarketStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is Saturday, 2000-01-01 00:00 UTC
		hub := hub.New(hub.Config{Markets: []market.Market{{ID: "BYMA", Timezone: "America/Argentina/Buenos_Aires",
			Schedule: market.Schedule{Sessions: []market.Session{{Start: 11 * time.Hour, End: 17 * time.Hour, Phase: market.Open}}}}}})
		g := newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Hub = hub })
		access, _ := g.login(t, "demo")
		id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}
		handle, err := hub.Define(market.Instrument{ID: id, Phase: market.Closed})
		if err != nil {
			t.Fatal(err)
		}
		venue, err := hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: "BYMA", Term: market.Any}})
		if err != nil {
			t.Fatal(err)
		}
		publish := func(handle market.Handle, phase market.Phase, reason string, until int64) {
			t.Helper()
			if err := hub.Publish([]market.Event{{Kind: market.KindStatus, Handle: handle, Phase: phase, Reason: reason, Until: until}}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what, want string) {
			t.Helper()
			w := g.get("/market/status", access)
			if got := rows(t, w, "markets"); w.Code != http.StatusOK || got != want {
				t.Errorf("%s:\n got %s\nwant %s", what, got, want)
			}
		}
		check("before a word of the feed", `[{"market":"BYMA","status":"closed","reason":"outside_hours","next_change":"2000-01-03T14:00:00.000000000Z","instruments":[]}]`)
		publish(handle, market.Suspended, "news", 0)
		check("an instrument apart", `[{"market":"BYMA","status":"closed","reason":"outside_hours","next_change":"2000-01-03T14:00:00.000000000Z","instruments":[{"instrument":"GGAL|BYMA|CI","status":"suspended","reason":"news"}]}]`)
		publish(handle, market.Closed, "", 0)
		publish(venue, market.Closed, "strike", 0)
		check("the feed agrees with the schedule", `[{"market":"BYMA","status":"closed","reason":"strike","next_change":"2000-01-03T14:00:00.000000000Z","instruments":[]}]`)
		publish(venue, market.Open, "", time.Now().Add(time.Hour).UnixNano())
		check("the feed does not", `[{"market":"BYMA","status":"open","next_change":"2000-01-01T01:00:00.000000000Z","instruments":[{"instrument":"GGAL|BYMA|CI","status":"closed"}]}]`)
		publish(venue, market.FeedDown, "", 0)
		check("the feed is down", `[{"market":"BYMA","status":"feed_down","instruments":[]}]`)
	})
}

// TestNoIdentifier checks that the error for an incomplete instrument names the missing part, and
// suggests an instrument.
func TestNoIdentifier(t *testing.T) {
	g := newGateway(t, nil)
	access, _ := g.login(t, "demo")
	for text, want := range map[string]string{
		"":            `"msg":"is missing"`,
		"GGAL":        `"hint":"Did you mean GGAL|BYMA|24hs?"`,
		"GGAL%7CBYMA": `"hint":"Did you mean GGAL|BYMA|24hs?"`,
		"%00":         `"msg":"must be of the form SYMBOL|MARKET|TERM"`,
	} {
		w := g.get("/market/book?instrument="+text, access)
		if w.Code != http.StatusBadRequest || member(t, w, "reason") != "bad_instrument" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: %d %s", text, w.Code, w.Body)
		}
	}
}

// TestBookOfNoFeed checks that the error of an unknown book gives the reason. With Retry-After of
// one second a client would ask every second while the feed is down.
func TestBookOfNoFeed(t *testing.T) {
	g := newGateway(t, nil)
	access, _ := g.login(t, "demo")
	venue, err := g.hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: "BYMA", Term: market.Any}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(phase market.Phase, path string, code int, wait, hint string) {
		t.Helper()
		if err := g.hub.Publish([]market.Event{{Kind: market.KindStatus, Handle: venue, Phase: phase}}); err != nil {
			t.Fatal(err)
		}
		w := g.get(path, access)
		if w.Code != code || w.Header().Get("Retry-After") != wait || !strings.Contains(w.Body.String(), hint) {
			t.Errorf("%v %s: %d, Retry-After %q, %s", phase, path, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	const stale, known = "/market/book?instrument=STALE%7CBYMA%7CCI", "/market/book?instrument=GGAL%7CBYMA%7C24hs"
	check(market.Open, stale, 503, "1", "not known at present")
	check(market.Open, known, 200, "", "")
	check(market.FeedDown, known, 503, "10", "With at= there are books of the past")
	check(market.FeedUp, stale, 503, "1", "not known at present")
}

// rows returns a list of the answer's data, as sent.
func rows(t *testing.T, w *httptest.ResponseRecorder, name string) string {
	t.Helper()
	body, err := wire.ParseJSON(w.Body.Bytes())
	if err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	data := body.Get("data")
	list := data.Get(name)
	return string(list.Raw)
}

package hub_test

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
)

// TestPutMarket lists a market while the hub runs, and replaces what is known of it. Its time zone
// cannot change. A new market with an unknown one goes by UTC.
func TestPutMarket(t *testing.T) {
	h := hub.New(hub.Config{Markets: []market.Market{{ID: "A", Timezone: "America/New_York"}}})
	streamtest.Define(t, h, "S|FED|CI", nil)
	for _, m := range []market.Market{
		{ID: "B", Name: "new", Timezone: "Europe/Madrid"}, {ID: "B", Name: "renamed", Timezone: "Europe/Madrid"},
		{ID: "A", Name: "renamed", Timezone: "America/New_York"}, {ID: "FED", Name: "by a feed"},
	} {
		if err := h.PutMarket(m); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(h.Markets(), func(x market.Market) bool { return x.ID == m.ID && x.Name == m.Name }) {
			t.Errorf("%s is not in %+v", m.ID, h.Markets())
		}
	}
	for _, m := range []market.Market{{ID: "A"}, {ID: "B", Timezone: "UTC"}, {ID: "FED", Timezone: "Europe/Madrid"}, {ID: "C", Timezone: "Europe/Nowhere"}, {ID: ""}} {
		if err := h.PutMarket(m); err == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
	if list := h.Markets(); len(list) != 4 || list[0].Timezone != "America/New_York" || !h.HasMarket("C") {
		t.Errorf("%+v", list)
	}
}

package rest

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// TestRightsInTime counts the entitlements that hold at the moment of the request, and no others.
func TestRightsInTime(t *testing.T) {
	now := time.Now()
	u := &broker.User{Entitlements: []broker.Entitlement{
		{Market: "M", Trades: true, Delay: 900},
		{Market: "M", Trades: true, Until: now.Add(-time.Second)},
		{Market: "M", Quotes: true, From: now.Add(time.Hour)},
		{Market: "*", Depth: 5, From: now.Add(-time.Hour), Until: now.Add(time.Hour)},
		{Market: "N", Quotes: true, From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)},
	}}
	r := rightsIn(u, "M", 5)
	if !r.trades || r.delays[0] != 900 || r.quotes || !r.book || r.delays[2] != 0 {
		t.Errorf("of M: %+v", r)
	}
	if r := rightsIn(u, "N", 10); r.trades || r.quotes || r.book {
		t.Errorf("of N: %+v", r)
	}
	if ok, delay := statusRight(u, "M"); !ok || delay != 0 {
		t.Errorf("status of M: %v, %d", ok, delay)
	}
	u.Entitlements[3].Until = now
	if ok, delay := statusRight(u, "M"); !ok || delay != 900 {
		t.Errorf("status of M once books have ended: %v, %d", ok, delay)
	}
	if ok, _ := statusRight(u, "N"); ok {
		t.Error("status of N, to which no right holds")
	}
}

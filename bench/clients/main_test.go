package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestContestants checks that each client gets all events, with the same prices.
func TestContestants(t *testing.T) {
	const events = 10_001
	server := httptest.NewServer(newServer(t.Context(), events))
	defer server.CloseClientConnections()
	want := 0.0
	for i := range events {
		_, _, price, _, _ := event(i)
		want += float64(price) / market.Scale
	}
	for _, one := range contestants() {
		t.Run(fmt.Sprint(one.Name, one.Batch, one.Memory), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &counter{most: events, done: cancel}
			if err := one.run(ctx, server.URL, c, one.Batch, one.dial(events)); err != nil {
				t.Fatal(err)
			}
			if c.events != events || c.sum != want {
				t.Errorf("%d events with prices of %v, want %d with %v", c.events, c.sum, events, want)
			}
			if r := c.result(); r.Mallocs == 0 || r.Seconds <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

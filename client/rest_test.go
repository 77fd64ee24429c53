package client_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

// TestREST checks accounts, instruments, the snapshot, history and errors.
func TestREST(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{})
	(&trades{s: s}).upTo(25)
	s.Book(ggal, "7049.5", "300", "7050", "1200")
	for a, err := range c.Accounts(t.Context()) {
		one, other := c.Account(t.Context(), a.ID)
		if err != nil || other != nil || one.Number != "123456" || !a.Default {
			t.Errorf("%+v, %v, %v", a, err, other)
		}
	}
	var names []string
	for in, err := range c.Instruments(t.Context(), client.Filter{Market: "BYMA", Term: "24hs"}) {
		if err != nil || in.PriceDecimals != 2 || in.Currency != "ARS" || in.Status != market.Open || in.Multiplier != market.Scale {
			t.Errorf("%+v, %v", in, err)
		}
		names = append(names, in.ID.String())
	}
	if !slices.Equal(names, []string{ggal}) {
		t.Errorf("%v", names)
	}
	snap, err := c.Snapshot(t.Context(), ggal, al30)
	if err != nil || len(snap.Instruments) != 2 || snap.Instruments[0].Trade == nil || snap.Instruments[0].Trade.N != 25 || snap.Position == "" {
		t.Errorf("%+v, %v", snap, err)
	}
	var book client.Book
	if u, err := c.OrderBook(t.Context(), ggal, client.AllLevels, time.Time{}); err != nil || book.Apply(u) != nil || len(book.Bids(0)) != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	for _, test := range []struct {
		r           client.Range
		first, last uint64
		n           int
	}{
		{client.Range{}, 1, 25, 25},
		{client.Range{After: 20}, 21, 25, 5},
		{client.Range{Limit: 3}, 1, 3, 3},
		{client.Range{Newest: true, Limit: 2}, 25, 24, 2},
		{client.Range{End: time.Now().Add(-time.Hour)}, 0, 0, 0},
	} {
		var ns []uint64
		for x, err := range c.Trades(t.Context(), ggal, test.r) {
			if err != nil {
				t.Fatal(err)
			}
			ns = append(ns, x.N)
		}
		if len(ns) != test.n || test.n > 0 && (ns[0] != test.first || ns[len(ns)-1] != test.last) {
			t.Errorf("%+v: %v", test.r, ns)
		}
	}
	for _, err := range c.Trades(t.Context(), "NOPE|BYMA|CI", client.Range{}) {
		var e *client.Error
		if !errors.As(err, &e) || e.Reason != wire.UnknownInstrument || e.Code != http.StatusUnprocessableEntity || e.RequestID == "" {
			t.Errorf("%v", err)
		}
	}
	if _, err := c.Account(t.Context(), "nope"); client.ReasonOf(err) != wire.NotFound {
		t.Error(err)
	}
}

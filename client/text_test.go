package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestEventsAreLines checks that each event is one readable line when it is printed.
func TestEventsAreLines(t *testing.T) {
	id, err := market.ParseInstrumentID(ggal)
	if err != nil {
		t.Fatal(err)
	}
	const scale = market.Scale
	h := client.Header{Instrument: id, N: 12, Time: time.Date(2026, 11, 20, 14, 30, 0, 5000, time.UTC)}
	missed := h
	missed.Replayed = true
	trade := wire.Trade{Price: 7050.5 * scale, Size: 40 * scale}
	correction := trade
	correction.Kind, correction.OldPrice, correction.OldSize = market.KindCorrect, 7051*scale, 41*scale
	bar := wire.Bar{Interval: market.Minute, Open: scale, High: 3 * scale, Low: scale, Close: 2 * scale, Trades: 2, Revised: true}
	for _, x := range []struct {
		event client.Event
		want  string
	}{
		{&client.Trade{Header: h, Trade: trade}, "trade GGAL|BYMA|24hs 12: 7050.5 x 40 at 2026-11-20T14:30:00.000005Z"},
		{&client.Trade{Header: missed, Trade: correction}, "correction GGAL|BYMA|24hs 12: 7050.5 x 40, was 7051 x 41 at 2026-11-20T14:30:00.000005Z, replayed"},
		{&client.Quote{Header: h, Bid: market.Level{Price: 7049 * scale, Size: 3 * scale}}, "quote GGAL|BYMA|24hs 12: 7049 x 3 / none at "},
		{&client.BookUpdate{Header: h, Snapshot: true, Bids: make([]market.Level, 5)}, "book GGAL|BYMA|24hs 12: a snapshot of 5 bids and 0 asks at "},
		{&client.Status{Header: h, Phase: market.Halt, Reason: "volatility"}, "status GGAL|BYMA|24hs 12: halt volatility at "},
		{&client.Summary{Header: h}, "summary GGAL|BYMA|24hs 12: no trades at "},
		{&client.Bar{Header: h, Bar: bar}, "bar GGAL|BYMA|24hs 12: 1m open 1 high 3 low 1 close 2 volume 0, revised at "},
		{client.StateChange{State: client.Waiting, Err: errors.New("reset")}, "stream waiting: reset"},
		{client.BookInvalid{Instrument: id, Reason: "chain"}, "book GGAL|BYMA|24hs is not known: chain"},
		{client.Rejected{Channel: "trades", Instrument: "X|Y|Z", Reason: "unknown_instrument", Hint: "Did you mean A|Y|Z?"}, "rejected trades X|Y|Z: unknown_instrument. Did you mean A|Y|Z?"},
		{client.Delayed{Channel: "trades", Instrument: ggal, Delay: time.Minute}, "trades GGAL|BYMA|24hs is delayed by 1m0s"},
		{client.Notice{Reason: "slow_client", Msg: "Slow"}, "slow_client: Slow"},
	} {
		if got := fmt.Sprint(x.event); !strings.HasPrefix(got, x.want) || strings.Contains(got, "\n") {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

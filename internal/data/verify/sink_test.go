package verify

import (
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestSink publishes events that break the contract in one way each.
func TestSink(t *testing.T) {
	const unit = market.Scale
	level := func(p market.Price, z market.Size) market.Level { return market.Level{Price: p * unit, Size: z * unit} }
	book := market.Event{Kind: market.KindSnapshot, Bids: []market.Level{level(9, 1)}, Asks: []market.Level{level(11, 1)}}
	empty := market.Event{Kind: market.KindSnapshot}
	update := func(bid, ask market.Price) market.Event {
		return market.Event{Kind: market.KindUpdate, Bids: []market.Level{level(bid, 1)}, Asks: []market.Level{level(ask, 1)}}
	}
	trade := func(id string, p market.Price) market.Event {
		return market.Event{Kind: market.KindTrade, TradeID: id, Price: p * unit, Size: unit}
	}
	cancel := func(id string, p market.Price) market.Event {
		e := trade(id, p)
		e.Kind = market.KindCancel
		return e
	}
	open, unknown := market.Event{Kind: market.KindStatus, Phase: market.Open}, market.Event{Kind: market.KindStatus, Phase: market.Unknown}
	at := func(e market.Event, t int64) market.Event { e.Time = t; return e }
	for _, tc := range []struct {
		name   string
		events []market.Event
		check  Check
		wrong  uint64
		want   string
	}{
		{"good", []market.Event{book, update(10, 12), trade("a", 10), cancel("a", 10)}, Reference, 0, ""},
		{"no such handle", []market.Event{{Kind: market.KindGap, Handle: 9}}, Message, 1, "handle 9"},
		{"no such kind", []market.Event{{Kind: 99}}, Message, 1, "unknown kind"},
		{"negative size", []market.Event{{Kind: market.KindTrade, Size: -1}}, Message, 1, "negative"},
		{"trade of nothing", []market.Event{{Kind: market.KindTrade, Price: 1}}, Message, 1, "size 0"},
		{"gap", []market.Event{book, {Kind: market.KindGap, Reason: "line_down"}, update(10, 12)}, Chain, 1, "line_down"},
		{"played again", []market.Event{book, {Kind: market.KindGap, Reason: "replay_restarted"}, book}, Chain, 0, ""},
		{"crossed", []market.Event{open, book, update(11, 12)}, Crossed, 1, "locked"},
		{"crossed without a status", []market.Event{book, update(11, 12), update(10, 12)}, Crossed, 2, "locked"},
		{"crossed while the status is unknown", []market.Event{unknown, book, update(11, 12), update(10, 13)}, Crossed, 0, ""},
		{"crossed in an auction", []market.Event{book, {Kind: market.KindStatus, Phase: market.Auction}, update(11, 12)}, Crossed, 0, ""},
		{"snapshot out of order", []market.Event{{Kind: market.KindSnapshot, Bids: []market.Level{level(1, 1), level(2, 1)}}}, Levels, 1, "which is better"},
		{"quote of two levels", []market.Event{{Kind: market.KindQuote, Bids: []market.Level{level(2, 1), level(1, 1)}}}, Message, 1, "more than one level"},
		{"cancel of another price", []market.Event{trade("a", 10), cancel("a", 11)}, Reference, 1, "it gives trade"},
		{"cancelled twice", []market.Event{trade("a", 10), cancel("a", 10), cancel("a", 10)}, Reference, 1, "was cancelled before"},
		{"late trade", []market.Event{at(trade("a", 10), 20), at(trade("b", 10), 10)}, Time, 0, ""},
		{"time back", []market.Event{at(book, 20), at(update(8, 12), 10)}, Time, 1, "order_book went back"},
		{"order not there", []market.Event{empty, {Kind: market.KindOrderDelete, OrderID: 7}}, Orders, 1, "order 7: unknown order"},
		{"order in a book of levels", []market.Event{book, {Kind: market.KindOrderAdd, OrderID: 7, Side: market.Buy, Price: unit, Size: unit}}, Orders, 1, "in a book of levels"},
		{"orders", []market.Event{empty, {Kind: market.KindOrderAdd, OrderID: 7, Side: market.Buy, Price: unit, Size: 2 * unit}, {Kind: market.KindOrderFill, OrderID: 7, Size: unit}}, Orders, 0, ""},
		{"orders that cross", []market.Event{open, empty, {Kind: market.KindOrderAdd, OrderID: 7, Side: market.Buy, Price: unit, Size: unit}, {Kind: market.KindOrderAdd, OrderID: 8, Side: market.Sell, Price: unit, Size: unit}}, Crossed, 1, "locked"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSink(Config{})
			if _, err := s.Define(instrumentOf("A|B|C")); err != nil {
				t.Fatal(err)
			}
			if err := s.Publish(tc.events); err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			got := r.Result(tc.check)
			if got.Wrong != tc.wrong || r.Wrong() != tc.wrong || tc.wrong > 0 && !strings.Contains(got.Findings[0].line("event"), tc.want) {
				t.Errorf("want %d of %s with %q:\n%s", tc.wrong, tc.check, tc.want, text(r))
			}
		})
	}
}

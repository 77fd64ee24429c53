package marketdata

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
)

// TestQuoteTable checks the table of several instruments: its rows and columns, and what is left
// out on a small terminal.
func TestQuoteTable(t *testing.T) {
	columns, lines := 0, 0
	q := &quoteTable{rows: map[market.InstrumentID]*quoteRow{}, size: func() (int, int) { return columns, lines }}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.Local)
	id := func(symbol string) market.InstrumentID {
		return market.InstrumentID{Symbol: symbol, Market: "BYMA", Term: "CI"}
	}
	level := func(price, size int64) market.Level {
		return market.Level{Price: market.Price(price) * market.Scale, Size: market.Size(size) * market.Scale}
	}
	event := func(ev client.Event, shown bool) {
		t.Helper()
		at = at.Add(time.Second)
		if q.event(ev, at) != shown {
			t.Errorf("%T: shown %v", ev, !shown)
		}
	}
	quote := func(symbol string, bid, ask market.Level) {
		ev := &client.Quote{}
		ev.Bid, ev.Ask = bid, ask
		ev.Instrument = id(symbol)
		event(ev, true)
	}
	quote("GGAL", level(7040, 10), level(7041, 5))
	quote("AL30", level(98, 1), market.Level{})
	trade := &client.Trade{}
	trade.Price, trade.Size = 7041*market.Scale, 3*market.Scale
	trade.Instrument = id("GGAL")
	event(trade, true)
	halt := &client.Status{}
	halt.Phase = market.Halt
	halt.Instrument = id("AL30")
	event(halt, true)
	event(&client.Bar{}, false)

	want := strings.Join([]string{
		"INSTRUMENT    BID SIZE   BID   ASK  ASK SIZE  LAST  SIZE  TIME      STATUS",
		"AL30|BYMA|CI         1    98                              10:00:04  halt",
		"GGAL|BYMA|CI        10  7040  7041         5  7041     3  10:00:03", "",
	}, "\n")
	if got := q.text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	columns = 30
	for line := range strings.Lines(q.text()) {
		if len(strings.TrimSuffix(line, "\n")) > columns {
			t.Errorf("%q is longer than the terminal", line)
		}
	}
	quote("YPFD", level(1, 1), level(2, 1))
	columns, lines = 0, 5
	if got := q.text(); strings.Contains(got, "GGAL") || !strings.Contains(got, "AL30") || !strings.Contains(got, "YPFD") || !strings.Contains(got, "and 1 more, which changed earlier\n") {
		t.Errorf("on five lines:\n%s", got)
	}
}

// TestTableOnScreen checks that a redraw replaces the table, and that a line is printed above it.
func TestTableOnScreen(t *testing.T) {
	var out strings.Builder
	text := "one\ntwo\n"
	s := &screen{out: &out, render: func() string { return text }}
	step := func(what func() error, want string) {
		t.Helper()
		out.Reset()
		if err := what(); err != nil || out.String() != want {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
	}
	step(s.redraw, "")
	s.change(func() {})
	step(s.redraw, "one\ntwo\n")
	s.change(func() { text = "three\n" })
	step(func() error { return s.line("a note\n") }, "\x1b[2A\x1b[Ja note\none\ntwo\n")
	step(s.redraw, "\x1b[2A\x1b[Jthree\n")
	step(s.redraw, "")
}

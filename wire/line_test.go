package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// goldenLines returns the expected values of the lines of testdata/lines.golden.
func goldenLines(t testing.TB) []Line {
	level := func(p, z string, orders uint32) market.Level {
		return market.Level{Price: price(t, p), Size: size(t, z), Orders: orders}
	}
	event := func(e market.Event) Line { return Line{ID: ggal, Event: e} }
	all := market.InstrumentID{Symbol: "*", Market: "BYMA", Term: "*"}
	one := market.Size(market.Scale)
	return []Line{
		{ID: market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "CI"}, Definition: &market.Instrument{
			ID: market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "CI"}, PriceDecimals: 2}},
		{ID: ggal, Definition: &market.Instrument{
			ID: ggal, Name: "Grupo Galicia", Kind: "equity", ISIN: "ARP495251018", Currency: "ARS", SettlementDays: 1, Multiplier: one,
			PriceDecimals: 2, Ticks: []market.Tick{{From: 0, Step: price(t, "0.01")}, {From: price(t, "100"), Step: price(t, "0.05")}},
			Lot: one, MinSize: one, Phase: market.PreOpen, QuotesFromFeed: true, NoBook: true, VirtualClock: true}},
		event(market.Event{Kind: market.KindTrade, Time: someTime, Receive: 1795185000123500000, Sequence: 17, Price: price(t, "7050"), Size: size(t, "120"),
			TradeID: "88123", Side: market.Buy, TradeDetails: market.TradeDetails{Conditions: []string{"odd_lot"}}}),
		event(market.Event{Kind: market.KindTrade, Price: price(t, "-0.5"), Size: 1}),
		event(market.Event{Kind: market.KindCancel, TradeID: "88123", Price: price(t, "7050"), Size: size(t, "120")}),
		event(market.Event{Kind: market.KindCorrect, TradeID: "88120", Price: price(t, "7045"), Size: size(t, "100"), OldPrice: price(t, "7450"), OldSize: size(t, "101")}),
		event(market.Event{Kind: market.KindQuote, Bids: []market.Level{level("7049.5", "300", 4)}, Asks: []market.Level{level("7050", "1200", 9)}}),
		event(market.Event{Kind: market.KindQuote, Asks: []market.Level{level("7050", "1200", 0)}}),
		event(market.Event{Kind: market.KindQuote}),
		event(market.Event{Kind: market.KindSnapshot, Bids: []market.Level{level("7049.5", "300", 4), level("7049", "150", 0)}, Asks: []market.Level{level("7050", "1200", 9)}}),
		event(market.Event{Kind: market.KindSnapshot}),
		event(market.Event{Kind: market.KindUpdate, Bids: []market.Level{level("7049.5", "0", 0)}, Asks: []market.Level{level("7050", "1", 0), level("7051", "2", 0)}}),
		event(market.Event{Kind: market.KindStatus, Phase: market.Halt, Reason: "volatility", Until: 1795185300000000000}),
		{ID: all, Event: market.Event{Kind: market.KindStatus, Phase: market.Closed}},
		event(market.Event{Kind: market.KindGap, Reason: "line_down"}),
		{ID: all, Event: market.Event{Kind: market.KindGap}},
		event(market.Event{Kind: market.KindReference, Time: someTime, PreviousClose: price(t, "7020"), Settlement: price(t, "7021.5"), OpenInterest: size(t, "1200")}),
		event(market.Event{Kind: market.KindReference, Sequence: 18, Settlement: price(t, "-0.25")}),
	}
}

// plain returns a comparable copy of a line: no empty slices, no buffers of the decoder.
func plain(l Line) Line {
	l.Event.Bids = append([]market.Level(nil), l.Event.Bids...)
	l.Event.Asks = append([]market.Level(nil), l.Event.Asks...)
	return l
}

func appendAny(b []byte, l *Line) []byte {
	if l.Definition != nil {
		return AppendDefinition(b, l.Definition)
	}
	return AppendLine(b, MakeIdent(l.ID), &l.Event)
}

func TestLines(t *testing.T) {
	names, lines := golden(t, "testdata/lines.golden")
	want := goldenLines(t)
	if len(want) != len(lines) {
		t.Fatalf("%d lines in the golden file, %d in the test", len(lines), len(want))
	}
	var d LineDecoder // one decoder for all, to check that nothing carries over to the next line
	for i, in := range lines {
		var got Line
		if f := d.Decode([]byte(in), &got); f != nil {
			t.Errorf("%s: %v", names[i], f)
			continue
		}
		if got = plain(got); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%s:\n got %+v %+v\nwant %+v %+v", names[i], got, got.Definition, want[i], want[i].Definition)
		}
		if out := string(appendAny(nil, &want[i])); out != in && !strings.HasSuffix(names[i], "least") {
			t.Errorf("%s:\nwritten %s\n   want %s", names[i], out, in)
		}
	}
}

// TestMessagesAreLines checks that messages as clients receive them are valid lines.
func TestMessagesAreLines(t *testing.T) {
	names, messages := golden(t, "testdata/messages.golden")
	var d LineDecoder
	for i, in := range messages {
		var l Line
		if f := d.Decode([]byte(in), &l); strings.HasPrefix(names[i], "bar") {
			if f == nil || f.Reason != BadMessage {
				t.Errorf("%s: a bar is made of trades, and no line: %v", names[i], f)
			}
		} else if f != nil {
			t.Errorf("%s: %v", names[i], f)
		} else if l.Event.Time != someTime || l.Event.Sequence != 0 {
			t.Errorf("%s: time %d, sequence %d", names[i], l.Event.Time, l.Event.Sequence)
		}
	}
}

func TestLineForms(t *testing.T) {
	for _, tt := range []struct{ name, in, same string }{
		{"order and space", " {\t\"Z\" : 120 , \"P\":7050 ,\"I\":\"GGAL|BYMA|24hs\",\"type\":\"T\" } \r", `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`},
		{"escapes", `{"t\u0079pe":"\u0054","I":"GGAL\u007cBYMA|24hs","P":7050,"Z":120}`, `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`},
		{"unknown members", `{"type":"T","N":5,"D":9,"new":{"a":[1,{"b":null}]},"K":[],"I":"GGAL|BYMA|24hs","P":7050,"Z":120}`, `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`},
		{"null", `{"type":"T","X":null,"T":null,"SQ":null,"I":"GGAL|BYMA|24hs","P":7050,"Z":120,"C":null}`, `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`},
		{"zeros", `{"type":"T","I":"GGAL|BYMA|24hs","P":7050.00,"Z":120.0}`, `{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120}`},
		{"R false", `{"type":"O","R":false,"I":"GGAL|BYMA|24hs","B":[ [1 , 2] ,[0.5,0, 7]]}`, `{"type":"O","I":"GGAL|BYMA|24hs","B":[[1,2],[0.5,0,7]]}`},
		{"orders of a level that goes", `{"type":"O","I":"GGAL|BYMA|24hs","A":[[1,0,4]]}`, `{"type":"O","I":"GGAL|BYMA|24hs","A":[[1,0]]}`},
		{"a time with a zone", `{"type":"Gap","I":"GGAL|BYMA|24hs","T":"2026-11-20T11:30:00-03:00"}`, `{"type":"Gap","I":"GGAL|BYMA|24hs","T":"2026-11-20T14:30:00Z"}`},
	} {
		var got, want Line
		if f := new(LineDecoder).Decode([]byte(tt.in), &got); f != nil {
			t.Errorf("%s: %v", tt.name, f)
		}
		if f := new(LineDecoder).Decode([]byte(tt.same), &want); f != nil {
			t.Errorf("%s: %v", tt.name, f)
		}
		if unknown := got.Unknown; (unknown != "") != (tt.name == "unknown members") {
			t.Errorf("%s: unknown member %q", tt.name, unknown)
		}
		got.Unknown = ""
		if !reflect.DeepEqual(plain(got), plain(want)) {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, want)
		}
	}
}

// TestBadLines checks a file of lines "reason, a part of the message: line".
func TestBadLines(t *testing.T) {
	names, lines := golden(t, "testdata/badlines.golden")
	for i, in := range lines {
		reason, about, _ := strings.Cut(names[i], ", ")
		refused(t, []byte(in), Reason(reason), about)
	}
	const head = `{"type":"T","I":"GGAL|BYMA|24hs",`
	var many strings.Builder
	for i := range maxLineMembers {
		fmt.Fprintf(&many, `"n%d":0,`, i)
	}
	for _, tt := range []struct {
		in     string
		reason Reason
		about  string
	}{
		{"{\"type\":\"T\xff\"}", BadJSON, "UTF-8"},
		{"{\"type\":\"T\n\"}", BadJSON, "control"},
		{`{"B":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, BadJSON, "deep"},
		{head + many.String() + `"P":1,"Z":1}`, BadJSON, "too many"},
		{head + `"P":1,"Z":1,"X":"` + strings.Repeat("x", 201) + `"}`, BadField, "X must"},
	} {
		refused(t, []byte(tt.in), tt.reason, tt.about)
	}
}

// refused checks that a line is rejected for a reason, with a message that contains about.
func refused(t *testing.T, in []byte, reason Reason, about string) {
	t.Helper()
	var l Line
	switch f := new(LineDecoder).Decode(in, &l); {
	case f == nil:
		t.Errorf("%s: taken", in)
	case f.Reason != reason || !strings.Contains(f.Msg, about):
		t.Errorf("%s: %v, want %s about %q", in, f, reason, about)
	}
}

// TestBadLineNamesInstrument checks that a rejected line still identifies its instrument, so that a
// reader that skips it knows whose book is affected.
func TestBadLineNamesInstrument(t *testing.T) {
	var l Line
	f := new(LineDecoder).Decode([]byte(`{"type":"O","I":"GGAL|BYMA|24hs","B":[[1,-1]]}`), &l)
	if f == nil || l.ID != ggal || l.Event.Kind != market.KindUpdate {
		t.Errorf("%v: %+v", f, l)
	}
}

func TestAppendLineOfOrders(t *testing.T) {
	for _, k := range []market.Kind{market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace} {
		if got := string(AppendLine([]byte("x"), MakeIdent(ggal), &market.Event{Kind: k})); got != "x" {
			t.Errorf("kind %d: %s", k, got)
		}
	}
}

// TestLineDecoderForgets checks that a feed with endless distinct texts does not grow a decoder
// without limit.
func TestLineDecoderForgets(t *testing.T) {
	var d LineDecoder
	var l Line
	for i := range maxLineIDs + 10 {
		in := fmt.Appendf(nil, `{"type":"Gap","I":"S%d|BYMA|CI","Y":"y%d"}`, i, i)
		if f := d.Decode(in, &l); f != nil || l.Event.Reason != fmt.Sprintf("y%d", i) || l.ID.Symbol != fmt.Sprintf("S%d", i) {
			t.Fatalf("%s: %v, %+v", in, f, l)
		}
	}
	if len(d.ids) > maxLineIDs || len(d.words) > maxLineWords {
		t.Errorf("%d identifiers and %d words remembered", len(d.ids), len(d.words))
	}
}

func TestLineAllocs(t *testing.T) {
	_, lines := golden(t, "testdata/lines.golden")
	buf := make([]byte, 0, 1024)
	var d LineDecoder
	for _, in := range lines {
		data := []byte(in)
		var l Line
		if f := d.Decode(data, &l); f != nil {
			t.Fatal(f)
		}
		want := 0.0
		switch {
		case l.Definition != nil:
			continue
		case len(l.Event.Conditions) > 0:
			continue
		case l.Event.TradeID != "":
			want = 1
		}
		if n := testing.AllocsPerRun(100, func() { d.Decode(data, &l) }); n > want {
			t.Errorf("%v allocations for reading %s", n, in)
		}
		ident := MakeIdent(l.ID)
		if n := testing.AllocsPerRun(100, func() { buf = AppendLine(buf[:0], ident, &l.Event) }); n != 0 {
			t.Errorf("%v allocations for writing %s", n, in)
		}
	}
}

// FuzzLine checks that an accepted line is valid for ParseJSON and survives encoding and decoding.
func FuzzLine(f *testing.F) {
	for _, path := range []string{"testdata/lines.golden", "testdata/messages.golden"} {
		_, lines := golden(f, path)
		for _, l := range lines {
			f.Add([]byte(l))
		}
	}
	f.Add([]byte(`{"type":"O","x":[[1,{}],"\ud83d\ude00",[]],"I":"GGAL|BYMA|24hs","B":[ [1 , 2] ]}`))
	var d LineDecoder
	f.Fuzz(func(t *testing.T, data []byte) {
		var l, again Line
		if f := d.Decode(data, &l); f != nil {
			if f.Msg == "" {
				t.Fatalf("%q: a fault without a message: %v", data, f)
			}
			return
		}
		if _, err := ParseJSON(data); err != nil {
			t.Fatalf("%q: taken, but %v", data, err)
		}
		l = plain(l)
		l.Unknown = "" // Unknown is not encoded
		out := appendAny(nil, &l)
		if f := d.Decode(out, &again); f != nil {
			t.Fatalf("%q: written as %s, which is %v", data, out, f)
		}
		if again = plain(again); !reflect.DeepEqual(l, again) {
			t.Fatalf("%q:\nfirst %+v\nagain %+v", data, l, again)
		}
	})
}

func BenchmarkDecodeLine(b *testing.B) {
	for _, name := range []string{"trade", "quote", "book", "book, update"} {
		names, lines := golden(b, "testdata/lines.golden")
		for i := range lines {
			if names[i] != name {
				continue
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				data := []byte(lines[i])
				var d LineDecoder
				var l Line
				for b.Loop() {
					if f := d.Decode(data, &l); f != nil {
						b.Fatal(f)
					}
				}
			})
		}
	}
}

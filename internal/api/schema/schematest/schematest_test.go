package schematest

import (
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func compile(t *testing.T, components []schema.Named) *Validator {
	t.Helper()
	document, err := schema.Encode(schema.Map{}.With("components", schema.Map{}.With("schemas", schema.Components(components))))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Compile(document, Draft2020)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDataMessages checks the schemas of market data against the encoder, with every member that a
// message can have and with as few as possible.
func TestDataMessages(t *testing.T) {
	v := compile(t, asyncapi.Components())
	id, err := market.ParseInstrumentID("GGAL|BYMA|24hs")
	if err != nil {
		t.Fatal(err)
	}
	full := wire.Header{Ident: wire.MakeIdent(id).Delayed(900e9), N: 7, Time: 1, Latency: 5}
	bare := wire.Header{Ident: wire.MakeIdent(id), N: 1, Time: 1, Latency: -1}
	level := []market.Level{{Price: 1, Size: 2, Orders: 3}}
	trade := wire.Trade{Kind: market.KindTrade, Side: market.Buy, Price: -5, Size: 7, ID: "x", RefN: 4, TradeDetails: market.TradeDetails{Conditions: []string{"odd_lot"}}}
	of := func(kind market.Kind) *wire.Trade {
		t := trade
		t.Kind = kind
		if kind == market.KindTrade {
			t.RefN = 0
		}
		return &t
	}
	figures := wire.Figures{Open: 1, High: 1, Low: 1, Last: 1, Trades: 1, PreviousClose: 2, Settlement: 3, OpenInterest: 4, Volume: market.Sum{Lo: 5}}
	for _, c := range []struct {
		name string
		json []byte
	}{
		{"Trade", wire.AppendTrade(nil, &full, of(market.KindTrade))},
		{"Trade", wire.AppendTrade(nil, &bare, &wire.Trade{Price: 1, Size: 1})},
		{"Cancel", wire.AppendTrade(nil, &full, of(market.KindCancel))},
		{"Cancel", wire.AppendTrade(nil, &bare, &wire.Trade{Kind: market.KindCancel})},
		{"Correction", wire.AppendTrade(nil, &full, of(market.KindCorrect))},
		{"Correction", wire.AppendTrade(nil, &bare, &wire.Trade{Kind: market.KindCorrect})},
		{"Quote", wire.AppendQuote(nil, &full, level[0], level[0], true)},
		{"Quote", wire.AppendQuote(nil, &bare, market.Level{}, market.Level{}, false)},
		{"BookSnapshot", wire.AppendBookState(nil, &full, 25, level, level, 1<<32-1)},
		{"BookSnapshot", wire.AppendBookState(nil, &bare, 0, nil, nil, 0)},
		{"BookUpdate", wire.AppendBookUpdate(nil, &full, 6, level, level, 9)},
		{"BookUpdate", wire.AppendBookUpdate(nil, &bare, 6, []market.Level{{Price: 1}}, nil, 9)},
		{"Status", wire.AppendStatus(nil, &full, market.Halt, "volatility", 1, true)},
		{"Status", wire.AppendStatus(nil, &bare, market.FeedUp, "", 0, false)},
		{"Summary", wire.AppendSummary(nil, &full, &figures, true)},
		{"Summary", wire.AppendSummary(nil, &bare, &wire.Figures{}, false)},
		{"Bar", wire.AppendBar(nil, &full, &wire.Bar{Interval: market.Day, TradingDate: 20261120, Revised: true, Trades: 1, Volume: market.Sum{Lo: 5}})},
		{"Bar", wire.AppendBar(nil, &bare, &wire.Bar{})},
	} {
		pointer := "#/components/schemas/" + c.name
		if err := v.Validate(pointer, c.json); err != nil {
			t.Errorf("%s: %v", c.json, err)
		}
		more := strings.TrimSuffix(string(c.json), "}") + `,"new":1}`
		if err := v.Validate(pointer, []byte(more)); err == nil {
			t.Errorf("%s: a member that is not described is accepted", more)
		}
		wrong := strings.Replace(string(c.json), `"S":"GGAL"`, `"S":7`, 1)
		if err := v.Validate(pointer, []byte(wrong)); err == nil {
			t.Errorf("%s: a member of another type is accepted", wrong)
		}
	}
}

// TestIdentifiers checks that the patterns of identifiers accept what package market accepts.
func TestIdentifiers(t *testing.T) {
	v := compile(t, asyncapi.Components())
	texts := []string{"GGAL|BYMA|24hs", "*|BYMA|24hs", "*|*|*", "A|B", "A|B|C|D", "|B|C", "A*|B|C", "A;|B|C", "A,|B|C", "É|B|C", "-|0.a_b-|z", "A|.B|C",
		"A|" + strings.Repeat("B", 17) + "|C", strings.Repeat("A", 32) + "|B|C", strings.Repeat("A", 33) + "|B|C"}
	for c := byte(' '); c <= '~'; c++ {
		texts = append(texts, "x"+string(c)+"|B|C", "A|x"+string(c)+"|C", "A|"+string(c)+"|C")
	}
	for _, text := range texts {
		value := wire.AppendString(nil, text)
		_, err := market.ParseInstrumentID(text)
		if got := v.Validate("#/components/schemas/InstrumentID", value); (got == nil) != (err == nil) {
			t.Errorf("%q: parsed with %v, validated with %v", text, err, got)
		}
		_, err = market.ParsePattern(text)
		if got := v.Validate("#/components/schemas/InstrumentPattern", value); (got == nil) != (err == nil) {
			t.Errorf("%q: parsed as a pattern with %v, validated with %v", text, err, got)
		}
	}
}

// TestValidator checks what a Validator refuses, for both drafts.
func TestValidator(t *testing.T) {
	if _, err := Compile([]byte("{"), Draft2020); err == nil {
		t.Error("half a document is accepted")
	}
	document := `{"components":{"schemas":{
		"A":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"examples":[{"properties":{}}]},
		"Open":{"type":"object","properties":{},"additionalProperties":true},
		"Gone":{"$ref":"#/components/schemas/Nothing"}}}}`
	for _, draft := range []Draft{Draft2020, Draft7} {
		v, err := Compile([]byte(document), draft)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, json string
			ok         bool
		}{
			{"A", `{"a":1}`, true}, {"A", `{"a":1,"b":2}`, false}, {"A", `{}`, false}, {"A", `{"a":"1"}`, false}, {"A", `{"a":1`, false},
			{"Open", `{"b":1}`, true}, {"Gone", `1`, false}, {"Missing", `1`, false},
		} {
			if err := v.Validate("#/components/schemas/"+c.name, []byte(c.json)); (err == nil) != c.ok {
				t.Errorf("draft %d: %s %s: %v", draft, c.name, c.json, err)
			}
		}
	}
}

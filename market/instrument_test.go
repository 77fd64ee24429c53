package market

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestInstrumentValidate(t *testing.T) {
	id := InstrumentID{"GGAL", "BYMA", "24hs"}
	for _, tt := range []struct {
		name string
		in   Instrument
		want string // in the error; "": valid
	}{
		{"smallest", Instrument{ID: id}, ""},
		{"full", Instrument{ID: id, PriceDecimals: 8, SizeDecimals: 8, Lot: 1, MinSize: 1, Multiplier: 1, Ticks: []Tick{{0, 1}, {5, 2}}, Phase: FeedUp}, ""},
		{"no id", Instrument{}, `instrument "||": not of the form`},
		{"pattern", Instrument{ID: InstrumentID{"*", "BYMA", "CI"}}, "not of the form"},
		{"price decimals", Instrument{ID: id, PriceDecimals: 9}, "GGAL|BYMA|24hs: decimals must be 0 to 8"},
		{"size decimals", Instrument{ID: id, SizeDecimals: -1}, "decimals must be 0 to 8"},
		{"negative lot", Instrument{ID: id, Lot: -1}, "must not be negative"},
		{"tick of nothing", Instrument{ID: id, Ticks: []Tick{{0, 0}}}, "tick step must be above 0"},
		{"ticks fall", Instrument{ID: id, Ticks: []Tick{{5, 1}, {5, 2}}}, "tick table must be in increasing order"},
	} {
		err := tt.in.Validate()
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestTickSize(t *testing.T) {
	in := Instrument{Ticks: []Tick{{10, 1}, {100, 5}, {500, 50}}}
	for _, tt := range []struct{ price, want Price }{
		{-5, 1}, {0, 1}, {9, 1}, {10, 1}, {99, 1}, {100, 5}, {499, 5}, {500, 50}, {5000, 50},
	} {
		if got := in.TickSize(tt.price); got != tt.want {
			t.Errorf("TickSize(%d) = %d, want %d", tt.price, got, tt.want)
		}
	}
	if got := new(Instrument).TickSize(5); got != 0 {
		t.Errorf("TickSize without a table = %d, want 0", got)
	}
}

func TestPhaseWords(t *testing.T) {
	seen := map[string]bool{}
	for p := PreOpen; p <= Unknown; p++ {
		word := p.String()
		if word == "" || seen[word] {
			t.Errorf("phase %d has the word %q", p, word)
		}
		seen[word] = true
		if got, ok := ParsePhase(word); !ok || got != p {
			t.Errorf("ParsePhase(%q) = %d, %v, want %d", word, got, ok, p)
		}
		if want := word == "feed_down" || word == "feed_up" || word == "gap"; p.OfFeed() != want {
			t.Errorf("%s is of the feed: %v", word, !want)
		}
	}
	for _, word := range []string{"", "OPEN", "opened"} {
		if p, ok := ParsePhase(word); ok || p != NoPhase {
			t.Errorf("ParsePhase(%q) = %d, %v", word, p, ok)
		}
	}
	if got := (Unknown + 1).String(); got != "" {
		t.Errorf("a phase past the last has the word %q", got)
	}
}

// TestInstrumentJSON checks the names of fields in JSON, which are part of the journal's format.
func TestInstrumentJSON(t *testing.T) {
	text, err := json.Marshal(Instrument{ID: InstrumentID{"A", "M", "CI"}, QuotesFromFeed: true, StartsEmpty: true, Listed: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"ID":{"Symbol":"A","Market":"M","Term":"CI"},"Name":"","Kind":"","ISIN":"","Currency":"","SettlementDays":0,` +
		`"Multiplier":0,"PriceDecimals":0,"SizeDecimals":0,"Ticks":null,"Lot":0,"MinSize":0,"Phase":0,"OwnQuotes":true,` +
		`"NoBook":false,"BookReady":true,"VirtualClock":false,"Listed":7}`
	if string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

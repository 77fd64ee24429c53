package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/market"
)

// TestThreat48LongLines verifies recordings with lines that are long and compress well. The report
// stays short, and no line takes much more memory than its text.
func TestThreat48LongLines(t *testing.T) {
	const first = `{"rueda":"recording","version":1,"began":"2026-11-20T00:00:00Z","channels":["trades"],"ids":[]}` + "\n"
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ name, lines, want string }{
		{"bad definitions", strings.Repeat(`1 {"recording":"connected","instruments":[`+strings.Repeat("{},", 50_000)+"{}]}\n", 3), "and 49996 more"},
		{"a bad definition with a long name", `1 {"recording":"connected","instruments":[{"instrument":"` + long + `"}]}` + "\n", "definition 1: xxx"},
		{"long reasons", strings.Repeat(`1 {"recording":"disconnected","reason":"`+long+`"}`+"\n", 3), "the recorder lost its connection (xxx"},
		{"a long server", "", "recording of xxx"},
		{"many values", `1 {"type":"Subscription","x":[` + strings.Repeat("0,", 3<<20) + "0]}\n", "more than 2097152 values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := first
			if c.name == "a long server" {
				begin = strings.Replace(first, `"version"`, `"server":"`+long+`","version"`, 1)
			}
			r, err := recording.NewReader("a", strings.NewReader(begin+c.lines))
			if err != nil {
				t.Fatal(err)
			}
			report, err := Recording(t.Context(), r, 5)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := report.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			if b.Len() > 10_000 || !strings.Contains(b.String(), c.want) {
				t.Errorf("a report of %d bytes without %q: %.500s", b.Len(), c.want, b.String())
			}
		})
	}
}

// TestThreat48Definitions checks that a stream of definitions does not fill the memory.
func TestThreat48Definitions(t *testing.T) {
	v := New(Config{})
	list := make([]market.Instrument, 1000)
	for n := 0; n < maxInstruments+5000; n += len(list) {
		for i := range list {
			list[i].ID = market.InstrumentID{Symbol: fmt.Sprint("S", n+i), Market: "M", Term: "CI"}
		}
		v.Define(list)
	}
	if len(v.known) != maxInstruments {
		t.Errorf("%d definitions are kept", len(v.known))
	}
}

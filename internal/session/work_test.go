package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestWorkIsCharged checks that the work of a message counts towards the rate: snapshots of
// thousands of instruments, or the removal of thousands of identifiers. Additions to the set are
// free, and no message costs more than a burst.
func TestWorkIsCharged(t *testing.T) {
	d := newDrive(t, "demo")
	var list []string
	for i := range 10_000 {
		id := market.InstrumentID{Symbol: fmt.Sprintf("W%d", i), Market: "BYMA", Term: "CI"}
		if _, err := d.world.Hub.Define(market.Instrument{ID: id, PriceDecimals: 2}); err != nil {
			t.Fatal(err)
		}
		if i < 1000 {
			list = append(list, `"`+id.String()+`"`)
		}
	}
	// refused sends pings and returns how many exceed the rate of 20 a second with a burst of three
	// seconds.
	refused := func(pings int) (n int) {
		for range pings {
			d.text(`{"action":"ping"}`)
		}
		for _, m := range d.take() {
			if strings.Contains(m, "rate_limited") {
				n++
			}
		}
		return n
	}
	d.text(`{"action":"subscribe","quotes":["*|BYMA|*"],"status":["*|BYMA|*"],"trades":[` + strings.Join(list, ",") + `]}`)
	d.take()
	if n := refused(60); n != 0 {
		t.Errorf("%d of a whole burst refused after a subscribe that only adds", n)
	}
	d.pass(4e9)
	d.take()
	d.text(`{"action":"resync","quotes":["*|BYMA|*"],"status":["*|BYMA|*"]}`) // 1 and 20
	d.text(`{"action":"resync","quotes":["*|BYMA|*"]}`)                       // its state is due already
	d.take()
	if n := refused(60); n != 60-38 {
		t.Errorf("%d of a burst refused after a resync of 20,000 states, want 22", n)
	}
	d.pass(10e9)
	d.take()
	d.text(`{"action":"subscribe","replace":true,"trades":[` + list[0] + `]}`) // 1, 5 for those that go, and 20 for the patterns
	d.take()
	if n := refused(60); n != 60-34 {
		t.Errorf("%d of a burst refused after a set of a thousand and two patterns was replaced, want 26", n)
	}
	d.pass(10e9)
	d.take()
	d.text(`{"action":"subscribe","trades":["*|BYMA|*"]}`)
	d.text(`{"action":"unsubscribe","trades":["*|BYMA|*"]}`) // 1 and 10
	d.take()
	if n := refused(60); n != 60-49 {
		t.Errorf("%d of a burst refused after a pattern of 10,000 left the set, want 11", n)
	}
	d.pass(10e9)
	d.take()
	unknown := strings.ReplaceAll(strings.Join(list[:200], ","), `"W`, `"V`)
	d.text(`{"action":"subscribe","trades":[` + unknown + `]}`) // 1, since nothing was added, and 20
	d.take()
	if n := refused(60); n != 60-39 {
		t.Errorf("%d of a burst refused after 200 unknown identifiers, want 21", n)
	}
}

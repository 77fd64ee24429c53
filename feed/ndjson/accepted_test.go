package ndjson

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
)

// acceptedCase holds lines that follow the definition of GGAL, their answers as "Type reason line",
// and the published events.
type acceptedCase struct {
	name    string
	lines   []string
	answers []string
	want    []string
}

func acceptedCases() []acceptedCase {
	const (
		g = "GGAL|BYMA|24hs "
		a = "AL30|BYMA|CI "
		n = `,"I":"GGAL|BYMA|24hs",`
	)
	return []acceptedCase{
		{
			"sequence gap in the book",
			[]string{`{"type":"O"` + n + `"R":true,"B":[],"A":[],"SQ":5}`, `{"type":"O"` + n + `"A":[[1,1]],"SQ":6}`, `{"type":"O"` + n + `"A":[[1,2]],"SQ":8}`,
				`{"type":"O"` + n + `"A":[[1,3]],"SQ":11}`, `{"type":"O"` + n + `"R":true,"B":[],"A":[],"SQ":2}`, `{"type":"O"` + n + `"A":[[1,4]],"SQ":4}`},
			[]string{"Warning sequence_gap 5", "Warning sequence_gap 6", "Warning sequence_gap 8"},
			[]string{g + "snapshot", g + "update", g + "gap sequence_gap", g + "update", g + "update", g + "snapshot", g + "gap sequence_gap", g + "update"},
		},
		{
			"sequence gap in the trades",
			[]string{bookGGAL, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"X"` + n + `"X":"1","P":1,"Z":1,"SQ":6}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":8}`,
				`{"type":"H"` + n + `"E":"open","SQ":1}`},
			[]string{"Warning sequence_gap 6"},
			[]string{g + "snapshot", g + "trade 1 at 1", g + "kind 2", g + "status gap sequence_gap", g + "trade 1 at 1", g + "open"},
		},
		{
			"SQ falls",
			[]string{`{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":6}`},
			[]string{"Error bad_field 4"},
			[]string{g + "trade 1 at 1", g + "trade 1 at 1"},
		},
		{
			"update skipped",
			[]string{bookGGAL, `{"type":"O"` + n + `"A":[[7050,-1]]}`, `{"type":"O"` + n + `"A":[[7050,-1]]}`, updateGGAL},
			[]string{"Error bad_field 4", "Error bad_field 5"},
			[]string{g + "snapshot", g + "gap bad_line", g + "update"},
		},
		{
			"trade skipped",
			[]string{bookGGAL, `{"type":"T"` + n + `"P":1,"Z":-1}`, updateGGAL},
			[]string{"Error bad_field 4"},
			[]string{g + "snapshot", g + "status gap bad_line", g + "update"},
		},
		{
			"trades skipped, with SQ",
			[]string{`{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"T"` + n + `"P":1,"Z":-1,"SQ":6}`, `{"type":"X"` + n + `"P":1,"Z":1,"SQ":7}`,
				`{"type":"T"` + n + `"P":1,"Z":1,"SQ":8}`, `{"type":"C"` + n + `"X":"1","P":1,"Z":1}`, tradeGGAL},
			[]string{"Error bad_field 4", "Error bad_field 5", "Warning sequence_gap 6", "Error bad_field 7"},
			[]string{g + "trade 1 at 1", g + "status gap bad_line", g + "trade 1 at 1", g + "status gap bad_line", g + "trade 120 at 7050"},
		},
		{
			"status and quote skipped",
			[]string{`{"type":"H"` + n + `"E":"asleep"}`, tradeGGAL, `{"type":"Q"` + n + `"BP":1}`, tradeGGAL,
				`{"type":"F"` + n + `"price_decimals":2,"size_decimals":0,"own_quotes":true}`, `{"type":"Q"` + n + `"BP":1}`},
			[]string{"Error bad_field 3", "Error bad_field 5", "Error bad_field 8"},
			[]string{g + "status gap bad_line", g + "trade 120 at 7050", g + "trade 120 at 7050", g + "status gap bad_line"},
		},
		{
			"gap line skipped",
			[]string{bookGGAL, `{"type":"Gap"` + n + `"Y":"Line Down"}`, updateGGAL, bookGGAL, `{"type":"Gap","I":"*|BYMA|*","Y":1}`, bookGGAL, `{"type":"H","I":"*|BYMA|*"}`},
			[]string{"Error bad_field 4", "Error bad_field 7", "Error bad_field 9"},
			[]string{g + "snapshot", g + "gap bad_line", g + "update", g + "snapshot", g + "gap bad_line", g + "snapshot", g + "status gap bad_line"},
		},
		{
			"definition skipped",
			[]string{bookGGAL, `{"type":"F"` + n + `"price_decimals":9}`, `{"type":"F","price_decimals":2}`, updateGGAL},
			[]string{"Error bad_field 4", "Error bad_instrument 5"},
			[]string{g + "snapshot", g + "update"},
		},
		{
			"cut lines",
			[]string{defineAL30, bookGGAL, `{"type":"O"` + n + `"B":[[7049.5,0]`, `{"type":"T"` + n + `"P":1,`, updateGGAL, "x", tradeGGAL, bookGGAL, `{"type":"O"` + n + `"R":1}`},
			[]string{"Error bad_json 5", "Error bad_json 6", "Error bad_json 8", "Error bad_field 11"},
			[]string{g + "snapshot", g + "gap unreadable_line", a + "status gap unreadable_line", g + "update", g + "status gap unreadable_line", g + "trade 120 at 7050",
				g + "snapshot", g + "gap unreadable_line"},
		},
		{
			"lines without a type or an instrument",
			[]string{bookGGAL, `{"type":"t"` + n + `"P":1,"Z":1}`, bookGGAL, `{"type":"T","I":"GGAL|BYMA","P":1,"Z":1}`, bookGGAL},
			[]string{"Error bad_message 4", "Error bad_instrument 6"},
			[]string{g + "snapshot", g + "gap unreadable_line", g + "snapshot", g + "gap unreadable_line", g + "snapshot"},
		},
		{
			"line too long",
			[]string{bookGGAL, strings.Repeat(" ", MaxLine) + updateGGAL, bookGGAL},
			[]string{"Error message_too_big 4"},
			[]string{g + "snapshot", g + "gap unreadable_line", g + "snapshot"},
		},
		{
			"gap line",
			[]string{bookGGAL, `{"type":"Gap"` + n + `"Y":"line_down"}`, bookGGAL},
			nil,
			[]string{g + "snapshot", g + "gap line_down", g + "snapshot"},
		},
		{
			"gap of the market",
			[]string{defineAL30, `{"type":"F","I":"TAPE|BYMA|CI","price_decimals":2,"size_decimals":0,"no_book":true}`, `{"type":"Gap","I":"*|BYMA|*"}`, `{"type":"H","I":"*|BYMA|*","E":"closed"}`},
			nil,
			[]string{g + "gap", "AL30|BYMA|CI gap", "TAPE|BYMA|CI gap", "*|BYMA|* closed"},
		},
		{
			"no book",
			[]string{`{"type":"F","I":"TAPE|BYMA|CI","price_decimals":2,"size_decimals":0,"no_book":true}`, strings.ReplaceAll(bookGGAL, "GGAL|BYMA|24hs", "TAPE|BYMA|CI"),
				`{"type":"Gap","I":"TAPE|BYMA|CI"}`, `{"type":"Q","I":"TAPE|BYMA|CI","BP":1,"BZ":1}`},
			[]string{"Error bad_field 4"},
			[]string{"TAPE|BYMA|CI gap", "TAPE|BYMA|CI quote"},
		},
		{
			"quotes of a book",
			[]string{`{"type":"Q"` + n + `"BP":1,"BZ":1}`, `{"type":"Q"` + n + `"BP":1,"BZ":1}`,
				`{"type":"F"` + n + `"price_decimals":2,"size_decimals":0,"own_quotes":true}`, `{"type":"Q"` + n + `"BP":1,"BZ":1}`},
			[]string{"Warning quote_ignored 3"},
			[]string{g + "quote"},
		},
	}
}

// TestAccepted checks which lines are accepted and when a book becomes stale.
func TestAccepted(t *testing.T) {
	for _, tt := range acceptedCases() {
		t.Run(tt.name, func(t *testing.T) {
			var r feedtest.Recorder
			c := start(t, Config{}, &r).dial().send(append([]string{defineGGAL}, tt.lines...)...)
			same(t, wait(t, &r, len(tt.want)), tt.want)
			var answers []string
			for range tt.answers {
				a := c.answer()
				answers = append(answers, fmt.Sprintf("%s %s %d", a.Type, a.Reason, a.Line))
			}
			if !reflect.DeepEqual(answers, tt.answers) {
				t.Errorf("answered %q, want %q", answers, tt.answers)
			}
			c.send("x") // checks that there was no other answer
			if a := c.answer(); a.Reason != "bad_json" {
				t.Errorf("also answered %+v", a)
			}
		})
	}
}

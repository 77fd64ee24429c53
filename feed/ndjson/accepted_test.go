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

func takenCases() []acceptedCase {
	const (
		g = "GGAL|BYMA|24hs "
		n = `,"I":"GGAL|BYMA|24hs",`
	)
	return []acceptedCase{
		{
			"hole in the book",
			[]string{`{"type":"O"` + n + `"R":true,"B":[],"A":[],"SQ":5}`, `{"type":"O"` + n + `"A":[[1,1]],"SQ":6}`, `{"type":"O"` + n + `"A":[[1,2]],"SQ":8}`,
				`{"type":"O"` + n + `"A":[[1,3]],"SQ":11}`, `{"type":"O"` + n + `"R":true,"B":[],"A":[],"SQ":2}`, `{"type":"O"` + n + `"A":[[1,4]],"SQ":4}`},
			[]string{"Warning sequence_gap 4", "Warning sequence_gap 5", "Warning sequence_gap 7"},
			[]string{g + "snapshot", g + "update", g + "gap sequence_gap", g + "update", g + "update", g + "snapshot", g + "gap sequence_gap", g + "update"},
		},
		{
			"hole in the trades",
			[]string{bookGGAL, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"X"` + n + `"X":"1","P":1,"Z":1,"SQ":6}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":8}`,
				`{"type":"H"` + n + `"E":"open","SQ":1}`},
			[]string{"Warning sequence_gap 5"},
			[]string{g + "snapshot", g + "trade 1 at 1", g + "kind 2", g + "gap sequence_gap", g + "trade 1 at 1", g + "open"},
		},
		{
			"SQ falls",
			[]string{`{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":5}`, `{"type":"T"` + n + `"P":1,"Z":1,"SQ":6}`},
			[]string{"Error bad_field 3"},
			[]string{g + "trade 1 at 1", g + "trade 1 at 1"},
		},
		{
			"update skipped",
			[]string{bookGGAL, `{"type":"O"` + n + `"A":[[7050,-1]]}`, `{"type":"O"` + n + `"A":[[7050,-1]]}`, updateGGAL},
			[]string{"Error bad_field 3", "Error bad_field 4"},
			[]string{g + "snapshot", g + "gap bad_line", g + "update"},
		},
		{
			"trade skipped",
			[]string{bookGGAL, `{"type":"T"` + n + `"P":1,"Z":-1}`, updateGGAL},
			[]string{"Error bad_field 3"},
			[]string{g + "snapshot", g + "update"},
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
			[]string{"Error bad_field 3"},
			[]string{"TAPE|BYMA|CI gap", "TAPE|BYMA|CI quote"},
		},
		{
			"quotes of a book",
			[]string{`{"type":"Q"` + n + `"BP":1,"BZ":1}`, `{"type":"Q"` + n + `"BP":1,"BZ":1}`,
				`{"type":"F"` + n + `"price_decimals":2,"size_decimals":0,"own_quotes":true}`, `{"type":"Q"` + n + `"BP":1,"BZ":1}`},
			[]string{"Warning quote_ignored 2"},
			[]string{g + "quote"},
		},
	}
}

// TestAccepted checks which lines are accepted and when a book becomes stale.
func TestAccepted(t *testing.T) {
	for _, tt := range takenCases() {
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

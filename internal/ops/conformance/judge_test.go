package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// judged returns the faults of a client that prints lines, where trades 1 to last of an instrument
// exist at a price of 100 and a size of n.
func judged(t *testing.T, lines string, last uint64) []string {
	t.Helper()
	j := newJudge()
	for text := range strings.Lines(lines) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(text, err)
		}
		l.Instrument = instruments[0]
		j.take(&l)
	}
	var truth []trade
	for n := uint64(1); n <= last; n++ {
		truth = append(truth, trade{n, 100 * market.Scale, market.Price(n) * market.Scale})
	}
	j.compare(instruments[0], j.of(instruments[0]).epoch, truth, true)
	return j.faults
}

func tradeLine(n int) string {
	return fmt.Sprintf(`{"event":"trade","n":%d,"price":"100","size":"%d"}`+"\n", n, n)
}

// TestJudge checks that each kind of wrong client is noticed, and that right ones are not.
func TestJudge(t *testing.T) {
	const goodBook = `{"event":"book","n":9,"bids":[["100","5"],["99.5","1"]],"asks":[["101","2"]]}`
	for _, c := range []struct{ name, lines, want string }{
		{"right", tradeLine(2) + tradeLine(3) + tradeLine(4), ""},
		{"right with exact decimals", strings.Replace(tradeLine(3)+tradeLine(4), `"100"`, `"100.00"`, 1), ""},
		{"lost", tradeLine(1) + `{"event":"lost","from":2,"to":3}` + "\n" + tradeLine(4), ""},
		{"lost at the end", tradeLine(1) + tradeLine(2) + `{"event":"lost","from":3,"to":4}`, ""},
		{"a new epoch", tradeLine(8) + `{"event":"lost","reason":"epoch_changed"}` + "\n" + tradeLine(3) + tradeLine(4), ""},
		{"other events", `{"event":"connected"}` + "\n" + tradeLine(4), ""},
		{"a good book", goodBook + "\n" + tradeLine(4), ""},
		{"missing", tradeLine(2) + tradeLine(4), "trade 3 of ALFA|TEST|CI is missing, and is not reported"},
		{"missing at the end", tradeLine(2) + tradeLine(3), "missing at the end"},
		{"twice", tradeLine(3) + tradeLine(3) + tradeLine(4), "trade 3 of ALFA|TEST|CI came after 3"},
		{"not in order", tradeLine(3) + tradeLine(2) + tradeLine(4), "came after 3"},
		{"another price", strings.Replace(tradeLine(3), "100", "100.01", 1) + tradeLine(4), "is 3 at 100, but it was printed as 3 at 100.01"},
		{"another size", strings.Replace(tradeLine(3), `"size":"3"`, `"size":"4"`, 1) + tradeLine(4), "is 3 at 100"},
		{"no trade", tradeLine(4) + tradeLine(5), "trade 5 of ALFA|TEST|CI does not exist"},
		{"lost and printed", `{"event":"lost","from":3,"to":3}` + "\n" + tradeLine(3) + tradeLine(4), "reported as lost, and printed"},
		{"lost backwards", tradeLine(3) + tradeLine(4) + `{"event":"lost","from":9,"to":8}`, "lost from 9 to 8"},
		{"a float", strings.Replace(tradeLine(4), `"100"`, `"1e2"`, 1), "price"},
		{"an end in between", tradeLine(3) + `{"event":"end","reason":"x"}` + "\n" + tradeLine(4), "after the event"},
		{"a crossed book", strings.Replace(goodBook, "101", "99.9", 1), "crossed"},
		{"a locked book", strings.Replace(goodBook, "101", "100", 1), "crossed"},
		{"a book that is not sorted", strings.Replace(goodBook, "99.5", "100.5", 1), "not sorted"},
		{"an empty level", strings.Replace(goodBook, `"5"`, `"0"`, 1), "has the level"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := strings.Join(judged(t, c.lines, 4), "\n")
			if (faults == "") != (c.want == "") || !strings.Contains(faults, c.want) {
				t.Errorf("got %q, want %q", faults, c.want)
			}
		})
	}
}

// TestBooks checks the comparison with a book of the gateway.
func TestBooks(t *testing.T) {
	levels := func(prices ...int64) (list []market.Level) {
		for _, p := range prices {
			list = append(list, market.Level{Price: market.Price(p), Size: 1})
		}
		return list
	}
	bids, asks := levels(6, 5, 4, 3, 2, 1), levels(7, 8, 9, 10, 11, 12)
	for _, c := range []struct {
		name       string
		bids, asks []market.Level
		want       bool
	}{
		{"all levels", bids, asks, true},
		{"five levels", bids[:5], asks[:5], true},
		{"four levels", bids[:4], asks[:5], false},
		{"another size", append([]market.Level{{Price: 6, Size: 2}}, bids[1:]...), asks, false},
		{"nothing", nil, nil, false},
	} {
		s := &seen{book: &book{bids: c.bids, asks: c.asks}}
		if got := s.same(bids, asks); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if (&seen{}).same(nil, nil) {
		t.Error("an invalid book equals an empty one")
	}
}

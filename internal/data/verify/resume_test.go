package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/wire/stream"
)

// resumption verifies a stream that is interrupted at each empty text of the list.
func resumption(t *testing.T, list []string) *Report {
	t.Helper()
	v := New(Config{})
	d := stream.Decoder{Lenient: true}
	var m stream.Message
	for i, s := range list {
		if s == "" {
			v.Interrupted()
			continue
		}
		if err := d.Decode([]byte(s), &m); err != nil {
			t.Fatal(err)
		}
		v.Message(int64(i+1), start+int64(i)*1e9, &m)
	}
	return v.Report().Describe("test", "messages")
}

const (
	subscribed  = `{"type":"Subscription","code":200,"id":1,"epoch":"e1","trades":["A|B|C"]}`
	subscribed2 = `{"type":"Subscription","code":200,"id":2,"epoch":"e1","trades":["A|B|C"]}`
	caughtUp    = `{"type":"CaughtUp","code":200,"id":1,"epoch":"e1"}`
	caughtUp2   = `{"type":"CaughtUp","code":200,"id":2,"epoch":"e1"}`
)

func minuteBar(n, minute, trades int) string {
	return fmt.Sprintf(`{"type":"K","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:%02d:00.000000000Z","IV":"1m","OP":5,"HI":5,"LO":5,"CL":5,"TV":%d,"EV":%d,"TC":%d}`,
		n, minute, trades, 5*trades, trades)
}

func minuteTrade(n, minute int) string {
	return fmt.Sprintf(`{"type":"T","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:%02d:10.000000000Z","P":5,"Z":1}`, n, minute)
}

// TestBarsOfResume has all missed bars come before their trades.
func TestBarsOfResume(t *testing.T) {
	for _, tc := range []struct {
		name          string
		tail          []string
		judged, wrong uint64
	}{
		// judged two seconds later, which do not pass
		{"trades after them", []string{minuteTrade(2, 31), minuteTrade(3, 32), caughtUp}, 0, 0},
		{"and time after them", []string{minuteTrade(2, 31), minuteTrade(3, 32), caughtUp, minuteTrade(4, 40), minuteTrade(5, 40), minuteTrade(6, 40)}, 3, 0},
		{"another subscription catches up", []string{subscribed2, caughtUp, minuteTrade(2, 31), minuteTrade(3, 32), caughtUp2, minuteTrade(4, 40), minuteTrade(5, 40), minuteTrade(6, 40)}, 3, 0},
		{"one is missing", []string{minuteTrade(2, 31), caughtUp, minuteTrade(3, 40), minuteTrade(4, 40), minuteTrade(5, 40)}, 3, 1},
		{"never caught up", []string{minuteTrade(2, 31), minuteTrade(3, 40), minuteTrade(4, 40), minuteTrade(5, 40)}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := append([]string{subscribed, minuteTrade(1, 30), minuteBar(1, 30, 1), "", subscribed, minuteBar(2, 31, 1), minuteBar(3, 32, 1)}, tc.tail...)
			r := resumption(t, list)
			if got := r.Result(Bars); got.Judged != tc.judged || got.Wrong != tc.wrong || r.Wrong() != tc.wrong {
				t.Errorf("%d judged, %d wrong; want %d and %d:\n%s", got.Judged, got.Wrong, tc.judged, tc.wrong, text(r))
			}
		})
	}
}

// TestBarsOfLostTrades has trades that are lost, as the server reports. Bars of that time are not
// judged.
func TestBarsOfLostTrades(t *testing.T) {
	const lost = `{"type":"Subscription","code":200,"id":1,"epoch":"e1","trades":["A|B|C"],"lost":{"trades":{"A|B|C":{"from":3,"to":4,"reason":"buffer_exceeded"}}}}`
	r := resumption(t, []string{subscribed, minuteTrade(1, 30), minuteTrade(2, 30), "", lost, minuteBar(1, 31, 1), minuteBar(2, 32, 1), caughtUp,
		minuteTrade(5, 40), minuteTrade(6, 41), minuteBar(3, 41, 1), minuteTrade(7, 42), minuteTrade(8, 42), minuteTrade(9, 42), minuteBar(4, 42, 3), minuteTrade(10, 43), minuteTrade(11, 43), minuteTrade(12, 43), minuteTrade(13, 43)})
	if got := r.Result(Bars); got.Judged != 2 || got.Unjudged != 2 || r.Wrong() > 0 {
		t.Errorf("%d judged, %d unjudged:\n%s", got.Judged, got.Unjudged, text(r))
	}
}

// TestCrossedOfResume has the book of an auction come before the status of the auction.
func TestCrossedOfResume(t *testing.T) {
	const crossed = `"R":true,"DL":0,"B":[[11,1]],"A":[[10,1]]`
	head := []string{
		subscribed, message("H", 1, 0, `"E":"open"`), message("O", 1, 1, `"R":true,"DL":0,"B":[[9,1]],"A":[[10,1]]`),
		"", subscribed, message("O", 9, 20, crossed), message("Q", 2, 30, `"BP":9,"BZ":1`),
	}
	for _, tc := range []struct {
		name string
		tail []string
		want uint64
	}{
		{"auction", []string{message("H", 2, 10, `"E":"auction"`), caughtUp, message("O", 10, 31, `"L":9,"B":[[11,2]]`), message("Q", 3, 40, `"BP":9,"BZ":1`)}, 0},
		{"open", []string{caughtUp, message("O", 10, 31, `"L":9,"B":[[11,2]]`), message("Q", 3, 40, `"BP":9,"BZ":2`)}, 1},
		{"nothing more", nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := resumption(t, slices.Concat(head, tc.tail, silence(3)))
			if got := r.Result(Crossed).Wrong; got != tc.want {
				t.Errorf("%d found, want %d:\n%s", got, tc.want, text(r))
			}
		})
	}
}

// TestStateOfResume has the status of a market, which cannot be resumed by number, continue with a
// snapshot.
func TestStateOfResume(t *testing.T) {
	status := func(n int, rest string) string {
		return fmt.Sprintf(`{"type":"H","S":"*","I":"*|B|*","N":%d,"T":"2026-11-20T14:30:%02d.000000000Z","E":"open"%s}`, n, n, rest)
	}
	r := resumption(t, []string{subscribed, status(1, ""), "", subscribed, status(5, `,"R":true`), caughtUp, status(6, "")})
	if r.Wrong() > 0 || len(r.Notes) != 1 {
		t.Errorf("a state that jumped:\n%s", text(r))
	}
	if r := resumption(t, []string{subscribed, status(1, ""), "", subscribed, status(5, "")}); r.Result(Sequence).Wrong != 1 {
		t.Errorf("a hole before a change:\n%s", text(r))
	}
}

// TestQuoteBeforeInterruption interrupts a stream between a change of the book and its quote, which
// then never comes. Without the interruption the quote is missing.
func TestQuoteBeforeInterruption(t *testing.T) {
	book := func(n, second, size int, whole bool) string {
		first := fmt.Sprintf(`"L":%d,`, n-1)
		if whole {
			first = `"R":true,"DL":0,"A":[[6,1,1]],`
		}
		return fmt.Sprintf(`{"type":"O","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:30:%02d.000000000Z",%s"B":[[5,%d,1]]}`, n, second, first, size)
	}
	quote := func(n, second, size int) string {
		return fmt.Sprintf(`{"type":"Q","S":"A","I":"A|B|C","N":%d,"T":"2026-11-20T14:30:%02d.000000000Z","BP":5,"BZ":%d,"AP":6,"AZ":1,"BC":1,"AC":1}`, n, second, size)
	}
	subscribed := `{"type":"Subscription","code":200,"id":1,"epoch":"e1","quotes":["A|B|C"],"order_book":["A|B|C"]}`
	before := []string{
		subscribed, `{"type":"H","S":"A","I":"A|B|C","N":1,"T":"2026-11-20T14:00:00.000000000Z","E":"open"}`,
		book(1, 1, 1, true), quote(1, 1, 1), book(2, 4, 2, false), quote(2, 4, 2), book(3, 8, 3, false), quote(3, 8, 3), book(4, 12, 4, false),
	}
	after := []string{book(9, 20, 9, true), quote(4, 20, 9), book(10, 24, 8, false), quote(5, 24, 8), book(11, 28, 7, false), quote(6, 28, 7)}
	whole := []string{quote(4, 16, 5), book(5, 16, 5, false), quote(5, 20, 9), book(6, 20, 9, false), quote(6, 24, 8), book(7, 24, 8, false)}
	for name, x := range map[string]struct {
		list  []string
		wrong uint64
	}{
		"interrupted": {slices.Concat(before, []string{"", subscribed}, after), 0},
		"missing":     {slices.Concat(before, whole), 1},
	} {
		r := resumption(t, x.list)
		if r.Wrong() != x.wrong {
			t.Errorf("%s: %d are wrong: %+v", name, r.Wrong(), r.Checks)
		}
	}
}

package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// calendarOf returns a row of a calendar of seven days from Friday, 2026-11-20, with sessions by
// day.
func calendarOf(holidays string, sessions func(date string, w time.Weekday) string) string {
	var days []string
	for i := range 7 {
		d := time.Date(2026, 11, 20+i, 0, 0, 0, 0, time.UTC)
		date := d.Format(time.DateOnly)
		days = append(days, fmt.Sprintf(`{"date":%q,"sessions":[%s],"terms":[]}`, date, sessions(date, d.Weekday())))
	}
	return fmt.Sprintf(`{"market":"BYMA","timezone":"America/Argentina/Buenos_Aires","status":"open","terms":[{"term":"CI","status":"open"}],"holidays":[%s],"days":[%s]}`,
		holidays, strings.Join(days, ","))
}

func weekdays(date string, w time.Weekday) string {
	if w == time.Saturday || w == time.Sunday || date == "2026-11-23" {
		return ""
	}
	return `{"status":"pre_open","start":"` + date + `T13:30:00.000000000Z","end":"` + date + `T14:00:00.000000000Z"},` +
		`{"status":"open","start":"` + date + `T14:00:00.000000000Z","end":"` + date + `T20:00:00.000000000Z"}`
}

func always(date string, _ time.Weekday) string {
	start, _ := time.Parse(time.RFC3339, date+"T03:00:00Z")
	return `{"status":"open","start":"` + start.Format(time.RFC3339Nano) + `","end":"` + start.AddDate(0, 0, 1).Format(time.RFC3339Nano) + `"}`
}

// TestMarkets requests the markets of a server and checks that a recording returns them.
func TestMarkets(t *testing.T) {
	row := `{"market":"BYMA","name":"Bolsas","timezone":"America/Argentina/Buenos_Aires","terms":[{"term":"CI","settlement_days":0},{"term":"24hs","settlement_days":1}]}`
	for _, tc := range []struct{ name, calendar, want string }{
		{"hours", calendarOf(`{"date":"2026-11-23","name":"Sovereignty"}`, weekdays), "[{10h30m0s 11h0m0s pre_open} {11h0m0s 17h0m0s open}] [Friday Monday Tuesday Wednesday Thursday] [{2026-11-23 Sovereignty 0s []}]"},
		{"short day", calendarOf(`{"date":"2026-11-20","closes":"13:00:00"},{"date":"2026-11-23"}`, weekdays), "[{10h30m0s 11h0m0s pre_open} {11h0m0s 17h0m0s open}] [Friday Monday Tuesday Wednesday Thursday] [{2026-11-20  13h0m0s []} {2026-11-23  0s []}]"},
		{"always open", calendarOf("", always), "[] [] []"},
		{"none", "", "[] [] []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			get := func(path string, data any) error {
				switch {
				case path == "/market/markets":
					return json.Unmarshal([]byte(`{"markets":[`+row+`,{"market":"OTHER","timezone":"UTC","terms":[]}]}`), data)
				case path == "/market/calendar" && tc.calendar != "":
					return json.Unmarshal([]byte(`{"markets":[`+tc.calendar+`]}`), data)
				}
				return errors.New("not found")
			}
			m := meta()
			m.AskMarkets(get)
			first, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(first), `"rueda":"","version":0`, `"rueda":"recording","version":1`, 1) + "\n"
			var e Events
			var b decode.Batch
			if _, err := e.Decode([]byte(text), &b); err != nil || len(b.Notes) > 0 {
				t.Fatal(err, b.Notes)
			}
			list := e.Markets()
			if len(list) != 1 || list[0].Name != "Bolsas" || list[0].Timezone != "America/Argentina/Buenos_Aires" || !list[0].StatusFromFeed || len(list[0].Terms) != 2 {
				t.Fatalf("markets %+v", list)
			}
			s := list[0].Schedule
			if got := fmt.Sprint(s.Sessions, s.Weekdays, s.Holidays); got != tc.want {
				t.Errorf("hours %s, want %s", got, tc.want)
			}
		})
	}
	var e Events
	var b decode.Batch
	if _, err := e.Decode([]byte(`{"rueda":"recording","version":1,"channels":["trades"],"ids":[],"markets":[{"market":"X","timezone":"Nowhere"},7]}`+"\n"), &b); err != nil || len(b.Notes) != 1 || len(e.Markets()) != 0 {
		t.Errorf("bad rows: %v, %v, %v", err, b.Notes, e.Markets())
	}
	m := meta()
	m.AskMarkets(func(_ string, data any) error { return json.Unmarshal([]byte("<html>"), data) })
	if m.Markets != nil || m.Calendar != nil {
		t.Errorf("a page of something else was taken: %s", m.Markets)
	}
}

// TestReferences checks that the reference figures of summaries are played when they are new, and
// once per trading day.
func TestReferences(t *testing.T) {
	m := meta()
	m.Format, m.Version, m.Channels = "recording", 1, []string{"summary"}
	m.Markets = []Row{Row(`{"market":"BYMA","timezone":"America/Argentina/Buenos_Aires","terms":[]}`)}
	first, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d := func(n int, at, rest string) string {
		return fmt.Sprintf(`%d {"type":"D","S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"2026-11-%s.000000000Z"%s}`, n, n, at, rest)
	}
	text := string(first) + "\n" + strings.Join([]string{
		d(1, "20T14:30:00", `,"R":true,"OP":7100,"CL":7089,"SE":7479`),
		d(2, "20T14:31:00", `,"OP":7100,"CL":7089,"SE":7479,"TC":2`),
		d(3, "21T02:59:00", `,"CL":7089,"SE":7479`), // still the previous day
		d(4, "21T03:00:00", `,"CL":7089,"SE":7479`),
		d(5, "21T03:01:00", `,"CL":7089,"SE":7480,"OI":12`),
		d(6, "22T03:01:00", `,"OP":7100`), // without reference figures
	}, "\n") + "\n"
	var e Events
	var b decode.Batch
	if _, err := e.Decode([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range b.Events {
		x := &b.Events[i]
		if x.Kind != market.KindReference || x.Receive != int64(x.Sequence) {
			t.Errorf("%+v", x)
		}
		got = append(got, fmt.Sprintf("%d: %v %v %v", x.Sequence, x.PreviousClose, x.Settlement, x.OpenInterest))
	}
	if want := "1: 7089 7479 0; 4: 7089 7479 0; 5: 7089 7480 12"; strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	if b.Stats.Lines != 7 || b.Stats.Used != 3 {
		t.Errorf("%+v", b.Stats)
	}
}

// TestConflated checks that a recording without all quotes and changes of books is noted.
func TestConflated(t *testing.T) {
	m := meta()
	m.Format, m.Version, m.Channels, m.Depth = "recording", 1, nil, 0
	message := func(kind string, n int, rest string) string {
		return fmt.Sprintf(`%d {"type":%q,"S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"2026-11-20T14:30:00.000000000Z"%s}`, n, kind, n, rest)
	}
	for _, tt := range []struct {
		depth int
		lines []string
		want  bool
	}{
		{0, []string{message("Q", 5, `,"R":true,"BP":1,"BZ":1`), message("Q", 6, `,"BP":1,"BZ":2`), message("Q", 9, `,"R":true,"BP":1,"BZ":3`)}, false},
		{0, []string{message("Q", 5, `,"R":true,"BP":1,"BZ":1`), message("Q", 7, `,"BP":1,"BZ":2`)}, true},
		{0, []string{message("O", 5, `,"R":true,"B":[[1,1]],"A":[]`), message("O", 6, `,"L":5,"B":[[1,2]],"A":[]`)}, false},
		{0, []string{message("O", 5, `,"R":true,"B":[[1,1]],"A":[]`), message("O", 8, `,"L":5,"B":[[1,2]],"A":[]`)}, true},
		{5, []string{message("O", 5, `,"R":true,"B":[[1,1]],"A":[]`), message("O", 8, `,"L":5,"B":[[1,2]],"A":[]`)}, false}, // of deeper levels
		{5, []string{`7 {"type":"Warning","code":200,"reason":"slow_client","msg":"Reading too slowly: quotes conflated"}`}, true},
	} {
		m.Depth = tt.depth
		first, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var e Events
		var b decode.Batch
		if _, err := e.Decode([]byte(string(first)+"\n"+strings.Join(tt.lines, "\n")+"\n"), &b); err != nil {
			t.Fatal(err)
		}
		if got := len(b.Notes) == 1 && b.Notes[0].Reason == "conflated"; got != tt.want || len(b.Notes) > 1 {
			t.Errorf("%q at depth %d: %v", tt.lines, tt.depth, b.Notes)
		}
	}
}

// TestCatchingUp checks that old messages of a lost connection are expected until the last
// subscription has caught up, and that a gap has an event time.
func TestCatchingUp(t *testing.T) {
	h := fmt.Sprintf(header, 1, 1)
	m := meta()
	m.Format, m.Version = "recording", 1
	first, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var e Events
	var b decode.Batch
	take := func(line string, want bool) {
		t.Helper()
		if _, err := e.Decode([]byte(line+"\n"), &b); err != nil || e.CatchingUp() != want {
			t.Errorf("%s: %v, behind %v", line, err, e.CatchingUp())
		}
	}
	take(string(first), false)
	take(`1 {"type":"Subscription","id":1,"epoch":"e1","trades":[]}`, false)
	take(`2 {"type":"O",`+h+`,"R":true,"B":[[1,1]],"A":[]}`, false)
	take(`3 {"recording":"disconnected"}`, false)
	take(`4 {"recording":"connected"}`, true)
	take(`5 {"type":"Subscription","id":1,"epoch":"e1","trades":[]}`, true)
	take(`5 {"type":"Subscription","id":2,"epoch":"e1","trades":[]}`, true)
	take(`6 {"type":"CaughtUp","id":1}`, true)
	take(`7 {"type":"CaughtUp","id":2}`, false)
	if x := b.Events[len(b.Events)-1]; x.Kind != market.KindGap || x.Time != b.Events[0].Time || x.Receive != 3 {
		t.Errorf("%+v", x)
	}
}

func TestProblems(t *testing.T) {
	var x Problems
	if x.String() != "" {
		t.Error(x.String())
	}
	x.Add("slow_client")
	x.Add("token_expiring")
	x.Disconnects, x.Lost = 2, 3
	if want := `; the server warned once that it conflates quotes and books; the connection was lost 2 times; 3 ranges were lost, see its lines "lost"`; x.String() != want {
		t.Errorf("%s, want %s", &x, want)
	}
}

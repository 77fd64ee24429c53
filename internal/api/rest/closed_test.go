package rest_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// closedArchive returns an archive with 20 trades and quotes on 2026-11-20, which is closed, and 3
// trades on the next day.
func closedArchive(t *testing.T) (a *archive, messages []string) {
	t.Helper()
	a = newArchive(t, journal.Config{Sync: time.Millisecond}, nil)
	messages = a.trades(ggal, 20)
	a.trades("XYZ|OTHER|CI", 2)
	for i := range 20 {
		a.keep(ggal, journal.Row{Kind: journal.Quote, Time: opening() + int64(i), Bids: []market.Level{{Price: market.Scale, Size: market.Size(i+1) * market.Scale}}})
	}
	next := opening() + 24*3600e9
	for i := range int64(3) {
		r := a.keep(ggal, journal.Row{Kind: journal.Trade, Time: next + i, Price: market.Scale, Size: market.Scale})
		messages = append(messages, message(t, ggal, &r))
	}
	a.run(func() bool { return a.journal.Days()[0].Closed })
	if days := a.journal.Days(); len(days) != 2 || !days[0].Closed || days[1].Closed {
		t.Fatalf("days: %+v", days)
	}
	return a, messages
}

// run runs the journal until until returns true, in a bubble.
func (a *archive) run(until func() bool) {
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.journal.Run(ctx) }()
	for range 1000 {
		if until() {
			break
		}
		time.Sleep(time.Millisecond) // of the bubble's clock
	}
	cancel()
	if err := <-done; err != nil {
		a.t.Fatal(err)
	}
}

// TestClosedPages checks that pages of closed days are marked as immutable.
func TestClosedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, messages := closedArchive(t)
		const forever = "private, max-age=604800, immutable"
		for _, tt := range []struct {
			query []string
			cache string
			rows  int
		}{
			{[]string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z"}, forever, 20},
			{[]string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z", "order", "desc"}, forever, 20},
			{[]string{"start", "2026-11-20T14:00:03Z", "end", "2026-11-20T14:00:05Z"}, forever, 2},
			{[]string{"start", "2026-11-20T00:00:00Z", "limit", "5"}, forever, 5}, // full
			{[]string{"after_sequence", "3", "limit", "5", "epoch", a.journal.Epoch()}, forever, 5},
			{[]string{"after_sequence", "3", "limit", "5"}, "private, no-cache", 5}, // the next epoch has other rows there
			{[]string{"after_sequence", "3"}, "private, no-cache", 20},
			{[]string{"start", "2026-11-20T00:00:00Z"}, "private, no-cache", 23},
			{[]string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-22T00:00:00Z"}, "private, no-cache", 23},
			{[]string{"end", "2026-11-21T00:00:00Z"}, "private, no-cache", 20}, // older days may go
			{[]string{"start", "2026-11-19T00:00:00Z", "end", "2026-11-21T00:00:00Z"}, "private, no-cache", 20},
			{[]string{"limit", "5"}, "private, no-cache", 5},
			{[]string{"order", "desc", "limit", "5"}, "private, no-cache", 5},
		} {
			path := historyPath("trades", tt.query...)
			w := a.ask(path)
			if got := w.Header().Get("Cache-Control"); got != tt.cache {
				t.Errorf("%v: Cache-Control %q, want %q", tt.query, got, tt.cache)
			}
			if got := strings.Count(w.Body.String(), `"type":`); got != tt.rows {
				t.Errorf("%v: %d rows, want %d", tt.query, got, tt.rows)
			}
			tag := w.Header().Get("ETag")
			if again := a.ask(path, "If-None-Match", tag); again.Code != http.StatusNotModified || again.Header().Get("ETag") != tag ||
				again.Header().Get("Cache-Control") != tt.cache || again.Body.Len() > 0 {
				t.Errorf("%v: again: %d, %v", tt.query, again.Code, again.Header())
			}
			if other := a.ask(path, "If-None-Match", tag, "Accept", "text/csv"); other.Code != http.StatusOK {
				t.Errorf("%v: another form: %d", tt.query, other.Code)
			}
		}
		first := a.ask(historyPath("trades", "start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z", "limit", "3"))
		second := a.ask(historyPath("trades", "start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z", "limit", "4"))
		if first.Header().Get("ETag") == second.Header().Get("ETag") {
			t.Error("two pages have one tag")
		}
		if p := a.rows(historyPath("trades", "limit", "23")); len(p.Trades) != len(messages) || string(p.Trades[0]) != messages[0] {
			t.Errorf("%d rows over both days", len(p.Trades))
		}
		// Users of delayed data get other pages.
		path := historyPath("trades", "start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z")
		tag := a.ask(path).Header().Get("ETag")
		a.access, _ = a.login(t, "late")
		if w := a.ask(path, "If-None-Match", tag); w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
			t.Errorf("a delayed page: %d, ETag %s", w.Code, w.Header().Get("ETag"))
		}
	})
}

// TestHistoryIsCompleteFrom checks that history reports where it begins after days were removed.
func TestHistoryIsCompleteFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		laterThanDays()
		a := newArchive(t, journal.Config{Sync: time.Millisecond, Days: 1}, nil)
		for day := range int64(4) {
			for i := range int64(5) {
				a.keep(ggal, journal.Row{Kind: journal.Trade, Time: opening() + day*24*3600e9 + i, Price: market.Scale, Size: market.Scale})
			}
		}
		if w := a.ask(historyPath("trades")); strings.Contains(w.Body.String(), "complete_from") {
			t.Errorf("at first: %s", w.Body)
		}
		a.run(func() bool { return len(a.journal.Days()) == 2 })
		p := a.rows(historyPath("trades"))
		if len(p.Trades) != 10 || p.From != 11 || !strings.Contains(string(p.Trades[0]), `"N":11,`) {
			t.Errorf("%d rows, complete from %d", len(p.Trades), p.From)
		}
	})
}

func TestExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, messages := closedArchive(t)
		export := func(query string, header ...string) *httptest.ResponseRecorder {
			return a.ask("/market/export?"+query, header...)
		}
		lines := export("type=trades&date=2026-11-20&market=BYMA&format=ndjson")
		if lines.Code != http.StatusOK || lines.Header().Get("Content-Type") != "application/x-ndjson" ||
			lines.Body.String() != strings.Join(messages[:20], "\n")+"\n" {
			t.Errorf("lines: %d %v\n%s", lines.Code, lines.Header(), lines.Body)
		}
		if got := lines.Header().Get("Content-Disposition"); got != `attachment; filename="trades-2026-11-20-BYMA.ndjson"` {
			t.Errorf("Content-Disposition %s", got)
		}
		w := export("type=trades&date=2026-11-20", "Accept", "text/csv")
		records, err := csv.NewReader(w.Body).ReadAll()
		if err != nil || len(records) != 1+20+2 {
			t.Errorf("csv: %d records, %v", len(records), err)
		}
		w = export("type=quotes&date=2026-11-20&format=csv", "Accept-Encoding", "gzip")
		if w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("not packed: %v", w.Header())
		}
		unpacked, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if records, err = csv.NewReader(unpacked).ReadAll(); err != nil || len(records) != 21 {
			t.Errorf("csv of quotes: %d records, %v", len(records), err)
		}
		w = export("type=trades&date=2026-11-20", "Accept-Encoding", "gzip")
		if body := w.Body.String(); w.Header().Get("Content-Type") != "application/vnd.apache.parquet" || w.Header().Get("Content-Encoding") != "" ||
			!strings.HasPrefix(body, "PAR1") || !strings.HasSuffix(body, "PAR1") {
			t.Errorf("parquet: %v, %d bytes", w.Header(), len(body))
		}
		tag := w.Header().Get("ETag")
		if again := export("type=trades&date=2026-11-20", "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("again: %d", again.Code)
		}
		head := httptest.NewRequest(http.MethodHead, "/market/export?type=trades&date=2026-11-20", nil)
		head.Header.Set("Authorization", "Bearer "+a.access)
		answer := httptest.NewRecorder()
		a.handler.ServeHTTP(answer, head)
		if answer.Code != http.StatusOK || answer.Body.Len() > 0 || answer.Header().Get("ETag") != tag {
			t.Errorf("HEAD: %d, %d bytes", answer.Code, answer.Body.Len())
		}
		for query, want := range map[string]string{
			"type=trades&date=2026-11-21":                       `404 not_found`,
			"type=trades&date=2026-11-19":                       `404 not_found`,
			"type=trades&date=20-11-2026":                       `400 bad_field`,
			"type=trades":                                       `400 bad_field`,
			"type=candles&date=2026-11-20":                      `400 bad_field`,
			"type=trades&date=2026-11-20&format=xlsx":           `400 bad_field`,
			"type=trades&date=2026-11-20&market=NOPE":           `400 bad_field`,
			"type=trades&date=2026-11-20&market=BYMA&market=X":  `400 bad_field`,
			"type=trades&date=2026-11-20&format=..%2F..%2Fetc":  `400 bad_field`,
			"type=depth&date=2026-11-21&market=BYMA&format=csv": `404 not_found`,
		} {
			w := export(query)
			if got := fmt.Sprint(w.Code, " ", member(t, w, "reason")); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
			if w.Header().Get("Content-Disposition") != "" || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v", query, w.Header())
			}
		}
		a.access, _ = a.login(t, "late")
		for query, want := range map[string]int{
			"type=trades&date=2026-11-20&market=BYMA":  http.StatusNotFound, // by the bubble's clock the day is to come
			"type=trades&date=2026-11-20":              http.StatusForbidden,
			"type=quotes&date=2026-11-20&market=BYMA":  http.StatusForbidden,
			"type=depth&date=2026-11-20&market=BYMA":   http.StatusForbidden,
			"type=trades&date=2026-11-20&market=OTHER": http.StatusForbidden,
		} {
			if w := export(query); w.Code != want {
				t.Errorf("%s: %d %s, want %d", query, w.Code, w.Body, want)
			}
		}
	})
}

// TestDelayedExportWaits checks that users of delayed data get a day when all its rows are as old
// as their delay: those published after midnight count, and bars of evening sessions too.
func TestDelayedExportWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := closedArchive(t)
		midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		const delay = 900 * time.Second // of the user late
		for _, tc := range []struct {
			kind     string
			complete time.Time
		}{{"trades", midnight.Add(time.Minute)}, {"bars", midnight.Add(13 * time.Hour)}} {
			ask := func(at time.Time, want int) {
				t.Helper()
				time.Sleep(time.Until(at))
				a.access, _ = a.login(t, "late")
				if w := a.ask("/market/export?date=2026-11-20&market=BYMA&type=" + tc.kind); w.Code != want {
					t.Errorf("%s at %v: %d %s, want %d", tc.kind, at, w.Code, w.Body, want)
				}
			}
			ask(midnight.Add(delay), http.StatusNotFound)
			ask(tc.complete.Add(delay-time.Second), http.StatusNotFound)
			ask(tc.complete.Add(delay+time.Second), http.StatusOK)
		}
	})
}

// cutOffWriter is a client that disconnects in the middle of a file.
type cutOffWriter struct{ http.ResponseWriter }

func (cutOffWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }

// TestExportCutOff checks that an interrupted export is cut off and releases its resources.
func TestExportCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := closedArchive(t)
		for range 5 {
			func() {
				defer func() {
					if p := recover(); p != http.ErrAbortHandler {
						t.Errorf("ended with %v", p)
					}
				}()
				r := httptest.NewRequest(http.MethodGet, "/market/export?type=trades&date=2026-11-20", nil)
				r.Header.Set("Authorization", "Bearer "+a.access)
				a.handler.ServeHTTP(cutOffWriter{httptest.NewRecorder()}, r)
			}()
		}
		if p := a.rows(historyPath("trades")); len(p.Trades) != 23 {
			t.Errorf("then %d rows", len(p.Trades))
		}
		if strings.Contains(a.log.String(), "export failed") {
			t.Error("a client that is gone is logged as an error")
		}
	})
}

package rest_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/market"
)

// lostRange is an entry of lost.
type lostRange struct {
	Instrument, Epoch string
	From, To          int
	Start, End        string
	Reason            string
}

const (
	lostDayRows  = 1500
	lostLastDay  = "2025-11-22"
	lostFirstDay = "2025-11-21"
)

// lostTime returns the event time of the trade with N n.
func lostTime(n int) string {
	at := journaltest.First().Add(time.Duration((n-1)/lostDayRows)*24*time.Hour + time.Duration((n-1)%lostDayRows)*time.Millisecond)
	return at.Format("2006-01-02T15:04:05.000000000Z07:00")
}

// wantLostRange returns the entry for some trades. to 0: there are no others after them.
func wantLostRange(from, to int) lostRange {
	l := lostRange{From: from, To: to, Reason: "buffer_exceeded"}
	if from > 1 {
		l.Start = lostTime(from - 1)
	}
	if to > 0 {
		l.End = lostTime(to + 1)
	}
	return l
}

// lostTrade is a trade of a page, in JSON or JSON lines.
type lostTrade struct {
	N int
	T string
	P float64
}

// TestLostRows damages a journal of trades whose figures follow from N. Every page and file has the
// trades that are left, and says which are missing.
func TestLostRows(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, folder string){
		"a segment of the last day": func(t *testing.T, folder string) {
			t.Helper()
			must(t, os.Remove(segmentsOf(t, folder, lostLastDay)[1]))
		},
		"half a segment": func(t *testing.T, folder string) {
			t.Helper()
			must(t, os.Truncate(segmentsOf(t, folder, lostLastDay)[1], 16<<10))
		},
		"a page of a segment": func(t *testing.T, folder string) {
			t.Helper()
			f, err := os.OpenFile(segmentsOf(t, folder, lostLastDay)[1], os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt(make([]byte, 4096), 12<<10)
			must(t, err)
			must(t, f.Close())
		},
		"a segment of a closed day": func(t *testing.T, folder string) {
			t.Helper()
			must(t, os.Remove(segmentsOf(t, folder, lostFirstDay)[1]))
		},
		"the first day": func(t *testing.T, folder string) {
			t.Helper()
			must(t, os.RemoveAll(filepath.Join(folder, lostFirstDay)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "journal")
			journaltest.Days{Folder: folder, Epoch: "e1", Closed: 1, Rows: lostDayRows}.Write(t)
			damage(t, folder)
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(t, journal.Config{Folder: folder, Days: 1000, Sync: time.Millisecond}, nil)
				_, err := a.hub.Define(market.Instrument{ID: journaltest.ID(), PriceDecimals: 2})
				must(t, err)
				first := name == "the first day"
				a.run(func() bool { return first || a.journal.Days()[0].Closed })
				rows, lost := a.lostPages(true)
				if len(lost) != 1 != first || len(rows) == 2*lostDayRows {
					t.Fatalf("%d rows; %+v are missing", len(rows), lost)
				}
				a.wantOtherPages(rows, lost)
				if !first {
					a.wantLostExport(lost)
				}
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// segmentsOf returns the files of the segments of a day.
func segmentsOf(t *testing.T, folder, date string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, date, "*.seg*"))
	if err != nil || len(list) < 3 {
		t.Fatalf("segments %v, %v", list, err)
	}
	return list
}

// tradesPath returns the address of the trades of the journal.
func tradesPath(more string) string {
	return "/market/trades?instrument=" + url.QueryEscape(journaltest.ID().String()) + more
}

// headerLost returns the ranges of a header.
func headerLost(t testing.TB, w *httptest.ResponseRecorder) (list []lostRange) {
	t.Helper()
	if text := w.Header().Get("Rueda-Lost"); text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	return list
}

// lostPages reads all trades in pages, and checks that no trade is without a place: each N is that
// of a trade or in lost, in order.
func (a *archive) lostPages(asc bool) (rows []int, lost []lostRange) {
	a.t.Helper()
	order, step := "&order=asc", 1
	if !asc {
		order, step = "&order=desc", -1
	}
	last := 0
	for cursor, more := "", true; more; {
		w := a.ask(tradesPath("&limit=700" + order + cursor))
		var page struct {
			Data struct {
				Trades []lostTrade
				Lost   []lostRange
				Next   string `json:"next_cursor"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			a.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if !slices.Equal(headerLost(a.t, w), page.Data.Lost) {
			a.t.Errorf("header %q, body %+v", w.Header().Get("Rueda-Lost"), page.Data.Lost)
		}
		if len(page.Data.Lost) > 0 && strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			a.t.Error("a page with missing rows is immutable")
		}
		list := page.Data.Lost
		for _, r := range page.Data.Trades {
			for len(list) > 0 && last != 0 && r.N != last+step {
				if asc && list[0].From != last+1 || !asc && list[0].To != last-1 {
					a.t.Fatalf("%+v is missing after N %d", list[0], last)
				}
				if last = list[0].To; !asc {
					last = list[0].From
				}
				list = list[1:]
			}
			if last != 0 && r.N != last+step {
				a.t.Fatalf("N %d follows N %d", r.N, last)
			}
			last = r.N
			a.wantTrade(r.N, r.T, fmt.Sprint(r.P))
			rows = append(rows, r.N)
		}
		if len(list) > 0 {
			a.t.Errorf("after N %d: %+v", last, list)
		}
		lost = append(lost, page.Data.Lost...)
		cursor, more = "&cursor="+page.Data.Next, page.Data.Next != ""
	}
	for _, l := range lost {
		if l != wantLostRange(l.From, l.To) {
			a.t.Errorf("%+v, want %+v", l, wantLostRange(l.From, l.To))
		}
	}
	return rows, lost
}

// wantTrade checks the figures of a trade.
func (a *archive) wantTrade(n int, at, price string) {
	a.t.Helper()
	if want := strconv.Itoa(7000 + (n-1)%lostDayRows%50); at != lostTime(n) || price != want {
		a.t.Fatalf("N %d: time %s, price %s, want %s and %s", n, at, price, lostTime(n), want)
	}
}

// wantOtherPages checks the same rows in descending order, as CSV and JSON lines, and in a range of
// times within the missing ones.
func (a *archive) wantOtherPages(rows []int, lost []lostRange) {
	a.t.Helper()
	back, backLost := a.lostPages(false)
	slices.Reverse(back)
	if !slices.Equal(back, rows) || !slices.Equal(backLost, lost) {
		a.t.Errorf("descending: %d rows, %+v; ascending: %d rows, %+v", len(back), backLost, len(rows), lost)
	}
	for _, media := range []string{"text/csv", "application/x-ndjson"} {
		w := a.ask(tradesPath("&limit=10000"), "Accept", media)
		if w.Code != 200 || !slices.Equal(headerLost(a.t, w), lost) || !slices.Equal(a.lostRows(w.Body.String(), media), rows) {
			a.t.Errorf("%s: %d, %v", media, w.Code, w.Header())
		}
	}
	for _, l := range lost {
		n := (l.From + l.To) / 2
		w := a.ask(tradesPath("&start=" + lostTime(n) + "&end=" + lostTime(n+1)))
		if got := headerLost(a.t, w); w.Code != 200 || !slices.Equal(got, []lostRange{l}) {
			a.t.Errorf("within the missing rows: %d %+v, want %+v", w.Code, got, l)
		}
		w = a.ask(tradesPath("&start=" + lostTime(l.To+1)))
		if got := headerLost(a.t, w); l.To < 2*lostDayRows && !slices.Equal(got, []lostRange{l}) && len(got) > 0 {
			a.t.Errorf("after the missing rows: %+v", got)
		}
	}
}

// lostRows returns the N of the rows of a text, whose figures it checks.
func (a *archive) lostRows(text, media string) (list []int) {
	a.t.Helper()
	if media == "text/csv" {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			a.t.Fatal(err)
		}
		price := slices.Index(rows[0], "price")
		for _, r := range rows[1:] {
			n, _ := strconv.Atoi(r[6])
			a.wantTrade(n, r[0], r[price])
			list = append(list, n)
		}
		return list
	}
	for line := range strings.Lines(text) {
		var r lostTrade
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			a.t.Fatalf("%q: %v", line, err)
		}
		a.wantTrade(r.N, r.T, fmt.Sprint(r.P))
		list = append(list, r.N)
	}
	return list
}

// wantLostExport checks the files of the closed day.
func (a *archive) wantLostExport(lost []lostRange) {
	a.t.Helper()
	lost = slices.DeleteFunc(slices.Clone(lost), func(l lostRange) bool { return l.From > lostDayRows })
	var want []int
	for n := range lostDayRows {
		if !slices.ContainsFunc(lost, func(l lostRange) bool { return n+1 >= l.From && n+1 <= l.To }) {
			want = append(want, n+1)
		}
	}
	for i := range lost {
		lost[i].Instrument, lost[i].Epoch = journaltest.ID().String(), "e1"
	}
	path := "/market/export?type=trades&date=" + lostFirstDay + "&format="
	for format, media := range map[string]string{"csv": "text/csv", "ndjson": "application/x-ndjson", "parquet": ""} {
		w := a.ask(path + format)
		if w.Code != 200 || !slices.Equal(headerLost(a.t, w), lost) {
			a.t.Errorf("%s: %d %v, want %+v", format, w.Code, w.Header(), lost)
		}
		if media != "" {
			if got := a.lostRows(w.Body.String(), media); !slices.Equal(got, want) {
				a.t.Errorf("%s: %d rows, want %d", format, len(got), len(want))
			}
		} else if got := parquetLost(a.t, w); got != w.Header().Get("Rueda-Lost") {
			a.t.Errorf("the metadata of the Parquet file, %q, differ from the header, %q", got, w.Header().Get("Rueda-Lost"))
		}
	}
}

// parquetLost returns the missing rows in the metadata of a Parquet file.
func parquetLost(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	must(t, err)
	text, _ := file.Lookup("rueda.lost")
	return text
}

// TestDamageMetByExport damages the rows of a closed day in its index and its segments, which is
// only found when they are read. No file that lacks them can be cached: the one that meets the
// damage is cut off, and the next ones have no tag.
func TestDamageMetByExport(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"csv", "ndjson", "parquet"} {
		folder := filepath.Join(t.TempDir(), "journal")
		journaltest.Days{Folder: folder, Epoch: "e1", Closed: 1, Rows: lostDayRows}.Write(t)
		for _, name := range append(segmentsOf(t, folder, lostFirstDay)[1:2], filepath.Join(folder, lostFirstDay, "day.idx")) {
			text, err := os.ReadFile(name)
			must(t, err)
			clear(text[200:1000]) // of the index, its first block
			must(t, os.WriteFile(name, text, 0o600))
		}
		a := newArchive(t, journal.Config{Folder: folder, Days: 1000}, nil)
		_, err := a.hub.Define(market.Instrument{ID: journaltest.ID(), PriceDecimals: 2})
		must(t, err)
		path := "/market/export?type=trades&date=" + lostFirstDay + "&format=" + format
		ask := func() (w *httptest.ResponseRecorder, cut bool) {
			defer func() {
				if p := recover(); p != nil {
					cut = true
				}
			}()
			w = a.ask(path)
			return w, false
		}
		if w, cut := ask(); !cut {
			t.Errorf("%s: %d, %v, trailer %v", format, w.Code, w.Header(), w.Result().Trailer)
		}
		for range 2 {
			w, cut := ask()
			if cut {
				t.Fatalf("%s: it is cut off again", format)
			}
			if w.Code != 200 || w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "private, no-cache" {
				t.Errorf("%s: %d, %v", format, w.Code, w.Header())
			}
			list := w.Header().Get("Rueda-Lost") + w.Result().Trailer.Get("Rueda-Lost")
			if !strings.Contains(list, `"reason":"buffer_exceeded"`) || format == "parquet" && parquetLost(t, w) != list {
				t.Errorf("%s: %q", format, list)
			}
		}
	}
}

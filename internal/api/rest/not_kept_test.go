package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
)

// lostPage has the members of a page that tests of missing rows check.
type lostPage struct {
	Trades []lostTrade
	Epoch  string
	From   int `json:"complete_from"`
	Lost   []lostRange
	Next   string `json:"next_cursor"`
}

// lostPageOf returns a page, whose header has the same list.
func (a *archive) lostPageOf(path string) (p lostPage, w *httptest.ResponseRecorder) {
	a.t.Helper()
	w = a.ask(path)
	var envelope struct{ Data *lostPage }
	envelope.Data = &p
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil || w.Code != http.StatusOK {
		a.t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	if !slices.Equal(headerLost(a.t, w), p.Lost) {
		a.t.Errorf("%s: header %q, body %+v", path, w.Header().Get("Rueda-Lost"), p.Lost)
	}
	if len(p.Lost) > 0 && w.Header().Get("Cache-Control") != "private, no-cache" {
		a.t.Errorf("%s: Cache-Control %q", path, w.Header().Get("Cache-Control"))
	}
	return p, w
}

// TestNotKept asks a journal whose first day is removed, and one in which a segment is missing in
// addition. Each request that begins before what is kept says so on its first page.
func TestNotKept(t *testing.T) {
	t.Parallel()
	removed := lostRange{From: 1, To: lostDayRows, End: lostTime(lostDayRows + 1), Reason: "buffer_exceeded"}
	after := func(n int) []lostRange {
		l := removed
		l.From = n + 1
		return []lostRange{l}
	}
	for _, middle := range []bool{false, true} {
		folder := filepath.Join(t.TempDir(), "journal")
		days := streamtest.Days{Folder: folder, Closed: 2, Rows: lostDayRows}
		days.Write(t)
		days.RemoveFirstDay(t)
		var other []lostRange
		if middle {
			days.RemoveSegment(t, "2025-11-23")
		}
		a := openDays(t, folder)
		if middle {
			p, _ := a.lostPageOf(tradesPath("&limit=10000"))
			if other = p.Lost; len(other) != 1 || other[0] != wantLostRange(other[0].From, other[0].To) || other[0].From <= 2*lostDayRows {
				t.Fatalf("the segment: %+v", other)
			}
		}
		for query, want := range map[string][]lostRange{
			"&start=2025-11-21":                            {removed},
			"&start=2025-11-01T12:00:00Z":                  {removed},
			"&start=2025-11-21&end=2025-11-22":             {removed}, // of which nothing is left
			"&start=" + lostTime(lostDayRows):              {removed},
			"&after_sequence=0":                            {removed},
			"&after_sequence=2":                            after(2),
			"&after_sequence=1499":                         after(1499),
			"&after_sequence=2&start=2025-11-21":           after(2),
			"&after_sequence=2&epoch=" + a.journal.Epoch(): after(2),
			"&after_sequence=1500":                         nil,
			"&after_sequence=2&start=2025-11-22":           nil,
			"&start=2025-11-22":                            nil, // the whole day is there
			"&start=2025-11-22&end=2025-11-23":             nil,
			"&start=2025-11-22&epoch=" + a.journal.Epoch(): nil,
			"&start=" + lostTime(lostDayRows+1):            nil,
			"":                                             nil,
			"&epoch=" + a.journal.Epoch():                  nil,
			"&end=2025-11-22":                              nil,
		} {
			if middle && len(query) > 0 && want == nil {
				continue
			}
			all := slices.Clone(want)
			if !strings.Contains(query, "&end=") { // it has the rows of the other day too
				all = append(all, other...)
			}
			for _, order := range []string{"&order=asc", "&order=desc"} {
				path := tradesPath(query + order + "&limit=2") // which has the entry
				if middle {
					path = tradesPath(query + order + "&limit=10000")
				}
				p, _ := a.lostPageOf(path)
				if !slices.Equal(p.Lost, all) || p.Epoch != a.journal.Epoch() {
					t.Errorf("middle %t, %s%s: %+v of epoch %s, want %+v", middle, query, order, p.Lost, p.Epoch, all)
				}
				if !middle {
					a.wantSameLost(path, want)
				}
			}
		}
		if w := a.ask("/market/export?type=trades&date=2025-11-21"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "2025-11-22") {
			t.Errorf("a file of the removed day: %d %s", w.Code, w.Body)
		}
		if w := a.ask("/market/export?type=trades&date=2025-11-22"); w.Code != http.StatusOK || !middle && (w.Header().Get("Rueda-Lost") != "" || parquetLost(t, w) != "") {
			t.Errorf("a file of the day after it: %d %v", w.Code, w.Header())
		}
		for _, order := range []string{"asc", "desc"} { // only the first page says it
			first, _ := a.lostPageOf(tradesPath("&start=2025-11-21&limit=500&order=" + order))
			if len(first.Lost) == 0 || first.Lost[0] != removed {
				t.Errorf("%s: first page: %+v", order, first.Lost)
			}
			for next := first.Next; next != ""; {
				p, _ := a.lostPageOf(tradesPath("&start=2025-11-21&limit=500&order=" + order + "&cursor=" + next))
				if next = p.Next; slices.Contains(p.Lost, removed) {
					t.Errorf("%s: a later page: %+v", order, p.Lost)
				}
			}
		}
	}
}

// TestLostAfterNotKept removes the first day, and the segment that has the only trade of a rare
// instrument on the second one. The instrument says which trade is no longer kept, and which is
// missing.
func TestLostAfterNotKept(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ { // segments
		days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 2, Rows: lostDayRows}
		days.Write(t)
		days.RemoveFirstDay(t)
		must(t, os.Remove(segmentsOf(t, days.Folder, "2025-11-22")[k]))
		a := openDays(t, days.Folder)
		_, err := a.hub.Define(market.Instrument{ID: days.Rare(), PriceDecimals: 2})
		must(t, err)
		path := notKeptPath(days.Rare().String(), "&start=")
		p, _ := a.lostPageOf(path + "2025-11-22")
		if len(p.Trades) > 0 && p.Trades[0].N == 2 {
			continue // it is in another segment
		}
		removed := lostRange{From: 1, To: 1, End: p.Trades[0].T, Reason: "buffer_exceeded"}
		missing := lostRange{From: 2, To: 2, End: p.Trades[0].T, Reason: "buffer_exceeded"}
		if len(p.Trades) != 1 || p.Trades[0].N != 3 || !slices.Equal(p.Lost, []lostRange{missing}) {
			t.Errorf("since the first day: %+v", p)
		}
		for _, order := range []string{"asc", "desc"} {
			if p, _ := a.lostPageOf(path + "2025-11-01&order=" + order); !slices.Equal(p.Lost, []lostRange{removed, missing}) {
				t.Errorf("%s: %+v", order, p.Lost)
			}
		}
		break
	}
}

// TestDayBetweenIsNotKept removes a day between others. The answers to requests for its file and
// for a book of it do not say that everything after the first day is kept.
func TestDayBetweenIsNotKept(t *testing.T) {
	t.Parallel()
	days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 2, Rows: lostDayRows}
	days.Write(t)
	must(t, os.RemoveAll(filepath.Join(days.Folder, "2025-11-22")))
	a := openDays(t, days.Folder)
	_, err := a.hub.Define(market.Instrument{ID: days.Rare(), PriceDecimals: 2})
	must(t, err)
	for path, hint := range map[string]string{
		"/market/export?type=trades&date=2025-11-22":                       "The nearest days that are kept are 2025-11-21 and 2025-11-23",
		"/market/export?type=trades&date=2025-11-20":                       "Kept from 2025-11-21T10:00:00.000000000Z on",
		"/market/book?instrument=RARE%7CBYMA%7CCI&at=2025-11-22T12:00:00Z": "Rows of the book are missing before that time",
		"/market/book?instrument=RARE%7CBYMA%7CCI&at=2025-11-20T12:00:00Z": "Kept from 2025-11-21T10:00:00.000000000Z on",
	} {
		if w := a.ask(path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"hint":"`+hint+`"`) {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, hint)
		}
	}
}

// TestPartOfDayIsNotKept removes the first file of the first day. Pages and files of that day say
// what is missing; a page that begins after it says nothing.
func TestPartOfDayIsNotKept(t *testing.T) {
	t.Parallel()
	days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: lostDayRows}
	days.Write(t)
	days.RemoveFirstSegment(t, lostFirstDay)
	synctest.Test(t, func(t *testing.T) {
		a := openDays(t, days.Folder)
		a.run(func() bool { return a.journal.Days()[0].Closed })
		_, err := a.hub.Define(market.Instrument{ID: days.Rare(), PriceDecimals: 2})
		must(t, err)
		all, _ := a.lostPageOf(tradesPath("&limit=10000"))
		first := all.Trades[0].N
		if first == 1 || len(all.Trades) != 2*lostDayRows-first+1 || len(all.Lost) > 0 {
			t.Fatalf("from N %d: %d rows, %v", first, len(all.Trades), all.Lost)
		}
		want := lostRange{From: 1, To: first - 1, End: lostTime(first), Reason: "buffer_exceeded"}
		for query, lost := range map[string][]lostRange{
			"&start=2025-11-20": {want}, "&start=2025-11-21": {want}, "&start=2025-11-21&end=2025-11-22": {want},
			"&start=" + lostTime(first-1): {want}, "&start=" + lostTime(first): nil, "&start=2025-11-22": nil,
		} {
			for _, order := range []string{"&order=asc", "&order=desc"} {
				if p, _ := a.lostPageOf(tradesPath(query + order)); !slices.Equal(p.Lost, lost) {
					t.Errorf("%s%s: %+v, want %+v", query, order, p.Lost, lost)
				}
			}
		}
		want.Instrument, want.Epoch = journaltest.ID().String(), a.journal.Epoch()
		for _, format := range []string{"csv", "ndjson", "parquet"} {
			w := a.ask("/market/export?type=trades&date=2025-11-21&format=" + format)
			if w.Code != http.StatusOK || !slices.Equal(headerLost(t, w), []lostRange{want}) || w.Header().Get("Cache-Control") != "private, no-cache" {
				t.Errorf("%s: %d %v, want %+v", format, w.Code, w.Header(), want)
			}
			if format == "parquet" && parquetLost(t, w) != w.Header().Get("Rueda-Lost") {
				t.Errorf("metadata: %q", parquetLost(t, w))
			}
		}
		want = lostRange{Instrument: days.Rare().String(), Epoch: want.Epoch, From: 1, To: 1, End: lostTime(lostDayRows + 1), Reason: "buffer_exceeded"}
		if w := a.ask("/market/export?type=quotes&date=2025-11-21"); w.Code != http.StatusOK || !slices.Equal(headerLost(t, w), []lostRange{want}) {
			t.Errorf("quotes: %d %v, want %+v", w.Code, w.Header(), want)
		}
		w := a.ask("/market/export?type=depth&date=2025-11-21&format=csv")
		depth := `[{"instrument":"RARE|BYMA|CI","epoch":"` + want.Epoch + `","from":1,"to":1,"reason":"buffer_exceeded"}]`
		if got := w.Result().Trailer.Get("Rueda-Lost"); w.Code != http.StatusOK || w.Header().Get("ETag") != "" || got != depth {
			t.Errorf("depth: %d %v, trailer %q, want %s", w.Code, w.Header(), got, depth)
		}
	})
}

// wantSameLost checks that an answer has the same header in each form, in a 304, and for pages of
// another origin.
func (a *archive) wantSameLost(path string, want []lostRange) {
	a.t.Helper()
	for _, media := range []string{"application/json", "text/csv", "application/x-ndjson"} {
		got := a.ask(path, "Accept", media, "Origin", "https://app.example.com")
		if got.Code != http.StatusOK || !slices.Equal(headerLost(a.t, got), want) {
			a.t.Errorf("%s as %s: %d, %q, want %v", path, media, got.Code, got.Header().Get("Rueda-Lost"), want)
		}
		exposed := strings.Split(got.Header().Get("Access-Control-Expose-Headers"), ", ")
		if got.Header().Get("Access-Control-Allow-Origin") != "https://app.example.com" || !slices.Contains(exposed, "Rueda-Lost") {
			a.t.Errorf("%s: another origin: %v", path, got.Header())
		}
		again := a.ask(path, "Accept", media, "If-None-Match", got.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || !slices.Equal(headerLost(a.t, again), want) {
			a.t.Errorf("%s as %s again: %d, %q, want %v", path, media, again.Code, again.Header().Get("Rueda-Lost"), want)
		}
	}
}

// notKeptHub is a gateway whose hub writes the journal, with the bubble's clock.
type notKeptHub struct {
	*archive
	user string
}

// openNotKept opens a journal that keeps some closed days.
func openNotKept(t *testing.T, folder string, days int) *notKeptHub {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same", Days: days, Sync: time.Millisecond})
	must(t, err)
	h := hub.New(hub.Config{Journal: j, Markets: []market.Market{{ID: "BYMA"}, {ID: "OTHER"}}, Delays: []time.Duration{15 * time.Minute}})
	must(t, h.Restore(t.Context()))
	a := &archive{t: t, journal: j, folder: folder}
	a.gateway = newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Hub, c.Journal = h, j })
	a.hub = h
	return &notKeptHub{archive: a, user: "historian"}
}

// page returns a page for the user.
func (k *notKeptHub) page(path string) lostPage {
	k.t.Helper()
	k.access, _ = k.login(k.t, k.user)
	p, _ := k.lostPageOf(path)
	return p
}

// trade publishes trades of an instrument a second apart, and returns the event time of the first.
func (k *notKeptHub) trade(id string, n int, virtual bool) (first string) {
	k.t.Helper()
	parsed, err := market.ParseInstrumentID(id)
	must(k.t, err)
	handle, err := k.hub.Define(market.Instrument{ID: parsed, PriceDecimals: 2, VirtualClock: virtual})
	must(k.t, err)
	for range n {
		now := time.Now()
		if first == "" {
			first = now.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
		}
		must(k.t, k.hub.Publish([]market.Event{{Kind: market.KindTrade, Handle: handle, Time: now.UnixNano(), Price: market.Scale, Size: market.Scale}}))
		k.hub.Commit()
		time.Sleep(time.Second)
	}
	return first
}

// wantLost checks what a page says about rows that are not kept.
func (k *notKeptHub) wantLost(name, path string, from int, want ...lostRange) {
	k.t.Helper()
	for _, order := range []string{"&order=asc", "&order=desc"} {
		p := k.page(path + order)
		if !slices.Equal(p.Lost, want) || p.From != from {
			k.t.Errorf("%s%s: %+v, complete from %d, want %+v, %d", name, order, p.Lost, p.From, want, from)
		}
	}
}

// openDays opens a journal of streamtest.Days.
func openDays(t *testing.T, folder string) *archive {
	t.Helper()
	a := newArchive(t, journal.Config{Folder: folder, Days: 1000}, nil)
	_, err := a.hub.Define(market.Instrument{ID: journaltest.ID(), PriceDecimals: 2})
	must(t, err)
	return a
}

func notKeptPath(id, query string) string {
	return "/market/trades?instrument=" + strings.ReplaceAll(id, "|", "%7C") + query
}

// TestNotKeptOfRareInstruments removes the first days of a journal with retention. An instrument
// whose rows are all gone says how many there were. One that has always had its rows says nothing,
// and one of which nothing is known says only that.
func TestNotKeptOfRareInstruments(t *testing.T) {
	t.Parallel()
	const gone, rare, fresh, always, never = "GONE|BYMA|CI", "RARE|BYMA|CI", "FRESH|BYMA|CI", "ALWAYS|BYMA|CI", "NEVER|BYMA|CI"
	synctest.Test(t, func(t *testing.T) {
		k := openNotKept(t, t.TempDir(), 2)
		defer func() { must(t, k.journal.Close()) }()
		k.trade(never, 0, false)
		k.trade(gone, 4, false)
		k.trade(rare, 2, false)
		day := func() { time.Sleep(24*time.Hour - time.Since(time.Now().Truncate(24*time.Hour)) + 10*time.Hour) }
		k.wantLost("from the beginning", notKeptPath(gone, "&start=1999-01-01"), 0) // nothing was ever removed
		k.wantLost("without rows", notKeptPath(never, "&start=1999-01-01"), 0)
		var first string
		for d := range 5 {
			day()
			k.trade(always, 1, false)
			if d == 4 {
				first = k.trade(rare, 1, false)
				k.trade(fresh, 1, false)
			}
		}
		k.run(func() bool { return len(k.journal.Days()) == 3 })
		since := k.journal.Days()[0].Date
		if since != "2000-01-04" {
			t.Fatalf("days: %+v", k.journal.Days())
		}
		k.wantLost("all are gone", notKeptPath(gone, "&start=2000-01-01"), 5, lostRange{From: 1, To: 4, Reason: "buffer_exceeded"})
		k.wantLost("after one of them", notKeptPath(gone, "&after_sequence=3"), 5, lostRange{From: 4, To: 4, Reason: "buffer_exceeded"})
		k.wantLost("after all of them", notKeptPath(gone, "&after_sequence=4"), 5)
		k.wantLost("since the first day", notKeptPath(gone, "&start="+since), 5)
		k.wantLost("a rare one", notKeptPath(rare, "&start=2000-01-01"), 3, lostRange{From: 1, To: 2, End: first, Reason: "buffer_exceeded"})
		k.wantLost("a rare one since the first day", notKeptPath(rare, "&start="+since), 3)
		k.wantLost("never traded", notKeptPath(never, "&start=2000-01-01"), 0, lostRange{Reason: "buffer_exceeded"})
		p := k.page(notKeptPath(fresh, "&start=2000-01-01"))
		if len(p.Lost) != 1 || p.Lost[0].To != 0 || p.Lost[0].End != p.Trades[0].T {
			t.Errorf("an instrument of today: %+v", p.Lost)
		}
		k.wantLost("an instrument of today, by N", notKeptPath(fresh, "&after_sequence=0"), 0)
	})
}

// TestNotKeptOfEpochs removes the first days of a journal with two epochs. N of an epoch that is
// not that of the page are left out.
func TestNotKeptOfEpochs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openNotKept(t, folder, 2)
		day := func() { time.Sleep(24 * time.Hour) }
		k.trade(ggal, 3, false)
		day()
		second := k.trade(ggal, 2, false)
		day()
		k.trade(ggal, 2, false)
		must(t, k.journal.Close())
		must(t, os.Remove(filepath.Join(folder, "state"))) // a new epoch
		k = openNotKept(t, folder, 2)
		defer func() { must(t, k.journal.Close()) }()
		k.trade("XYZ|OTHER|CI", 2, false)
		third := k.trade(ggal, 2, false)
		day()
		k.trade(ggal, 1, false)
		k.run(func() bool { return k.journal.Days()[0].Date == "2000-01-02" && k.journal.Days()[0].Closed })
		removed := lostRange{From: 1, To: 3, End: second, Reason: "buffer_exceeded"}
		p := k.page(notKeptPath(ggal, "&start=2000-01-01"))
		if len(p.Trades) != 4 || p.Epoch == k.journal.Epoch() || !slices.Equal(p.Lost, []lostRange{removed}) {
			t.Errorf("the first epoch: %+v", p)
		}
		p = k.page(notKeptPath(ggal, "&start=2000-01-01&order=desc"))
		removed.From, removed.To = 0, 0
		if len(p.Trades) != 3 || p.Epoch != k.journal.Epoch() || !slices.Equal(p.Lost, []lostRange{removed}) {
			t.Errorf("the last epoch: %+v", p)
		}
		k.wantLost("only the last epoch", notKeptPath(ggal, "&start=2000-01-01&epoch="+k.journal.Epoch()), 0)
		day()
		k.trade(ggal, 1, false)
		day()
		k.trade(ggal, 1, false)
		k.run(func() bool { return len(k.journal.Epochs()) == 1 || k.journal.Days()[0].Date == "2000-01-03" })
		must(t, k.journal.Close())
		must(t, os.RemoveAll(filepath.Join(folder, "2000-01-03"))) // with all of the first epoch
		k = openNotKept(t, folder, 2)
		if n := len(k.journal.Epochs()); n != 1 {
			t.Fatalf("%d epochs", n)
		}
		p = k.page(notKeptPath(ggal, "&start=2000-01-01"))
		if len(p.Lost) != 1 || p.Lost[0].End == third || p.Lost[0].End != p.Trades[0].T || p.Lost[0].To != p.Trades[0].N-1 {
			t.Errorf("without the first epoch: %+v", p)
		}
	})
}

// TestNotKeptOfVirtualClocks checks that the days of a journal say nothing about the times of a
// virtual clock: N and time of the first row decide.
func TestNotKeptOfVirtualClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := openNotKept(t, t.TempDir(), 1)
		defer func() { must(t, k.journal.Close()) }()
		var first string
		for range 4 {
			k.trade("XYZ|OTHER|CI", 1, false)
			first = k.trade(ggal, 1, true)
			time.Sleep(24 * time.Hour)
		}
		k.trade("XYZ|OTHER|CI", 1, false)
		k.run(func() bool { return len(k.journal.Days()) == 2 })
		k.wantLost("before it", notKeptPath(ggal, "&start=1999-01-01"), 4, lostRange{From: 1, To: 3, End: first, Reason: "buffer_exceeded"})
		k.wantLost("after it", notKeptPath(ggal, "&start="+first[:19]+".9Z"), 4)
	})
}

// TestNotKeptAtDelay checks that users of delayed data learn no N that they do not have yet.
func TestNotKeptAtDelay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openNotKept(t, folder, 2)
		time.Sleep(23*time.Hour + 45*time.Minute)
		k.trade(ggal, 3, false)
		time.Sleep(8 * time.Minute) // 23:53
		k.trade(ggal, 2, false)
		time.Sleep(8 * time.Minute) // 00:01 of the next day
		first := k.trade(ggal, 2, false)
		must(t, k.journal.Close())
		must(t, os.RemoveAll(filepath.Join(folder, "2000-01-01")))
		k = openNotKept(t, folder, 2)
		defer func() { must(t, k.journal.Close()) }()
		known := lostRange{From: 1, To: 5, End: first, Reason: "buffer_exceeded"}
		path := notKeptPath(ggal, "&start=2000-01-01")
		time.Sleep(3 * time.Minute)
		k.wantLost("in real time", path, 6, known)
		k.user = "late"
		k.wantLost("delayed", path, 0, lostRange{Reason: "buffer_exceeded"})
		k.wantLost("delayed, by N", notKeptPath(ggal, "&after_sequence=1"), 0)
		k.user = "historian"
		k.wantLost("in real time, by N", notKeptPath(ggal, "&after_sequence=1"), 6, lostRange{From: 2, To: 5, End: first, Reason: "buffer_exceeded"})
		k.user = "late"
		time.Sleep(15 * time.Minute)
		k.wantLost("delayed, later", path, 6, known)
	})
}

// TestCompleteFromAtDelay looks at a segment that is missing between others at the time at which
// users of delayed data have some of its rows.
func TestCompleteFromAtDelay(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "journal")
	days := streamtest.Days{Folder: folder, Rows: lostDayRows}
	days.Write(t)
	days.RemoveSegment(t, lostFirstDay)
	synctest.Test(t, func(t *testing.T) {
		a := openDays(t, folder)
		p, _ := a.lostPageOf(tradesPath("&limit=10000"))
		if len(p.Lost) != 1 || p.From != p.Lost[0].To+1 {
			t.Fatalf("%+v, complete from %d", p.Lost, p.From)
		}
		from, to := p.Lost[0].From, p.Lost[0].To
		complete := p.From
		for _, c := range []struct{ n, want int }{
			{from / 2, from / 2}, {from - 1, from - 1}, {from + 1, from - 1}, {to, from - 1}, {to + 1, complete - 1}, {to + 5, complete - 1},
		} {
			n, want := c.n, c.want
			at, err := time.Parse(time.RFC3339Nano, lostTime(n))
			must(t, err)
			time.Sleep(time.Until(at.Add(15 * time.Minute)))
			a.access, _ = a.login(t, "late")
			if p, _ := a.lostPageOf(tradesPath("&limit=10000")); p.From != want+1 {
				t.Errorf("N %d is visible: complete from %d, want %d", n, p.From, want+1)
			}
		}
	})
}

// TestLostNowAtDelay loses rows because a folder has the name of the next segment. Pages list the
// lost trades while that lasts. Users of delayed data learn of them after their delay, but no N.
func TestLostNowAtDelay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := openNotKept(t, folder, 2)
		defer func() { must(t, k.journal.Close()) }()
		time.Sleep(23*time.Hour + 30*time.Minute)
		k.trade(ggal, 3, false)
		must(t, os.MkdirAll(filepath.Join(folder, "2000-01-02", "00000002.seg"), 0o700))
		time.Sleep(30 * time.Minute)
		first := k.trade(ggal, 2, false)
		if _, _, ok := k.journal.Suspended(); !ok {
			t.Fatal("the trades are stored")
		}
		start := "2000-01-01T23:30:02.000000000Z"
		known := lostRange{From: 4, To: 5, Start: start, Reason: "buffer_exceeded"}
		for _, query := range []string{"", "&start=2000-01-01", "&after_sequence=0", "&start=" + first} {
			k.wantLost("in real time", notKeptPath(ggal, query), 6, known)
		}
		k.user = "late"
		k.wantLost("delayed", notKeptPath(ggal, "&start=2000-01-01"), 4)
		k.user = "historian"
		time.Sleep(15 * time.Minute)
		k.trade(ggal, 1, false)
		known.To = 6
		k.wantLost("in real time", notKeptPath(ggal, "&start=2000-01-01"), 7, known)
		k.user = "late"
		known.To = 0
		for _, query := range []string{"", "&start=2000-01-01", "&start=" + first} {
			k.wantLost("delayed, later", notKeptPath(ggal, query), 4, known)
		}
	})
}

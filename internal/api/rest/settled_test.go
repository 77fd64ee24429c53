package rest_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// over returns when the first day of these tests ends.
func over() int64 { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixNano() }

// publish appends a quote that happened and was published at a time, so that the journal reaches
// it.
func (a *archive) publish(at int64) {
	a.keep(ggal, journal.Row{Kind: journal.Quote, Time: at, Bids: []market.Level{{Price: market.Scale, Size: market.Scale}}})
}

// justClosed returns an archive with trades on 2026-11-20, which is closed, and a row in the first
// nanosecond of the next day.
func justClosed(t *testing.T) *archive {
	t.Helper()
	a := newArchive(t, journal.Config{Sync: time.Millisecond}, nil)
	a.trades(ggal, 20)
	a.publish(over())
	a.run(func() bool { return a.journal.Days()[0].Closed })
	return a
}

func settled(w *httptest.ResponseRecorder) bool {
	return strings.Contains(w.Header().Get("Cache-Control"), "immutable")
}

// lateRow is a row that is published some time after its event.
type lateRow struct {
	after time.Duration
	row   journal.Row
}

// TestPagesWaitForLateRows checks that a page of a closed day may change until no late row can
// arrive. A day is closed by publication time, and a page selects by event time.
func TestPagesWaitForLateRows(t *testing.T) {
	at := func(before time.Duration) int64 { return over() - int64(before) }
	bar := func(i market.Interval, before time.Duration, revised bool) journal.Row {
		return journal.Row{Kind: journal.Bar, Time: at(before), Bar: journal.BarRow{Interval: i, Revised: revised,
			First: market.Scale, High: market.Scale, Low: market.Scale, Last: market.Scale, Volume: market.Size(market.Scale).Sum(), Trades: 1}}
	}
	day := []string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z"}
	for _, tt := range []struct {
		name, list, interval string
		late                 []lateRow
		wait                 time.Duration // after the end of the day
	}{
		{"trades under way at midnight", "trades", "", []lateRow{
			{200 * time.Millisecond, journal.Row{Kind: journal.Trade, Time: at(200 * time.Millisecond), Price: market.Scale, Size: market.Scale}},
			{59 * time.Second, journal.Row{Kind: journal.Trade, Time: at(1), Price: market.Scale, Size: market.Scale}},
		}, time.Minute},
		{"statuses", "statuses", "", []lateRow{{time.Second, journal.Row{Kind: journal.Status, Time: at(1), Phase: market.Halt}}}, time.Minute},
		{"the day's last minute", "bars", "1m", []lateRow{
			{time.Millisecond, bar(market.Minute, time.Minute, false)},
			{3*time.Hour + 59*time.Minute, bar(market.Minute, time.Minute, true)}, // while the trading day of Buenos Aires is revised
		}, 26*time.Hour + time.Minute},
		{"trading days of Buenos Aires", "bars", "1d", []lateRow{
			{3 * time.Hour, bar(market.Day, 21*time.Hour, false)},
			{4*time.Hour - 1, bar(market.Day, 21*time.Hour, true)},
		}, 26*time.Hour + time.Minute},
		{"trading days of Tokyo", "bars", "1d", []lateRow{
			{15 * time.Hour, bar(market.Day, 9*time.Hour, false)},
			{16*time.Hour - 1, bar(market.Day, 9*time.Hour, true)},
		}, 26*time.Hour + time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := justClosed(t)
				query := day
				if tt.interval != "" {
					query = append([]string{"interval", tt.interval}, day...)
				}
				path := historyPath(tt.list, query...)
				for _, late := range tt.late {
					tag := a.openPage(path)
					r := late.row
					r.At = over() + int64(late.after)
					a.keep(ggal, r)
					if w := a.ask(path, "If-None-Match", tag); w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
						t.Errorf("with a row that came %s after midnight: %d %v", late.after, w.Code, w.Header())
					}
				}
				a.publish(over() + int64(tt.wait) - 1)
				a.openPage(path)
				a.publish(over() + int64(tt.wait))
				w := a.ask(path)
				tag := w.Header().Get("ETag")
				if again := a.ask(path, "If-None-Match", tag); !settled(w) || again.Code != http.StatusNotModified || !settled(again) {
					t.Errorf("%s after midnight: %v, again %d %v", tt.wait, w.Header(), again.Code, again.Header())
				}
				if got := strings.Count(w.Body.String(), `"R":true`); tt.interval != "" && got != 1 {
					t.Errorf("%d revised bars: %s", got, w.Body)
				}
			})
		})
	}
}

// openPage requests a page that may change and returns its tag, which is valid until it changes.
func (a *archive) openPage(path string) (tag string) {
	a.t.Helper()
	w := a.ask(path)
	tag = w.Header().Get("ETag")
	again := a.ask(path, "If-None-Match", tag)
	if settled(w) || w.Code != http.StatusOK || again.Code != http.StatusNotModified || settled(again) {
		a.t.Errorf("a page that may change: %d %v, again %d %v", w.Code, w.Header(), again.Code, again.Header())
	}
	return tag
}

// TestPagesSettleAsFilesDo checks that pages and files of a day become final together. Bars are an
// exception: a file has them without later revisions.
func TestPagesSettleAsFilesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := justClosed(t)
		for _, after := range []time.Duration{time.Second, time.Minute - 1, time.Minute, 13*time.Hour - 1, 13 * time.Hour, 27 * time.Hour} {
			a.publish(over() + int64(after))
			for _, list := range []string{"trades", "quotes", "bars"} {
				page := settled(a.ask(historyPath(list, "start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z")))
				file := a.ask("/market/export?market=BYMA&date=2026-11-20&type="+list).Code == http.StatusOK
				if page && !file || file && !page && list != "bars" {
					t.Errorf("%s after midnight %s are settled on pages: %v, in files: %v", after, list, page, file)
				}
			}
		}
	})
}

// TestDelayedPagesWaitForLateRows checks that late rows arrive later for users of delayed data. The
// clock of these tests begins with the year 2000, and so does the day after that of the page.
func TestDelayedPagesWaitForLateRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(t, journal.Config{Sync: time.Millisecond}, nil)
		midnight := time.Now().Truncate(24 * time.Hour)
		trade := func(at, published time.Duration) {
			a.keep(ggal, journal.Row{Kind: journal.Trade, Time: midnight.Add(at).UnixNano(), At: midnight.Add(published).UnixNano(), Price: market.Scale, Size: market.Scale})
		}
		trade(-time.Hour, -time.Hour)
		trade(-time.Second, 30*time.Second)
		a.publish(midnight.Add(time.Minute).UnixNano())
		a.run(func() bool { return a.journal.Days()[0].Closed })
		path := historyPath("trades", "start", midnight.AddDate(0, 0, -1).Format(time.RFC3339), "end", midnight.Format(time.RFC3339))
		if w := a.ask(path); !settled(w) {
			t.Errorf("to whom they come at once: %v", w.Header())
		}
		const delay = 15 * time.Minute
		time.Sleep(time.Until(midnight.Add(delay + 10*time.Second)))
		a.access, _ = a.login(t, "late")
		tag := a.openPage(path)
		time.Sleep(time.Until(midnight.Add(delay + 30*time.Second)))
		if w := a.ask(path, "If-None-Match", tag); w.Code != http.StatusOK || settled(w) || strings.Count(w.Body.String(), `"type":`) != 2 {
			t.Errorf("with the late row: %d %v %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(time.Until(midnight.Add(delay + time.Minute)))
		if w := a.ask(path); !settled(w) {
			t.Errorf("a minute later: %v", w.Header())
		}
	})
}

// A number without an epoch belongs to the current epoch. After a crash the same URL means other
// rows or none, and a cache with the old answer would hide them.
func TestNumbersWithoutEpochAreNotForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, _ := closedArchive(t)
		epoch := old.journal.Epoch()
		query := []string{"after_sequence", "3", "limit", "5"}
		day := append([]string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z"}, query...)
		next := old.rows(historyPath("trades", query...)).Next
		for _, tt := range []struct {
			query []string
			lasts bool
		}{
			{query, false},
			{day, false},
			{append([]string{"epoch", epoch}, query...), true},
			{append([]string{"epoch", epoch}, day...), true},
			{append([]string{"cursor", next}, query...), true}, // which is of its epoch
		} {
			path := historyPath("trades", tt.query...)
			w := old.ask(path)
			again := old.ask(path, "If-None-Match", w.Header().Get("ETag"))
			if again.Code != http.StatusNotModified || settled(w) != tt.lasts || settled(again) != tt.lasts {
				t.Errorf("%v: %v, again %d %v", tt.query, w.Header(), again.Code, again.Header())
			}
		}

		tags := map[string]string{}
		for _, path := range []string{historyPath("trades", query...), historyPath("trades", day...)} {
			tags[path] = old.ask(path).Header().Get("ETag")
		}
		crashed := t.TempDir()
		if err := os.CopyFS(crashed, os.DirFS(old.folder)); err != nil {
			t.Fatal(err)
		}
		a := newArchive(t, journal.Config{Folder: crashed, BootID: "another", Sync: time.Millisecond}, nil)
		if a.journal.Epoch() == epoch {
			t.Fatal("the epoch goes on after a crash of the machine")
		}
		for path, tag := range tags {
			if w := a.ask(path, "If-None-Match", tag); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"trades":[],`) {
				t.Errorf("%s in the next epoch: %d %s", path, w.Code, w.Body)
			}
		}
		// Parameters of one epoch are refused in the next one.
		for name, value := range map[string]string{"epoch": epoch, "cursor": next} {
			if w := a.ask(historyPath("trades", append([]string{name, value}, query...)...)); w.Code == http.StatusOK {
				t.Errorf("the %s of the epoch before: %s", name, w.Body)
			}
		}
	})
}

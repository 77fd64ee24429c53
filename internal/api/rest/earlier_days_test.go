package rest_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/market"
)

// TestHistoryOfNewNode checks that a new node of a cluster refuses history that it does not have
// yet, with 503 and Retry-After, that it serves the rest, and everything when its earlier days are
// added. The rows are those of days 21 to 24, of which the first two are missing at first.
func TestHistoryOfNewNode(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "journal")
	journaltest.Days{Folder: folder, Epoch: "e1", Closed: 3, Rows: 100}.Write(t)
	earlier := journaltest.Split(t, folder, 2)
	a := newArchive(t, journal.Config{Folder: folder, Copy: true, Epoch: "e1", Days: 1000}, nil)
	if _, err := a.hub.Define(market.Instrument{ID: journaltest.ID(), PriceDecimals: 2}); err != nil {
		t.Fatal(err)
	}
	trades := "/market/trades?instrument=" + url.QueryEscape(journaltest.ID().String())
	check := func(path string, want int) {
		t.Helper()
		w := a.ask(path)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
		if w.Code == http.StatusServiceUnavailable && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "another server")) {
			t.Errorf("%s: no next step in %v %s", path, w.Header(), w.Body)
		}
	}
	missing := []string{
		trades, trades + "&start=2025-11-21", trades + "&start=2025-11-22&end=2025-11-23", trades + "&epoch=e1",
		trades + "&order=desc&limit=201", trades + "&order=desc&end=2025-11-23", trades + "&after_sequence=0", trades + "&after_sequence=199",
		"/market/export?type=trades&date=2025-11-21", "/market/export?type=trades&date=2025-11-22",
		"/market/book?instrument=" + url.QueryEscape(journaltest.ID().String()) + "&at=2025-11-22T12:00:00Z",
	}
	there := []string{
		trades + "&start=2025-11-23T10:00:00Z", trades + "&start=2025-11-24", trades + "&order=desc&limit=10", trades + "&order=desc&limit=199",
		trades + "&after_sequence=200", trades + "&after_sequence=390", trades + "&order=desc&start=2025-11-24", trades + "&order=desc&limit=500&after_sequence=250",
		"/market/export?type=trades&date=2025-11-23",
	}
	for _, p := range missing {
		check(p, http.StatusServiceUnavailable)
	}
	for _, p := range there {
		check(p, http.StatusOK)
		if w := a.ask(p); strings.Contains(p, "/trades") && (strings.Contains(w.Body.String(), "complete_from") || strings.Contains(w.Header().Get("Cache-Control"), "immutable")) {
			t.Errorf("%s: %v %s", p, w.Header(), w.Body)
		}
	}
	check(trades+"&start=2025-11-22T10:00:00.099Z", http.StatusServiceUnavailable) // the time of the last missing row
	check(trades+"&start=2025-11-22T10:00:00.0990001Z", http.StatusOK)
	check("/market/export?type=trades&date=2025-11-20", http.StatusNotFound)
	for i := len(earlier) - 1; i >= 0; i-- {
		if err := journal.AddDay(a.journal, earlier[i]); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			check(trades+"&after_sequence=100", http.StatusOK)
			check(trades+"&after_sequence=99", http.StatusServiceUnavailable)
			check("/market/export?type=trades&date=2025-11-22", http.StatusOK)
		}
	}
	for _, p := range append(missing[:len(missing)-1], there...) { // there is no book
		check(p, http.StatusOK)
	}
	if got := a.rows(trades + "&limit=1000"); len(got.Trades) != 400 || got.From > 1 {
		t.Errorf("%d trades, complete from %d", len(got.Trades), got.From)
	}
}

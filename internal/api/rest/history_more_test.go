package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
)

// TestHistoryOfEpochs checks that rows of an earlier epoch are still available, on separate pages.
func TestHistoryOfEpochs(t *testing.T) {
	old := newArchive(t, journal.Config{BootID: "one"}, nil)
	first := old.trades(ggal, 5)
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(old.folder)); err != nil {
		t.Fatal(err)
	}
	a := newArchive(t, journal.Config{Folder: crashed, BootID: "two"}, nil)
	if a.journal.Epoch() == old.journal.Epoch() {
		t.Fatal("the epoch goes on after a crash of the machine")
	}
	second := a.trades(ggal, 3)
	for _, order := range []string{"asc", "desc"} {
		var got, epochs []string
		for cursor := ""; ; {
			p := a.rows(historyPath("trades", "limit", "4", "order", order, "cursor", cursor))
			epochs = append(epochs, fmt.Sprint(p.Epoch == a.journal.Epoch(), len(p.Trades)))
			for _, raw := range p.Trades {
				got = append(got, string(raw))
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		want := append(append([]string(nil), first...), second...)
		pages := "[false 4 false 1 true 3]"
		if order == "desc" {
			for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
				want[i], want[j] = want[j], want[i]
			}
			pages = "[true 3 false 4 false 1]"
		}
		if fmt.Sprint(epochs) != pages || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: pages %v, %d rows", order, epochs, len(got))
		}
	}
	if w := a.ask(historyPath("trades", "epoch", old.journal.Epoch())); w.Code != http.StatusConflict {
		t.Errorf("the epoch before: %d", w.Code)
	}
	if p := a.rows(historyPath("trades", "after_sequence", "1")); len(p.Trades) != 2 {
		t.Errorf("after_sequence is of the present epoch: %d rows", len(p.Trades))
	}
	// A cursor of an unknown epoch.
	foreign := old.rows(historyPath("trades", "limit", "1")).Next
	other := newArchive(t, journal.Config{}, nil)
	if w := other.ask(historyPath("trades", "limit", "1", "cursor", foreign)); w.Code != http.StatusConflict {
		t.Errorf("a cursor of nowhere: %d", w.Code)
	}
}

func TestBookOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(t, journal.Config{}, nil)
		now := time.Now().UnixNano()
		level := func(price float64, size, orders int64) market.Level {
			return market.Level{Price: market.Price(price * market.Scale), Size: market.Size(size) * market.Scale, Orders: uint32(orders)}
		}
		a.keep(ggal, journal.Row{Kind: journal.BookState, Time: now - 2000e9, Bids: []market.Level{level(7049.5, 300, 4), level(7049, 150, 2)},
			Asks: []market.Level{level(7050, 1200, 9), level(7050.5, 80, 1)}})
		a.keep(ggal, journal.Row{Kind: journal.BookUpdate, Time: now - 1000e9, Bids: []market.Level{level(7049.5, 280, 3)}, Asks: []market.Level{level(7050, 0, 0)}})
		at := func(ago int64) string { return fmt.Sprint(now - ago*1e9) }
		book := func(ago int64, query ...string) *httptest.ResponseRecorder {
			return a.ask(historyPath("book", append(query, "at", at(ago))...))
		}
		if w := book(1500); w.Code != http.StatusOK || !strings.Contains(w.Body.String(),
			`"R":true,"DL":5,"B":[[7049.5,300,4],[7049,150,2]],"A":[[7050,1200,9],[7050.5,80,1]],"K":4051739875}`) {
			t.Errorf("the first book: %d %s", w.Code, w.Body)
		}
		if w := book(1000, "depth", "0"); !strings.Contains(w.Body.String(), `"DL":0,"B":[[7049.5,280,3],[7049,150,2]],"A":[[7050.5,80,1]],"K":`) {
			t.Errorf("the second book: %s", w.Body)
		}
		if w := book(500, "depth", "1"); !strings.Contains(w.Body.String(), `"DL":1,"B":[[7049.5,280,3]],"A":[[7050.5,80,1]]`) {
			t.Errorf("its best levels: %s", w.Body)
		}
		// By T it is in the book of its own time, although it was published later.
		a.keep(ggal, journal.Row{Kind: journal.BookUpdate, Time: now - 400e9, At: now - 100e9, Bids: []market.Level{level(7049.5, 70, 3)}})
		for _, tt := range []struct {
			ago  int64
			by   string
			size string
		}{{401, "", "280"}, {400, "", "70"}, {400, "published", "280"}, {101, "published", "280"}, {100, "published", "70"}} {
			var query []string
			if tt.by != "" {
				query = []string{"by", tt.by}
			}
			if w := book(tt.ago, query...); !strings.Contains(w.Body.String(), `"B":[[7049.5,`+tt.size+`,3]`) {
				t.Errorf("%d s ago by %q: %s", tt.ago, tt.by, w.Body)
			}
		}
		if w := book(400, "by", "T"); w.Code != http.StatusBadRequest {
			t.Errorf("by T: %d", w.Code)
		}
		if w := book(3000); w.Code != http.StatusNotFound {
			t.Errorf("before the first: %d %s", w.Code, w.Body)
		}
		if w := book(-1); w.Code != http.StatusBadRequest {
			t.Errorf("of the future: %d", w.Code)
		}
		if w := a.ask(historyPath("book", "at", "noon")); w.Code != http.StatusBadRequest {
			t.Errorf("at noon: %d", w.Code)
		}
		demo, _ := a.login(t, "demo")
		if w := a.get(historyPath("book", "at", at(1500)), demo); w.Code != http.StatusForbidden {
			t.Errorf("without the scope: %d", w.Code)
		}
		a.access, _ = a.login(t, "late")
		if w := book(950); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"DE":900`) {
			t.Errorf("late: %d %s", w.Code, w.Body)
		}
		if w := book(899); w.Code != http.StatusBadRequest {
			t.Errorf("too early: %d", w.Code)
		}
	})
}

// TestHistoryIsBounded checks that too many concurrent requests get Retry-After, and that a request
// without a client stops reading.
func TestHistoryIsBounded(t *testing.T) {
	a := newArchive(t, journal.Config{}, func(c *rest.Config, _ *auth.Config) { c.HistoryReaders, c.HistoryPerUser = 1, 2 })
	a.trades(ggal, 2000)
	var all sync.WaitGroup
	answers := make(chan *httptest.ResponseRecorder, 64)
	for range cap(answers) {
		all.Go(func() { answers <- a.ask(historyPath("trades", "limit", "2000")) })
	}
	all.Wait()
	counts := map[int]int{}
	for range cap(answers) {
		w := <-answers
		counts[w.Code]++
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
	}
	if counts[http.StatusOK] == 0 || counts[http.StatusOK]+counts[http.StatusTooManyRequests] != cap(answers) {
		t.Errorf("answers: %v", counts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, historyPath("trades"), nil)
	r.Header.Set("Authorization", "Bearer "+a.access)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("of a client that is gone: %d", w.Code)
	}
	if strings.Contains(a.log.String(), `"level":"ERROR"`) {
		t.Error("a client that is gone is logged as an error")
	}
}

func TestHistoryWithoutJournal(t *testing.T) {
	g := newGateway(t, nil)
	access, _ := g.login(t, "historian")
	for _, path := range []string{historyPath("trades"), historyPath("quotes"), historyPath("bars"), historyPath("book", "at", "2026-11-20"),
		"/market/export?type=trades&date=2026-11-20"} {
		if w := g.get(path, access); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "No journal is kept here") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

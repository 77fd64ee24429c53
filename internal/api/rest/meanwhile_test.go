package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
)

// checkPoints is a context that calls a function at each check of its error, for example before
// each part of a journal is read.
type checkPoints struct {
	context.Context
	look func()
}

func (m checkPoints) Err() error {
	m.look()
	return m.Context.Err()
}

// askAt is ask with a function that is called at the check points of the request's context.
func (a *archive) askAt(path string, look func()) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+a.access)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r.WithContext(checkPoints{context.Background(), look}))
	return w
}

// oneReader leaves history one reader slot.
func oneReader(c *rest.Config, _ *auth.Config) { c.HistoryReaders = 1 }

// shortArchive keeps one closed day. It has a trade for each millisecond of the first day, which is
// closed, and as many on the next.
func shortArchive(t *testing.T, trades int) *archive {
	laterThanDays()
	a := newArchive(t, journal.Config{Sync: time.Millisecond, Days: 1}, oneReader)
	a.dayOfTrades(0, trades)
	a.dayOfTrades(1, trades)
	a.run(func() bool { return a.journal.Days()[0].Closed })
	return a
}

// laterThanDays moves a bubble's clock to where the days of the tests are over. Days ahead of it
// are not removed.
func laterThanDays() {
	time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
}

// dayOfTrades appends the trades of a day, counted from the first.
func (a *archive) dayOfTrades(day, n int) {
	for _, id := range []string{ggal, "XYZ|OTHER|CI"} {
		for i := range n {
			at := opening() + int64(day)*24*3600e9 + int64(i)*1e6
			a.keep(id, journal.Row{Kind: journal.Trade, Time: at, Price: market.Scale, Size: market.Scale})
		}
	}
}

// goOn begins further days until only the last two of them are kept.
func (a *archive) goOn(from, days int) {
	for day := from; day < days; day++ {
		a.dayOfTrades(day, 4)
	}
	oldest := time.Unix(0, opening()).UTC().AddDate(0, 0, days-2).Format(time.DateOnly)
	a.run(func() bool { return a.journal.Days()[0].Date == oldest })
}

// pageOf has the members of an answer that these tests check.
type pageOf struct {
	Data struct {
		Trades []struct{ N int }
		From   int    `json:"complete_from"`
		Next   string `json:"next_cursor"`
	}
}

// TestPageOfRemovedDays removes days at every step of a request for their page. The page has all
// rows that were there, or all that are kept, and says which. A page with missing rows is not
// settled.
func TestPageOfRemovedDays(t *testing.T) {
	const n = 4 // trades a day
	for _, tt := range []struct {
		query       []string
		first, last int // N of the rows, when nothing is removed
	}{
		{nil, 1, 2 * n},
		{[]string{"order", "desc"}, 2 * n, 1},
		{[]string{"after_sequence", "1", "limit", "6"}, 2, 7},
		{[]string{"start", "2026-11-20T00:00:00Z", "limit", "3"}, 1, 3},
		{[]string{"start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z"}, 1, n},
	} {
		for days := 3; days <= 4; days++ { // the first day goes, or the second too, which was not closed
			for step, met := 1, true; met; step++ {
				synctest.Test(t, func(t *testing.T) {
					a := shortArchive(t, n)
					seen := 0
					w := a.askAt(historyPath("trades", tt.query...), func() {
						if seen++; seen == step {
							a.goOn(2, days)
						}
					})
					met = seen >= step
					if wrong := wrongPage(w, tt.first, tt.last); wrong != "" {
						t.Errorf("%v, %d days, step %d: %s: %v %s", tt.query, days, step, wrong, w.Header(), w.Body)
					}
				})
			}
		}
	}
}

// wrongPage describes what is wrong with a page of the rows from first to last, or returns "". Rows
// before the reported beginning of history may be missing.
func wrongPage(w *httptest.ResponseRecorder, first, last int) string {
	var page pageOf
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
		return fmt.Sprint("status ", w.Code)
	}
	p, step := page.Data, 1
	if first > last {
		step = -1
	}
	for i := 1; i < len(p.Trades); i++ {
		if p.Trades[i].N != p.Trades[i-1].N+step {
			return "it has a hole"
		}
	}
	if len(p.Trades) == 0 {
		if step > 0 && p.From > last {
			return ""
		}
		return "it is empty"
	}
	begin, end := p.Trades[0].N, p.Trades[len(p.Trades)-1].N
	switch {
	case step > 0 && begin > max(first, p.From), step < 0 && begin < first:
		return "it begins too late"
	case step > 0 && end < last && p.Next == "", step < 0 && end > max(last, p.From) && p.Next == "":
		return "it ends too soon, and is the last one"
	case strings.Contains(w.Header().Get("Cache-Control"), "immutable") && (begin > first && first == 1 || len(p.Trades) <= last-first):
		return "it is settled"
	}
	return ""
}

// TestPageWaitsWhileDaysGo checks a page that waits for a reader slot while its days are removed.
// It is not marked as immutable, although it was when it was requested.
func TestPageWaitsWhileDaysGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shortArchive(t, 4)
		path := historyPath("trades", "start", "2026-11-20T00:00:00Z", "end", "2026-11-21T00:00:00Z")
		if w := a.ask(path); !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Fatalf("a closed day: %v %s", w.Header(), w.Body)
		}
		second, begun := make(chan *httptest.ResponseRecorder, 1), false
		a.askAt(historyPath("trades"), func() {
			if !begun {
				begun = true
				go func() { second <- a.ask(path) }()
				synctest.Wait()
				a.goOn(2, 3)
			}
		})
		w := <-second
		if cache := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || cache != "private, no-cache" || !strings.Contains(w.Body.String(), `"trades":[],`) ||
			!strings.Contains(w.Body.String(), `"complete_from":5`) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

// client reads each piece of an answer after its own delay, within the deadline.
type client struct {
	*httptest.ResponseRecorder
	deadline time.Time
	take     func(piece int) time.Duration
	pieces   int
}

func (c *client) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *client) Write(b []byte) (int, error) {
	c.pieces++
	time.Sleep(min(c.take(c.pieces), time.Until(c.deadline)))
	if !time.Now().Before(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.ResponseRecorder.Write(b)
}

// fetch requests the export of the first day. whole is false if it was cut off.
func (a *archive) fetch(take func(piece int) time.Duration) (w *client, whole bool) {
	r := httptest.NewRequest(http.MethodGet, "/market/export?type=trades&format=csv&date=2026-11-20", nil)
	r.Header.Set("Authorization", "Bearer "+a.access)
	w = &client{ResponseRecorder: httptest.NewRecorder(), take: take}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		} else if p == nil {
			whole = w.Code == http.StatusOK
		}
	}()
	a.handler.ServeHTTP(w, r)
	return w, false
}

// TestExportLeastRate checks that a client that reads a file more slowly than leastRate is cut off
// after a minute, and that short pauses are allowed.
func TestExportLeastRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shortArchive(t, 5000)
		for _, tt := range []struct {
			name  string
			take  func(piece int) time.Duration // of 32 KiB
			whole bool
		}{
			{"fast", func(int) time.Duration { return 0 }, true},
			{"80 KiB/s", func(int) time.Duration { return 400 * time.Millisecond }, true},
			{"two pauses", func(n int) time.Duration { return map[int]time.Duration{5: 29 * time.Second, 10: 29 * time.Second}[n] }, true},
			{"a piece in 29 s", func(int) time.Duration { return 29 * time.Second }, false},
			{"6 KiB/s", func(int) time.Duration { return 5 * time.Second }, false},
			{"nothing", func(int) time.Duration { return time.Hour }, false},
		} {
			start := time.Now()
			w, whole := a.fetch(tt.take)
			took := time.Since(start)
			if whole != tt.whole || w.Body.Len() < 900_000 && whole || took > 70*time.Second {
				t.Errorf("%s: %d bytes in %v, whole: %v", tt.name, w.Body.Len(), took, whole)
			}
		}
	})
}

// TestThreat13RunningExport takes away the login or the right of a user who reads a file slowly.
// The file is cut off within seconds. A token that expires stays valid for it.
func TestThreat13RunningExport(t *testing.T) {
	change := func(a *archive, id string, do func(*broker.User)) {
		a.users.mu.Lock()
		defer a.users.mu.Unlock()
		u := a.users.users[id]
		do(&u)
		a.users.users[id] = u
	}
	for _, tt := range []struct {
		name  string
		do    func(a *archive) error
		whole bool
	}{
		{"nothing", func(*archive) error { return nil }, true},
		{"logout", func(a *archive) error {
			return a.service.Revoke(context.Background(), auth.NewSecret(a.access), auth.Origin{})
		}, false},
		{"another version", func(a *archive) error {
			change(a, "u8", func(u *broker.User) { u.Version++ })
			a.service.UsersChanged(context.Background())
			return nil
		}, false},
		{"no right", func(a *archive) error {
			change(a, "u8", func(u *broker.User) { u.Entitlements = u.Entitlements[:0] })
			a.service.UsersChanged(context.Background())
			return nil
		}, false},
		{"no scope", func(a *archive) error {
			change(a, "u8", func(u *broker.User) { u.Scopes = []string{broker.ScopeRead} })
			a.service.UsersChanged(context.Background())
			return nil
		}, false},
		{"no network", func(a *archive) error {
			change(a, "u8", func(u *broker.User) { u.Networks = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
			a.service.UsersChanged(context.Background())
			return nil
		}, false},
		{"the token expires", func(*archive) error { return nil }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := shortArchive(t, 5000)
			if tt.name == "the token expires" {
				a.access, _ = a.login(t, "historian")
				time.Sleep(24*time.Hour - time.Second)
			}
			w, whole := a.fetch(func(piece int) time.Duration {
				if piece == 2 {
					if err := tt.do(a); err != nil {
						t.Error(err)
					}
				}
				return 400 * time.Millisecond
			})
			if whole != tt.whole || !whole && w.pieces > 6 {
				t.Errorf("%s: %d pieces, whole: %v", tt.name, w.pieces, whole)
			}
		})
	}
}

// TestExportOfRemovedDay checks that a file is cut off if its day is removed while it is read.
func TestExportOfRemovedDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shortArchive(t, 1000)
		w, whole := a.fetch(func(piece int) time.Duration {
			if piece == 1 {
				a.goOn(2, 3)
			}
			return 0
		})
		if whole {
			t.Errorf("taken for whole: %d lines", strings.Count(w.Body.String(), "\n"))
		}
	})
}

// TestReaderSlotsAfterPanic checks that a panic while reading or writing releases the reader slot
// and the user's place.
func TestReaderSlotsAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shortArchive(t, 1000)
		for range 5 {
			if w := a.askAt(historyPath("trades"), func() { panic("a fault") }); w.Code != http.StatusInternalServerError {
				t.Fatalf("a page: %d %s", w.Code, w.Body)
			}
			if _, whole := a.fetch(func(piece int) time.Duration {
				if piece == 2 {
					panic("a fault")
				}
				return 0
			}); whole {
				t.Fatal("a file")
			}
		}
		if p := a.rows(historyPath("trades")); len(p.Trades) == 0 {
			t.Error("no rows afterwards")
		}
		if _, whole := a.fetch(func(int) time.Duration { return 0 }); !whole {
			t.Error("no file afterwards")
		}
	})
}

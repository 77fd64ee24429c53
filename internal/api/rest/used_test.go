package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
)

// TestUseIsWhatWasAnswered checks that Used records exactly the data that was sent, because
// exchanges charge for it. Refused requests are not recorded.
func TestUseIsWhatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used []string
		a := newArchive(t, journal.Config{Sync: time.Millisecond}, func(c *rest.Config, _ *auth.Config) {
			c.Used = func(user, market, level string, delay int) {
				used = append(used, fmt.Sprint(user, " ", market, " ", level, " ", delay))
			}
		})
		a.trades(ggal, 3)
		a.keep(ggal, journal.Row{Kind: journal.Trade, Time: opening() + 24*3600e9, Price: 1, Size: 1})
		a.run(func() bool { return a.journal.Days()[0].Closed })
		for _, path := range []string{
			historyPath("trades", "limit", "-1"), historyPath("trades", "start", "noon"), historyPath("trades", "order", "up"),
			historyPath("quotes", "end", "x"), historyPath("bars", "cursor", "x"), historyPath("trades", "epoch", "e0"),
			historyPath("book", "at", "noon"), historyPath("book", "at", "2020-01-01"), historyPath("book", "depth", "3"),
			"/market/book?instrument=IMV%7CBYMA%7CCI", "/market/book?instrument=STALE%7CBYMA%7CCI",
			"/market/export?type=trades&date=2026-11-19", "/market/export?type=trades&date=2026-11-21",
			"/market/snapshot?instruments=GGAL%7CBYMA%7C24hs,NONE%7CBYMA%7CCI",
		} {
			if w := a.ask(path); w.Code < 400 || used != nil {
				t.Errorf("%s: %d, use %v", path, w.Code, used)
				used = nil
			}
		}
		head := httptest.NewRequest(http.MethodHead, historyPath("trades"), nil)
		head.Header.Set("Authorization", "Bearer "+a.access)
		a.handler.ServeHTTP(httptest.NewRecorder(), head)
		if used != nil {
			t.Errorf("HEAD: use %v", used)
		}
		const export = "/market/export?type=trades&date=2026-11-20&market=BYMA"
		tag := a.ask(export).Header().Get("ETag")
		used = nil
		if w := a.ask(export, "If-None-Match", tag); w.Code != http.StatusNotModified || used != nil {
			t.Errorf("a file that the client has: %d, use %v", w.Code, used)
		}
		for path, want := range map[string]string{
			historyPath("trades"): "u8 BYMA trades 0",
			historyPath("quotes"): "u8 BYMA quotes 0",
			historyPath("book"):   "u8 BYMA order_book 0",
			export:                "u8 BYMA trades 0",
			"/market/snapshot?instruments=GGAL%7CBYMA%7C24hs": "u8 BYMA trades 0, u8 BYMA quotes 0",
		} {
			used = nil
			if w := a.ask(path); w.Code != http.StatusOK || strings.Join(used, ", ") != want {
				t.Errorf("%s: %d, use %v, want %s", path, w.Code, used, want)
			}
		}
	})
}

// TestDelayedUseIsNotRealTime checks that a user of delayed data is never recorded with real-time
// data, which costs the broker more, also for the status of a market, which everybody has at once.
func TestDelayedUseIsNotRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used []string
		a := newArchive(t, journal.Config{Sync: time.Millisecond}, func(c *rest.Config, _ *auth.Config) {
			c.Used = func(user, market, level string, delay int) {
				used = append(used, fmt.Sprint(user, " ", market, " ", level, " ", delay))
			}
		})
		a.access, _ = a.login(t, "late")
		whole, err := a.hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: "BYMA", Term: market.Any}})
		if err == nil {
			err = a.hub.Publish([]market.Event{{Kind: market.KindStatus, Handle: whole, Phase: market.Open}})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{historyPath("trades"), "/market/statuses?instrument=GGAL%7CBYMA%7C24hs", "/market/statuses?instrument=*%7CBYMA%7C*"} {
			used = nil
			if w := a.ask(path); w.Code != http.StatusOK || strings.Join(used, ", ") != "u9 BYMA trades 900" {
				t.Errorf("%s: %d, use %v", path, w.Code, used)
			}
		}
	})
}

// TestBadBearersAreBounded checks that an address that sends many invented tokens must wait before
// the next one is verified, which is expensive. It does not affect tokens of users at that address,
// known or not. Tokens with the MAC of a login and another signature count for that login.
func TestBadBearersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared auth.Config
		first := newGateway(t, func(_ *rest.Config, c *auth.Config) { shared = *c })
		g := newGateway(t, func(_ *rest.Config, c *auth.Config) {
			c.Users, c.Store, c.Keys = shared.Users, shared.Store, shared.Keys
		})
		ask := func(token, peer string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/market/time", nil)
			r.RemoteAddr = peer
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			g.handler.ServeHTTP(w, r)
			return w
		}
		access, _ := g.login(t, "demo")
		elsewhere, _ := first.login(t, "demo") // which this node has not seen
		other, _ := first.login(t, "basic")
		third, _ := first.login(t, "basic")
		signed := func(i int) string { // the claims of a login, with another signature
			return elsewhere[:strings.LastIndexByte(elsewhere, '.')+1] + fmt.Sprintf("%086d", i)
		}
		invented := func(i int) string {
			parts := strings.Split(access, ".")
			return parts[0] + ".e30." + fmt.Sprintf("%086d", i)
		}
		for _, forged := range []func(int) string{invented, signed} {
			for i := range 600 {
				if w := ask(forged(i), "192.0.2.7:1"); w.Code != http.StatusUnauthorized {
					t.Fatalf("bad token %d: %d %s", i, w.Code, w.Body)
				}
			}
			for i := range 3 {
				w := ask(forged(600+i), "192.0.2.7:1")
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || member(t, w, "reason") != "rate_limited" {
					t.Errorf("over the limit: %d %v %s", w.Code, w.Header(), w.Body)
				}
				wantLimit(t, w.Header(), "address", 600, 60, 0, 60)
			}
		}
		if w := ask(elsewhere, "192.0.2.8:1"); w.Code != http.StatusTooManyRequests {
			t.Errorf("the token whose claims were used: %d", w.Code)
		}
		if w := ask(invented(700), "192.0.2.8:1"); w.Code != http.StatusUnauthorized {
			t.Errorf("another address: %d", w.Code)
		}
		for i, token := range []string{access, other, third, other} {
			if w := ask(token, "192.0.2.7:1"); w.Code != http.StatusOK {
				t.Errorf("token %d of the same address: %d", i, w.Code)
			}
		}
		time.Sleep(time.Second)
		if w := ask(elsewhere, "192.0.2.7:1"); w.Code != http.StatusOK {
			t.Errorf("the token whose claims were used, a second later: %d", w.Code)
		}
	})
}

package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// TestRightsEndToEndE2E runs a gateway on files. A right that ends stops an open subscription and
// REST. Used data is in the usage of the month, and refusals are in the audit log, once each.
func TestRightsEndToEndE2E(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	user, err := data.Users.Add(t.Context(), local.NewUser{
		Username: "eva", Password: "a long password", Scopes: []string{broker.ScopeRead, broker.ScopeDepth},
		Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true, Quotes: true, Depth: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: time.Millisecond,
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs", "FAKE|SIM|CI"}, 10 * time.Millisecond}}},
	})
	c.enter(t, "eva", "a long password")
	b := connect(t, c)
	b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
	b.until(t, "T", "")
	for range 3 {
		b.send(map[string]any{"action": "subscribe", "trades": []string{"FAKE|SIM|CI"}})
		b.until(t, "Error", "not_entitled")
	}
	book := func() int {
		t.Helper()
		code, _ := c.get(t, "/market/book?instrument=GGAL|BYMA|24hs&depth=5")
		return code
	}
	if got := book(); got != http.StatusOK {
		t.Errorf("book while the right holds: %d", got)
	}
	ends := time.Now().Add(2 * time.Second).UTC()
	_, err = data.Users.EditRights(t.Context(), "eva", func(r *local.Rights) error {
		r.Entitlements[0].Until = ends
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.until(t, "Subscription", "") // with the removed subscription
	late := time.Since(ends)
	if late < 0 || late > bound(time.Second) {
		t.Errorf("the right's end came %v late", late)
	}
	t.Logf("figure: a right's end cut its stream after %v", late)
	if got := book(); got != http.StatusForbidden {
		t.Errorf("book after the right's end: %d", got)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	used, err := data.DB().Store.Usage(t.Context(), ends.Format("2006-01"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range used {
		if u.UserID != user.ID || u.Delay != 0 || u.Days == 0 || u.Last.Before(u.First) {
			t.Errorf("%+v", u)
		}
		got = append(got, fmt.Sprint(u.Market, " ", u.Level, " ", u.Connections))
	}
	if want := []string{"BYMA order_book 0", "BYMA trades 1"}; !slices.Equal(got, want) {
		t.Errorf("used %q, want %q", got, want)
	}
	if got, want := denied(t, folder), []string{"order_book BYMA not_entitled", "trades SIM not_entitled"}; !slices.Equal(got, want) {
		t.Errorf("denied %q, want %q", got, want)
	}
}

// get requests a path and returns the status and the body.
func (c *literalClient) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, c.rest+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.access)
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// denied returns the denials of an audit log.
func denied(t *testing.T, folder string) (list []string) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(folder, "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for row, err := range s.AuditRows(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Kind == audit.AccessDenied {
			list = append(list, row.Detail)
		}
	}
	slices.Sort(list)
	return list
}

// TestUsersOwnLimits checks that changed limits of a user apply to open connections.
func TestUsersOwnLimits(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	_, err = data.Users.Add(t.Context(), local.NewUser{
		Username: "eva", Password: "a long password", Scopes: []string{broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true}},
		Limits:       broker.Limits{Connections: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: time.Millisecond,
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs", "FAKE|SIM|CI"}, 10 * time.Millisecond}}},
	})
	c.enter(t, "eva", "a long password")
	bots := []*bot{connect(t, c), connect(t, c), connect(t, c)}
	bots[0].send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs", "FAKE|SIM|CI"}})
	bots[0].until(t, "T", "")
	_, err = data.Users.EditRights(t.Context(), "eva", func(r *local.Rights) error {
		r.Limits.Connections, r.Limits.Subscriptions = 1, 1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bots[1:] {
		b.until(t, "Error", "connection_limit")
	}
	bots[0].until(t, "Subscription", "") // with the removed subscription
	bots[0].send(map[string]any{"action": "subscribe", "trades": []string{"FAKE|SIM|CI"}})
	bots[0].until(t, "Error", "subscription_limit")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDelayNotServed requests data to which a user has a right with a delay that the gateway does
// not serve. REST and the stream refuse it, and no usage is recorded.
func TestDelayNotServed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	_, err = data.Users.Add(t.Context(), local.NewUser{
		Username: "eva", Password: "a long password", Scopes: []string{broker.ScopeRead, broker.ScopeDepth},
		Entitlements: []broker.Entitlement{
			{Market: "BYMA", Trades: true, Quotes: true, Depth: 5, Delay: 7 * 60},
			{Market: "SIM", Trades: true}, {Market: "SIM", Quotes: true, Delay: 7 * 60},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, stop, done := launch(t, gateway.Config{
		Data: data, Drain: time.Millisecond,
		Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs", "FAKE|SIM|CI"}, 10 * time.Millisecond}}},
	})
	c.enter(t, "eva", "a long password")
	b := connect(t, c)
	b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
	b.until(t, "Error", "not_entitled")
	b.send(map[string]any{"action": "subscribe", "trades": []string{"FAKE|SIM|CI"}})
	b.until(t, "T", "") // then a snapshot has one too
	for _, tt := range []struct {
		path string
		code int
		has  string
	}{
		{"/market/snapshot?instruments=GGAL|BYMA|24hs", 403, `"reason":"not_entitled"`},
		{"/market/snapshot?instruments=FAKE|SIM|CI,GGAL|BYMA|24hs", 403, `"reason":"not_entitled"`},
		{"/market/book?instrument=GGAL|BYMA|24hs&depth=5", 403, `"reason":"not_entitled"`},
		{"/market/snapshot?instruments=FAKE|SIM|CI", 200, `"T":{`},
	} {
		if code, body := c.get(t, tt.path); code != tt.code || !strings.Contains(body, tt.has) || strings.Contains(body, `"Q":`) {
			t.Errorf("%s: %d %s", tt.path, code, body)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	used, err := data.DB().Store.Usage(t.Context(), time.Now().UTC().Format("2006-01"))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range used {
		if u.Market != "SIM" || u.Level != "trades" {
			t.Errorf("used: %+v", u)
		}
	}
	if len(used) != 1 {
		t.Errorf("%d rows of usage, want that of the trades of SIM", len(used))
	}
}

// TestThreat23DailyQuotaE2E restarts a gateway. A user with a right to one instrument a day over
// REST gets the same one as before, and no other.
func TestThreat23DailyQuotaE2E(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	_, err = data.Users.Add(t.Context(), local.NewUser{
		Username: "eva", Password: "a long password", Scopes: []string{broker.ScopeRead},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Instruments: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct {
		id   string
		want int
	}{{"GGAL|BYMA|24hs", http.StatusOK}, {"FAKE|SIM|CI", http.StatusRequestEntityTooLarge}, {"GGAL|BYMA|24hs", http.StatusOK}} {
		c, stop, done := launch(t, gateway.Config{
			Data: data, Drain: time.Millisecond,
			Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs", "FAKE|SIM|CI"}, 10 * time.Millisecond}}},
		})
		c.enter(t, "eva", "a long password")
		if got, _ := c.get(t, "/market/snapshot?instruments="+ask.id); got != ask.want {
			t.Errorf("%s: status %d, want %d", ask.id, got, ask.want)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

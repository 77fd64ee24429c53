//go:build cgo

package duckdb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
)

// busted is a simulated exchange with cancelled and corrected trades. Corrections are corrected
// too.
type busted struct {
	*sim.Source
	ended chan struct{}
}

func (b *busted) Run(ctx context.Context, sink feed.Sink) error {
	defer close(b.ended)
	return b.Source.Run(ctx, &busting{Sink: sink})
}

type busting struct {
	feed.Sink
	trades int
}

func (b *busting) Publish(events []market.Event) error {
	if err := b.Sink.Publish(events); err != nil {
		return err
	}
	const day = int64(24 * time.Hour)
	if n := len(events); n == 0 || events[0].Time/day != events[n-1].Time/day {
		return nil // later changes would belong to the next day
	}
	for i := range events {
		e := events[i]
		if e.Kind != market.KindTrade || e.TradeID == "" {
			continue
		}
		b.trades++
		correct, cancel := e, e
		correct.Kind, correct.OldPrice, correct.OldSize = market.KindCorrect, e.Price, e.Size
		correct.Price, correct.Size = e.Price+market.Scale, e.Size+market.Scale
		cancel.Kind = market.KindCancel
		var more []market.Event
		switch b.trades % 40 {
		case 0:
			more = []market.Event{cancel}
		case 10:
			more = []market.Event{correct}
		case 20:
			again := correct
			again.OldPrice, again.OldSize, again.Price = correct.Price, correct.Size, correct.Price+market.Scale
			more = []market.Event{correct, again}
		case 30:
			cancel.Price, cancel.Size = correct.Price, correct.Size
			more = []market.Event{correct, cancel}
		}
		if len(more) > 0 {
			if err := b.Sink.Publish(more); err != nil {
				return err
			}
		}
	}
	return nil
}

// api is a gateway that has closed a day of market.
type api struct {
	t     *testing.T
	rest  string
	token string
	data  string // its data folder
}

// firstDay is a Monday.
const firstDay = "2026-11-16"

// runDay runs a gateway through a day of market and into the next, as fast as possible.
func runDay(t *testing.T) *api {
	t.Helper()
	start, err := time.Parse(time.DateOnly, firstDay)
	if err != nil {
		t.Fatal(err)
	}
	source, err := sim.New(sim.Config{Seed: 7, Clock: sim.Virtual, Speed: -1, Instruments: 4, Duration: 8 * time.Hour, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	exchange := &busted{source, make(chan struct{})}
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	_, err = data.Users.Add(t.Context(), local.NewUser{Username: "demo", Password: "demo-password",
		Scopes:       []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
		Limits:       broker.Limits{RequestsPerMinute: 1_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, data: t.TempDir()}
	ready := make(chan gateway.Bound, 1)
	g, err := gateway.New(t.Context(), gateway.Config{Listen: "127.0.0.1:0", Data: data,
		Markets: []market.Market{{ID: "BYMA", Timezone: "America/Argentina/Buenos_Aires"}},
		Feeds:   []gateway.Feed{{Name: "sim", Source: exchange}},
		Journal: gateway.Journal{Folder: a.data + "/journal", Segment: 8 << 20},
		OnReady: func(b gateway.Bound) { ready <- b }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case b := <-ready:
		a.rest = openapitest.NewProxy(t).Pass(b.REST)
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	<-exchange.ended
	a.login()
	return a
}

func (a *api) login() {
	res, err := http.Post(a.rest+"/auth/token", "application/json",
		strings.NewReader(`{"grant_type":"password","username":"demo","password":"demo-password"}`))
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	var body struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil || body.Data.Token == "" {
		a.t.Fatalf("login: %s %v", res.Status, err)
	}
	a.token = body.Data.Token
}

// ask sends a GET request.
func (a *api) ask(path string) (status int, body []byte) {
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.rest+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, body
}

// object reads the data of an answer into v.
func (a *api) object(path string, v any) {
	a.t.Helper()
	status, body := a.ask(path)
	if status != http.StatusOK {
		a.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, &struct{ Data any }{v}); err != nil {
		a.t.Fatalf("GET %s: %v", path, err)
	}
}

// instruments returns all listed instruments.
func (a *api) instruments() (ids []string) {
	a.t.Helper()
	var data struct {
		Instruments []struct{ Instrument string }
	}
	a.object("/market/instruments?limit=1000", &data)
	for _, in := range data.Instruments {
		ids = append(ids, in.Instrument)
	}
	if len(ids) < 4 {
		a.t.Fatalf("instruments: %v", ids)
	}
	return ids
}

// message has the fields of a message that the tests read.
type message struct {
	Type, I, T, IV, X, G, TD string
	N, XN                    uint64
	P, Z                     json.Number
	BP, BZ, AP, AZ           json.Number
	OP, HI, LO, CL, TV       json.Number
	TC                       int
	R                        bool
	A, B                     [][]json.Number
}

// rows returns all messages of a list and an instrument on a date, page by page.
func (a *api) rows(list, instrument, date, more string) (all []message) {
	a.t.Helper()
	end, err := time.Parse(time.DateOnly, date)
	if err != nil {
		a.t.Fatal(err)
	}
	path := fmt.Sprintf("/market/%s?limit=10000&instrument=%s&start=%sT00:00:00Z&end=%s%s",
		list, url.QueryEscape(instrument), date, end.AddDate(0, 0, 1).Format(time.RFC3339), more)
	for cursor := ""; ; {
		var data map[string]json.RawMessage
		a.object(path+cursor, &data)
		var page []message
		if err := json.Unmarshal(data[list], &page); err != nil {
			a.t.Fatalf("GET %s: %v", path, err)
		}
		all = append(all, page...)
		if data["next_cursor"] == nil {
			return all
		}
		var next string
		if err := json.Unmarshal(data["next_cursor"], &next); err != nil {
			a.t.Fatal(err)
		}
		cursor = "&cursor=" + next
	}
}

package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// spoken has the fields of a data message that a test needs.
type spoken struct {
	Type, I, IV, T, X string
	N                 uint64
	R                 bool
	P, Z              json.Number
	OP, HI, LO, CL    json.Number
	TV, EV            json.Number
	TC                int
	XN                uint64
}

// series is a sequence of N.
type series struct{ list, instrument, interval string }

// TestHistoryEqualsStreamE2E streams a morning of the market: the opening auction and an hour of
// trading (three minutes of it unless in full), with cancelled and corrected trades. REST returns
// every message with the same bytes, and the bars equal the sums of the trades.
func TestHistoryEqualsStreamE2E(t *testing.T) {
	t.Parallel()
	hour := time.Duration(count(60)) * time.Minute
	exchange, err := sim.New(sim.Config{
		Seed: 3, Clock: sim.Virtual, Speed: 200, Instruments: 30,
		Start: time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC), Duration: 36*time.Minute + hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	client, at := run(t, gateway.Config{
		Listen:  "127.0.0.1:0",
		Markets: []market.Market{{ID: "BYMA", Timezone: "America/Argentina/Buenos_Aires"}},
		Feeds: []gateway.Feed{{Name: "sim", Source: source(func(ctx context.Context, sink feed.Sink) error {
			defer close(ended)
			return exchange.Run(ctx, sink)
		})}},
		Journal: gateway.Journal{Folder: t.TempDir(), Segment: 8 << 20},
		// A busy machine reads slowly.
		Stream: gateway.Stream{TradesKept: 1, MaxWaiting: 64 << 20, MaxAge: 5 * time.Minute, PongTimeout: 5 * time.Minute},
		Limits: gateway.Limits{MessageBytes: 1 << 20},
	})
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	w := &historian{t: t, client: c, texts: map[series]map[uint64]string{}, trades: map[string]map[uint64]*spoken{}, bars: map[series]map[string]spoken{}}
	b := connect(t, c)
	all := []string{"*|*|*"}
	b.send(map[string]any{"action": "subscribe", "trades": all, "quotes": all, "status": all, "start": "2026-11-18T00:00:00Z"})
	for _, iv := range []string{"1s", "1m", "5m", "15m", "1h", "1d"} {
		b.send(map[string]any{"action": "subscribe", "bars": all, "interval": iv, "start": "2026-11-18T00:00:00Z"})
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() {
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				for _, in := range exchange.Instruments()[:5] {
					_, _ = exchange.Trigger("correction", in.ID) // it may have ended, or have no trade yet
					_, _ = exchange.Trigger("cancel", in.ID)
				}
			}
		}
	})
	w.read(b, ended)
	close(stop)
	faults.Wait()
	w.compare()
	w.recount()
	t.Logf("figure: history equals the stream: %d messages of %d sequences; %d bars recounted, %d of them revised; %d cancels and corrections",
		w.compared, len(w.texts), w.recounted, w.revised, w.amended)
	for _, n := range []int{w.compared, w.recounted, w.revised, w.amended} {
		if n == 0 {
			t.Error("something was not shown")
		}
	}
}

type historian struct {
	t      *testing.T
	client *literalClient
	texts  map[series]map[uint64]string
	trades map[string]map[uint64]*spoken // by instrument and N
	bars   map[series]map[string]spoken  // the newest message of a bar, by its start

	compared, recounted, revised, amended int
}

// read reads until the feed has ended and no message arrives for a while.
func (w *historian) read(b *bot, ended <-chan struct{}) {
	w.t.Helper()
	const silence = 4 * time.Second
	quiet := time.AfterFunc(10*time.Minute, func() { b.ws.CloseNow() })
	defer quiet.Stop()
	go func() {
		<-ended
		quiet.Reset(silence)
	}()
	for {
		text, err := b.read(w.t.Context())
		if err != nil {
			return
		}
		var m spoken
		if err := json.Unmarshal(text, &m); err != nil {
			w.t.Fatal(err)
		}
		if len(m.Type) != 1 {
			if m.Type == "Error" {
				w.t.Fatalf("%s", text)
			}
			continue
		}
		select {
		case <-ended:
			quiet.Reset(silence)
		default:
		}
		w.take(&m, string(text))
	}
}

func (w *historian) take(m *spoken, text string) {
	s := series{instrument: m.I}
	switch m.Type {
	case "T", "X", "C":
		s.list = "trades"
		if w.trades[m.I] == nil {
			w.trades[m.I] = map[uint64]*spoken{}
		}
		w.trades[m.I][m.N] = m
	case "Q":
		s.list = "quotes"
	case "H":
		s.list = "statuses"
	case "K":
		s.list, s.interval = "bars", m.IV
		if w.bars[s] == nil {
			w.bars[s] = map[string]spoken{}
		}
		w.bars[s][m.T] = *m
		if m.R {
			w.revised++
		}
	default:
		return
	}
	if m.R && m.Type != "K" {
		return // the state at the time of the subscription
	}
	if w.texts[s] == nil {
		w.texts[s] = map[uint64]string{}
	}
	w.texts[s][m.N] = text
}

// compare reads each sequence over REST, page by page.
func (w *historian) compare() {
	w.t.Helper()
	for s, texts := range w.texts {
		path := fmt.Sprintf("/market/%s?limit=10000&instrument=%s", s.list, url.QueryEscape(s.instrument))
		if s.interval != "" {
			path += "&interval=" + s.interval
		}
		rows := w.pages(path, s.list)
		for n, text := range texts {
			row, ok := rows[n]
			if !ok {
				w.t.Fatalf("%v: N %d was streamed and is not in history", s, n)
			}
			if row != text {
				w.t.Fatalf("%v: history has\n%s\nthe stream had\n%s", s, row, text)
			}
			w.compared++
		}
		// REST does not return quotes again, nor the statuses of a market before its subscription.
		if s.list != "quotes" && s.instrument[0] != '*' && len(rows) != len(texts) {
			w.t.Fatalf("%v: %d rows in history, %d streamed", s, len(rows), len(texts))
		}
	}
}

// pages returns all rows of a list by their N.
func (w *historian) pages(path, list string) map[uint64]string {
	w.t.Helper()
	rows := map[uint64]string{}
	for cursor := ""; ; {
		req, err := http.NewRequest(http.MethodGet, w.client.rest+path+cursor, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+w.client.access)
		res, err := w.client.http.Do(req)
		if err != nil {
			w.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			w.t.Fatalf("GET %s: %s %s %v", path, res.Status, body, err)
		}
		var answer struct{ Data map[string]json.RawMessage }
		if err := json.Unmarshal(body, &answer); err != nil {
			w.t.Fatal(err)
		}
		var page []json.RawMessage
		if err := json.Unmarshal(answer.Data[list], &page); err != nil {
			w.t.Fatalf("GET %s: %v in %.200s", path, err, body)
		}
		for _, row := range page {
			var m spoken
			if err := json.Unmarshal(row, &m); err != nil {
				w.t.Fatal(err)
			}
			rows[m.N] = string(row)
		}
		var next string
		if answer.Data["next_cursor"] == nil {
			return rows
		}
		if err := json.Unmarshal(answer.Data["next_cursor"], &next); err != nil {
			w.t.Fatal(err)
		}
		cursor = "&cursor=" + next
	}
}

// deal is the final state of a trade.
type deal struct {
	at          time.Time
	n           uint64
	price, size *big.Rat
}

// recount sums the final trades and compares the newest message of each bar.
func (w *historian) recount() {
	w.t.Helper()
	zone, err := time.LoadLocation("America/Argentina/Buenos_Aires")
	if err != nil {
		w.t.Fatal(err)
	}
	deals := map[string][]deal{}
	for name := range w.trades {
		deals[name] = w.final(name)
	}
	for s, bars := range w.bars {
		where := time.UTC
		if strings.Contains(s.instrument, "|BYMA|") {
			where = zone
		}
		for start, bar := range bars {
			from, err := time.Parse(time.RFC3339Nano, start)
			if err != nil {
				w.t.Fatal(err)
			}
			i, ok := market.ParseInterval(s.interval)
			if !ok {
				w.t.Fatalf("interval %q", s.interval)
			}
			to := from.Add(i.Length())
			if i == market.Day {
				_, to = market.TradingDay(from, where)
			}
			w.check(s, &bar, deals[s.instrument], from, to)
		}
	}
}

// final returns the trades of an instrument in order, as corrected and without the cancelled ones.
func (w *historian) final(name string) (list []deal) {
	w.t.Helper()
	rat := func(n json.Number) *big.Rat {
		r, ok := new(big.Rat).SetString(string(n))
		if !ok {
			w.t.Fatalf("%s: number %q", name, n)
		}
		return r
	}
	by := map[uint64]*deal{}
	for n := uint64(1); n <= uint64(len(w.trades[name])); n++ {
		m := w.trades[name][n]
		if m == nil {
			w.t.Fatalf("%s: trade N %d was not streamed", name, n)
		}
		switch m.Type {
		case "T":
			at, err := time.Parse(time.RFC3339Nano, m.T)
			if err != nil {
				w.t.Fatal(err)
			}
			by[n] = &deal{at: at, n: n, price: rat(m.P), size: rat(m.Z)}
		case "X":
			w.amended++
			delete(by, m.XN)
		case "C":
			w.amended++
			if d := by[m.XN]; d != nil {
				d.price, d.size = rat(m.P), rat(m.Z)
			}
		}
	}
	for _, d := range by {
		list = append(list, *d)
	}
	sort.Slice(list, func(i, j int) bool {
		if !list[i].at.Equal(list[j].at) {
			return list[i].at.Before(list[j].at)
		}
		return list[i].n < list[j].n
	})
	return list
}

// check compares one bar with the trades.
func (w *historian) check(s series, bar *spoken, deals []deal, from, to time.Time) {
	w.t.Helper()
	var in []deal
	for _, d := range deals {
		if !d.at.Before(from) && d.at.Before(to) {
			in = append(in, d)
		}
	}
	if bar.TC != len(in) {
		w.t.Fatalf("%v: bar of %s counts %d trades, there are %d", s, bar.T, bar.TC, len(in))
	}
	w.recounted++
	if len(in) == 0 {
		return
	}
	high, low := in[0].price, in[0].price
	volume, value := new(big.Rat), new(big.Rat)
	for _, d := range in {
		if d.price.Cmp(high) > 0 {
			high = d.price
		}
		if d.price.Cmp(low) < 0 {
			low = d.price
		}
		volume.Add(volume, d.size)
		value.Add(value, new(big.Rat).Mul(d.price, d.size))
	}
	for _, x := range []struct {
		name string
		got  json.Number
		want *big.Rat
	}{
		{"OP", bar.OP, in[0].price}, {"HI", bar.HI, high}, {"LO", bar.LO, low}, {"CL", bar.CL, in[len(in)-1].price},
		{"TV", bar.TV, volume}, {"EV", bar.EV, value},
	} {
		got, ok := new(big.Rat).SetString(string(x.got))
		if !ok || got.Cmp(x.want) != 0 {
			w.t.Fatalf("%v: bar of %s: %s is %s, but %s by the trades", s, bar.T, x.name, x.got, x.want.FloatString(8))
		}
	}
}

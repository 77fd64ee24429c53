package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestPageE2E requests pages of 10,000 trades of one instrument over HTTP, from a closed day with
// 26 million rows of 400 instruments (a hundredth of the day and smaller pages unless in full). It
// logs the times and checks that the rows are correct.
func TestPageE2E(t *testing.T) {
	rows := count(26_000_000) / 5
	if full() {
		rows = 26_000_000
	}
	folder := t.TempDir()
	d := newDay(400)
	began := time.Now()
	d.keep(t, folder, rows)
	t.Logf("figure: a day of %d rows made, written and closed in %v", rows, time.Since(began).Round(time.Second))

	began = time.Now()
	client, at := run(t, gateway.Config{
		Listen:  "127.0.0.1:0",
		Feeds:   []gateway.Feed{{Name: "late", Source: d}},
		Journal: gateway.Journal{Folder: folder},
	})
	t.Logf("figure: the gateway took it up in %v", time.Since(began).Round(time.Millisecond))
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	trades := d.counts[0].N[journal.Trades]
	page := min(10_000, trades/2)
	for _, encoding := range []string{"identity", "gzip"} {
		var took []time.Duration
		bytes := 0
		for i := range uint64(20) {
			// Positions all over the day, in an order in which none follows the previous one.
			after := (trades - page) * (i * 7 % 20) / 20
			began := time.Now()
			body := c.page(t, d.defs[0].ID, after, page, encoding)
			took = append(took, time.Since(began))
			bytes += len(body)
			if encoding == "identity" {
				wantPage(t, body, after+1, page)
			}
		}
		slices.Sort(took)
		t.Logf("figure: page of %d trades of %d, %s, %d KiB: median %.1f ms, worst %.1f ms", page, trades, encoding, bytes/len(took)>>10,
			took[len(took)/2].Seconds()*1e3, took[len(took)-1].Seconds()*1e3)
	}
}

// page returns the body of an answer as it was received.
func (c *literalClient) page(t *testing.T, id market.InstrumentID, after, limit uint64, encoding string) []byte {
	t.Helper()
	path := fmt.Sprintf("/market/trades?instrument=%s&after_sequence=%d&limit=%d", url.QueryEscape(id.String()), after, limit)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.rest+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.access)
	req.Header.Set("Accept-Encoding", encoding)
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %.200s %v", path, res.Status, body, err)
	}
	return body
}

func wantPage(t *testing.T, body []byte, first, rows uint64) {
	t.Helper()
	var answer struct{ Data struct{ Trades []spoken } }
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	list := answer.Data.Trades
	if uint64(len(list)) != rows {
		t.Fatalf("%d trades, want %d", len(list), rows)
	}
	for i := range list {
		if m := &list[i]; m.Type != "T" || m.N != first+uint64(i) {
			t.Fatalf("row %d of the page is %+v, want trade N %d", i, m, first+uint64(i))
		}
	}
}

// day makes the rows of yesterday's market: 85 % changes of books, 8 % quotes, 7 % trades. One row
// in twenty is of the first instrument. As a source it defines the first instrument and publishes
// nothing.
type day struct {
	rng      *rand.Rand
	defs     []market.Instrument
	numbers  []uint32
	counts   []journal.Counts
	position uint64
	at       int64
	level    [2]market.Level
}

func newDay(instruments int) *day {
	d := &day{
		rng: rand.New(rand.NewPCG(24, 7)), numbers: make([]uint32, instruments), counts: make([]journal.Counts, instruments),
		at: time.Now().UTC().Truncate(24 * time.Hour).Add(-14 * time.Hour).UnixNano(),
	}
	for i := range instruments {
		id := market.InstrumentID{Symbol: fmt.Sprintf("S%03d", i), Market: "SIM", Term: "24hs"}
		d.defs = append(d.defs, market.Instrument{ID: id, Kind: "equity", Currency: "ARS", PriceDecimals: 2})
	}
	return d
}

func (d *day) Run(ctx context.Context, sink feed.Sink) error {
	if _, err := sink.Define(d.defs[0]); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// keep writes rows over eight hours, and makes the journal close the day.
func (d *day) keep(t *testing.T, folder string, rows int) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Start(d.checkpoint); err != nil {
		t.Fatal(err)
	}
	for i := range d.defs {
		d.numbers[i] = j.Define(d.defs[i])
	}
	step := 2 * 8 * int64(time.Hour) / int64(rows)
	var r journal.Row
	for i := range rows {
		d.next(&r, step)
		j.Append(&r)
		if i%64 == 63 {
			j.Commit()
		}
	}
	j.Commit()
	d.at += int64(15 * time.Hour) // of today, which closes yesterday
	d.next(&r, step)
	j.Append(&r)
	j.Commit()
	for j.CheckpointPending() {
		j.Commit()
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- j.Run(ctx) }()
	for tick := time.NewTicker(50 * time.Millisecond); !j.Days()[0].Closed; {
		select {
		case <-tick.C:
		case err := <-ran:
			t.Fatalf("the journal ended: %v", err)
		}
	}
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func (d *day) checkpoint(number uint32, emit func(*journal.Row)) {
	if i := slices.Index(d.numbers, number); i >= 0 {
		emit(&journal.Row{Kind: journal.Numbers, Instrument: number, Position: d.position, Time: d.at, At: d.at, Latency: -1, Counts: d.counts[i]})
	}
}

// next makes the next row.
func (d *day) next(r *journal.Row, step int64) {
	i := d.rng.IntN(len(d.defs))
	if d.rng.IntN(20) == 0 {
		i = 0
	}
	d.position++
	d.at += 1 + d.rng.Int64N(step)
	*r = journal.Row{Instrument: d.numbers[i], Position: d.position, At: d.at, Time: d.at - 1000 - d.rng.Int64N(50_000_000)}
	r.Latency = r.At - r.Time
	for k := range d.level {
		d.level[k] = market.Level{
			Price: market.Price(9_000_000_000 + d.rng.Int64N(200)*1_000_000), Size: market.Size(1+d.rng.IntN(900)) * market.Scale, Orders: 3,
		}
	}
	n := &d.counts[i].N
	switch k := d.rng.IntN(100); {
	case k < 7:
		n[journal.Trades]++
		n[journal.Summaries]++
		r.Kind, r.N, r.Side = journal.Trade, n[journal.Trades], market.Side(d.rng.IntN(3))
		r.Price, r.Size, r.ID = d.level[0].Price, d.level[0].Size, strconv.FormatUint(1_000_000_000+d.position, 10)
	case k < 15:
		n[journal.Quotes]++
		r.Kind, r.N, r.Bids, r.Asks = journal.Quote, n[journal.Quotes], d.level[:1], d.level[1:]
	case k < 57:
		n[journal.Books]++
		r.Kind, r.N, r.Bids = journal.BookUpdate, n[journal.Books], d.level[:1]
	default:
		n[journal.Books]++
		r.Kind, r.N, r.Asks = journal.BookUpdate, n[journal.Books], d.level[1:]
	}
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the command has it too

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
)

// dayOf is a trading day of a market, whose start and end were looked up in the tables of time
// zones.
type dayOf struct {
	market, zone, date, begin, end string
}

var tradingDays = []dayOf{
	{"XTKS", "Asia/Tokyo", "2026-11-24", "2026-11-23T15:00:00Z", "2026-11-24T15:00:00Z"},
	{"NIGHT", "America/Chicago", "2026-11-24", "2026-11-24T06:00:00Z", "2026-11-25T06:00:00Z"}, // open from 17:00 to 16:00
	{"SPRING", "America/New_York", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
	{"AUTUMN", "America/New_York", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
	{"SKIPPED", "America/Havana", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"}, // the clock skips midnight
	{"TWICE", "America/Havana", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},   // it shows midnight twice
}

func (d *dayOf) id() string { return "A|" + d.market + "|CI" }

// trades returns trades in the last second before the day, its first and last one, and the first
// one after it, with the prices 1 to 4. A much later trade ends the bars.
func (d *dayOf) trades(sink feed.Sink) (list []market.Event, err error) {
	id, err := market.ParseInstrumentID(d.id())
	if err != nil {
		return nil, err
	}
	h, err := sink.Define(market.Instrument{ID: id, VirtualClock: true, NoBook: true, Phase: market.Open, Listed: 1772000000e9})
	if err != nil {
		return nil, err
	}
	begin, err := time.Parse(time.RFC3339, d.begin)
	if err != nil {
		return nil, err
	}
	end, err := time.Parse(time.RFC3339, d.end)
	for i, at := range []time.Time{begin.Add(-time.Second), begin, end.Add(-time.Second), end, end.AddDate(0, 0, 2)} {
		list = append(list, market.Event{Kind: market.KindTrade, Handle: h, Time: at.UnixNano(), Price: market.Price(i+1) * market.Scale, Size: market.Scale})
	}
	return list, err
}

// publishDays publishes the trades of all trading days in the order of time.
func publishDays(sink feed.Sink) error {
	var all []market.Event
	for i := range tradingDays {
		list, err := tradingDays[i].trades(sink)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b market.Event) int { return cmp.Compare(a.Time, b.Time) })
	for i := range all {
		if err := sink.Publish(all[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// datedMarket starts a gateway with the trading days and returns it with its journal.
func datedMarket(t *testing.T) (s *ruedatest.Server, folder string) {
	t.Helper()
	published := make(chan error, 1)
	s = ruedatest.Start(t, ruedatest.Config{Change: func(c *gateway.Config) {
		folder = c.Journal.Folder
		night := market.Schedule{Sessions: []market.Session{{End: 16 * time.Hour, Phase: market.Open}, {Start: 17 * time.Hour, End: 24 * time.Hour, Phase: market.Open}}}
		for _, d := range tradingDays {
			m := market.Market{ID: d.market, Timezone: d.zone}
			if d.market == "NIGHT" {
				m.Schedule, m.StatusFromFeed = night, true
			}
			c.Markets = append(c.Markets, m)
		}
		c.Feeds = []gateway.Feed{{Name: "days", Source: sourceFunc(func(ctx context.Context, sink feed.Sink) error {
			published <- publishDays(sink)
			<-ctx.Done()
			return nil
		})}}
	}})
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	return s, folder
}

type sourceFunc func(context.Context, feed.Sink) error

func (f sourceFunc) Run(ctx context.Context, sink feed.Sink) error { return f(ctx, sink) }

// TestTradingDates requests the rows of a trading day by its date, from the client, REST and the
// commands, and exports them. The days are not days in UTC, or have a change of the clock.
func TestTradingDates(t *testing.T) {
	s, folder := datedMarket(t)
	c, err := client.New([]string{s.URL}, client.Options{Username: s.Username, Password: client.Secret(s.Password)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("RUEDA_URL", s.URL)
	t.Setenv("RUEDA_USERNAME", s.Username)
	t.Setenv("RUEDA_PASSWORD", s.Password)
	for _, d := range tradingDays {
		date, err := market.ParseDate(d.date)
		if err != nil {
			t.Fatal(err)
		}
		next, err := market.ParseDate(dateAfter(t, d.date, 1))
		if err != nil {
			t.Fatal(err)
		}
		day := client.Range{StartDate: date, EndDate: next}
		var bars []string
		for b, err := range c.Bars(t.Context(), d.id(), market.Day, day) {
			if err != nil {
				t.Fatal(err)
			}
			bars = append(bars, fmt.Sprint(b.Time.Format(time.RFC3339), " ", b.TradingDate, " ", b.Open, " ", b.Close, " ", b.Trades))
		}
		if want := []string{fmt.Sprint(d.begin, " ", d.date, " 2 3 2")}; !slices.Equal(bars, want) {
			t.Errorf("%s: bars of the day %q, want %q", d.market, bars, want)
		}
		var trades []string
		for x, err := range c.Trades(t.Context(), d.id(), day) {
			if err != nil {
				t.Fatal(err)
			}
			trades = append(trades, x.Price.String())
		}
		if !slices.Equal(trades, []string{"2", "3"}) {
			t.Errorf("%s: trades of the day %q, want 2 and 3", d.market, trades)
		}
		var dates []string
		for b, err := range c.Bars(t.Context(), d.id(), market.Minute, client.Range{Limit: 4}) {
			if err != nil {
				t.Fatal(err)
			}
			dates = append(dates, b.TradingDate.String())
		}
		if want := []string{dateAfter(t, d.date, -1), d.date, d.date, dateAfter(t, d.date, 1)}; !slices.Equal(dates, want) {
			t.Errorf("%s: trading dates of minutes %q, want %q", d.market, dates, want)
		}
		var data struct {
			Bars []struct{ T, TD string }
		}
		query := url.Values{"instrument": {d.id()}, "interval": {"1d"}, "start": {d.date}, "end": {next.String()}}
		if err := c.Get(t.Context(), "/market/bars", query, &data); err != nil || len(data.Bars) != 1 || data.Bars[0].TD != d.date {
			t.Errorf("%s: REST has %+v, %v", d.market, data, err)
		}

		out := says(t, "bars", d.id(), "--interval", "1d", "--from", d.date, "--to", next.String(), "-o", "csv")
		want := "seq,ts,open,high,low,close,volume,turnover,trades,revised,trading_date\n2," +
			strings.Replace(d.begin, "Z", ".000000000Z", 1) + ",2,3,2,3,2,5,2,false," + d.date + "\n"
		if out != want {
			t.Errorf("%s: the command says\n%swant\n%s", d.market, out, want)
		}
		out = says(t, "trades", d.id(), "--from", d.date, "--to", next.String(), "-o", "jsonl")
		if got := strings.Count(out, "\n"); got != 2 || !strings.Contains(out, `"P":2,`) || !strings.Contains(out, `"P":3,`) {
			t.Errorf("%s: the command says\n%s", d.market, out)
		}
	}
	s.Stop()
	exportedDates(t, folder)
}

// exportedDates checks the daily bars of files.
func exportedDates(t *testing.T, folder string) {
	t.Helper()
	for _, d := range tradingDays {
		out := t.TempDir()
		date := d.begin[:len(time.DateOnly)] // in UTC
		for _, format := range []string{"csv", "ndjson"} {
			said := says(t, "export", "--data", folder, "--out", out, "--date", date, "--open", "--type", "bars", "--market", d.market, "--format", format)
			data, err := os.ReadFile(filepath.Join(out, "type=bars", "date="+date, "market="+d.market, "part-0."+format))
			if err != nil {
				t.Fatalf("%s: %v", said, err)
			}
			var got []string
			if format == "ndjson" {
				for line := range strings.Lines(string(data)) {
					var m struct{ T, IV, TD string }
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					if m.IV == "1d" && strings.HasPrefix(m.T, strings.TrimSuffix(d.begin, "Z")) {
						got = append(got, m.TD)
					}
				}
			} else {
				rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				interval, last := slices.Index(rows[0], "interval"), slices.Index(rows[0], "trading_date")
				for _, row := range rows {
					if row[interval] == "1d" && strings.HasPrefix(row[0], strings.TrimSuffix(d.begin, "Z")) {
						got = append(got, row[last])
					}
				}
			}
			if !slices.Equal(got, []string{d.date}) {
				t.Errorf("%s in %s: trading dates %q, want %s", d.market, format, got, d.date)
			}
		}
	}
}

// dateAfter returns the date some days after another one.
func dateAfter(t *testing.T, date string, days int) string {
	t.Helper()
	d, err := time.Parse(time.DateOnly, date)
	if err != nil {
		t.Fatal(err)
	}
	return d.AddDate(0, 0, days).Format(time.DateOnly)
}

// says runs a command and returns what it prints. A status other than 0 fails the test.
func says(t *testing.T, args ...string) string {
	t.Helper()
	var out, talk bytes.Buffer
	if status := run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &talk}); status != 0 {
		t.Errorf("%q: status %d\n%s", args, status, talk.String())
	}
	return out.String()
}

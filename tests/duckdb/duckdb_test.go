//go:build cgo

package duckdb_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/marcboeker/go-duckdb/v2"

	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// TestDuckDB exports a day of a simulated market and compares DuckDB's results with the rows of the
// API: numbers of rows, volume, turnover and average price, bounds, and times to the nanosecond, by
// instrument. It also compares quotes, bars, and the books at a time.
func TestDuckDB(t *testing.T) {
	a := runDay(t)
	date := a.closedDay()
	folder := filepath.Join(t.TempDir(), "history")
	d := &duck{t: t, folder: folder}
	var err error
	if d.db, err = sql.Open("duckdb", ""); err != nil {
		t.Fatal(err)
	}
	defer d.db.Close()
	for _, format := range []export.Format{export.Parquet, export.CSV} {
		a.export(folder, date, format)
	}
	want := a.figures(date)
	t.Logf("figure: DuckDB and the API agree on %d rows of trades, %d of quotes, %d of bars, %d levels of books",
		want.sum("trades"), want.sum("quotes"), want.sum("bars"), want.sum("books"))
	for _, table := range []string{"trades", "quotes", "bars", "books"} {
		if want.sum(table) == 0 {
			t.Errorf("the API has no %s", table)
		}
	}
	for _, from := range []string{
		"read_parquet('%s/type=%s/**/*.parquet', hive_partitioning=true)",
		"read_csv('%s/type=%s/**/*.csv', hive_partitioning=true, all_varchar=true)",
	} {
		d.from = from
		compare(t, from+" trades", d.trades(date), want.trades)
		compare(t, from+" quotes", d.quotes(date), want.quotes)
		compare(t, from+" bars", d.bars(date), want.bars)
		compare(t, from+" books", d.books(date), want.books)
	}
	d.types()
	d.documented(date, strings.Fields(want.books[0])[0])
}

// compare checks that two lists of lines are equal.
func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(want)
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s: %d lines, want %d; line %d:\n got %s\nwant %s", what, len(got), len(want), i, at(got, i), at(want, i))
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// closedDay waits until the gateway has closed the first day, and returns its date.
func (a *api) closedDay() string {
	a.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		r, err := journal.OpenReader(a.t.Context(), a.data+"/journal")
		if err != nil {
			a.t.Fatal(err)
		}
		days := r.Days()
		if err := r.Close(); err != nil {
			a.t.Fatal(err)
		}
		if len(days) != 2 || days[0].Date != firstDay {
			a.t.Fatalf("days: %+v", days)
		}
		if days[0].Closed {
			return firstDay
		}
	}
	panic("a ticker does not end")
}

// export writes the day while the gateway runs, and checks that its route returns the same file.
func (a *api) export(folder, date string, format export.Format) {
	a.t.Helper()
	r, err := journal.OpenReader(a.t.Context(), a.data+"/journal")
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Close()
	files, err := export.Day(a.t.Context(), r.Archive, export.Job{Folder: folder, Request: export.Request{Date: date, Format: format}})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Path))
		if err != nil {
			a.t.Fatal(err)
		}
		part := strings.Split(f.Path, "/")
		status, body := a.ask(fmt.Sprintf("/market/export?%s&%s&%s&format=%s", part[0], part[1], part[2], format))
		if status != http.StatusOK || !bytes.Equal(body, text) {
			a.t.Fatalf("%s: the route answers %d and %d bytes, the file has %d", f.Path, status, len(body), len(text))
		}
	}
}

// figures has lines of figures, by instrument.
type figures struct {
	trades, quotes, bars, books []string
	rows                        map[string]int
}

func (f *figures) sum(table string) int { return f.rows[table] }

// figures computes them from the rows of the API.
func (a *api) figures(date string) *figures {
	a.t.Helper()
	f := &figures{rows: map[string]int{}}
	for _, id := range a.instruments() {
		trades := a.rows("trades", id, date, "")
		if len(trades) > 0 {
			f.rows["trades"] += len(trades)
			f.trades = append(f.trades, a.tradeLine(id, trades))
		}
		if quotes := a.rows("quotes", id, date, ""); len(quotes) > 0 {
			f.rows["quotes"] += len(quotes)
			f.quotes = append(f.quotes, a.quoteLine(id, quotes))
		}
		for _, iv := range []string{"1s", "1m", "5m", "15m", "1h", "1d"} {
			if bars := a.rows("bars", id, date, "&interval="+iv); len(bars) > 0 {
				f.rows["bars"] += len(bars)
				f.bars = append(f.bars, a.barLine(id, iv, bars))
			}
		}
		var book message
		a.object("/market/book?depth=0&instrument="+url.QueryEscape(id)+"&at="+date+"T"+bookTime+"Z", &book)
		f.rows["books"] += len(book.B) + len(book.A)
		if len(book.B)+len(book.A) > 0 {
			f.books = append(f.books, a.bookLine(id, &book))
		}
	}
	return f
}

// number parses a number of the API, in units of 1e-8.
func (a *api) number(text string) *big.Int {
	a.t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		a.t.Fatalf("number %q", text)
	}
	r.Mul(r, big.NewRat(100_000_000, 1))
	if !r.IsInt() {
		a.t.Fatalf("number %q has more than eight decimals", text)
	}
	return r.Num()
}

// tradeLine returns the figures of an instrument's trades as a line.
func (a *api) tradeLine(id string, list []message) string {
	a.t.Helper()
	type deal struct{ price, size *big.Int }
	standing := map[uint64]deal{}
	kinds := map[string]int{}
	var times, seqs big.Int
	for _, m := range list {
		kinds[m.Type]++
		times.Add(&times, big.NewInt(a.nanos(m.T)))
		seqs.Add(&seqs, new(big.Int).SetUint64(m.N))
		switch m.Type {
		case "T":
			standing[m.N] = deal{a.number(m.P.String()), a.number(m.Z.String())}
		case "C":
			if _, ok := standing[m.XN]; ok {
				standing[m.XN] = deal{a.number(m.P.String()), a.number(m.Z.String())}
			}
		case "X":
			delete(standing, m.XN)
		}
	}
	volume, turnover := new(big.Int), new(big.Int)
	var least, most *big.Int
	for _, d := range standing {
		volume.Add(volume, d.size)
		turnover.Add(turnover, new(big.Int).Mul(d.price, d.size))
		if least == nil || d.price.Cmp(least) < 0 {
			least = d.price
		}
		if most == nil || d.price.Cmp(most) > 0 {
			most = d.price
		}
	}
	return fmt.Sprint(id, " ", kinds["T"], " ", kinds["X"], " ", kinds["C"], " ", &times, " ", &seqs, " ", len(standing), " ",
		volume, " ", turnover, " ", least, " ", most, " ", vwap(turnover, volume))
}

// vwap returns an average price with the digits that are reliable in DuckDB's division of doubles.
func vwap(turnover, volume *big.Int) string {
	if volume.Sign() == 0 {
		return "NULL"
	}
	price := new(big.Rat).SetFrac(turnover, new(big.Int).Mul(volume, big.NewInt(100_000_000)))
	return price.FloatString(6)
}

func (a *api) nanos(text string) int64 {
	a.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		a.t.Fatal(err)
	}
	return at.UnixNano()
}

func (a *api) quoteLine(id string, list []message) string {
	a.t.Helper()
	var bids, asks int
	prices := new(big.Int)
	for _, m := range list {
		if m.BP != "" {
			bids++
			prices.Add(prices, new(big.Int).Mul(a.number(m.BP.String()), a.number(m.BZ.String())))
		}
		if m.AP != "" {
			asks++
			prices.Add(prices, new(big.Int).Mul(a.number(m.AP.String()), a.number(m.AZ.String())))
		}
	}
	return fmt.Sprint(id, " ", len(list), " ", bids, " ", asks, " ", prices)
}

func (a *api) barLine(id, interval string, list []message) string {
	a.t.Helper()
	revised, trades, first, last := 0, 0, list[0].TD, ""
	volume, prices := new(big.Int), new(big.Int)
	for _, m := range list {
		if m.R {
			revised++
		}
		trades += m.TC
		first, last = min(first, m.TD), max(last, m.TD)
		volume.Add(volume, a.number(m.TV.String()))
		if m.TC > 0 {
			for _, p := range []string{m.OP.String(), m.HI.String(), m.LO.String(), m.CL.String()} {
				prices.Add(prices, a.number(p))
			}
		}
	}
	return fmt.Sprint(id, " ", interval, " ", len(list), " ", revised, " ", trades, " ", volume, " ", prices, " ", first, " ", last)
}

func (a *api) bookLine(id string, m *message) string {
	a.t.Helper()
	total := new(big.Int)
	for _, l := range slices.Concat(m.B, m.A) {
		total.Add(total, new(big.Int).Mul(a.number(l[0].String()), a.number(l[1].String())))
	}
	return fmt.Sprint(id, " ", len(m.B), " ", len(m.A), " ", total)
}

// duck runs queries of DuckDB.
type duck struct {
	t      *testing.T
	db     *sql.DB
	folder string
	from   string
}

// lines runs a query of text columns. Decimals are returned as whole numbers of their last digit.
func (d *duck) lines(table, query string, args ...any) (list []string) {
	d.t.Helper()
	query = strings.ReplaceAll(query, "FROM", "from "+fmt.Sprintf(d.from, d.folder, table))
	rows, err := d.db.Query(query, args...)
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		d.t.Fatal(err)
	}
	for rows.Next() {
		cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			d.t.Fatal(err)
		}
		var line []string
		for i, c := range cells {
			switch {
			case !c.Valid:
				line = append(line, "NULL")
			case strings.HasPrefix(names[i], "exact_"):
				n, ok := new(big.Int).SetString(strings.Replace(c.String, ".", "", 1), 10)
				if !ok {
					d.t.Fatalf("%s: %q", names[i], c.String)
				}
				line = append(line, n.String())
			default:
				line = append(line, c.String)
			}
		}
		list = append(list, strings.Join(line, " "))
	}
	if err := rows.Err(); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	slices.Sort(list)
	return list
}

// The casts change nothing in a Parquet table. A CSV table is read as texts.
const (
	nanoseconds = "sum(epoch_ns(ts::timestamp_ns))::varchar"
	dec         = "::decimal(38,8)"
)

func (d *duck) trades(date string) []string {
	return d.lines("trades", `with t as (select instrument, kind, ts, seq, final::boolean as final, price`+dec+` as price, size`+dec+` as size FROM where date = ?)
		select instrument, count(*) filter (kind = 'trade'), count(*) filter (kind = 'cancel'), count(*) filter (kind = 'correct'),
			`+nanoseconds+`, sum(seq::bigint)::varchar, count(*) filter (final),
			sum(size) filter (final)::varchar as exact_volume, sum(price * size) filter (final)::varchar as exact_turnover,
			min(price) filter (final)::varchar as exact_least, max(price) filter (final)::varchar as exact_most,
			printf('%.6f', (sum(price * size) filter (final) / sum(size) filter (final))::double)
		from t group by instrument`, date)
}

func (d *duck) quotes(date string) []string {
	return d.lines("quotes", `select instrument, count(*), count(bid_price), count(ask_price),
			(coalesce(sum(bid_price`+dec+` * bid_size`+dec+`), 0) + coalesce(sum(ask_price`+dec+` * ask_size`+dec+`), 0))::varchar as exact_both
		FROM where date = ? group by instrument`, date)
}

func (d *duck) bars(date string) []string {
	return d.lines("bars", `select instrument, "interval", count(*), count(*) filter (revised::boolean), sum(trades::bigint)::varchar,
			sum(volume`+dec+`)::varchar as exact_volume,
			coalesce(sum(open`+dec+` + high`+dec+` + low`+dec+` + close`+dec+`), 0)::varchar as exact_prices,
			min(trading_date)::varchar, max(trading_date)::varchar
		FROM where date = ? group by instrument, "interval"`, date)
}

// books returns the books at a time: the levels since the last full state of each.
func (d *duck) books(date string) []string {
	return d.lines("depth", `with rows as (select instrument, kind, seq::bigint as seq, side, price`+dec+` as price, size`+dec+` as size FROM
			where date = ? and ts::timestamp_ns <= (date || ' `+bookTime+`')::timestamp_ns),
		states as (select instrument, max(seq) as since from rows where kind = 'state' group by instrument),
		levels as (select instrument, side, price, arg_max(size, seq) as size
			from rows join states using (instrument) where seq >= since and side is not null group by all)
		select instrument, count(*) filter (side = 'B'), count(*) filter (side = 'S'), sum(price * size)::varchar as exact_total
		from levels where size > 0 group by instrument`, date)
}

// bookTime is the time of the compared books, in the middle of the session.
const bookTime = "16:00:00"

// types checks that DuckDB sees the documented types.
func (d *duck) types() {
	d.t.Helper()
	d.from = "read_parquet('%s/type=%s/**/*.parquet', hive_partitioning=true)"
	for table, want := range map[string]string{
		"trades": "ts TIMESTAMP_NS, published TIMESTAMP_NS, instrument VARCHAR, symbol VARCHAR, market VARCHAR, term VARCHAR, seq BIGINT, epoch VARCHAR, " +
			"kind VARCHAR, final BOOLEAN, price DECIMAL(38,8), size DECIMAL(38,8), side VARCHAR, trade_id VARCHAR, ref_seq BIGINT, " +
			"old_price DECIMAL(38,8), old_size DECIMAL(38,8), conditions VARCHAR[], date DATE, type VARCHAR",
		"bars": "ts TIMESTAMP_NS, published TIMESTAMP_NS, instrument VARCHAR, symbol VARCHAR, market VARCHAR, term VARCHAR, seq BIGINT, epoch VARCHAR, " +
			"interval VARCHAR, open DECIMAL(38,8), high DECIMAL(38,8), low DECIMAL(38,8), close DECIMAL(38,8), volume DECIMAL(38,8), " +
			"turnover DECIMAL(38,16), vwap DECIMAL(38,8), trades BIGINT, revised BOOLEAN, trading_date DATE, date DATE, type VARCHAR",
	} {
		var got []string
		rows, err := d.db.Query("select column_name || ' ' || column_type from (describe from " + fmt.Sprintf(d.from, d.folder, table) + ")")
		if err != nil {
			d.t.Fatal(err)
		}
		for rows.Next() {
			var column string
			if err := rows.Scan(&column); err != nil {
				d.t.Fatal(err)
			}
			got = append(got, column)
		}
		if err := rows.Close(); err != nil {
			d.t.Fatal(err)
		}
		if strings.Join(got, ", ") != want {
			d.t.Errorf("%s has columns\n%s\nwant\n%s", table, strings.Join(got, ", "), want)
		}
	}
}

// documented runs the queries of docs/export.md.
func (d *duck) documented(date, instrument string) {
	d.t.Helper()
	text, err := os.ReadFile("../../docs/export.md")
	if err != nil {
		d.t.Fatal(err)
	}
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(queries) < 4 {
		d.t.Errorf("the documentation has %d queries", len(queries))
	}
	for _, q := range queries {
		query := strings.NewReplacer("'history/", "'"+d.folder+"/", "2026-11-20", date, "GGAL|BYMA|24hs", instrument).Replace(q[1])
		rows, err := d.db.Query(query)
		if err != nil {
			d.t.Errorf("%s\n%v", query, err)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
			d.t.Errorf("%s\n%d rows, %v", query, n, err)
		}
	}
}

package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// archive is a gateway with a journal that the test writes.
type archive struct {
	*gateway
	t       testing.TB
	journal *journal.Journal
	folder  string // of the journal
	access  string // of historian
	numbers map[string]uint32
	n       map[string]uint64
	pos     uint64
}

// newArchive returns an archive; change may be nil.
func newArchive(t testing.TB, cfg journal.Config, change func(*rest.Config, *auth.Config)) *archive {
	t.Helper()
	a := &archive{t: t, numbers: map[string]uint32{}, n: map[string]uint64{}}
	if cfg.Folder == "" {
		cfg.Folder = t.TempDir()
	}
	a.folder = cfg.Folder
	var err error
	if a.journal, err = journal.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := a.journal.Restore(func(*journal.Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := a.journal.Start(func(uint32, func(*journal.Row)) {}); err != nil {
		t.Fatal(err)
	}
	a.gateway = newGateway(t, func(c *rest.Config, x *auth.Config) {
		c.Journal = a.journal
		if change != nil {
			change(c, x)
		}
	})
	a.access, _ = a.login(t, "historian")
	return a
}

// opening returns when the days of these tests begin.
func opening() int64 { return time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC).UnixNano() }

// keep appends a row of an instrument. It fills in what the row does not have.
func (a *archive) keep(id string, r journal.Row) journal.Row {
	a.t.Helper()
	if _, ok := a.numbers[id]; !ok {
		parsed, err := market.ParseInstrumentID(id)
		if err != nil {
			a.t.Fatal(err)
		}
		def, ok := a.hub.Instrument(parsed)
		if !ok {
			a.t.Fatalf("%s is not in the fixture", id)
		}
		a.numbers[id] = a.journal.Define(def)
	}
	series := fmt.Sprint(id, r.Kind == journal.Quote, r.Kind >= journal.BookUpdate, r.Kind == journal.Bar, r.Kind == journal.Status, r.Bar.Interval)
	a.n[series]++
	a.pos++
	r.Instrument, r.N, r.Position = a.numbers[id], a.n[series], a.pos
	if r.At == 0 {
		r.At = r.Time + r.Latency
	}
	a.journal.Append(&r)
	a.journal.Commit()
	return r
}

const ggal = "GGAL|BYMA|24hs"

// trades appends n trades of an instrument, a second apart, and returns their messages.
func (a *archive) trades(id string, n int) (messages []string) {
	for i := range n {
		r := journal.Row{Kind: journal.Trade, Time: opening() + int64(i)*1e9, Latency: int64(i), Side: market.Buy,
			Price: market.Price(7050+i) * market.Scale, Size: market.Size(i+1) * market.Scale, ID: fmt.Sprint("t", i)}
		switch i % 10 {
		case 7:
			r.Kind, r.Side, r.RefN = journal.Cancel, market.NoSide, uint64(i)
		case 8:
			r.Kind, r.Side, r.OldPrice, r.OldSize = journal.Correct, market.NoSide, market.Scale, 2*market.Scale
		case 9:
			r.Conditions = []string{"auction", `odd "lot", big`}
		}
		r = a.keep(id, r)
		messages = append(messages, message(a.t, id, &r))
	}
	return messages
}

func message(t testing.TB, id string, r *journal.Row) string {
	t.Helper()
	parsed, err := market.ParseInstrumentID(id)
	if err != nil {
		t.Fatal(err)
	}
	return string(recent.AppendRow(nil, wire.MakeIdent(parsed), time.UTC, r))
}

// ask requests a path with the token of user historian; header has names and values in turn.
func (a *archive) ask(path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+a.access)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w
}

// table has the data of a page of history.
type table struct {
	Trades, Quotes, Bars []json.RawMessage
	Epoch                string
	From                 uint64 `json:"complete_from"`
	Next                 string `json:"next_cursor"`
}

func (a *archive) rows(path string) (p table) {
	a.t.Helper()
	w := a.ask(path)
	if w.Code != http.StatusOK {
		a.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	var envelope struct{ Data *table }
	envelope.Data = &p
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
		a.t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
	link := w.Header().Get("Link")
	if (p.Next == "") != (link == "") || link != "" && !strings.Contains(link, "cursor="+p.Next) {
		a.t.Errorf("%s: Link %q with cursor %q", path, link, p.Next)
	}
	return p
}

func historyPath(list string, query ...string) string {
	v := url.Values{"instrument": {ggal}}
	for i := 0; i < len(query); i += 2 {
		v.Set(query[i], query[i+1])
	}
	return "/market/" + list + "?" + v.Encode()
}

// TestHistoryPages checks for many queries that the pages together have the stored rows, each once
// and in order, with the streamed bytes.
func TestHistoryPages(t *testing.T) {
	a := newArchive(t, journal.Config{}, nil)
	const n = 200
	all := a.trades(ggal, n)
	a.trades("AL30|BYMA|CI", 5) // of no concern
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		from, to := random.IntN(n), n
		if random.IntN(2) == 0 {
			to = from + 1 + random.IntN(n-from)
		}
		query := []string{"limit", fmt.Sprint(1 + random.IntN(70))}
		desc := random.IntN(2) == 0
		if desc {
			query = append(query, "order", "desc")
		}
		if random.IntN(2) == 0 {
			query = append(query, "after_sequence", fmt.Sprint(from))
		} else {
			query = append(query, "start", fmt.Sprint(opening()+int64(from)*1e9))
		}
		if to < n {
			query = append(query, "end", time.Unix(0, opening()+int64(to)*1e9).UTC().Format(time.RFC3339Nano))
		}
		if random.IntN(3) == 0 {
			query = append(query, "epoch", a.journal.Epoch())
		}
		var got []string
		for cursor := ""; ; {
			p := a.rows(historyPath("trades", append(query, "cursor", cursor)...))
			for _, raw := range p.Trades {
				got = append(got, string(raw))
			}
			if cursor = p.Next; cursor == "" {
				break
			}
			if len(p.Trades) == 0 || len(got) > n {
				t.Fatalf("%v: a page of %d rows after %d", query, len(p.Trades), len(got))
			}
		}
		if desc {
			for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
				got[i], got[j] = got[j], got[i]
			}
		}
		if strings.Join(got, "\n") != strings.Join(all[from:to], "\n") {
			t.Fatalf("%v: got %d rows, want %d to %d", query, len(got), from, to)
		}
	}
}

func TestHistoryFormats(t *testing.T) {
	a := newArchive(t, journal.Config{}, nil)
	all := a.trades(ggal, 12)
	a.keep(ggal, journal.Row{Kind: journal.Quote, Time: opening(), Latency: 5, Bids: []market.Level{{Price: 7049.5 * market.Scale, Size: 300 * market.Scale, Orders: 4}}})
	a.keep(ggal, journal.Row{Kind: journal.Quote, Time: opening() + 1, Latency: -1, At: opening() + 1,
		Bids: []market.Level{{Price: -5, Size: 1}}, Asks: []market.Level{{Price: 7050 * market.Scale, Size: market.Scale}}})
	value := market.Price(7051 * market.Scale).Times(900 * market.Scale)
	a.keep(ggal, journal.Row{Kind: journal.Bar, Time: opening(), At: opening() + 60e9, Latency: -1, Bar: journal.BarRow{Interval: market.Minute, Revised: true,
		First: 7050 * market.Scale, High: 7055 * market.Scale, Low: 7048 * market.Scale, Last: 7052 * market.Scale,
		Volume: market.Size(900 * market.Scale).Sum(), Value: value, Trades: 14}})

	lines := a.ask(historyPath("trades"), "Accept", "application/x-ndjson")
	if got := lines.Header().Get("Content-Type"); got != "application/x-ndjson" || lines.Body.String() != strings.Join(all, "\n")+"\n" {
		t.Errorf("lines: %s:\n%s", got, lines.Body)
	}
	short := a.ask(historyPath("trades", "limit", "5"), "Accept", "text/csv")
	if got := short.Header().Get("Link"); !strings.HasPrefix(got, "</market/trades?cursor=") || !strings.HasSuffix(got, `>; rel="next"`) {
		t.Errorf("Link %q", got)
	}
	a.keep(ggal, journal.Row{Kind: journal.Status, Time: opening(), Latency: 7, Phase: market.Halt, Reason: "volatility", Until: opening() + 300e9})
	for _, list := range []string{"trades", "quotes", "statuses", "bars"} {
		w := a.ask(historyPath(list), "Accept", "text/csv")
		if got := w.Header().Get("Content-Type"); got != "text/csv; charset=utf-8; header=present" {
			t.Errorf("%s: %s", list, got)
		}
		golden(t, list+".csv", strings.ReplaceAll(w.Body.String(), a.journal.Epoch(), "EPOCH"))
	}
}

var update = flag.Bool("update", false, "write the golden files of testdata")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = "testdata/" + name
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestHistoryCompressed(t *testing.T) {
	a := newArchive(t, journal.Config{}, nil)
	a.trades(ggal, 100)
	plain := a.ask(historyPath("trades"))
	if got := plain.Header().Get("Content-Encoding"); got != "" {
		t.Errorf("packed as %q unasked", got)
	}
	for coding, open := range map[string]func(io.Reader) (io.Reader, error){
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		w := a.ask(historyPath("trades"), "Accept-Encoding", coding)
		if w.Header().Get("Content-Encoding") != coding || w.Body.Len() > plain.Body.Len()/3 {
			t.Fatalf("%s: %q, %d bytes", coding, w.Header().Get("Content-Encoding"), w.Body.Len())
		}
		r, err := open(bytes.NewReader(w.Body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%s: another text: %v", coding, err)
		}
		tag := w.Header().Get("ETag")
		if !strings.HasSuffix(tag, "-"+coding+`"`) || tag == plain.Header().Get("ETag") {
			t.Errorf("%s: ETag %s", coding, tag)
		}
		if again := a.ask(historyPath("trades"), "Accept-Encoding", coding, "If-None-Match", tag); again.Code != http.StatusNotModified || again.Header().Get("ETag") != tag {
			t.Errorf("%s: %d, ETag %s", coding, again.Code, again.Header().Get("ETag"))
		}
	}
	if got := plain.Header().Values("Vary"); strings.Join(got, ",") != "Origin,Accept,Accept-Encoding" {
		t.Errorf("Vary %q", got)
	}
	tokens := httptest.NewRequest(http.MethodPost, "/auth/token", strings.NewReader(`{"grant_type":"password","username":"demo","password":"demo"}`))
	tokens.Header.Set("Content-Type", "application/json")
	tokens.Header.Set("Accept-Encoding", "gzip, zstd")
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, tokens)
	if w.Header().Get("Content-Encoding") != "" {
		t.Error("tokens are compressed")
	}
}

// TestHistoryIsDelayed checks that delayed rows have their delay and no latency.
func TestHistoryIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(t, journal.Config{}, nil)
		now := time.Now().UnixNano()
		for _, age := range []int64{3000, 1000, 901, 899, 10} {
			a.keep(ggal, journal.Row{Kind: journal.Trade, Time: now - age*1e9, Latency: 0, At: now - age*1e9, Price: market.Scale, Size: market.Scale})
		}
		a.access, _ = a.login(t, "late")
		for _, order := range []string{"asc", "desc"} {
			p := a.rows(historyPath("trades", "order", order))
			if len(p.Trades) != 3 || p.Next != "" {
				t.Fatalf("%s: %d rows", order, len(p.Trades))
			}
			for _, raw := range p.Trades {
				if !strings.Contains(string(raw), `"I":"GGAL|BYMA|24hs","DE":900,"N":`) || strings.Contains(string(raw), `"D":`) {
					t.Errorf("row %s", raw)
				}
			}
		}
		time.Sleep(2 * time.Second)
		if p := a.rows(historyPath("trades")); len(p.Trades) != 4 {
			t.Errorf("2 s later: %d rows", len(p.Trades))
		}
		if w := a.ask(historyPath("quotes")); w.Code != http.StatusForbidden {
			t.Errorf("quotes without a right: %d", w.Code)
		}
	})
}

package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestHistoryIsIncomplete reads a journal whose first day is removed, and one in which a segment is
// missing between others.
func TestHistoryIsIncomplete(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		days := streamtest.Days{Folder: filepath.Join(t.TempDir(), "journal"), Closed: 1, Rows: 1500}
		days.Write(t)
		if first {
			days.RemoveFirstDay(t)
		} else {
			days.RemoveSegment(t, "2025-11-21")
		}
		s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) { c.Journal.Folder = days.Folder }})
		var log bytes.Buffer
		c := connect(t, s, client.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, client.Set{})
		id := days.ID().String()
		read := func(r client.Range) (ns []uint64, err error) {
			for x, failed := range c.Trades(t.Context(), id, r) {
				if failed != nil {
					return ns, failed
				}
				if at := days.Time(int(x.N)); !x.Time.Equal(at) || x.Price != days.Price(int(x.N)) {
					t.Fatalf("%+v", x)
				}
				if r.Lost != nil && len(*r.Lost) != 1 {
					t.Fatalf("at N %d it is lost: %v", x.N, *r.Lost)
				}
				ns = append(ns, x.N)
			}
			return ns, nil
		}
		for _, newest := range []bool{false, true} {
			log.Reset()
			lost := []client.Lost{{Reason: "of an earlier call"}}
			ns, err := read(client.Range{Start: days.Time(1), Newest: newest, Lost: &lost})
			if err != nil || len(lost) != 1 {
				t.Fatalf("%v, %v", lost, err)
			}
			want := client.Lost{Series: stream.Series{Channel: wire.Trades, Instrument: days.ID()}, From: 1, To: 1500, Reason: "buffer_exceeded", End: days.Time(1501)}
			if l := lost[0]; !first {
				want.From, want.To, want.Start, want.End = l.From, l.To, days.Time(int(l.From-1)), days.Time(int(l.To+1))
			}
			if lost[0] != want || len(ns)+int(want.To-want.From+1) != 3000 || slices.ContainsFunc(ns, func(n uint64) bool { return n >= want.From && n <= want.To }) {
				t.Errorf("%+v and %d rows, want %+v", lost[0], len(ns), want)
			}
			if log.Len() > 0 {
				t.Errorf("asked and warned: %s", &log)
			}
			if ns, err = read(client.Range{Start: days.Time(1), Newest: newest}); err != nil || len(ns)+int(want.To-want.From+1) != 3000 {
				t.Errorf("%d rows, %v", len(ns), err)
			}
			if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, want.String()) {
				t.Errorf("warned: %q, want %s", text, want)
			}
			log.Reset()
			ns, err = read(client.Range{Start: days.Time(1), Newest: newest, RequireComplete: true})
			incomplete, ok := errors.AsType[*client.IncompleteError](err)
			if !ok || len(ns) > 0 || !slices.Equal(incomplete.Lost, lost) || !strings.Contains(err.Error(), want.String()) || log.Len() > 0 {
				t.Errorf("required: %d rows, %v, %s", len(ns), err, &log)
			}
		}
		var lost, same []client.Lost
		ns, err := read(client.Range{Start: days.Time(1), Lost: &lost})
		if all, failed := read(client.Range{FromFirst: true, Lost: &same}); err != nil || failed != nil || !slices.Equal(all, ns) || !slices.Equal(same, lost) {
			t.Errorf("from the first row: %d rows, %v, %v; want %d, %v, %v", len(all), same, failed, len(ns), lost, err)
		}
		for _, r := range []client.Range{{Start: days.Time(2000)}, {After: 2000}, {Start: days.Time(2000), RequireComplete: true}} {
			r.Lost = nil
			if ns, err := read(r); err != nil || len(ns) < 1000 || log.Len() > 0 {
				t.Errorf("%+v, of which all is there: %d rows, %v, %s", r, len(ns), err, &log)
			}
		}
		for x, err := range c.Trades(t.Context(), id, client.Range{After: 2000, Lost: &lost}) {
			if err != nil || len(lost) > 0 {
				t.Fatalf("N %d: %v, %v", x.N, lost, err)
			}
		}
		if ns, err := read(client.Range{Start: days.Time(1), End: days.Time(1501), Lost: &lost}); err != nil || len(lost) != 1 || first && len(ns) > 0 {
			t.Errorf("the first day: %d rows, %v, %v", len(ns), lost, err)
		}
	}
}

// lostPages serves two pages of each channel, which lack rows.
func lostPages(t *testing.T) *client.Client {
	t.Helper()
	row := map[string]string{
		"trades":   `{"type":"T","S":"A","I":"A|B|C","N":8,"T":"2026-11-20T14:30:00.000000000Z","P":7050,"Z":120,"X":"88123","G":"B"}`,
		"quotes":   `{"type":"Q","S":"A","I":"A|B|C","N":8,"T":"2026-11-20T14:30:00.000000000Z","BP":7049.5,"BZ":300,"AP":7050,"AZ":1200,"BC":4,"AC":9}`,
		"statuses": `{"type":"H","S":"A","I":"A|B|C","N":8,"T":"2026-11-20T14:30:00.000000000Z","E":"halt","Y":"volatility"}`,
		"bars": `{"type":"K","S":"A","I":"A|B|C","N":8,"T":"2026-11-20T14:30:00.000000000Z",` +
			`"IV":"5m","OP":7050,"HI":7055,"LO":7048,"CL":7052,"TV":900,"EV":6345900,"TC":14,"VW":7051,"R":false}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		switch {
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"success":true,"data":{"access_token":"a","token_type":"bearer","expires_in":3600,"refresh_token":"r","refresh_expires_in":3600,"scope":""}}`)
		case r.URL.Query().Get("cursor") == "":
			fmt.Fprintf(w, `{"success":true,"data":{%q:[%s],"epoch":"e","lost":[{"end":"2026-11-20T14:00:00.000000000Z","reason":"buffer_exceeded"}],"next_cursor":"c"}}`, name, row[name])
		default:
			fmt.Fprintf(w, `{"success":true,"data":{%q:[%s],"epoch":"e","lost":[{"from":9,"start":"2026-11-20T14:30:00.000000000Z","reason":"a_new_word"},{"reason":"buffer_exceeded"}]}}`, name, row[name])
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New([]string{server.URL}, client.Options{Username: "ana", Password: "canary"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestLostOfEachChannel checks that each call has the missing rows of its series, page by page.
func TestLostOfEachChannel(t *testing.T) {
	t.Parallel()
	c := lostPages(t)
	var lost []client.Lost
	r := client.Range{Lost: &lost}
	check := func(channel wire.Channel, rows iter.Seq2[any, error]) {
		t.Helper()
		series := stream.Series{Channel: channel, Instrument: market.InstrumentID{Symbol: "A", Market: "B", Term: "C"}}
		want := []client.Lost{
			{Series: series, End: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), Reason: "buffer_exceeded"},
			{Series: series, From: 9, Start: time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC), Reason: "a_new_word"},
			{Series: series, Reason: "buffer_exceeded"},
		}
		known := []int{1, 3}
		n := 0
		for x, err := range rows {
			if err != nil || n == len(known) || len(lost) != known[n] {
				t.Fatalf("%s: row %d %v: %v, %v", channel, n, x, lost, err)
			}
			n++
		}
		if n != 2 || !slices.Equal(lost, want) {
			t.Errorf("%s: %d rows, %v, want %v", channel, n, lost, want)
		}
		if n, first, last := len(lost), lost[0].String(), lost[1].String(); n != 3 ||
			first != "lost "+series.String()+" before 2026-11-20T14:00:00Z: buffer_exceeded" ||
			last != "lost "+series.String()+" from 9 after 2026-11-20T14:30:00Z: a_new_word" {
			t.Errorf("%s: %q, %q", channel, first, last)
		}
	}
	check(wire.Trades, anyRows(c.Trades(t.Context(), "A|B|C", r)))
	check(wire.Quotes, anyRows(c.Quotes(t.Context(), "A|B|C", r)))
	check(wire.Status, anyRows(c.Statuses(t.Context(), "A|B|C", r)))
	check(wire.BarsOf(market.FiveMinutes), anyRows(c.Bars(t.Context(), "A|B|C", market.FiveMinutes, r)))
	r = client.Range{RequireComplete: true}
	for _, err := range c.Trades(t.Context(), "A|B|C", r) {
		if e, ok := errors.AsType[*client.IncompleteError](err); !ok || len(e.Lost) != 1 {
			t.Errorf("required: %v", err)
		}
	}
	if !reflect.TypeFor[client.Range]().Comparable() || !reflect.TypeFor[client.Lost]().Comparable() {
		t.Error("programs that compare a Range or a Lost do not compile any more")
	}
}

// anyRows returns rows of any type.
func anyRows[E any](rows iter.Seq2[E, error]) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for x, err := range rows {
			if !yield(x, err) {
				return
			}
		}
	}
}

package rest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
)

// busy publishes events of some instruments at random.
type busy struct {
	t       *testing.T
	hub     *hub.Hub
	random  *rand.Rand
	handles []market.Handle
	trades  int
}

func (b *busy) publish() {
	h := b.handles[b.random.IntN(len(b.handles))]
	e := market.Event{Handle: h, Time: time.Now().Add(-time.Duration(b.random.IntN(1e6))).UnixNano()}
	price := market.Price(7000+b.random.IntN(20)) * market.Scale
	size := market.Size(1+b.random.IntN(500)) * market.Scale
	switch b.random.IntN(9) {
	case 0, 1, 2:
		b.trades++
		e.Kind, e.Price, e.Size, e.Side, e.TradeID = market.KindTrade, price, size, market.Side(b.random.IntN(3)), fmt.Sprint("t", b.trades)
	case 3:
		e.Kind, e.Price, e.Size, e.TradeID = market.KindCancel, price, size, fmt.Sprint("t", 1+b.random.IntN(b.trades+1))
	case 4:
		e.Kind, e.Price, e.Size, e.OldPrice, e.OldSize = market.KindCorrect, price, size, price, size
		e.TradeID, e.Conditions = fmt.Sprint("t", 1+b.random.IntN(b.trades+1)), []string{"late", `a "word"`}
	case 5:
		e.Kind, e.Phase, e.Reason = market.KindStatus, market.Open, "test"
		if b.random.IntN(2) == 0 {
			e.Phase, e.Until = market.Halt, e.Time+1e9
		}
	default:
		e.Kind = market.KindUpdate
		if b.random.IntN(2) == 0 {
			e.Bids = []market.Level{{Price: price - 20*market.Scale, Size: size * market.Size(b.random.IntN(2)), Orders: uint32(b.random.IntN(3))}}
		} else {
			e.Asks = []market.Level{{Price: price, Size: size * market.Size(b.random.IntN(2))}}
		}
	}
	if err := b.hub.Publish([]market.Event{e}); err != nil {
		b.t.Fatal(err)
	}
}

// publishOfMarket publishes statuses of a market as a whole.
func (b *busy) publishOfMarket(name string, phases ...market.Phase) {
	h, err := b.hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: name, Term: market.Any}})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range phases {
		if err := b.hub.Publish([]market.Event{{Kind: market.KindStatus, Handle: h, Phase: p}}); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(time.Second) // of the bubble's clock
	}
}

// withJournal runs f with a gateway that has a journal and no instruments yet.
func withJournal(t *testing.T, f func(s *streaming)) {
	t.Helper()
	withSlowJournal(t, (*os.File).Write, f)
}

// withSlowJournal is withJournal with a function that replaces writes to disk.
func withSlowJournal(t *testing.T, write func(*os.File, []byte) (int, error), f func(s *streaming)) {
	t.Helper()
	var kept *journal.Journal
	prepare := func(_ *session.Env, c *rest.Config) {
		cfg := journal.Config{Folder: t.TempDir()}
		cfg.WriteWith(write)
		var err error
		if kept, err = journal.Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		c.Journal = kept
		c.Hub = hub.New(hub.Config{Journal: kept, Markets: []market.Market{{ID: "BYMA", Terms: []market.Term{{Name: "CI"}}}}})
		if err := c.Hub.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	withStream(t, prepare, func(s *streaming) {
		s.t.Cleanup(func() { // once the hub has ended
			if err := kept.Close(); err != nil {
				t.Error(err)
			}
		})
		f(s)
	})
}

// TestFollowStarts checks that a stream with start sends the messages since that time first, and
// then live ones.
func TestFollowStarts(t *testing.T) {
	withJournal(t, func(s *streaming) {
		const name = "AAA|BYMA|CI"
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.hub.Define(market.Instrument{ID: id, Kind: "equity", StartsEmpty: true}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Second)
			s.trade(t, name, 7)
		}
		start := time.Now().Add(-4 * time.Second).UTC().Format(time.RFC3339)
		access, _ := s.login(t, "historian")
		s.hub.Commit() // what is not committed comes behind CaughtUp
		e := s.follow(access, "trades=AAA%7CBYMA%7CCI&start="+start)
		e.message(`"type":"Subscription"`)
		for n := 6; n <= 10; n++ {
			e.message(`"type":"T"`, fmt.Sprintf(`"N":%d,`, n))
		}
		e.message(`"type":"CaughtUp"`)
		s.trade(t, name, 8)
		e.message(`"N":11,`)
	})
}

// TestHistoryIsTheStream checks that history returns trades, quotes, statuses and bars byte for
// byte as they were streamed.
func TestHistoryIsTheStream(t *testing.T) {
	withJournal(t, func(s *streaming) {
		b := &busy{t: t, hub: s.hub, random: rand.New(rand.NewPCG(3, 4))}
		names := []string{"AAA|BYMA|CI", "BBB|BYMA|CI", "CCC|BYMA|CI"}
		for _, name := range names {
			id, err := market.ParseInstrumentID(name)
			if err != nil {
				t.Fatal(err)
			}
			h, err := s.hub.Define(market.Instrument{ID: id, Kind: "equity", StartsEmpty: true})
			if err != nil {
				t.Fatal(err)
			}
			b.handles = append(b.handles, h)
		}
		s.hub.Commit() // what is not committed would be streamed
		// The user historian may not use patterns.
		access, _ := s.login(t, "historian")
		list := strings.ReplaceAll(strings.Join(names, ","), "|", "%7C")
		e := s.follow(access, "trades="+list+"&quotes="+list+"&status="+list+"&bars="+list+"&interval=1s&snapshot=false", "Accept: application/x-ndjson")
		if e.answer.StatusCode != http.StatusOK {
			t.Fatal(e.answer.Status)
		}
		streamed := map[string][]string{} // by type and instrument
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				line, err := e.reader.ReadString('\n')
				if err != nil {
					return
				}
				asyncapitest.Received(t, []byte(line))
				var m struct{ Type, I string }
				if json.Unmarshal([]byte(line), &m) == nil && len(m.Type) == 1 {
					streamed[channelOf(m.Type)+m.I] = append(streamed[channelOf(m.Type)+m.I], strings.TrimSuffix(line, "\n"))
				}
			}
		}()
		synctest.Wait()
		for range 2000 {
			b.publish()
			time.Sleep(20 * time.Millisecond)
		}
		b.publishOfMarket("BYMA", market.Halt, market.Open, market.Closed)
		time.Sleep(5 * time.Second)
		e.conn.Close()
		<-read
		if got, want := allRows(t, s.gateway, access, "statuses", "*|BYMA|*"), streamed["statuses*|BYMA|*"]; len(want) != 3 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("statuses of the market: %d rows, %d were streamed", len(got), len(want))
		}
		for _, name := range names {
			for _, list := range []string{"trades", "quotes", "statuses", "bars"} {
				got := allRows(t, s.gateway, access, list, name)
				if list == "statuses" {
					got = got[1:] // that of its listing, when nobody was there
				}
				if want := streamed[list+name]; len(want) == 0 || strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%s of %s: %d rows, %d were streamed", list, name, len(got), len(want))
				}
			}
		}
	})
}

// channelOf returns the list of history that has messages of a type.
func channelOf(kind string) string {
	switch kind {
	case "Q":
		return "quotes"
	case "H":
		return "statuses"
	case "K":
		return "bars"
	}
	return "trades"
}

// allRows follows the pages of JSON lines by their links.
func allRows(t *testing.T, g *gateway, access, list, id string) (rows []string) {
	t.Helper()
	path := "/market/" + list + "?limit=97&instrument=" + strings.ReplaceAll(id, "|", "%7C")
	if list == "bars" {
		path += "&interval=1s"
	}
	for path != "" {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+access)
		r.Header.Set("Accept", "application/x-ndjson")
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")...)
		link := w.Header().Get("Link")
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	return rows
}

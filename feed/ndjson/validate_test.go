package ndjson

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// lockedLog is a log buffer that is safe for concurrent use.
type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestValidate checks that crossed books outside auctions and negative prices in a market without
// them are rejected and that unknown members are accepted. Each case is counted, and logged once a
// minute.
func TestValidate(t *testing.T) {
	const n = `,"I":"GGAL|BYMA|24hs",`
	const g = "GGAL|BYMA|24hs "
	whole := `{"type":"O"` + n + `"R":true,"B":[[10,1]],"A":[[11,1]]}`
	cross := `{"type":"O"` + n + `"B":[[12,1]]}`
	forbids := []market.Market{{ID: "BYMA", Positive: true}}
	day := []market.Session{{Start: 0, End: 24 * time.Hour, Phase: market.Auction}}
	everyDay := []time.Weekday{0, 1, 2, 3, 4, 5, 6}
	auctions := []market.Market{{ID: "BYMA", Schedule: market.Schedule{Weekdays: everyDay, Sessions: day}}}
	alwaysOpen := []market.Market{{ID: "BYMA", Schedule: market.Schedule{Weekdays: everyDay, Sessions: []market.Session{{Start: 0, End: 24 * time.Hour, Phase: market.Open}}}}}
	for _, tt := range []struct {
		name    string
		markets []market.Market
		lines   []string
		answers []string
		want    []string
		stats   Stats // the counters that this test checks
	}{
		{"crossed by an update", nil, []string{whole, cross, cross, whole}, []string{"Error bad_field 4"},
			[]string{g + "snapshot", g + "gap crossed_book", g + "update", g + "snapshot"}, Stats{Crossed: 1}},
		{"crossed whole", nil, []string{`{"type":"O"` + n + `"R":true,"B":[[12,1]],"A":[[11,1]]}`, whole}, []string{"Error bad_field 3"},
			[]string{g + "gap crossed_book", g + "snapshot"}, Stats{Crossed: 1}},
		{"in an auction", nil, []string{`{"type":"H"` + n + `"E":"auction"}`, whole, cross}, nil,
			[]string{g + "auction", g + "snapshot", g + "update"}, Stats{}},
		{"in an auction of the market", nil, []string{`{"type":"H","I":"*|BYMA|*","E":"auction"}`, whole, cross}, nil,
			[]string{"*|BYMA|* auction", g + "snapshot", g + "update"}, Stats{}},
		{"in an auction by the hours", auctions, []string{whole, cross}, nil, []string{g + "snapshot", g + "update"}, Stats{}},
		{"while the status is unknown", nil, []string{`{"type":"H"` + n + `"E":"unknown"}`, whole, cross}, nil,
			[]string{g + "unknown", g + "snapshot", g + "update"}, Stats{}},
		{"unknown within the hours", alwaysOpen, []string{`{"type":"H"` + n + `"E":"unknown"}`, whole, cross}, []string{"Error bad_field 5"},
			[]string{g + "unknown", g + "snapshot", g + "gap crossed_book"}, Stats{Crossed: 1}},
		{"defined as unknown after open", nil, []string{`{"type":"H"` + n + `"E":"open"}`, strings.Replace(defineGGAL, "}", `,"status":"unknown"}`, 1), whole, cross}, []string{"Error bad_field 6"},
			[]string{g + "open", g + "snapshot", g + "gap crossed_book"}, Stats{Crossed: 1}},
		{"after the auction", nil, []string{`{"type":"H"` + n + `"E":"auction"}`, whole, `{"type":"H"` + n + `"E":"open"}`, cross}, []string{"Error bad_field 6"},
			[]string{g + "auction", g + "snapshot", g + "open", g + "gap crossed_book"}, Stats{Crossed: 1}},
		{"below 0", forbids, []string{whole, `{"type":"T"` + n + `"P":-1,"Z":1}`, `{"type":"T"` + n + `"P":-2,"Z":1}`, `{"type":"O"` + n + `"B":[[-1,1]]}`, `{"type":"T"` + n + `"P":1,"Z":1}`},
			[]string{"Error bad_field 4", "Error bad_field 5", "Error bad_field 6"}, []string{g + "snapshot", g + "status gap bad_line", g + "gap bad_line", g + "trade 1 at 1"}, Stats{Negative: 3}},
		{"below 0 where that may be", nil, []string{`{"type":"T"` + n + `"P":-1,"Z":1}`}, nil, []string{g + "trade 1 at -1"}, Stats{}},
		{"unknown members", nil, []string{`{"type":"T"` + n + `"P":1,"Z":1,"venue":"x"}`, `{"type":"T"` + n + `"P":1,"Z":1,"N":5}`, `{"type":"T"` + n + `"P":1,"Z":1}`}, nil,
			[]string{g + "trade 1 at 1", g + "trade 1 at 1", g + "trade 1 at 1"}, Stats{Unknown: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r feedtest.Recorder
			var log lockedLog
			run := start(t, Config{Markets: tt.markets, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &r)
			c := run.dial().send(append([]string{defineGGAL}, tt.lines...)...)
			same(t, wait(t, &r, len(tt.want)), tt.want)
			c.send("x")
			var answers []string
			for {
				a := c.answer()
				if a.Reason == "bad_json" {
					break
				}
				answers = append(answers, fmt.Sprintf("%s %s %d", a.Type, a.Reason, a.Line))
			}
			if !reflect.DeepEqual(answers, tt.answers) {
				t.Errorf("answered %q, want %q", answers, tt.answers)
			}
			s := run.source.Stats()
			if got := (Stats{Crossed: s.Crossed, Negative: s.Negative, Unknown: s.Unknown}); got != tt.stats {
				t.Errorf("counted %+v, want %+v", got, tt.stats)
			}
			logged := strings.Count(log.String(), "lines rejected") + strings.Count(log.String(), "unknown members")
			if want := min(1, tt.stats.Crossed+tt.stats.Negative+tt.stats.Unknown); logged != want {
				t.Errorf("logged %d times, want %d:\n%s", logged, want, log.String())
			}
		})
	}
}

// TestLimitedLog checks that one log line a minute is due, with the count since the last one.
func TestLimitedLog(t *testing.T) {
	var o limitedLog
	now := time.Now()
	if n := o.add(now); n != 1 {
		t.Errorf("first: %d", n)
	}
	for range 5 {
		if o.add(now.Add(59*time.Second)) != 0 {
			t.Error("logged again within a minute")
		}
	}
	if n := o.add(now.Add(time.Minute)); n != 6 {
		t.Errorf("after a minute: %d", n)
	}
}

// TestManyGaps checks that a producer which skips numbers with every line does not fill the log.
func TestManyGaps(t *testing.T) {
	const id, gaps = "GGAL|BYMA|24hs", 200
	var r feedtest.Recorder
	var log lockedLog
	run := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, &r)
	c := run.dial().send(`{"type":"F","I":"` + id + `","currency":"ARS","price_decimals":2,"size_decimals":0}`)
	for i := range gaps + 1 {
		c.send(fmt.Sprintf(`{"type":"T","I":"%s","P":5,"Z":1,"G":"B","SQ":%d}`, id, 2*i+1))
	}
	for range gaps {
		if a := c.answer(); a.Reason != reasonSequence {
			t.Fatalf("answer %+v", a)
		}
	}
	if n := strings.Count(log.String(), "skipped sequence numbers"); n != 1 || run.source.Stats().Gaps != gaps {
		t.Errorf("%d gaps are counted, and logged %d times", run.source.Stats().Gaps, n)
	}
}

// TestSetLevels compares many levels at once, in any order and with repeated prices, with the same
// levels one by one.
func TestSetLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var one, many market.Book
		for range 3 {
			for _, side := range []market.Side{market.Buy, market.Sell} {
				list := make([]market.Level, r.IntN(3*manyLevels))
				for i := range list {
					list[i] = market.Level{Price: market.Price(r.IntN(150)), Size: market.Size(r.IntN(3)), Orders: r.Uint32N(4)}
				}
				for _, l := range list {
					one.Set(side, l)
				}
				setLevels(&many, side, list)
				if want, got := one.Append(nil, side, 0), many.Append(nil, side, 0); !slices.Equal(want, got) {
					t.Fatalf("side %v after %v:\n got %v\nwant %v", side, list, got, want)
				}
			}
		}
	}
}

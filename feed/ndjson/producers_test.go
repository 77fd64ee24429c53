package ndjson

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// TestInstrumentBelongsToItsProducer checks that another producer can neither publish, nor define,
// nor make stale, nor halt what a connected producer has defined. All of it is counted and logged
// once.
func TestInstrumentBelongsToItsProducer(t *testing.T) {
	const g = "GGAL|BYMA|24hs "
	var r feedtest.Recorder
	var log lockedLog
	run := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, &r)
	a := run.dial().send(defineGGAL, bookGGAL, `{"type":"H","I":"*|BYMA|*","E":"open"}`)
	want := []string{g + "snapshot", "*|BYMA|* open"}
	next := func(more ...string) {
		t.Helper()
		want = append(want, more...)
		same(t, wait(t, &r, len(want)), want)
	}
	next()
	b := run.dial()
	foreign := []string{
		tradeGGAL, updateGGAL, bookGGAL, defineGGAL, `{"type":"H","I":"GGAL|BYMA|24hs","E":"halt"}`,
		`{"type":"Gap","I":"GGAL|BYMA|24hs"}`, `{"type":"H","I":"*|BYMA|*","E":"halt","Y":"stolen"}`, `{"type":"Q","I":"GGAL|BYMA|24hs"}`,
	}
	b.send(foreign...)
	for k := range foreign {
		if got := b.answer(); got.Reason != "forbidden" || got.Code != 403 || got.Line != k+2 || !strings.Contains(got.Msg, "belongs to another producer") {
			t.Errorf("line %d: answered %+v", k+2, got)
		}
	}
	// Lines that are skipped leave no gap in what belongs to another producer.
	bad := []string{"x", `{"type":"O","I":"GGAL|BYMA|24hs","A":[[7050,-1]]}`, `{"type":"H","I":"*|BYMA|*"}`}
	b.send(append(bad, `{"type":"Gap","I":"*|BYMA|*"}`, defineAL30, strings.Replace(tradeGGAL, "GGAL|BYMA|24hs", "AL30|BYMA|CI", 1))...)
	next("AL30|BYMA|CI trade 120 at 7050")
	a.send(updateGGAL)
	next(g + "update")
	s := run.source.Stats()
	if s.Foreign != len(foreign) || s.Faults != len(foreign)+len(bad) {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Count(text, "another producer") != 1 || !strings.Contains(text, "reason=forbidden") {
		t.Errorf("logged %s", text)
	}
	// The market and the instrument are free when their producer has left.
	a.conn.Close()
	next(g + "gap producer_gone")
	b.send(defineGGAL, bookGGAL, `{"type":"H","I":"*|BYMA|*","E":"halt"}`)
	next(g+"snapshot", "*|BYMA|* halt")
}

// TestSameName checks that a producer replaces the connection of the same name, such as its own one
// that the network has lost, and gets its instruments.
func TestSameName(t *testing.T) {
	const g = "GGAL|BYMA|24hs "
	var r feedtest.Recorder
	run := start(t, Config{MaxProducers: 2}, &r)
	hello := `{"type":"Hello","name":"byma-1"}`
	old := run.connect().send(hello, defineGGAL, bookGGAL)
	want := []string{g + "snapshot"}
	same(t, wait(t, &r, len(want)), want)
	other := run.connect().send(`{"type":"Hello","name":"byma-2"}`, defineAL30, "x")
	if got := other.answer(); got.Reason != "bad_json" { // so its definition was read
		t.Errorf("answered %+v", got)
	}
	want = append(want, "AL30|BYMA|CI status gap unreadable_line")
	again := run.connect().send(hello, defineGGAL, bookGGAL)
	want = append(want, g+"gap producer_gone", g+"snapshot")
	same(t, wait(t, &r, len(want)), want)
	if got := old.answer(); got.Reason != "replaced" || got.Code != 409 {
		t.Errorf("answered %+v", got)
	}
	old.closed()
	again.send(tradeGGAL)
	want = append(want, g+"trade 120 at 7050")
	same(t, wait(t, &r, len(want)), want)
	if n := run.source.Stats().Producers; n != 2 {
		t.Errorf("%d producers", n)
	}
}

// TestNoCrossedBook changes the books of several producers at random and checks that no complete
// book that is published is crossed.
func TestNoCrossedBook(t *testing.T) {
	const producers, lines = 4, 400
	var r feedtest.Recorder
	run := start(t, Config{MaxFaults: 1 << 30}, &r)
	var senders sync.WaitGroup
	for k := range producers {
		own := strings.NewReplacer("GGAL", fmt.Sprintf("GGAL%d", k))
		c := run.dial().send(own.Replace(defineGGAL))
		senders.Go(func() {
			random := rand.New(rand.NewPCG(uint64(k), 1))
			for range lines {
				bid := 90 + random.IntN(20)
				switch random.IntN(4) {
				case 0:
					c.send(own.Replace(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[%d,1]],"A":[[%d,1]]}`, bid, bid+2)))
				case 1:
					c.send(own.Replace(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","A":[[%d,1]]}`, bid+2)))
				default:
					c.send(own.Replace(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","B":[[%d,%d]]}`, bid, random.IntN(2))))
				}
			}
			c.send(own.Replace(`{"type":"T","I":"GGAL|BYMA|24hs","P":1,"Z":1}`))
		})
	}
	senders.Wait()
	trades := func(events []market.Event) (n int) {
		for _, e := range events {
			if e.Kind == market.KindTrade {
				n++
			}
		}
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Wait(ctx, func(events []market.Event) bool { return trades(events) == producers }); err != nil {
		t.Fatal(err)
	}
	books := make(map[market.Handle]*market.Book)
	whole := 0
	for k, e := range r.Events() {
		switch e.Kind {
		case market.KindGap:
			books[e.Handle] = nil
		case market.KindSnapshot:
			books[e.Handle] = new(market.Book)
		}
		book := books[e.Handle]
		if book == nil {
			continue
		}
		for _, l := range e.Bids {
			book.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			book.Set(market.Sell, l)
		}
		if whole++; book.Crossed() {
			t.Fatalf("event %d leaves the book crossed", k)
		}
	}
	if s := run.source.Stats(); whole < lines/4 || s.Crossed < 10 {
		t.Errorf("%d events of whole books, %d refused", whole, s.Crossed)
	}
}

// TestCrossedInARow checks that lines that are rejected when they are published count as invalid
// lines in a row.
func TestCrossedInARow(t *testing.T) {
	crossed := `{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[12,1]],"A":[[11,1]]}`
	c := start(t, Config{MaxFaults: 3}, new(feedtest.Recorder)).dial()
	c.send(defineGGAL)
	refused := func(lines ...int) {
		t.Helper()
		for _, line := range lines {
			if got := c.answer(); got.Reason != "bad_field" || got.Line != line {
				t.Errorf("answered %+v, want line %d", got, line)
			}
		}
	}
	c.send(crossed)
	refused(3)
	c.send(crossed)
	refused(4)
	c.send(tradeGGAL, crossed)
	refused(6)
	c.send(crossed)
	refused(7)
	c.send(crossed)
	refused(8)
	if got := c.answer(); got.Reason != "too_many_failures" {
		t.Errorf("answered %+v", got)
	}
	c.closed()
}

// TestStatusOfMarketNeedsAnInstrument checks that a producer without an instrument of a market
// cannot set the status of the market.
func TestStatusOfMarketNeedsAnInstrument(t *testing.T) {
	var r feedtest.Recorder
	run := start(t, Config{}, &r)
	run.dial().send(defineGGAL, tradeGGAL)
	wait(t, &r, 1)
	b := run.dial().send(`{"type":"H","I":"*|BYMA|*","E":"halt"}`)
	if got := b.answer(); got.Reason != "unknown_instrument" || got.Code != 404 {
		t.Errorf("answered %+v", got)
	}
	b.send(defineAL30, `{"type":"H","I":"*|BYMA|*","E":"halt"}`)
	same(t, wait(t, &r, 2), []string{"GGAL|BYMA|24hs trade 120 at 7050", "*|BYMA|* halt"})
}

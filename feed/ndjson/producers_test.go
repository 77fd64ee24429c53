package ndjson

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/market"
)

// TestOneBookOfTwoProducers checks that one producer can neither cross the book of another nor lose
// lines of it without a gap.
func TestOneBookOfTwoProducers(t *testing.T) {
	const g = "GGAL|BYMA|24hs "
	var r feedtest.Recorder
	run := start(t, Config{}, &r)
	a, b := run.dial().send(defineGGAL, bookGGAL), run.dial()
	want := []string{g + "snapshot"}
	next := func(more ...string) {
		t.Helper()
		want = append(want, more...)
		same(t, wait(t, &r, len(want)), want)
	}
	next()
	b.send(`{"type":"O","I":"GGAL|BYMA|24hs","B":[[7051,1]]}`)
	if got := b.answer(); got.Reason != "bad_field" || got.Msg != "line 1: the book of GGAL|BYMA|24hs is crossed outside an auction" {
		t.Errorf("answered %+v", got)
	}
	next(g + "gap crossed_book")
	a.send(bookGGAL)
	next(g + "snapshot")
	b.send("x") // b feeds the book too
	next(g + "gap unreadable_line")
	a.send(bookGGAL)
	next(g + "snapshot")
	b.send("x") // the book is complete again, although a sent it
	next(g + "gap unreadable_line")
	b.send(`{"type":"H","I":"GGAL|BYMA|24hs","E":"auction"}`)
	next(g + "auction")
	a.send(`{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[12,1]],"A":[[11,1]]}`)
	next(g + "snapshot")
}

// TestNoCrossedBook changes one book at random from several producers and checks that no complete
// book that is published is crossed.
func TestNoCrossedBook(t *testing.T) {
	const producers, lines = 4, 400
	var r feedtest.Recorder
	run := start(t, Config{MaxFaults: 1 << 30}, &r)
	var senders sync.WaitGroup
	for k := range producers {
		c := run.dial().send(defineGGAL)
		senders.Go(func() {
			random := rand.New(rand.NewPCG(uint64(k), 1))
			for range lines {
				bid := 90 + random.IntN(20)
				switch random.IntN(4) {
				case 0:
					c.send(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[%d,1]],"A":[[%d,1]]}`, bid, bid+2))
				case 1:
					c.send(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","A":[[%d,1]]}`, bid+2))
				default:
					c.send(fmt.Sprintf(`{"type":"O","I":"GGAL|BYMA|24hs","B":[[%d,%d]]}`, bid, random.IntN(2)))
				}
			}
			c.send(`{"type":"T","I":"GGAL|BYMA|24hs","P":1,"Z":1}`)
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
	var book *market.Book
	whole := 0
	for k, e := range r.Events() {
		switch e.Kind {
		case market.KindGap:
			book = nil
		case market.KindSnapshot:
			book = new(market.Book)
		}
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
	refused(2)
	c.send(crossed)
	refused(3)
	c.send(tradeGGAL, crossed)
	refused(5)
	c.send(crossed)
	refused(6)
	c.send(crossed)
	refused(7)
	if got := c.answer(); got.Reason != "too_many_failures" {
		t.Errorf("answered %+v", got)
	}
	c.closed()
}

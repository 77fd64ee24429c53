package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
)

// TestRepeatScript checks that a resume by position repeats nothing of an instrument that was
// removed from the set and added again, although the client has no newest N to resume after.
func TestRepeatScript(t *testing.T) {
	const al30Trade = `{"type":"T","S":"AL30","I":"AL30|BYMA|CI","N":1,"T":"2000-01-01T00:00:00.000000000Z","P":70,"Z":1}`
	ack := func(id int) string {
		return fmt.Sprintf(`{"type":"Subscription","code":200,"msg":"Subscribed","id":%d,"epoch":"e1","position":"e1:1"}`, id)
	}
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(`{"action":"subscribe","id":1,"trades":["AL30|BYMA|CI","GGAL|BYMA|24hs"],"alive":true}`)
			c.send(ack(1), tradeText(1), tradeText(2))
			c.want(`{"action":"unsubscribe","id":2,"trades":["GGAL|BYMA|24hs"]}`)
			c.send(ack(2), al30Trade)
			c.want(`{"action":"subscribe","id":3,"trades":["GGAL|BYMA|24hs"],"alive":true}`)
			c.send(ack(3)) // the position may be before what was sent
		},
		func(c *fakeConn) {
			c.begin()
			c.want(`{"action":"subscribe","id":1,"trades":["AL30|BYMA|CI","GGAL|BYMA|24hs"],"alive":true,"resume":{"epoch":"e1","position":"e1:1","trades":{"AL30|BYMA|CI":1}}}`)
			c.send(ack(1), tradeText(1), tradeText(2), tradeText(3), `{"type":"CaughtUp","code":200,"id":1,"epoch":"e1","position":"e1:9"}`)
			c.drain()
		},
	}}
	var got []uint64
	play(t, f, client.Set{Trades: []string{ggal, al30}}, func(c *client.Client, ev client.Event) bool {
		trade, ok := ev.(*client.Trade)
		if !ok {
			return true
		}
		set := client.Set{Trades: []string{ggal}}
		switch {
		case trade.Instrument.String() == al30:
			_ = c.Subscribe(set)
			return true
		case trade.N == 2:
			_ = c.Unsubscribe(set)
		}
		got = append(got, trade.N)
		return trade.N < 3
	})
	if want := []uint64{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("trades %d, want %d", got, want)
	}
}

// TestGapBeforeResumeScript checks that a gap is not lost before the gateway has resumed it: the
// request for that was limited, and a later trade came first.
func TestGapBeforeResumeScript(t *testing.T) {
	const again = `{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"alive":true,"resume":{"epoch":"e1","position":"e1:1","trades":{"GGAL|BYMA|24hs":1}}}`
	f := &fake{scripts: []func(*fakeConn){
		func(c *fakeConn) {
			c.begin()
			c.want(subscribe)
			c.send(accepted, tradeText(1), tradeText(4))
			c.drain()
		},
		func(c *fakeConn) {
			c.begin()
			c.want(again)
			c.send(`{"type":"Error","code":429,"reason":"rate_limited","msg":"Wait","id":1,"retry":true,"retry_after":1}`, tradeText(5))
			c.drain()
		},
		func(c *fakeConn) {
			c.begin()
			c.want(again)
			c.send(accepted, tradeText(2), tradeText(3), tradeText(4), tradeText(5), caughtUp)
			c.drain()
		},
	}}
	var s seen
	play(t, f, client.Set{Trades: []string{ggal}}, func(_ *client.Client, ev client.Event) bool {
		s.add(ev)
		return !s.has("trade 5")
	})
	s.list = slices.DeleteFunc(s.list, func(text string) bool { return !strings.HasPrefix(text, "trade") && !strings.HasPrefix(text, "lost") })
	if want := []string{"trade 1", "trade 2", "trade 3", "trade 4", "trade 5"}; !slices.Equal(s.list, want) {
		t.Errorf("%q", s.list)
	}
}

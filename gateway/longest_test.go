package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// longestSide returns levels with the longest texts, best first: with 15 digits, a point and a
// sign. shift makes the prices differ from those of another shift.
func longestSide(side market.Side, n, shift int) []market.Level {
	list := make([]market.Level, n)
	for i := range list {
		k := 2*i + shift
		if side == market.Sell {
			k = 2*(n-i) + shift
		}
		list[i] = market.Level{Price: market.Price(-123_456_712_345_678 - 10*k), Size: market.Size(999_999_999_999_999 - 10*k), Orders: 1<<32 - 1}
	}
	return list
}

// longestID returns an identifier with 32, 16 and 16 characters.
func longestID(i int) market.InstrumentID {
	return market.InstrumentID{Symbol: fmt.Sprintf("S%031d", i), Market: "MARKET-WITH-16CH", Term: "TERM-WITH-16-CHR"}
}

// replaceBook returns events that replace all levels of a book, whose sides have one level fewer
// than they may have. An update may not make a side longer than that, not even before it removes
// levels, so that few levels are removed at first.
func replaceBook(h market.Handle, bids, asks, newBids, newAsks []market.Level) (events []market.Event) {
	for at, step := 0, 1; at < len(bids); at, step = at+step, 2*step {
		gone := market.Event{Kind: market.KindUpdate, Handle: h}
		for i := at; i < min(at+step, len(bids)); i++ {
			gone.Bids = append(gone.Bids, market.Level{Price: bids[i].Price})
			gone.Asks = append(gone.Asks, market.Level{Price: asks[i].Price})
		}
		events = append(events, gone)
	}
	return append(events, market.Event{Kind: market.KindUpdate, Handle: h, Bids: newBids, Asks: newAsks})
}

// TestLongestMessagesE2E makes the gateway send its longest messages: a whole book of the most
// levels, an update that replaces all of them, and answers about as many identifiers as are
// allowed. None is longer than max_message_bytes.
func TestLongestMessagesE2E(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack} {
		t.Run(format.Subprotocol(), func(t *testing.T) { longestMessages(t, format) })
	}
}

func longestMessages(t *testing.T, format wire.Format) {
	const most = 2000
	events, published := make(chan []market.Event), make(chan error)
	defined := make(chan market.Handle, 1)
	client, at := run(t, gateway.Config{
		Listen: "127.0.0.1:0",
		Limits: gateway.Limits{MessageBytes: 512 << 10, MessagesPerSecond: 10_000},
		Stream: gateway.Stream{MaxWaiting: 64 << 20, MaxAge: time.Minute},
		Feeds: []gateway.Feed{{Name: "long", Source: source(func(ctx context.Context, sink feed.Sink) error {
			for i := range most {
				h, err := sink.Define(market.Instrument{ID: longestID(i), PriceDecimals: 8, SizeDecimals: 8})
				if err != nil {
					return err
				}
				if i == 0 {
					defined <- h
				}
			}
			for {
				select {
				case list := <-events:
					published <- sink.Publish(list)
				case <-ctx.Done():
					return nil
				}
			}
		})}},
	})
	h := <-defined
	publish := func(list ...market.Event) {
		t.Helper()
		events <- list
		if err := <-published; err != nil {
			t.Fatal(err)
		}
	}
	whole := func(bids, asks []market.Level) market.Event {
		return market.Event{Kind: market.KindSnapshot, Handle: h, Bids: bids, Asks: asks}
	}
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := c.login(); err != nil {
		t.Fatal(err)
	}
	publish(whole(longestSide(market.Buy, book.MaxLevels, 0), longestSide(market.Sell, book.MaxLevels, 0)))
	b := dialLongest(t, c, format)
	id := longestID(0).String()
	b.send(`{"action":"subscribe","order_book":["%s"],"depth":0}`, id)
	b.until("a whole book", 5_700_000)
	b.send(`{"action":"unsubscribe","order_book":["%s"]}`, id)

	const n = book.MaxLevels - 1
	bids, asks := longestSide(market.Buy, n, 0), longestSide(market.Sell, n, 0)
	publish(whole(bids, asks))
	b.send(`{"action":"subscribe","order_book":["%s"],"depth":0,"conflate":"1s"}`, id)
	b.until("a whole book", 5_700_000)
	for shift := 1; ; shift++ { // the end of an interval may divide an update
		newBids, newAsks := longestSide(market.Buy, n, shift), longestSide(market.Sell, n, shift)
		publish(replaceBook(h, bids, asks, newBids, newAsks)...)
		if got := b.until("an update", 3_000_000); got > 8_900_000 {
			break
		} else if shift == 5 {
			t.Errorf("the longest of five updates has %d bytes", got)
			break
		}
		bids, asks = newBids, newAsks
		publish(whole(bids, asks))
		b.until("a whole book", 5_700_000)
	}
	b.send(`{"action":"unsubscribe","order_book":["%s"]}`, id)

	bad, unknown, listed := make([]string, most), make([]string, most), make([]string, most)
	for i := range most {
		bad[i] = strings.Repeat(`\u0001`, 32) + strconv.Itoa(i)
		unknown[i] = strings.Replace(longestID(i).String(), "|TERM", "|TERN", 1)
		listed[i] = longestID(i).String()
	}
	list := func(ids []string) string { return `"` + strings.Join(ids, `","`) + `"` }
	b.send(`{"action":"unsubscribe","order_book":[%s]}`, list(bad))
	b.until("2,000 refused texts", most*150)
	b.send(`{"action":"resync","order_book":[%s]}`, list(append(bad, "A|B|C")))
	if text := b.until("an Error", 0); text > 1000 {
		t.Errorf("2,001 identifiers are answered with %d bytes", text)
	}
	b.send(`{"action":"subscribe","order_book":[%s]}`, list(unknown))
	b.until("2,000 unknown instruments", most*150)
	b.send(`{"action":"subscribe","trades":[%s]}`, list(listed))
	b.until("2,000 subscriptions", most*66)
	b.send(`{"action":"subscriptions"}`)
	b.until("the whole set", most*66)
}

// longest is a client that accepts no message above the bound that the gateway has stated.
type longest struct {
	t  *testing.T
	ws *websocket.Conn
}

func dialLongest(t *testing.T, c *literalClient, format wire.Format) *longest {
	t.Helper()
	o := &websocket.DialOptions{} // without the checks of the schema, which take seconds
	if format != wire.JSON {
		o.Subprotocols = []string{format.Subprotocol()}
	}
	ws, _, err := websocket.Dial(t.Context(), c.stream, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.CloseNow() })
	b := &longest{t, ws}
	b.send(`{"action":"auth_token","token":"%s"}`, c.access)
	_, data, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := statedBound(data)
	if bound != 10<<20 {
		t.Fatalf("max_message_bytes is %d in %q", bound, data)
	}
	ws.SetReadLimit(bound)
	return b
}

// statedBound returns max_message_bytes of a Success in any format, 0 if it is not there.
func statedBound(success []byte) (n int64) {
	_, value, _ := bytes.Cut(success, []byte("max_message_bytes"))
	if len(value) > 5 && value[0] == 0xce { // MessagePack: an unsigned integer of 32 bits
		return int64(binary.BigEndian.Uint32(value[1:]))
	}
	_, _ = fmt.Sscanf(string(value), `":%d`, &n)
	return n
}

func (b *longest) send(format string, values ...any) {
	b.t.Helper()
	if err := b.ws.Write(b.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, values...)); err != nil {
		b.t.Fatal(err)
	}
}

// until reads until a message has at least some bytes, other than a ping, and returns its length.
func (b *longest) until(what string, least int) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, data, err := b.ws.Read(ctx)
		switch {
		case err != nil:
			b.t.Fatalf("%s: %v", what, err)
		case len(data) >= max(least, 50):
			b.t.Logf("%s has %d bytes", what, len(data))
			return len(data)
		}
	}
}

package stream

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// message is a data message as a client decodes it.
type message struct {
	Type   string      `json:"type"`
	I      string      `json:"I"`
	N      uint64      `json:"N"`
	P      json.Number `json:"P"`
	X      string      `json:"X"`
	XN     uint64      `json:"XN"`
	R      bool        `json:"R"`
	L      uint64      `json:"L"`
	DL     int         `json:"DL"`
	B, A   [][]json.Number
	K      uint32 `json:"K"`
	BP, AP json.Number
	BZ, AZ json.Number
	E, Y   string
	D      *int64
	T      string
}

// frames parses server frames.
func frames(t testing.TB, b []byte) (list []message) {
	t.Helper()
	for len(b) > 0 {
		if b[0] != 0x81 {
			t.Fatalf("frame starts with %#x", b[0])
		}
		n, head := int(b[1]), 2
		switch n {
		case 126:
			n, head = int(binary.BigEndian.Uint16(b[2:])), 4
		case 127:
			n, head = int(binary.BigEndian.Uint64(b[2:])), 10
		}
		var m message
		if err := json.Unmarshal(b[head:head+n], &m); err != nil {
			t.Fatalf("%v in %s", err, b[head:head+n])
		}
		list = append(list, m)
		b = b[head+n:]
	}
	return list
}

// copyBook is a client's book: levels by price. Every message is checked against it.
type copyBook struct {
	bids, asks market.Book
	n          uint64
	depth      int
	known      bool
}

func (c *copyBook) take(t testing.TB, m *message) {
	t.Helper()
	if m.R {
		c.bids.Reset()
		c.asks.Reset()
		c.known, c.depth = true, m.DL
	} else if c.known && m.L != c.n {
		t.Fatalf("%s: update %d builds on %d, have %d", m.I, m.N, m.L, c.n)
	}
	c.n = m.N
	if !c.known {
		return
	}
	apply := func(b *market.Book, side market.Side, levels [][]json.Number) {
		for _, l := range levels {
			p, err1 := market.ParsePrice(string(l[0]))
			z, err2 := market.ParseSize(string(l[1]))
			if err1 != nil || err2 != nil {
				t.Fatalf("bad level %v", l)
			}
			if _, had := b.Find(side, p); z == 0 && !had {
				t.Fatalf("%s N %d: removal of level %s that the client does not have", m.I, m.N, p)
			}
			b.Set(side, market.Level{Price: p, Size: z})
		}
	}
	apply(&c.bids, market.Buy, m.B)
	apply(&c.asks, market.Sell, m.A)
	if c.depth > 0 && (c.bids.Len(market.Buy) > c.depth || c.asks.Len(market.Sell) > c.depth) {
		t.Fatalf("%s: more than %d levels", m.I, c.depth)
	}
	k, _ := wire.Checksum(nil, c.bids.Append(nil, market.Buy, 0), c.asks.Append(nil, market.Sell, 0), wire.ChecksumLevels(c.depth), 2, 0)
	if k != m.K {
		t.Fatalf("%s N %d: checksum %d, message says %d", m.I, m.N, k, m.K)
	}
}

// client is a subscriber with the messages that it has received.
type client struct {
	t       testing.TB
	sub     *Subscriber
	books   map[string]*copyBook
	trades  map[string][]uint64
	last    map[string]uint64 // trades
	notes   []message
	raw     []message
	place   string            // to resume from
	before  map[string]uint64 // trades, before it resumed by a position
	follows map[string]uint64 // trades that it had when its process was killed
}

func open(sh *Shard) *Subscriber {
	sub := new(Subscriber)
	sh.Open(sub, nil)
	return sub
}

// turn runs a turn of a shard, without gathering. It returns how many subscribers are ready.
func turn(sh *Shard) (ready int) {
	for sh.Turn(); sh.Next() != nil; ready++ {
	}
	return ready
}

func newClient(t testing.TB, sh *Shard) *client {
	return &client{t: t, sub: open(sh), books: map[string]*copyBook{}, trades: map[string][]uint64{}, last: map[string]uint64{}}
}

// read gathers all messages that wait, in pieces.
func (c *client) read(max int, conflate bool) []message {
	c.t.Helper()
	var all []message
	for c.sub.Pending() {
		got := frames(c.t, c.sub.Gather(nil, max, wire.JSON, conflate))
		for i := range got {
			c.take(&got[i])
		}
		all = append(all, got...)
	}
	c.raw = append(c.raw, all...)
	return all
}

func (c *client) take(m *message) {
	c.t.Helper()
	switch m.Type {
	case "T", "X", "C":
		if last, ok := c.last[m.I]; ok && m.N != last+1 {
			c.t.Fatalf("%s: trade %d after %d", m.I, m.N, last)
		}
		c.last[m.I] = m.N
		c.trades[m.I] = append(c.trades[m.I], m.N)
	case "O":
		b := c.books[m.I]
		if b == nil {
			b = &copyBook{}
			c.books[m.I] = b
		}
		b.take(c.t, m)
	case "H":
		c.notes = append(c.notes, *m)
	}
}

func id(s string) market.InstrumentID {
	p, err := market.ParsePattern(s)
	if err != nil {
		panic(s)
	}
	return p
}

func define(t testing.TB, h *Hub, s string, edit func(*market.Instrument)) market.Handle {
	t.Helper()
	def := market.Instrument{ID: id(s), PriceDecimals: 2, StartsEmpty: true}
	if edit != nil {
		edit(&def)
	}
	hd, err := h.Define(def)
	if err != nil {
		t.Fatal(err)
	}
	return hd
}

func publish(t testing.TB, h *Hub, events ...market.Event) {
	t.Helper()
	if err := h.Publish(events); err != nil {
		t.Fatal(err)
	}
}

func trade(hd market.Handle, n int) market.Event {
	return market.Event{Kind: market.KindTrade, Handle: hd, Price: 100 * market.Scale, Size: market.Scale, TradeID: fmt.Sprint(n), Side: market.Buy}
}

func level(price, size int64) market.Level {
	return market.Level{Price: market.Price(price) * market.Scale, Size: market.Size(size) * market.Scale}
}

func subscribe(t testing.TB, s *Subscriber, c wire.Channel, ids ...string) Outcome {
	t.Helper()
	items := make([]Item, len(ids))
	for i, x := range ids {
		items[i] = Item{Channel: c, ID: id(x)}
	}
	out := s.Subscribe(items, Options{})
	if len(out.Rejected) > 0 || out.Fault != nil {
		t.Fatalf("%+v", out)
	}
	return out
}

// positionText returns the text of a position of a hub.
func positionText(h *Hub, pos uint64) string { return position.At(pos).Text(h.epoch) }

package streamtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Message is a data message as a client decodes it.
type Message struct {
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
	Lost   map[string]map[string]wire.Range
	D      *int64
	T      string
}

// Frames parses server frames.
func Frames(t testing.TB, b []byte) (list []Message) {
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
		var m Message
		if err := json.Unmarshal(b[head:head+n], &m); err != nil {
			t.Fatalf("%v in %s", err, b[head:head+n])
		}
		if len(m.Type) == 1 { // tests make up the others
			asyncapitest.Received(t, b[head:head+n])
		}
		list = append(list, m)
		b = b[head+n:]
	}
	return list
}

// CopyBook is a client's book: levels by price. Every message is checked against it.
type CopyBook struct {
	Bids, Asks market.Book
	N          uint64
	depth      int
	known      bool
}

func (c *CopyBook) Take(t testing.TB, m *Message) {
	t.Helper()
	if m.R {
		c.Bids.Reset()
		c.Asks.Reset()
		c.known, c.depth = true, m.DL
	} else if c.known && m.L != c.N {
		t.Fatalf("%s: update %d builds on %d, have %d", m.I, m.N, m.L, c.N)
	}
	c.N = m.N
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
	apply(&c.Bids, market.Buy, m.B)
	apply(&c.Asks, market.Sell, m.A)
	if c.depth > 0 && (c.Bids.Len(market.Buy) > c.depth || c.Asks.Len(market.Sell) > c.depth) {
		t.Fatalf("%s: more than %d levels", m.I, c.depth)
	}
	k, _ := wire.Checksum(nil, c.Bids.Append(nil, market.Buy, 0), c.Asks.Append(nil, market.Sell, 0), wire.ChecksumLevels(c.depth), 2, 0)
	if k != m.K {
		t.Fatalf("%s N %d: checksum %d, message says %d", m.I, m.N, k, m.K)
	}
}

// Client is a subscriber with the messages that it has received.
type Client struct {
	T       testing.TB
	Sub     *subscription.Subscriber
	Books   map[string]*CopyBook
	Trades  map[string][]uint64
	Last    map[string]uint64 // trades
	Notes   []Message
	Raw     []Message
	Place   string            // to resume from
	Before  map[string]uint64 // trades, before it resumed by a position
	Follows map[string]uint64 // trades that it had when its process was killed
}

func Open(sh *subscription.Shard) *subscription.Subscriber {
	sub := new(subscription.Subscriber)
	sh.Open(sub, nil)
	return sub
}

// Turn runs a turn of a shard, without gathering. It returns how many subscribers are ready.
func Turn(sh *subscription.Shard) (ready int) {
	for sh.Turn(); sh.Next() != nil; ready++ {
	}
	return ready
}

func NewClient(t testing.TB, sh *subscription.Shard) *Client {
	return &Client{T: t, Sub: Open(sh), Books: map[string]*CopyBook{}, Trades: map[string][]uint64{}, Last: map[string]uint64{}}
}

// Read gathers all messages that wait, in pieces.
func (c *Client) Read(max int, conflate bool) []Message {
	c.T.Helper()
	var all []Message
	for c.Sub.Pending() {
		got := Frames(c.T, c.Sub.Gather(nil, max, wire.JSON, conflate))
		for i := range got {
			c.Take(&got[i])
		}
		all = append(all, got...)
	}
	c.Raw = append(c.Raw, all...)
	return all
}

func (c *Client) Take(m *Message) {
	c.T.Helper()
	switch m.Type {
	case "T", "X", "C":
		if last, ok := c.Last[m.I]; ok && m.N != last+1 {
			c.T.Fatalf("%s: trade %d after %d", m.I, m.N, last)
		}
		c.Last[m.I] = m.N
		c.Trades[m.I] = append(c.Trades[m.I], m.N)
	case "O":
		b := c.Books[m.I]
		if b == nil {
			b = &CopyBook{}
			c.Books[m.I] = b
		}
		b.Take(c.T, m)
	case "H":
		c.Notes = append(c.Notes, *m)
	}
}

func ID(s string) market.InstrumentID {
	p, err := market.ParsePattern(s)
	if err != nil {
		panic(s)
	}
	return p
}

func Define(t testing.TB, h *hub.Hub, s string, edit func(*market.Instrument)) market.Handle {
	t.Helper()
	def := market.Instrument{ID: ID(s), PriceDecimals: 2, StartsEmpty: true}
	if edit != nil {
		edit(&def)
	}
	hd, err := h.Define(def)
	if err != nil {
		t.Fatal(err)
	}
	return hd
}

func Publish(t testing.TB, h *hub.Hub, events ...market.Event) {
	t.Helper()
	if err := h.Publish(events); err != nil {
		t.Fatal(err)
	}
}

func Trade(hd market.Handle, n int) market.Event {
	return market.Event{Kind: market.KindTrade, Handle: hd, Price: 100 * market.Scale, Size: market.Scale, TradeID: fmt.Sprint(n), Side: market.Buy}
}

func Level(price, size int64) market.Level {
	return market.Level{Price: market.Price(price) * market.Scale, Size: market.Size(size) * market.Scale}
}

func Subscribe(t testing.TB, s *subscription.Subscriber, c wire.Channel, ids ...string) subscription.Outcome {
	t.Helper()
	items := make([]hub.Item, len(ids))
	for i, x := range ids {
		items[i] = hub.Item{Channel: c, ID: ID(x)}
	}
	out := s.Subscribe(items, subscription.Options{})
	if len(out.Rejected) > 0 || out.Fault != nil {
		t.Fatalf("%+v", out)
	}
	return out
}

// PositionText returns the text of a position of a hub.
func PositionText(h *hub.Hub, pos uint64) string { return position.At(pos).Text(h.Epoch()) }

// TakeStatuses reads all waiting messages, first those that are sent before an answer. It returns
// the N of an instrument's statuses: updates in live, snapshots in states.
func (c *Client) TakeStatuses(name string) (live, states []uint64) {
	c.T.Helper()
	list := append(Frames(c.T, c.Sub.TakeCarry(nil)), c.Read(1<<20, false)...)
	for _, m := range list {
		switch {
		case m.Type != "H" || m.I != name:
		case m.R:
			states = append(states, m.N)
		default:
			live = append(live, m.N)
		}
	}
	return live, states
}

package verify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// world generates a good stream of one instrument, as a server would.
type world struct {
	random *rand.Rand
	def    market.Instrument
	ident  wire.Ident
	now    int64
	book   market.Book
	bid    market.Level
	ask    market.Level
	phase  market.Phase
	list   []string

	trades, quotes, books, statuses, bars uint64
	minutes                               int64
	deals                                 []deal // of the open minute
}

type deal struct {
	n     uint64
	price market.Price
	size  market.Size
}

const start = int64(1_795_184_400_000_000_000) // a full minute

func instrumentOf(id string) market.Instrument {
	p, _ := market.ParseInstrumentID(id)
	return market.Instrument{ID: p, PriceDecimals: 2, SizeDecimals: 0}
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), def: instrumentOf("GGAL|BYMA|24hs"), now: start, phase: market.Open}
	w.ident = wire.MakeIdent(w.def.ID)
	w.say(`{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":"e1","position":"e1:1"}`)
	w.status(market.Open, true)
	for i := range 20 {
		w.book.Set(market.Buy, market.Level{Price: market.Price(7000-i) * market.Scale, Size: market.Size(10+i) * market.Scale})
		w.book.Set(market.Sell, market.Level{Price: market.Price(7001+i) * market.Scale, Size: market.Size(10+i) * market.Scale})
	}
	w.books = 40
	w.state()
	w.quote()
	return w
}

func (w *world) say(s string) { w.list = append(w.list, s) }

func (w *world) header(n uint64) *wire.Header {
	return &wire.Header{Ident: w.ident, N: n, Time: w.now, Latency: -1}
}

func (w *world) status(p market.Phase, state bool) {
	if !state || w.statuses == 0 {
		w.statuses++
	}
	w.phase = p
	w.say(string(wire.AppendStatus(nil, w.header(w.statuses), p, "", 0, state)))
}

func (w *world) checksum() uint32 {
	k, _ := wire.Checksum(nil, w.book.Append(nil, market.Buy, 10), w.book.Append(nil, market.Sell, 10), 10, 2, 0)
	return k
}

func (w *world) state() {
	w.say(string(wire.AppendBookState(nil, w.header(w.books), 0, w.book.Append(nil, market.Buy, 0), w.book.Append(nil, market.Sell, 0), w.checksum())))
}

// quote sends the top of the book, if it changed and the market is open.
func (w *world) quote() {
	bid, _ := w.book.Best(market.Buy)
	ask, _ := w.book.Best(market.Sell)
	if bid == w.bid && ask == w.ask || w.phase != market.Open || w.book.Crossed() {
		return
	}
	w.bid, w.ask = bid, ask
	w.quotes++
	w.say(string(wire.AppendQuote(nil, w.header(w.quotes), bid, ask, false)))
}

// change changes one level. In the open market it does not cross the book.
func (w *world) change() {
	side, best, away := market.Buy, market.Price(7000), market.Price(-1)
	if w.random.IntN(2) == 0 {
		side, best, away = market.Sell, 7001, 1
	}
	l := market.Level{Price: (best + away*market.Price(w.random.IntN(12))) * market.Scale, Size: market.Size(w.random.IntN(50)) * market.Scale}
	if _, changed := w.book.Set(side, l); !changed {
		return
	}
	last := w.books
	w.books++
	var bids, asks []market.Level
	if side == market.Buy {
		bids = []market.Level{l}
	} else {
		asks = []market.Level{l}
	}
	w.say(string(wire.AppendBookUpdate(nil, w.header(w.books), last, bids, asks, w.checksum())))
	w.quote()
}

func (w *world) trade() {
	w.trades++
	d := deal{w.trades, market.Price(6990+w.random.IntN(20)) * market.Scale, market.Size(1+w.random.IntN(90)) * market.Scale}
	w.deals = append(w.deals, d)
	w.say(string(wire.AppendTrade(nil, w.header(w.trades), &wire.Trade{Kind: market.KindTrade, Price: d.price, Size: d.size, ID: fmt.Sprint("t", d.n)})))
}

// amend cancels or corrects a trade of the open minute.
func (w *world) amend() {
	if len(w.deals) == 0 {
		return
	}
	i := w.random.IntN(len(w.deals))
	d := &w.deals[i]
	w.trades++
	t := wire.Trade{Kind: market.KindCancel, Price: d.price, Size: d.size, ID: fmt.Sprint("t", d.n), RefN: d.n}
	if w.random.IntN(2) == 0 {
		t.Kind, t.OldPrice, t.OldSize = market.KindCorrect, d.price, d.size
		d.price += market.Scale / 2
		t.Price = d.price
	} else {
		w.deals = append(w.deals[:i], w.deals[i+1:]...)
	}
	w.say(string(wire.AppendTrade(nil, w.header(w.trades), &t)))
}

// bar ends a minute.
func (w *world) bar(minute int64) {
	if len(w.deals) > 0 {
		first, last := w.deals[0].price, w.deals[len(w.deals)-1].price
		high, low, volume, value := first, first, market.Size(0), int64(0)
		for _, d := range w.deals {
			high, low, volume = max(high, d.price), min(low, d.price), volume+d.size
			value += int64(d.price) / (market.Scale / 2) * int64(d.size) / market.Scale
		}
		w.bars++
		w.say(fmt.Sprintf(`{"type":"K","S":"GGAL","I":"GGAL|BYMA|24hs","N":%d,"T":"%s","IV":"1m","OP":%s,"HI":%s,"LO":%s,"CL":%s,"TV":%s,"EV":%s,"TC":%d}`,
			w.bars, wire.AppendTime(nil, minute), first, high, low, last, volume, market.Price(value)*(market.Scale/2), len(w.deals)))
	}
	w.deals = w.deals[:0]
}

// run generates some minutes of market data.
func (w *world) run(minutes int) {
	for range minutes {
		begin := start + w.minutes*int64(time.Minute)
		w.minutes++
		for step := range 200 {
			w.now = begin + int64(step)*int64(time.Minute)/200
			switch x := w.random.IntN(20); {
			case x < 14:
				w.change()
			case x < 19:
				w.trade()
			default:
				w.amend()
			}
		}
		w.bar(begin)
	}
}

// judge verifies messages, with a second of receive time for each half.
func judge(t *testing.T, list []string, c Config) *Report {
	t.Helper()
	v := New(c)
	d := stream.Decoder{Lenient: true}
	var m stream.Message
	for i, s := range list {
		if err := d.Decode([]byte(s), &m); err != nil {
			v.Unreadable(int64(i+1), err)
			continue
		}
		v.Message(int64(i+1), start+int64(i)*5e8, &m)
	}
	return v.Report().Describe("test", "messages")
}

func text(r *Report) string {
	var b strings.Builder
	_ = r.WriteText(&b) // into memory
	return b.String()
}

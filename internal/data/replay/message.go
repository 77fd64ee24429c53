package replay

import (
	"bytes"
	"errors"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
	"github.com/ruedahq/rueda/market"
)

// kind is the kind of a Binance message.
type kind uint8

const (
	other   kind = iota // of a stream that says nothing of trades, quotes and books, or an answer
	unknown             // of any other stream
	partial             // the best levels of a book
	trade
	aggregate // trades of one order at one price
	quote
	depth
	snapshot
)

// played reports whether messages of the kind may be played.
func (k kind) played() bool { return k >= trade }

// key is a set of member names, one bit each.
type key uint32

const (
	keyStream key = 1 << iota
	keyData
	keyEvent      // e
	keyEventTime  // E
	keyTradeTime  // T, the time of the matching engine
	keySymbol     // s
	keyTradeID    // t
	keyPrice      // p
	keyQuantity   // q
	keyOrderType  // X, futures only
	keyMaker      // m, the buyer is the maker
	keyIgnore     // M, spot only
	keyFirst      // U
	keyLast       // u
	keyPrevious   // pu, futures only
	keyBid        // b, in depth messages the bids
	keyAsk        // a, in depth messages the asks
	keyBidSize    // B
	keyAskSize    // A
	keyLastUpdate // lastUpdateId
	keyBids
	keyAsks
	keyResult      // the answer to a request, such as a subscription: result or error
	keyAggregateID // a, of aggTrade
	keyLastTrade   // l, of aggTrade
)

// fields holds the members of a line. Names are case-sensitive: E is not e.
type fields struct {
	set      key
	receive  int64 // Unix ns
	stream   []byte
	event    []byte
	symbol   []byte
	time     [2]int64 // E and T in Unix ms
	tradeID  uint64   // t, or a of aggTrade
	latest   uint64   // l of aggTrade: the id of its last trade
	price    market.Price
	size     market.Size
	maker    bool
	first    uint64
	last     uint64 // u or lastUpdateId
	previous uint64
	bid, ask market.Level
	bids     []market.Level
	asks     []market.Level
	foreign  bool // of a stream that is not played; its members may have other types

	// Maximum number of decimals of any price and size of the line, as written.
	priceDecimals int
	sizeDecimals  int
}

func (f *fields) has(k key) bool { return f.set&k == k }

// read parses a line. Bids, asks and texts are valid until the next call; texts are views of the
// line.
func (f *fields) read(line []byte) error {
	*f = fields{bids: f.bids[:0], asks: f.asks[:0]}
	s := &scanner{jsonscan.Scanner{In: line}}
	// A smaller number is a time in another unit.
	receive, err := s.integer() // integer skips spaces, but none are allowed here
	if err != nil || receive < 1e17 || line[0]-'0' > 9 || s.At >= len(line) || line[s.At] != ' ' {
		return &scanError{0, "does not begin with a receive time in Unix nanoseconds and a space"}
	}
	f.receive = int64(receive)
	err = f.object(s, false)
	if err == nil {
		err = s.End()
	}
	if bad, ok := errors.AsType[*jsonscan.Error](err); ok {
		return &scanError{bad.At, "bad JSON: " + bad.What}
	}
	return err
}

// object parses a message, or if inside is set its data member.
func (f *fields) object(s *scanner, inside bool) error {
	more, err := s.open('{', '}')
	for more && err == nil {
		var name []byte
		if name, err = s.Name(); err != nil {
			return err
		}
		k := keyOf(name)
		if f.set&k != 0 {
			return s.fail("name %q twice", name)
		}
		f.set |= k
		switch {
		case k == keyData && !inside && !f.foreign:
			err = f.object(s, true)
		case k == 0 || k == keyData || f.foreign && k != keyEvent:
			err = s.skip(0)
		default:
			err = f.member(s, k)
		}
		if err == nil {
			more, err = s.Next('}')
		}
	}
	return err
}

// maxTime is the last Unix millisecond that fits an int64 in nanoseconds.
const maxTime = (1<<63 - 1) / 1_000_000

// member parses the value of a member.
func (f *fields) member(s *scanner, k key) (err error) {
	var v uint64
	switch k {
	case keyStream:
		f.stream, err = s.text()
		f.foreign = !f.streamKind().played()
	case keyEvent:
		f.event, err = s.text()
		f.foreign = !f.streamKind().played()
	case keySymbol:
		f.symbol, err = s.text()
	case keyEventTime, keyTradeTime:
		if v, err = s.integer(); err == nil && v > maxTime {
			return s.fail("bad time")
		}
		f.time[b2i(k == keyTradeTime)] = int64(v)
	case keyTradeID:
		f.tradeID, err = s.integer()
	case keyLastTrade:
		f.latest, err = s.integer()
	case keyFirst:
		f.first, err = s.integer()
	case keyLast, keyLastUpdate:
		f.last, err = s.integer()
	case keyPrevious:
		f.previous, err = s.integer()
	case keyPrice:
		f.price, err = s.price(&f.priceDecimals)
	case keyQuantity:
		f.size, err = s.size(&f.sizeDecimals)
	case keyMaker:
		f.maker, err = s.boolean()
	case keyBidSize:
		f.bid.Size, err = s.size(&f.sizeDecimals)
	case keyAskSize:
		f.ask.Size, err = s.size(&f.sizeDecimals)
	case keyBid, keyBids:
		f.bids, err = f.side(s, k, keyBids, f.bids, &f.bid)
	case keyAsk, keyAsks:
		f.asks, err = f.side(s, k, keyAsks, f.asks, &f.ask)
	default:
		err = s.skip(0)
	}
	return err
}

// side parses the value of b, a, bids or asks: levels or, for b and a, a price.
func (f *fields) side(s *scanner, k, whole key, levels []market.Level, best *market.Level) (_ []market.Level, err error) {
	if c := s.peek(); k == keyAsk && c-'0' <= 9 {
		f.set |= keyAggregateID
		f.tradeID, err = s.integer()
		return levels, err
	}
	if k != whole && s.peek() != '[' {
		best.Price, err = s.price(&f.priceDecimals)
		return levels, err
	}
	if k != whole && f.has(whole) {
		return levels, s.fail("levels of one side twice")
	}
	f.set |= whole
	return s.levels(levels, f)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func keyOf(name []byte) key {
	switch string(name) {
	case "stream":
		return keyStream
	case "data":
		return keyData
	case "e":
		return keyEvent
	case "E":
		return keyEventTime
	case "T":
		return keyTradeTime
	case "s":
		return keySymbol
	case "t":
		return keyTradeID
	case "p":
		return keyPrice
	case "q":
		return keyQuantity
	case "X":
		return keyOrderType
	case "m":
		return keyMaker
	case "M":
		return keyIgnore
	case "U":
		return keyFirst
	case "u":
		return keyLast
	case "pu":
		return keyPrevious
	case "b":
		return keyBid
	case "a":
		return keyAsk
	case "B":
		return keyBidSize
	case "A":
		return keyAskSize
	case "lastUpdateId":
		return keyLastUpdate
	case "bids":
		return keyBids
	case "asks":
		return keyAsks
	case "result", "error":
		return keyResult
	case "l":
		return keyLastTrade
	}
	return 0
}

// kind returns the kind of the message and checks that it has the required members.
func (f *fields) kind() (kind, error) {
	k, need, what := f.named()
	if !f.has(need) || k == quote && f.set&(keyBids|keyAsks|keyAggregateID) != 0 {
		return other, &scanError{0, what + " with a field missing or wrong"}
	}
	if !k.played() && f.set&(keyStream|keyEvent|keyResult) == 0 {
		return other, &scanError{0, "not a message of a stream, nor a snapshot of a book"}
	}
	return k, nil
}

// named determines the kind, the members that it requires, and its name.
func (f *fields) named() (k kind, need key, what string) {
	if f.has(keyLastUpdate) {
		return snapshot, keyBids | keyAsks, "snapshot"
	}
	switch k = f.streamKind(); k {
	case trade:
		return k, keySymbol | keyTradeID | keyPrice | keyQuantity | keyMaker, "trade"
	case aggregate:
		return k, keySymbol | keyAggregateID | keyLastTrade | keyPrice | keyQuantity | keyMaker, "aggTrade"
	case quote:
		return k, keySymbol | keyLast | keyBid | keyBidSize | keyAsk | keyAskSize, "bookTicker"
	case depth:
		return k, keySymbol | keyFirst | keyLast | keyBids | keyAsks, "depth update"
	}
	return k, 0, ""
}

// streamKind determines the kind by the event name or the stream name: bookTicker of spot has no
// event name.
func (f *fields) streamKind() kind {
	name := f.name()
	switch string(name) {
	case "trade":
		return trade
	case "aggTrade":
		return aggregate
	case "bookTicker":
		return quote
	case "depthUpdate", "depth":
		return depth
	case "depth5", "depth10", "depth20":
		return partial
	}
	if f.set&(keyStream|keyEvent) == 0 || harmless[string(name)] {
		return other
	}
	return unknown
}

// name returns the event name, or else the name of the stream without its symbol and interval. The
// messages of partial books have the event name of depth.
func (f *fields) name() []byte {
	if f.has(keyEvent) {
		return f.event
	}
	all, name, _ := bytes.Cut(f.stream, []byte("@"))
	if bytes.HasPrefix(all, []byte("!")) { // of all symbols
		name = all[1:]
	}
	name, _, _ = bytes.Cut(name, []byte("@"))
	if i := bytes.LastIndexByte(name, '_'); i > 0 && i+1 < len(name) && name[i+1]-'0' <= 9 { // kline_1m
		name = name[:i]
	}
	return name
}

// harmless holds the names of events and streams that say nothing of trades, quotes and books, as
// the documentation of Binance lists them.
var harmless = map[string]bool{
	"kline": true, "continuousKline": true, "continuous_kline": true, "indexPriceKline": true, "indexPrice_kline": true,
	"markPriceKline": true, "markPrice_kline": true, "markPrice": true, "markPriceUpdate": true, "indexPrice": true,
	"indexPriceUpdate": true, "forceOrder": true, "ticker": true, "24hrTicker": true, "miniTicker": true, "24hrMiniTicker": true,
	"1hTicker": true, "4hTicker": true, "1dTicker": true, "avgPrice": true, "contractInfo": true, "compositeIndex": true,
	"assetIndex": true, "assetIndexUpdate": true, "openInterest": true, "tradingSession": true, "listenKeyExpired": true,
	"serverShutdown": true, "referencePrice": true,
}

// futures reports whether the message is of the futures market and not of the spot market.
func (f *fields) futures(k kind) bool {
	switch k {
	case trade, aggregate:
		return !f.has(keyIgnore)
	case depth:
		return f.has(keyPrevious)
	}
	return f.has(keyTradeTime)
}

// eventTime returns the time of the matching engine, or else of the message, in Unix nanoseconds; 0
// if there is none.
func (f *fields) eventTime() int64 {
	if f.has(keyTradeTime) {
		return f.time[1] * 1e6
	}
	return f.time[0] * 1e6
}

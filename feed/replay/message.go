package replay

import (
	"bytes"

	"github.com/ruedahq/rueda/market"
)

// kind is what a message of the recording is.
type kind uint8

const (
	other kind = iota // of a stream that is not played
	trade
	quote
	depth
	snapshot
)

// key is a name that a message may have, as a bit.
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
	keyOrderType  // X, futures alone
	keyMaker      // m, the buyer was there first
	keyIgnore     // M, spot alone
	keyFirst      // U
	keyLast       // u
	keyPrevious   // pu, futures alone
	keyBid        // b, bids of depth
	keyAsk        // a
	keyBidSize    // B
	keyAskSize    // A
	keyLastUpdate // lastUpdateId
	keyBids
	keyAsks
)

// fields are what was found in a line. Names differ by case alone: E is not e.
type fields struct {
	set      key
	receive  int64 // Unix ns
	stream   []byte
	event    []byte
	symbol   []byte
	time     [2]int64 // E, T in Unix ms
	tradeID  uint64
	price    market.Price
	size     market.Size
	maker    bool
	first    uint64
	last     uint64 // u or lastUpdateId
	previous uint64
	bid, ask market.Level
	bids     []market.Level
	asks     []market.Level

	// The most decimals of any price and size of the line, as written.
	priceDecimals int
	sizeDecimals  int
}

func (f *fields) has(k key) bool { return f.set&k == k }

// read takes a line apart. It keeps the memory of bids and asks, which are valid
// until the next call, as are the texts, views of the line.
func (f *fields) read(line []byte) error {
	*f = fields{bids: f.bids[:0], asks: f.asks[:0]}
	s := &scanner{in: line}
	// Times before 1973 are times in another unit.
	receive, err := s.whole() // which passes over space, and there is to be none
	if err != nil || receive < 1e17 || line[0]-'0' > 9 || s.at >= len(line) || line[s.at] != ' ' {
		return &scanError{0, "does not begin with a receive time in Unix nanoseconds and a space"}
	}
	f.receive = int64(receive)
	if err := f.object(s, false); err != nil {
		return err
	}
	if s.peek() != 0 || s.at < len(line) {
		return s.fail("bad JSON: text after the message")
	}
	return nil
}

// object reads a message, or with inside the data member of one.
func (f *fields) object(s *scanner, inside bool) error {
	more, err := s.open('{', '}')
	for more && err == nil {
		var name []byte
		if name, err = s.name(); err != nil {
			return err
		}
		k := keyOf(name)
		if f.set&k != 0 {
			return s.fail("name %q twice", name)
		}
		f.set |= k
		switch {
		case k == keyData && !inside:
			err = f.object(s, true)
		case k == 0 || k == keyData:
			err = s.skip(0)
		default:
			err = f.member(s, k)
		}
		if err == nil {
			more, err = s.more('}')
		}
	}
	return err
}

// maxTime is the last Unix millisecond whose nanoseconds fit an int64.
const maxTime = (1<<63 - 1) / 1_000_000

// member reads the value of a member.
func (f *fields) member(s *scanner, k key) (err error) {
	var v uint64
	switch k {
	case keyStream:
		f.stream, err = s.text()
	case keyEvent:
		f.event, err = s.text()
	case keySymbol:
		f.symbol, err = s.text()
	case keyEventTime, keyTradeTime:
		if v, err = s.whole(); err == nil && v > maxTime {
			return s.fail("bad time")
		}
		f.time[b2i(k == keyTradeTime)] = int64(v)
	case keyTradeID:
		f.tradeID, err = s.whole()
	case keyFirst:
		f.first, err = s.whole()
	case keyLast, keyLastUpdate:
		f.last, err = s.whole()
	case keyPrevious:
		f.previous, err = s.whole()
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

// side reads the value of b, a, bids or asks: levels or, of b and a, a price.
func (f *fields) side(s *scanner, k, whole key, levels []market.Level, best *market.Level) (_ []market.Level, err error) {
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
	}
	return 0
}

// kind tells what the message is and that it has what belongs to it.
func (f *fields) kind() (kind, error) {
	k, need, what := f.named()
	if !f.has(need) || k == quote && f.set&(keyBids|keyAsks) != 0 {
		return other, &scanError{0, what + " with a field missing or wrong"}
	}
	if k == other && !f.has(keyStream) && !f.has(keyEvent) {
		return other, &scanError{0, "not a message of a stream, nor a snapshot of a book"}
	}
	return k, nil
}

// named goes by the event's name or else the stream's: bookTicker of spot has
// no event name.
func (f *fields) named() (k kind, need key, what string) {
	if f.has(keyLastUpdate) {
		return snapshot, keyBids | keyAsks, "snapshot"
	}
	name := f.event
	if !f.has(keyEvent) {
		_, name, _ = bytes.Cut(f.stream, []byte("@"))
		name, _, _ = bytes.Cut(name, []byte("@"))
	}
	switch string(name) {
	case "trade":
		return trade, keySymbol | keyTradeID | keyPrice | keyQuantity | keyMaker, "trade"
	case "bookTicker":
		return quote, keySymbol | keyLast | keyBid | keyBidSize | keyAsk | keyAskSize, "bookTicker"
	case "depthUpdate", "depth":
		return depth, keySymbol | keyFirst | keyLast | keyBids | keyAsks, "depth update"
	}
	return other, 0, ""
}

// futures tells a message of the futures market from one of the spot market.
func (f *fields) futures(k kind) bool {
	switch k {
	case trade:
		return !f.has(keyIgnore)
	case depth:
		return f.has(keyPrevious)
	}
	return f.has(keyTradeTime)
}

// eventTime is the matching engine's time, or else that of the message, in Unix
// nanoseconds; 0 where the message has neither.
func (f *fields) eventTime() int64 {
	if f.has(keyTradeTime) {
		return f.time[1] * 1e6
	}
	return f.time[0] * 1e6
}

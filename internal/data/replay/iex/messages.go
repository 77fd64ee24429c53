package iex

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// lengths holds the minimum lengths of messages, by type. Later versions may be longer.
var lengths = [256]uint8{
	'S': 10, 'D': 31, 'H': 22, 'I': 18, 'O': 18, 'P': 19, 'E': 18,
	'Q': 42, '8': 30, '5': 30, 'T': 38, 'B': 38, 'X': 26, 'A': 80,
}

// message decodes a message with its number.
func (d *Decoder) message(m []byte, channel int, number uint64, receive int64, b *decode.Batch) error {
	size := int(lengths[m[0]])
	if size == 0 {
		b.Skip(decode.Unsupported)
		return nil
	}
	if len(m) < size {
		return fmt.Errorf("of type %q and %d bytes; it should have %d", m[0], len(m), size)
	}
	t := int64(binary.LittleEndian.Uint64(m[2:]))
	if t < 0 {
		return errors.New("a time before 1970")
	}
	at := stamp{t, receive, number}
	if m[0] == 'S' {
		d.system(m[1], at, b)
		return nil
	}
	s, err := d.stock(binary.LittleEndian.Uint64(m[10:]), m[10:18], channel, b)
	if err != nil {
		return err
	}
	if s.skipped {
		b.Skip(decode.Filtered)
		return nil
	}
	switch m[0] {
	case '8', '5':
		return d.level(s, m, at, b)
	case 'Q':
		d.quote(s, m, at, b)
	case 'T', 'B':
		d.trade(s, m, at, b)
	case 'H', 'O':
		status(s, m, at, b)
	case 'D', 'X':
		reference(s, m, at, b)
	default:
		b.Skip(decode.OtherType)
	}
	return nil
}

// stamp holds the times and the number of a message.
type stamp struct {
	time, receive int64
	sequence      uint64
}

// add appends an event with the stamp of its message.
func add(kind market.Kind, h market.Handle, at stamp, b *decode.Batch) *market.Event {
	e := b.Add(kind, h)
	e.Time, e.Receive, e.Sequence = at.time, at.receive, at.sequence
	return e
}

// system publishes the status of the market as a whole.
func (d *Decoder) system(code byte, at stamp, b *decode.Batch) {
	var phase market.Phase
	switch code {
	case 'S':
		phase = market.PreOpen
	case 'R':
		phase = market.Open
	case 'M':
		phase = market.PostClose
	case 'E':
		phase = market.Closed
	default: // the start and end of messages
		b.Skip(decode.NoEffect)
		return
	}
	if !d.listed {
		d.listed, d.venue = true, b.List(decode.WholeMarket(Market))
	}
	b.Stats.Statuses++
	add(market.KindStatus, d.venue, at, b).Phase = phase
}

// maxStocks limits the instruments of a capture; the exchange has about ten thousand.
const maxStocks = 1 << 18

// stock returns the instrument with a symbol, and lists it if it is new.
func (d *Decoder) stock(key uint64, name []byte, channel int, b *decode.Batch) (*stock, error) {
	n := &d.cache[(key*0x9E3779B97F4A7C15)>>(64-cacheBits)]
	if n.symbol == key && n.index > 0 {
		return &d.stocks[n.index-1], nil
	}
	index, ok := d.index[key]
	if !ok {
		symbol := decode.Symbol(name)
		if symbol == "" {
			return nil, errors.New("a stock without a symbol")
		}
		if len(d.stocks) >= maxStocks {
			return nil, fmt.Errorf("more than %d stocks", maxStocks)
		}
		in := decode.Equity(symbol, Market)
		in.Phase = market.Unknown
		if d.protocol == protocolTOPS {
			in.QuotesFromFeed, in.NoBook = true, true
		} else {
			in.StartsEmpty = d.channels[channel].complete
		}
		s := stock{channel: channel, skipped: !d.filter.Matches(in.ID), known: in.StartsEmpty, phase: in.Phase}
		if !s.skipped {
			s.handle = b.List(in)
		}
		d.stocks = append(d.stocks, s)
		index = int32(len(d.stocks))
		d.index[key] = index
	}
	*n = cacheEntry{key, index}
	return &d.stocks[index-1], nil
}

// price parses a price of four decimals. ok is false if it is out of range.
func price(m []byte) (p market.Price, ok bool) {
	const unit = market.Scale / 10_000
	v := int64(binary.LittleEndian.Uint64(m))
	return market.Price(v * unit), v <= math.MaxInt64/unit && v >= math.MinInt64/unit
}

func units(m []byte) market.Size {
	return market.Size(binary.LittleEndian.Uint32(m)) * market.Scale
}

func inexact(p []byte, b *decode.Batch) {
	b.Skip(decode.Inexact)
	b.Note("inexact_price", "price %d is out of range", int64(binary.LittleEndian.Uint64(p)))
}

func (d *Decoder) quote(s *stock, m []byte, at stamp, b *decode.Batch) {
	if d.protocol != protocolTOPS {
		b.Skip(decode.Unsupported)
		return
	}
	bid, okBid := price(m[22:])
	ask, okAsk := price(m[30:])
	if !okBid || !okAsk {
		inexact(m[22:], b)
		return
	}
	b.Stats.Quotes++
	e := add(market.KindQuote, s.handle, at, b)
	e.Bids = b.Level(market.Level{Price: bid, Size: units(m[18:])})
	e.Asks = b.Level(market.Level{Price: ask, Size: units(m[38:])})
}

func (d *Decoder) trade(s *stock, m []byte, at stamp, b *decode.Batch) {
	p, ok := price(m[22:])
	if !ok {
		inexact(m[22:], b)
		return
	}
	size := units(m[18:])
	if size == 0 {
		b.Skip(decode.NoEffect)
		return
	}
	kind := market.KindTrade
	if m[0] == 'B' {
		kind = market.KindCancel
	}
	b.Stats.Trades++
	e := add(kind, s.handle, at, b)
	e.Price, e.Size = p, size
	e.TradeID = b.Decimal(binary.LittleEndian.Uint64(m[30:]))
	e.Conditions = d.words[m[1]>>3]
}

// maxPending limits the levels of one event of the matching engine.
const maxPending = 1 << 12

// level decodes a changed level and holds it until its event is complete.
func (d *Decoder) level(s *stock, m []byte, at stamp, b *decode.Batch) error {
	if d.protocol != protocolDEEP {
		b.Skip(decode.Unsupported)
		return nil
	}
	b.Stats.Levels++
	if !s.known {
		b.Skip(decode.UnknownBook)
		return nil
	}
	l := market.Level{Size: units(m[18:])}
	var ok bool
	if l.Price, ok = price(m[22:]); !ok {
		inexact(m[22:], b)
		s.drop(b)
		s.known = false
		b.Gap(s.handle, at.time, at.receive, "inexact_price")
		return nil
	}
	complete := m[1]&1 != 0
	side, pending := market.Buy, &s.bids
	if m[0] == '5' {
		side, pending = market.Sell, &s.asks
	}
	if complete && len(s.bids)+len(s.asks) == 0 { // the usual case
		b.Stats.Depth++
		e := add(market.KindUpdate, s.handle, at, b)
		b.AppendLevel(l)
		if e.Bids = b.LastLevels(1, 0); side == market.Sell {
			e.Bids, e.Asks = nil, e.Bids
		}
		return nil
	}
	if len(*pending) >= maxPending {
		return fmt.Errorf("more than %d levels wait for an event to be complete", maxPending)
	}
	*pending = put(*pending, l, side)
	if !complete {
		s.held++
		return nil
	}
	b.Stats.Depth++
	e := add(market.KindUpdate, s.handle, at, b)
	e.Bids, e.Asks = b.CopyLevels(s.bids), b.CopyLevels(s.asks)
	s.bids, s.asks, s.held = s.bids[:0], s.asks[:0], 0
	return nil
}

// put inserts a level among others, best first, each price once.
func put(levels []market.Level, l market.Level, side market.Side) []market.Level {
	i, found := slices.BinarySearchFunc(levels, l.Price, func(x market.Level, p market.Price) int {
		if side == market.Buy {
			return cmp.Compare(p, x.Price)
		}
		return cmp.Compare(x.Price, p)
	})
	if found {
		levels[i] = l
		return levels
	}
	return slices.Insert(levels, i, l)
}

// status decodes the trading status of a stock, of all markets (H) or of this one (O).
func status(s *stock, m []byte, at stamp, b *decode.Batch) {
	before, reason := s.now(), ""
	if m[0] == 'O' {
		if s.stopped = m[1] == 'O'; s.stopped {
			reason = "operational_halt"
		}
	} else {
		reason = decode.HaltReason(m[18:22])
		switch m[1] {
		case 'T':
			s.phase = market.Open
		case 'H':
			s.phase = market.Halt
		case 'P':
			s.phase = market.Pause
		case 'O':
			s.phase = market.Auction
		default:
			b.Skip(decode.NoEffect)
			return
		}
	}
	if s.now() == before && reason == "" {
		b.Skip(decode.NoEffect)
		return
	}
	b.Stats.Statuses++
	e := add(market.KindStatus, s.handle, at, b)
	e.Phase, e.Reason = s.now(), reason
}

// now returns the status of a stock that results from both kinds of messages.
func (s *stock) now() market.Phase {
	if s.stopped {
		return market.Halt
	}
	return s.phase
}

// reference decodes the previous close, or the official close of this day.
func reference(s *stock, m []byte, at stamp, b *decode.Batch) {
	from := 22
	if m[0] == 'X' {
		from = 18
	}
	p, ok := price(m[from:])
	if !ok {
		inexact(m[from:], b)
		return
	}
	if p <= 0 || m[0] == 'X' && m[1] != 'M' { // the opening price is that of its trades
		b.Skip(decode.NoEffect)
		return
	}
	e := add(market.KindReference, s.handle, at, b)
	if m[0] == 'X' {
		e.Settlement = p
	} else {
		e.PreviousClose = p
	}
}

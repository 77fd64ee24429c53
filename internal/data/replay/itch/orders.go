package itch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// price parses a price of four decimals.
func price(m []byte) market.Price {
	return market.Price(binary.BigEndian.Uint32(m)) * (market.Scale / 10_000)
}

func units(n uint32) market.Size { return market.Size(n) * market.Scale }

// event appends an event of an order.
func (d *Decoder) event(kind market.Kind, s *stock, t int64, id uint64, b *decode.Batch) *market.Event {
	b.Stats.Orders++
	e := b.Add(kind, s.handle)
	e.Time, e.OrderID = t, id
	return e
}

func (d *Decoder) add(s *stock, m []byte, t int64, b *decode.Batch) error {
	o := decode.Order{
		ID:    binary.BigEndian.Uint64(m[11:]),
		Price: price(m[32:]),
		Size:  binary.BigEndian.Uint32(m[20:]),
	}
	switch m[19] {
	case 'B':
		o.Side = market.Buy
	case 'S':
		o.Side = market.Sell
	default:
		return fmt.Errorf("order %d: side %q", o.ID, m[19])
	}
	return d.insert(s, &o, t, b)
}

// insert adds an order to its book.
func (d *Decoder) insert(s *stock, o *decode.Order, t int64, b *decode.Batch) error {
	if o.Size == 0 {
		return fmt.Errorf("order %d: no shares", o.ID)
	}
	if d.orders >= decode.MaxOrders {
		return fmt.Errorf("more than %d orders at a time", decode.MaxOrders)
	}
	if !s.orders.Add(*o) {
		return fmt.Errorf("order %d of %s exists already", o.ID, s.symbol)
	}
	d.orders++
	if !d.wholeDay {
		b.Skip(decode.UnknownBook)
		return nil
	}
	e := d.event(market.KindOrderAdd, s, t, o.ID, b)
	e.Side, e.Price, e.Size = o.Side, o.Price, units(o.Size)
	return nil
}

// find returns the order of a message, or nil if it was added before the beginning of a file that
// covers part of a day.
func (d *Decoder) find(s *stock, m []byte, b *decode.Batch) (*decode.Order, error) {
	id := binary.BigEndian.Uint64(m[11:])
	o := s.orders.Find(id)
	if o != nil {
		return o, nil
	}
	if d.wholeDay {
		return nil, fmt.Errorf("order %d of %s does not exist", id, s.symbol)
	}
	b.Skip(decode.UnknownBook)
	b.Note("unknown_order", "the file begins within a day: its books, and trades of earlier orders, are unknown")
	return nil, nil
}

// reduceBy removes shares from an order and reports whether any remain.
func (d *Decoder) reduceBy(s *stock, o *decode.Order, shares uint32) (bool, error) {
	switch {
	case shares == 0:
		return false, fmt.Errorf("order %d: no shares", o.ID)
	case shares > o.Size:
		return false, fmt.Errorf("order %d of %s has %d shares left, not %d", o.ID, s.symbol, o.Size, shares)
	case shares == o.Size:
		s.orders.Remove(o.ID)
		d.orders--
		return false, nil
	}
	o.Size -= shares
	return true, nil
}

func (d *Decoder) execute(s *stock, m []byte, t int64, b *decode.Batch) error {
	o, err := d.find(s, m, b)
	if o == nil {
		return err
	}
	was := *o
	shares := binary.BigEndian.Uint32(m[19:])
	if _, err := d.reduceBy(s, o, shares); err != nil {
		return err
	}
	at, printed := was.Price, true
	if m[0] == 'C' {
		at, printed = price(m[32:]), m[31] != 'N'
	}
	if printed {
		match := binary.BigEndian.Uint64(m[23:])
		d.trades.add(tradeRecord{match, at, units(shares)})
		d.print(s, t, match, at, units(shares), b).Side = decode.Opposite(was.Side)
	}
	if !d.wholeDay {
		if !printed {
			b.Skip(decode.UnknownBook)
		}
		return nil
	}
	d.event(market.KindOrderFill, s, t, was.ID, b).Size = units(shares)
	return nil
}

func (d *Decoder) reduce(s *stock, m []byte, t int64, b *decode.Batch) error {
	o, err := d.find(s, m, b)
	if o == nil {
		return err
	}
	id := o.ID
	left, err := d.reduceBy(s, o, binary.BigEndian.Uint32(m[19:]))
	if err != nil {
		return err
	}
	if !d.wholeDay {
		b.Skip(decode.UnknownBook)
		return nil
	}
	if !left {
		d.event(market.KindOrderDelete, s, t, id, b)
		return nil
	}
	e := d.event(market.KindOrderModify, s, t, id, b)
	e.Price, e.Size = o.Price, units(o.Size)
	return nil
}

func (d *Decoder) remove(s *stock, m []byte, t int64, b *decode.Batch) error {
	o, err := d.find(s, m, b)
	if o == nil {
		return err
	}
	id := o.ID
	s.orders.Remove(id)
	d.orders--
	if d.wholeDay {
		d.event(market.KindOrderDelete, s, t, id, b)
	} else {
		b.Skip(decode.UnknownBook)
	}
	return nil
}

func (d *Decoder) replace(s *stock, m []byte, t int64, b *decode.Batch) error {
	old, err := d.find(s, m, b)
	if old == nil {
		return err
	}
	o := decode.Order{
		ID:    binary.BigEndian.Uint64(m[19:]),
		Price: price(m[31:]),
		Size:  binary.BigEndian.Uint32(m[27:]),
		Side:  old.Side,
	}
	// Check first, so that nothing is published of an invalid message.
	if o.Size == 0 || o.ID != old.ID && s.orders.Find(o.ID) != nil {
		return fmt.Errorf("order %d of %s cannot be replaced by %d of %d shares", old.ID, s.symbol, o.ID, o.Size)
	}
	id := old.ID
	s.orders.Remove(id)
	s.orders.Add(o)
	if !d.wholeDay {
		b.Skip(decode.UnknownBook)
		return nil
	}
	// One event: the book without either order never existed.
	e := d.event(market.KindOrderReplace, s, t, id, b)
	e.NewID, e.Price, e.Size = o.ID, o.Price, units(o.Size)
	return nil
}

// print appends a trade.
func (d *Decoder) print(s *stock, t int64, match uint64, p market.Price, z market.Size, b *decode.Batch) *market.Event {
	b.Stats.Trades++
	e := b.Add(market.KindTrade, s.handle)
	e.Time, e.Price, e.Size, e.TradeID = t, p, z, b.Decimal(match)
	return e
}

// conditions maps the type of a cross to the conditions of its trades.
var conditions = map[byte][]string{
	'O': {"opening_cross"},
	'C': {"closing_cross"},
	'H': {"halt_cross"},
	'I': {"intraday_cross"},
}

func (d *Decoder) trade(s *stock, m []byte, t int64, b *decode.Batch) error {
	if m[0] == 'P' {
		shares := binary.BigEndian.Uint32(m[20:])
		if shares == 0 {
			return errors.New("a trade of no shares")
		}
		match := binary.BigEndian.Uint64(m[36:])
		d.trades.add(tradeRecord{match, price(m[32:]), units(shares)})
		d.print(s, t, match, price(m[32:]), units(shares), b)
		return nil
	}
	shares := binary.BigEndian.Uint64(m[11:])
	if shares == 0 { // nothing was crossed
		b.Skip(decode.NoEffect)
		return nil
	}
	if shares > math.MaxInt64/market.Scale {
		return fmt.Errorf("a cross of %d shares", shares)
	}
	size := market.Size(shares) * market.Scale
	match := binary.BigEndian.Uint64(m[31:])
	d.trades.add(tradeRecord{match, price(m[27:]), size})
	d.print(s, t, match, price(m[27:]), size, b).Conditions = conditions[m[39]]
	return nil
}

func (d *Decoder) broken(s *stock, m []byte, t int64, b *decode.Batch) {
	match := binary.BigEndian.Uint64(m[11:])
	x, ok := d.trades.find(match)
	if !ok {
		b.Skip(decode.UnknownTrade)
		b.Note("unknown_trade", "trade %d of %s is broken and not among the latest", match, s.symbol)
		return
	}
	b.Stats.Trades++
	e := b.Add(market.KindCancel, s.handle)
	e.Time, e.Price, e.Size, e.TradeID = t, x.price, x.size, b.Decimal(match)
}

// tradeRecord is a trade that may be cancelled later.
type tradeRecord struct {
	match uint64
	price market.Price
	size  market.Size
}

// maxTrades is the number of trades kept: a third of a day of the whole market, 100 MB.
const maxTrades = 1 << 22

// tradeRing keeps the latest trades. A few times a day, a message cancels a trade and identifies it
// by its match number alone, so a linear search is enough.
type tradeRing struct {
	list []tradeRecord
	next int // of a full ring: the oldest
}

func (r *tradeRing) add(x tradeRecord) {
	if len(r.list) < maxTrades {
		r.list = append(r.list, x)
		return
	}
	r.list[r.next] = x
	r.next = (r.next + 1) % maxTrades
}

func (r *tradeRing) find(match uint64) (tradeRecord, bool) {
	for i := range r.list {
		if r.list[i].match == match {
			return r.list[i], true
		}
	}
	return tradeRecord{}, false
}

package replay

import (
	"encoding/binary"

	"github.com/ruedahq/rueda/market"
)

// maxPacked returns an upper bound for the size of an encoded event.
func maxPacked(e *market.Event) int {
	n := (24 + len(e.TradeID) + len(e.Reason)) + binary.MaxVarintLen64*20 + e.TradeDetails.MaxBinary()
	return n + 3*binary.MaxVarintLen64*(len(e.Bids)+len(e.Asks))
}

// packEvent appends an event without its receive time. Most fields are zero, and prices in a book
// are stored as differences.
func packEvent(b []byte, e *market.Event) []byte {
	b = append(b, byte(e.Kind), byte(e.Side), byte(e.Phase))
	b = binary.AppendUvarint(b, uint64(e.Handle))
	for _, v := range [...]int64{
		e.Time, int64(e.Sequence), int64(e.Price), int64(e.Size), int64(e.OldPrice), int64(e.OldSize), int64(e.OrderID), e.Until,
		int64(e.PreviousClose), int64(e.Settlement), int64(e.OpenInterest),
	} {
		b = binary.AppendVarint(b, v)
	}
	b = packText(packText(b, e.TradeID), e.Reason)
	b = e.TradeDetails.AppendBinary(b)
	return packLevels(packLevels(b, e.Bids), e.Asks)
}

func packText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func packLevels(b []byte, list []market.Level) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	before := market.Price(0)
	for _, l := range list {
		b = binary.AppendVarint(b, int64(l.Price-before))
		b = binary.AppendVarint(b, int64(l.Size))
		b = binary.AppendUvarint(b, uint64(l.Orders))
		before = l.Price
	}
	return b
}

// unpackEvent decodes an event. It appends the levels of the event to levels and returns them.
func unpackEvent(b []byte, e *market.Event, levels []market.Level) []market.Level {
	p := packed(b[3:])
	e.Kind, e.Side, e.Phase = market.Kind(b[0]), market.Side(b[1]), market.Phase(b[2])
	e.Handle = market.Handle(p.uvarint())
	e.Time, e.Sequence = p.varint(), uint64(p.varint())
	e.Price, e.Size = market.Price(p.varint()), market.Size(p.varint())
	e.OldPrice, e.OldSize = market.Price(p.varint()), market.Size(p.varint())
	e.OrderID, e.Until = uint64(p.varint()), p.varint()
	e.PreviousClose, e.Settlement = market.Price(p.varint()), market.Price(p.varint())
	e.OpenInterest = market.Size(p.varint())
	e.TradeID, e.Reason = p.text(), p.text()
	p = e.TradeDetails.ReadBinary(p)
	e.Bids, levels = p.levels(levels)
	e.Asks, levels = p.levels(levels)
	return levels
}

// packed is the remainder of an encoded event.
type packed []byte

func (p *packed) uvarint() uint64 {
	v, n := binary.Uvarint(*p)
	*p = (*p)[n:]
	return v
}

func (p *packed) varint() int64 {
	v, n := binary.Varint(*p)
	*p = (*p)[n:]
	return v
}

func (p *packed) text() string {
	n := p.uvarint()
	s := string((*p)[:n])
	*p = (*p)[n:]
	return s
}

func (p *packed) levels(all []market.Level) (list, _ []market.Level) {
	n := p.uvarint()
	if n == 0 {
		return nil, all
	}
	from, price := len(all), market.Price(0)
	for range n {
		price += market.Price(p.varint())
		all = append(all, market.Level{Price: price, Size: market.Size(p.varint()), Orders: uint32(p.uvarint())})
	}
	return all[from:len(all):len(all)], all
}

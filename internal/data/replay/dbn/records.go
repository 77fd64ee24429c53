package dbn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// price converts units of 1e-9 to 1e-8. ok is false if the result is not exact, or has more digits
// than the stream can carry.
func price(m []byte) (p market.Price, ok bool) {
	v := int64(binary.LittleEndian.Uint64(m))
	p = market.Price(v / 10)
	return p, v%10 == 0 && p.Exact()
}

func undefined(m []byte) bool { return binary.LittleEndian.Uint64(m) == none }

func units(n uint32) market.Size { return market.Size(n) * market.Scale }

func side(c byte) market.Side {
	switch c {
	case 'B':
		return market.Buy
	case 'A':
		return market.Sell
	}
	return market.NoSide
}

// inexact skips a record whose price cannot be represented.
func inexact(in *instrument, m []byte, b *decode.Batch) { b.Skip(inexactLevel(in, m, b)) }

// inexactLevel notes a price that cannot be represented.
func inexactLevel(in *instrument, m []byte, b *decode.Batch) decode.Reason {
	b.Note("inexact_price", "%s: price %d times 1e-9 has more than 8 decimals, or too many digits", in.id, int64(binary.LittleEndian.Uint64(m)))
	return decode.Inexact
}

// trade plays the trade of a record.
func (d *Decoder) trade(in *instrument, m []byte, b *decode.Batch) {
	sizeAt, sideAt, sequenceAt, priceAt := 24, 29, 44, 16
	if m[1] == typeMBO { // a different layout
		sizeAt, sideAt, sequenceAt, priceAt = 32, 39, 52, 24
	}
	size := binary.LittleEndian.Uint32(m[sizeAt:])
	if size == 0 || undefined(m[priceAt:]) {
		b.Skip(decode.NoEffect)
		return
	}
	p, ok := price(m[priceAt:])
	if !ok {
		inexact(in, m[priceAt:], b)
		return
	}
	b.Stats.Trades++
	e := d.tradeEvent(in, m, b)
	e.Time, e.Receive = times(m)
	e.Sequence = uint64(binary.LittleEndian.Uint32(m[sequenceAt:]))
	e.Price, e.Size, e.Side = p, units(size), side(m[sideAt])
}

// tradeEvent adds a trade. If the record is of orders, the trade is part of its event.
func (d *Decoder) tradeEvent(in *instrument, m []byte, b *decode.Batch) *market.Event {
	if m[1] == typeMBO {
		return d.hold(in, market.KindTrade, b)
	}
	return b.Add(market.KindTrade, in.handle)
}

// markStale makes a known book stale.
func (d *Decoder) markStale(in *instrument, reason string, b *decode.Batch) {
	if !in.ready {
		return
	}
	in.ready = false
	d.orders -= in.book.Len()
	in.book.Reset()
	in.event.whole, in.event.changes = false, in.event.changes[:0]
	d.gap(in, reason, b)
	b.Note(reason, "%s: the book is stale until its next snapshot", in.id)
}

// order plays a record of MBO.
func (d *Decoder) order(in *instrument, m []byte, b *decode.Batch) error {
	flags, action := m[36], m[38]
	d.begin(in, m, b)
	if flags&flagBadBook != 0 {
		d.markStale(in, "upstream_gap", b)
	}
	if begins := flags&flagSnapshot != 0 && !in.snapshot; begins && action != 'R' {
		d.clear(in, m, b) // not all snapshots have a clear record
	}
	in.snapshot = flags&flagSnapshot != 0
	var err error
	switch action {
	case 'T':
		d.trade(in, m, b)
	case 'F', 'N':
		b.Skip(decode.NoEffect)
	case 'R':
		d.clear(in, m, b)
	case 'A', 'C', 'M':
		switch {
		case flags&flagTop != 0:
			b.Skip(decode.OtherType)
			b.Note("top_of_book", "%s: records of the top of the book among those of orders are skipped", in.id)
		case !in.ready:
			b.Skip(decode.UnknownBook)
		default:
			err = d.change(in, m, b)
		}
	default:
		err = fmt.Errorf("action %q", action)
	}
	if last := flags&flagLast != 0; err == nil && (last || d.config.Orders) {
		d.marked = d.marked || last
		d.end(in, b)
	}
	return err
}

// clear starts an empty book.
func (d *Decoder) clear(in *instrument, m []byte, b *decode.Batch) {
	d.orders -= in.book.Len()
	in.book.Reset()
	in.ready = true
	b.Stats.Snapshots++
	if d.config.Orders {
		in.shown = true
		d.event(market.KindSnapshot, in, m, b).OrderID = 0
		return
	}
	in.event.whole, in.event.changes = true, in.event.changes[:0]
}

// event appends an event of one record of MBO.
func (d *Decoder) event(kind market.Kind, in *instrument, m []byte, b *decode.Batch) *market.Event {
	e := b.Add(kind, in.handle)
	e.Time, e.Receive = times(m)
	e.OrderID = binary.LittleEndian.Uint64(m[16:])
	e.Sequence = uint64(binary.LittleEndian.Uint32(m[52:]))
	return e
}

// change plays an add, a cancel or a modify.
func (d *Decoder) change(in *instrument, m []byte, b *decode.Batch) error {
	id := binary.LittleEndian.Uint64(m[16:])
	size := binary.LittleEndian.Uint32(m[32:])
	if m[38] == 'C' {
		d.cancel(in, id, units(size), m, b)
		return nil
	}
	if undefined(m[24:]) {
		b.Skip(decode.UnknownBook)
		d.markStale(in, "undefined_price", b)
		return nil
	}
	p, ok := price(m[24:])
	if !ok {
		inexact(in, m[24:], b)
		d.markStale(in, "inexact_price", b)
		return nil
	}
	old, known := in.order(id)
	next := order{id, side(m[39]), p, units(size)}
	switch {
	case known && m[38] == 'A':
		d.markStale(in, "duplicate_order", b)
	case next.side == market.NoSide || size == 0:
		if !known {
			b.Skip(decode.HiddenOrder)
			return nil
		}
		d.apply(market.KindOrderDelete, in, old, order{id: id}, m, b)
	case known && old.side == next.side:
		next.side = market.NoSide
		d.apply(market.KindOrderModify, in, old, next, m, b)
	default:
		if known {
			d.apply(market.KindOrderDelete, in, old, order{id: id}, m, b)
		}
		if d.orders >= decode.MaxOrders {
			return fmt.Errorf("more than %d orders at a time", decode.MaxOrders)
		}
		d.apply(market.KindOrderAdd, in, order{}, next, m, b)
	}
	return nil
}

// order is an order of the book.
type order struct {
	id    uint64
	side  market.Side
	price market.Price
	size  market.Size
}

// order returns the state of an order. known is false if the book does not have it.
func (in *instrument) order(id uint64) (o order, known bool) {
	o.id = id
	o.side, o.price, o.size, known = in.book.Order(id)
	return o, known
}

// cancel reduces an order by a size, or removes it.
func (d *Decoder) cancel(in *instrument, id uint64, size market.Size, m []byte, b *decode.Batch) {
	old, known := in.order(id)
	switch {
	case !known || size > old.size:
		d.markStale(in, "unknown_order", b)
	case size == old.size:
		d.apply(market.KindOrderDelete, in, old, order{id: id}, m, b)
	case size > 0:
		d.apply(market.KindOrderModify, in, old, order{id, market.NoSide, old.price, old.size - size}, m, b)
	default:
		b.Skip(decode.NoEffect)
	}
}

// apply applies a change of an order from old to next to the book of its instrument.
func (d *Decoder) apply(kind market.Kind, in *instrument, old, next order, m []byte, b *decode.Batch) {
	before := in.book.Len()
	var now, from market.Level
	var err error
	switch kind {
	case market.KindOrderAdd:
		if now, err = in.book.Add(next.id, next.side, next.price, next.size); err == nil {
			d.changed(in, next.side, now, next.size, 1)
		}
	case market.KindOrderModify:
		_, from, now, err = in.book.Modify(old.id, next.price, next.size)
		switch {
		case err != nil:
		case old.price == next.price:
			d.changed(in, old.side, now, next.size-old.size, 0)
		default:
			d.changed(in, old.side, from, -old.size, -1)
			d.changed(in, old.side, now, next.size, 1)
		}
	default:
		if _, now, err = in.book.Delete(old.id); err == nil {
			d.changed(in, old.side, now, -old.size, -1)
		}
	}
	d.orders += in.book.Len() - before
	if err != nil { // the sizes at a price are too large
		b.Skip(decode.Inexact)
		d.markStale(in, "bad_size", b)
		return
	}
	b.Stats.Orders++
	if d.config.Orders {
		e := d.event(kind, in, m, b)
		e.Side, e.Price, e.Size = next.side, next.price, next.size
	}
}

// aggregated plays a record of levels (MBP). Its state of the book is published at the end of the
// event, and at once if it is the one before a trade (TBBO).
func (d *Decoder) aggregated(in *instrument, m []byte, b *decode.Batch) {
	traded, last := m[28] == 'T', m[30]&flagLast != 0
	before := traded && d.header.schema == schemaTBBO
	if traded && !before {
		d.trade(in, m, b)
	}
	d.marked = d.marked || last
	d.stamp(in, m)
	if e := &in.event; last || before || m[30]&flagBadBook != 0 {
		e.open, e.record = false, e.record[:0]
		if r := d.state(in, m, b); r != decode.Played {
			b.Skip(r)
		}
	} else {
		e.record = append(e.record[:0], m...)
		d.endLater(in)
	}
	if before {
		d.trade(in, m, b)
	}
}

// state publishes the state of the book in a record of levels. It returns why the record cannot be
// played.
func (d *Decoder) state(in *instrument, m []byte, b *decode.Batch) decode.Reason {
	switch {
	case m[1] == typeMBP1:
		return d.quote(in, m, b)
	case m[30]&flagBadBook != 0:
		d.markStale(in, "upstream_gap", b)
		return decode.Played
	}
	return d.depth(in, m, m[tradesSize:mbp10Size], b)
}

// quote plays a record of MBP-1 or TBBO.
func (d *Decoder) quote(in *instrument, m []byte, b *decode.Batch) decode.Reason {
	pair := m[tradesSize:mbp1Size]
	if in.ready && bytes.Equal(pair, in.levels[:levelSize]) {
		return decode.Played
	}
	bid, okBid := level(pair, market.Buy)
	ask, okAsk := level(pair, market.Sell)
	switch {
	case !okBid:
		return inexactLevel(in, pair, b)
	case !okAsk:
		return inexactLevel(in, pair[8:], b)
	}
	in.ready = true
	copy(in.levels[:], pair)
	b.Stats.Quotes++
	e := b.Add(market.KindQuote, in.handle)
	e.Time, e.Receive = times(m)
	e.Sequence = uint64(binary.LittleEndian.Uint32(m[44:]))
	e.Bids, e.Asks = b.Level(bid), b.Level(ask)
	return decode.Played
}

// level returns one side of a pair of levels, of size 0 if it is empty.
func level(pair []byte, s market.Side) (l market.Level, ok bool) {
	priceAt, sizeAt, countAt := 0, 16, 24
	if s == market.Sell {
		priceAt, sizeAt, countAt = 8, 20, 28
	}
	if undefined(pair[priceAt:]) {
		return market.Level{}, true
	}
	l.Price, ok = price(pair[priceAt:])
	l.Size = units(binary.LittleEndian.Uint32(pair[sizeAt:]))
	l.Orders = binary.LittleEndian.Uint32(pair[countAt:])
	return l, ok
}

// depth updates a book of ten levels per side. It returns why the record cannot be played.
func (d *Decoder) depth(in *instrument, m, now []byte, b *decode.Batch) decode.Reason {
	b.Stats.Depth++
	kind, was := market.KindUpdate, in.levels[:]
	bid, ask := span{0, len(now)}, span{0, len(now)}
	if in.ready {
		bid, ask = changed((*[10 * levelSize]byte)(was), (*[10 * levelSize]byte)(now))
	} else {
		kind, was = market.KindSnapshot, nil
	}
	bids, wrong := diff(was, now, bid, market.Buy, b)
	asks := 0
	if wrong == nil {
		asks, wrong = diff(was, now, ask, market.Sell, b)
	}
	if wrong != nil {
		reason, skipped := "unordered_levels", decode.UnknownBook
		if _, exact := price(wrong); !exact {
			reason, skipped = "inexact_price", inexactLevel(in, wrong, b)
		}
		d.markStale(in, reason, b)
		return skipped
	}
	if from, to := min(bid.from, ask.from), max(bid.to, ask.to); from < to {
		copy(in.levels[from:to], now[from:to])
	}
	if bids+asks == 0 && in.ready {
		return decode.Played
	}
	if !in.ready {
		in.ready, in.shown = true, true
		b.Stats.Snapshots++
	}
	b.Stats.Levels += bids + asks
	e := b.Add(kind, in.handle)
	e.Bids, e.Asks = b.LastLevels(bids, asks), b.LastLevels(asks, 0)
	e.Time, e.Receive = times(m)
	e.Sequence = uint64(binary.LittleEndian.Uint32(m[44:]))
	return decode.Played
}

// span is a range of the pairs of a record, in bytes.
type span struct{ from, to int }

// changed returns the ranges in which bids and asks differ. A record changes one or two of twenty
// levels.
func changed(was, now *[10 * levelSize]byte) (bid, ask span) {
	bid, ask = span{len(was), 0}, span{len(was), 0}
	for i := 0; i < len(was); i += levelSize { // in the order of the file, which is fastest to read
		w, n := (*[levelSize]byte)(was[i:]), (*[levelSize]byte)(now[i:])
		bids := binary.LittleEndian.Uint64(w[0:]) ^ binary.LittleEndian.Uint64(n[0:])
		asks := binary.LittleEndian.Uint64(w[8:]) ^ binary.LittleEndian.Uint64(n[8:])
		// Sizes and counts, those of bids in the lower half.
		rest := (binary.LittleEndian.Uint64(w[16:]) ^ binary.LittleEndian.Uint64(n[16:])) | (binary.LittleEndian.Uint64(w[24:]) ^ binary.LittleEndian.Uint64(n[24:]))
		if bids|asks|rest == 0 {
			continue
		}
		if bids|rest<<32 != 0 {
			bid = span{min(bid.from, i), i + levelSize}
		}
		if asks|rest>>32 != 0 {
			ask = span{min(ask.from, i), i + levelSize}
		}
	}
	return bid, ask
}

// diff appends the levels that turn one side of the pairs was into that of the pairs now, which
// differ only in part. It returns the number of levels. wrong is the price of a level that is out
// of order or not exact.
func diff(was, now []byte, part span, s market.Side, b *decode.Batch) (n int, wrong []byte) {
	if part.from >= part.to {
		return 0, nil
	}
	priceAt, sizeAt, sign := 0, 16, int64(1)
	if s == market.Sell {
		priceAt, sizeAt, sign = 8, 20, -1
	}
	raw := func(p []byte) int64 { return int64(binary.LittleEndian.Uint64(p)) }
	there := func(at int) bool {
		return raw(now[at+priceAt:]) != none && binary.LittleEndian.Uint32(now[at+sizeAt:]) != 0
	}
	i, before := part.from, int64(math.MaxInt64)
	for k := part.from - levelSize; k >= 0; k -= levelSize {
		if there(k) {
			before = sign * raw(now[k+priceAt:])
			break
		}
	}
	if was != nil {
		was = was[:part.to]
	}
	for j := part.from; j < part.to; j += levelSize {
		if !there(j) {
			continue
		}
		l, size := now[j+priceAt:j+levelSize], now[j+sizeAt:j+levelSize]
		p := raw(l)
		if sign*p >= before {
			return n, l
		}
		before = sign * p
		// Better levels that no longer exist.
		for ; i < len(was); i += levelSize {
			q := raw(was[i+priceAt:])
			if q != none && sign*q <= before {
				break
			}
			n += removed(was[i:], priceAt, sizeAt, b)
		}
		if i < len(was) && raw(was[i+priceAt:]) == p {
			old := was[i+sizeAt : i+levelSize]
			i += levelSize
			if binary.LittleEndian.Uint32(old) == binary.LittleEndian.Uint32(size) &&
				binary.LittleEndian.Uint32(old[8:]) == binary.LittleEndian.Uint32(size[8:]) {
				continue
			}
		}
		at, exact := price(l)
		if !exact {
			return n, l
		}
		n++
		b.AppendLevel(market.Level{Price: at, Size: units(binary.LittleEndian.Uint32(size)), Orders: binary.LittleEndian.Uint32(size[8:])})
	}
	for ; i < len(was); i += levelSize {
		n += removed(was[i:], priceAt, sizeAt, b)
	}
	for k := part.to; k < len(now); k += levelSize {
		if there(k) {
			if sign*raw(now[k+priceAt:]) >= before {
				return n, now[k+priceAt:]
			}
			break
		}
	}
	return n, nil
}

// removed appends the deletion of a level, if there was one.
func removed(pair []byte, priceAt, sizeAt int, b *decode.Batch) int {
	if undefined(pair[priceAt:]) || binary.LittleEndian.Uint32(pair[sizeAt:]) == 0 {
		return 0
	}
	p, _ := price(pair[priceAt:])
	b.AppendLevel(market.Level{Price: p})
	return 1
}

// status plays a record of status.
func status(in *instrument, m []byte, b *decode.Batch) {
	phase := market.NoPhase
	switch binary.LittleEndian.Uint16(m[24:]) {
	case 1:
		phase = market.PreOpen
	case 2, 4, 5, 6: // before, in and after a cross; rotation
		phase = market.Auction
	case 3:
		phase = market.Quoting
	case 7:
		phase = market.Open
	case 8:
		phase = market.Halt
	case 9:
		phase = market.Pause
	case 10:
		phase = market.Suspended
	case 11:
		phase = market.PreClose
	case 12, 15:
		phase = market.Closed
	case 13:
		phase = market.PostClose
	}
	if phase == market.NoPhase {
		b.Skip(decode.NoEffect)
		return
	}
	b.Stats.Statuses++
	e := b.Add(market.KindStatus, in.handle)
	e.Time, e.Receive = times(m)
	e.Phase, e.Reason = phase, reasons[binary.LittleEndian.Uint16(m[26:])]
	b.Cut()
}

// reasons maps the reason codes of a status to words.
var reasons = map[uint16]string{
	1: "scheduled", 2: "surveillance", 3: "market_event", 4: "instrument_activation", 5: "instrument_expiration",
	6: "recovery", 10: "regulatory", 11: "administrative", 12: "non_compliance", 13: "filings_not_current",
	14: "sec_suspension", 15: "new_issue", 16: "issue_available", 17: "issues_reviewed", 18: "filings_satisfied",
	30: "news_pending", 31: "news_released", 32: "news_and_resumption_times", 33: "news_not_forthcoming",
	40: "order_imbalance", 50: "volatility_pause", 60: "operational_halt", 70: "information_requested", 80: "merger",
	90: "etf", 100: "corporate_action", 110: "new_offering", 120: "market_wide_circuit_breaker",
	121: "market_wide_circuit_breaker", 122: "market_wide_circuit_breaker", 123: "market_wide_circuit_breaker",
	124: "resumption", 130: "quotation_not_available",
}

package stream

import (
	"cmp"
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// change is a level of the book before and after an event.
type change struct {
	side     market.Side
	was, now market.Level
}

// updateBook applies changed levels. A book that is stale takes no update.
func (h *Hub) updateBook(in *instrument, e *market.Event, now int64) *market.Refused {
	if in.stale {
		return nil
	}
	if in.orders != nil && in.orders.Len() > 0 {
		return &market.Refused{ID: in.id, Reason: "bad_kind", Detail: "the book is kept order by order; a snapshot begins one of levels"}
	}
	if in.book.Len(market.Buy)+len(e.Bids) > maxLevels || in.book.Len(market.Sell)+len(e.Asks) > maxLevels {
		h.loseBook(in, now, &market.Event{Reason: "too_deep", Time: e.Time, Receive: e.Receive})
		return &market.Refused{ID: in.id, Reason: "bad_book", Detail: "a side of a book has at most 65,536 levels"}
	}
	changes := setAll(h.scratch.changes[:0], in.book, market.Buy, e.Bids)
	changes = setAll(changes, in.book, market.Sell, e.Asks)
	h.bookChanged(in, changes, in.stamp(e, now), now)
	return nil
}

// manyLevels is from how many levels on a side is merged in one pass.
const manyLevels = 64

// setAll puts levels into a side and appends what changed.
func setAll(changes []change, b *market.Book, side market.Side, levels []market.Level) []change {
	if len(levels) > manyLevels {
		levels = worstFirst(levels, side)
		b.Merge(side, levels, func(was, now market.Level) { changes = append(changes, change{side, was, now}) })
		return changes
	}
	for _, l := range levels {
		if was, changed := b.Set(side, l); changed {
			changes = append(changes, change{side, was, l})
		}
	}
	return changes
}

// worstFirst is a sorted copy of levels, the last of each price.
func worstFirst(levels []market.Level, side market.Side) []market.Level {
	list := slices.Clone(levels)
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b market.Level) int {
		if side == market.Sell {
			return cmp.Compare(b.Price, a.Price)
		}
		return cmp.Compare(a.Price, b.Price)
	})
	return slices.CompactFunc(list, func(a, b market.Level) bool { return a.Price == b.Price })
}

// updateOrder applies an event of a single order.
func (h *Hub) updateOrder(in *instrument, e *market.Event, now int64) *market.Refused {
	if in.stale {
		return nil
	}
	if in.orders == nil {
		if in.levels.Len(market.Buy)+in.levels.Len(market.Sell) > 0 {
			return &market.Refused{ID: in.id, Reason: "bad_kind", Detail: "the book is kept by levels; an empty snapshot begins one of orders"}
		}
		in.orders = new(market.OrderBook)
		in.book = in.orders.Book()
	}
	changes, err := changeOrder(h.scratch.changes[:0], in.orders, e)
	if err != nil {
		return &market.Refused{ID: in.id, Reason: "bad_order", Detail: err.Error()}
	}
	for i := range changes {
		if !changes[i].now.Size.Exact() {
			h.loseBook(in, now, &market.Event{Reason: "bad_size", Time: e.Time, Receive: e.Receive})
			return &market.Refused{ID: in.id, Reason: "bad_size", Detail: "the orders at a price add up to more than 15 significant digits"}
		}
	}
	h.bookChanged(in, changes, in.stamp(e, now), now)
	return nil
}

// changeOrder applies e and appends what it changed.
func changeOrder(changes []change, o *market.OrderBook, e *market.Event) ([]change, error) {
	side, price, _, _ := o.Order(e.OrderID)
	if e.Kind == market.KindOrderAdd {
		side = e.Side
	}
	before := func(p market.Price) market.Level {
		l, ok := o.Book().Find(side, p)
		if !ok {
			l = market.Level{Price: p}
		}
		return l
	}
	var was, wasTo, to market.Level
	var err error
	switch e.Kind {
	case market.KindOrderAdd:
		was = before(e.Price)
		to, err = o.Add(e.OrderID, e.Side, e.Price, e.Size)
	case market.KindOrderModify:
		var from market.Level
		was, wasTo = before(price), before(e.Price)
		_, from, to, err = o.Modify(e.OrderID, e.Price, e.Size)
		if err == nil && from.Price != to.Price {
			changes = append(changes, change{side, was, from})
			was = wasTo
		}
	case market.KindOrderDelete:
		was = before(price)
		_, to, err = o.Delete(e.OrderID)
	default:
		was = before(price)
		_, to, err = o.Fill(e.OrderID, e.Size)
	}
	if err != nil {
		return changes, err
	}
	return append(changes, change{side, was, to}), nil
}

// bookChanged numbers what an event did to a book and tells each tier in whose
// view something changed.
func (h *Hub) bookChanged(in *instrument, changes []change, s stamp, now int64) {
	changes = tidy(changes)
	h.scratch.changes = changes[:0]
	if len(changes) == 0 {
		return
	}
	in.changed = s
	rec := h.next(in, wire.OrderBook, now)
	h.keepChangesRow(in, rec, s, changes)
	for _, t := range in.channels[wire.OrderBook].tiers {
		switch {
		case t.tier.Conflate > 0:
			if t.was != nil {
				t.remember(changes)
			}
			h.soil(in, wire.OrderBook, t, s, now)
		case t.tier.Depth == 0:
			h.sendChanges(in, t, changes, s, rec)
		case in.inView(t, changes):
			h.sendView(in, t, s, rec)
		}
	}
	h.derive(in, s, now)
}

// tidy orders changes by side, best first, makes those of one price one, and
// leaves out what is as it was.
func tidy(changes []change) []change {
	if len(changes) > 1 {
		slices.SortStableFunc(changes, func(a, b change) int {
			switch {
			case a.side != b.side:
				return int(a.side) - int(b.side)
			case a.side == market.Sell:
				return cmp.Compare(a.now.Price, b.now.Price)
			}
			return cmp.Compare(b.now.Price, a.now.Price)
		})
	}
	kept := changes[:0]
	for _, c := range changes {
		if n := len(kept) - 1; n >= 0 && kept[n].side == c.side && kept[n].now.Price == c.now.Price {
			kept[n].now = c.now
		} else {
			kept = append(kept, c)
		}
	}
	return slices.DeleteFunc(kept, func(c change) bool { return c.was == c.now })
}

// inView says whether a change may show in the best levels of a tier.
func (in *instrument) inView(t *tierState, changes []change) bool {
	for i := range changes {
		c := &changes[i]
		seen := t.bids
		if c.side == market.Sell {
			seen = t.asks
		}
		if len(seen) < t.tier.Depth {
			return true
		}
		worst := seen[len(seen)-1].Price
		if c.side == market.Buy && c.now.Price >= worst || c.side == market.Sell && c.now.Price <= worst {
			return true
		}
	}
	return false
}

// remember keeps what stood at the changed prices when the tier last spoke.
func (t *tierState) remember(changes []change) {
	for _, c := range changes {
		key := sidePrice{c.side, c.now.Price}
		if _, ok := t.was[key]; !ok {
			t.was[key] = c.was
		}
	}
}

// sendChanges tells a tier of all levels what changed, best first.
func (h *Hub) sendChanges(in *instrument, t *tierState, changes []change, s stamp, rec record) {
	bids, asks := h.split(changes)
	h.sendUpdate(in, t, bids, asks, s, rec)
}

// split parts changes by side, in the hub's scratch memory.
func (h *Hub) split(changes []change) (bids, asks []market.Level) {
	bids, asks = h.scratch.bids[:0], h.scratch.asks[:0]
	for _, c := range changes {
		if c.side == market.Sell {
			asks = append(asks, c.now)
		} else {
			bids = append(bids, c.now)
		}
	}
	h.scratch.bids, h.scratch.asks = bids, asks
	return bids, asks
}

func sortLevels(bids, asks []market.Level) {
	slices.SortFunc(bids, func(a, b market.Level) int { return cmp.Compare(b.Price, a.Price) })
	slices.SortFunc(asks, func(a, b market.Level) int { return cmp.Compare(a.Price, b.Price) })
}

// sendView tells a tier of some depth how its best levels changed.
func (h *Hub) sendView(in *instrument, t *tierState, s stamp, rec record) {
	x := &h.scratch
	x.topBids = in.book.Append(x.topBids[:0], market.Buy, t.tier.Depth)
	x.topAsks = in.book.Append(x.topAsks[:0], market.Sell, t.tier.Depth)
	x.bids = diff(x.bids[:0], t.bids, x.topBids, market.Buy)
	x.asks = diff(x.asks[:0], t.asks, x.topAsks, market.Sell)
	if len(x.bids) == 0 && len(x.asks) == 0 {
		return
	}
	t.bids = append(t.bids[:0], x.topBids...)
	t.asks = append(t.asks[:0], x.topAsks...)
	h.sendUpdate(in, t, x.bids, x.asks, s, rec)
}

// diff appends the changes that turn the levels was into the levels now, both
// best first: sizes that changed, levels that came into view, and removals.
func diff(dst, was, now []market.Level, side market.Side) []market.Level {
	better := func(a, b market.Price) bool {
		if side == market.Sell {
			return a < b
		}
		return a > b
	}
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case j == len(now) || i < len(was) && better(was[i].Price, now[j].Price):
			dst = append(dst, market.Level{Price: was[i].Price})
			i++
		case i == len(was) || better(now[j].Price, was[i].Price):
			dst = append(dst, now[j])
			j++
		default:
			if was[i] != now[j] {
				dst = append(dst, now[j])
			}
			i++
			j++
		}
	}
	return dst
}

// sendUpdate sends an update to the readers of a tier, chained to its newest message.
func (h *Hub) sendUpdate(in *instrument, t *tierState, bids, asks []market.Level, s stamp, rec record) {
	hd := in.header(rec.n, s)
	h.scratch.payload = wire.AppendBookUpdate(h.scratch.payload[:0], &hd, t.n, bids, asks, h.checksum(in, t.tier.Depth))
	t.stamp = s
	h.emit(t, h.framed(), rec)
}

// checksum is the K of the book as it is now.
func (h *Hub) checksum(in *instrument, depth int) uint32 {
	n := wire.ChecksumLevels(depth)
	x := &h.scratch
	x.topBids = in.book.Append(x.topBids[:0], market.Buy, n)
	x.topAsks = in.book.Append(x.topAsks[:0], market.Sell, n)
	var k uint32
	k, x.sum = wire.Checksum(x.sum, x.topBids, x.topAsks, n, in.def.PriceDecimals, in.def.SizeDecimals)
	return k
}

// flushBook sends what changed in a conflated tier since it last spoke.
func (h *Hub) flushBook(in *instrument, t *tierState, now int64) {
	if in.stale {
		return
	}
	h.position++
	rec := record{pos: h.position, n: in.channels[wire.OrderBook].n, at: now, in: in}
	s := t.due.asOf(now)
	if t.was == nil {
		h.sendView(in, t, s, rec)
		return
	}
	bids, asks := h.scratch.bids[:0], h.scratch.asks[:0]
	for key, was := range t.was {
		l, ok := in.book.Find(key.side, key.price)
		if !ok {
			l = market.Level{Price: key.price}
		}
		if l == was {
			continue
		}
		if key.side == market.Sell {
			asks = append(asks, l)
		} else {
			bids = append(bids, l)
		}
	}
	clear(t.was)
	sortLevels(bids, asks)
	h.scratch.bids, h.scratch.asks = bids, asks
	if len(bids) > 0 || len(asks) > 0 {
		h.sendUpdate(in, t, bids, asks, s, rec)
	}
}

// takeSnapshot replaces a book, which ends its being stale.
func (h *Hub) takeSnapshot(in *instrument, e *market.Event, now int64) {
	if in.orders != nil {
		in.orders.Reset()
		if len(e.Bids) > 0 || len(e.Asks) > 0 {
			// From here on the feed is of levels.
			in.orders, in.book = nil, &in.levels
		}
	}
	in.book.Reset()
	for i := len(e.Bids) - 1; i >= 0; i-- {
		in.book.Set(market.Buy, e.Bids[i])
	}
	for i := len(e.Asks) - 1; i >= 0; i-- {
		in.book.Set(market.Sell, e.Asks[i])
	}
	first := in.channels[wire.OrderBook].n == 0
	if in.stale {
		in.stale = false
		if !first && !h.marketDown(in) {
			h.keepStatus(in, now, &market.Event{Kind: market.KindStatus, Phase: market.FeedUp, Reason: "snapshot", Time: e.Time, Receive: e.Receive}, notice)
		}
	}
	h.sendBook(in, in.stamp(e, now), now)
	h.derive(in, in.changed, now)
}

func (h *Hub) marketDown(in *instrument) bool {
	if in.line != nil {
		return in.line.down[in.id.Market]
	}
	v := h.venues[in.id.Market]
	return v != nil && v.down
}

// sendBook numbers the whole book as it is and sends it to the readers of every tier.
func (h *Hub) sendBook(in *instrument, s stamp, now int64) {
	in.changed = s
	rec := h.next(in, wire.OrderBook, now)
	h.keepBookRow(in, rec, s)
	for _, t := range in.channels[wire.OrderBook].tiers {
		t.dirty = false
		clear(t.was)
		if t.tier.Depth > 0 {
			t.bids = in.book.Append(t.bids[:0], market.Buy, t.tier.Depth)
			t.asks = in.book.Append(t.asks[:0], market.Sell, t.tier.Depth)
		}
		t.stamp, t.n = s, rec.n
		h.scratch.payload, _ = h.bookState(h.scratch.payload[:0], in, t)
		h.emit(t, h.framed(), rec)
	}
}

// bookState appends the payload of a book tier as of its newest message; ok is
// false while the book is not known.
func (h *Hub) bookState(b []byte, in *instrument, t *tierState) (_ []byte, ok bool) {
	if in.stale || t.n == 0 {
		return b, false
	}
	x := &h.scratch
	x.bids = in.book.Append(x.bids[:0], market.Buy, t.tier.Depth)
	x.asks = in.book.Append(x.asks[:0], market.Sell, t.tier.Depth)
	if t.dirty {
		t.past(x)
	}
	var k uint32
	k, x.sum = wire.Checksum(x.sum, x.bids, x.asks, wire.ChecksumLevels(t.tier.Depth), in.def.PriceDecimals, in.def.SizeDecimals)
	hd := in.header(t.n, t.stamp)
	return wire.AppendBookState(b, &hd, t.tier.Depth, x.bids, x.asks, k), true
}

// past turns the present levels in x into those as of a conflated tier's newest message.
func (t *tierState) past(x *scratch) {
	if t.was == nil {
		x.bids = append(x.bids[:0], t.bids...)
		x.asks = append(x.asks[:0], t.asks...)
		return
	}
	changed := func(side market.Side) func(market.Level) bool {
		return func(l market.Level) bool {
			_, ok := t.was[sidePrice{side, l.Price}]
			return ok
		}
	}
	x.bids = slices.DeleteFunc(x.bids, changed(market.Buy))
	x.asks = slices.DeleteFunc(x.asks, changed(market.Sell))
	for key, was := range t.was {
		switch {
		case was.Size == 0:
		case key.side == market.Sell:
			x.asks = append(x.asks, was)
		default:
			x.bids = append(x.bids, was)
		}
	}
	sortLevels(x.bids, x.asks)
}

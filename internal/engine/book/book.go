package book

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// MaxLevels is the maximum number of levels per side: ten times the deepest real book seen.
const MaxLevels = 1 << 16

// Errors returned by Book. A Book that returns one of them is unchanged, except after ErrSum.
var (
	ErrOrders = errors.New("the book is kept order by order; a snapshot begins one of levels")
	ErrLevels = errors.New("the book is kept by levels; an empty snapshot begins one of orders")
	ErrDepth  = errors.New("a side of a book has at most 65,536 levels")
	ErrSum    = errors.New("the orders at a price add up to more than 15 significant digits")
)

// Book is the order book of one instrument. The zero Book is empty and accepts levels or single
// orders.
type Book struct {
	levels market.Book
	orders *market.OrderBook // set if the feed is order by order
}

// Change is a level before and after an event.
type Change struct {
	Side     market.Side
	Was, Now market.Level
}

// Levels returns the current book for reading. It is valid until the next event.
func (b *Book) Levels() *market.Book {
	if b.orders != nil {
		return b.orders.Book()
	}
	return &b.levels
}

// Update applies changed levels and appends the resulting changes. It returns ErrOrders or
// ErrDepth.
func (b *Book) Update(changes []Change, bids, asks []market.Level) ([]Change, error) {
	if b.orders != nil && b.orders.Len() > 0 {
		return changes, ErrOrders
	}
	m := b.Levels()
	if m.Len(market.Buy)+len(bids) > MaxLevels || m.Len(market.Sell)+len(asks) > MaxLevels {
		return changes, ErrDepth
	}
	changes = setAll(changes, m, market.Buy, bids)
	return setAll(changes, m, market.Sell, asks), nil
}

// manyLevels is the number of levels above which a side is merged in one pass.
const manyLevels = 64

// setAll stores levels in a side and appends the changes.
func setAll(changes []Change, b *market.Book, side market.Side, levels []market.Level) []Change {
	if len(levels) > manyLevels {
		levels = worstFirst(levels, side)
		b.Merge(side, levels, func(was, now market.Level) { changes = append(changes, Change{side, was, now}) })
		return changes
	}
	for _, l := range levels {
		if was, changed := b.Set(side, l); changed {
			changes = append(changes, Change{side, was, l})
		}
	}
	return changes
}

// worstFirst returns a sorted copy of levels that keeps the last one of each price.
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

// Order applies an order-by-order event and appends the resulting changes. It returns ErrLevels,
// ErrSum, or an error of market.OrderBook.
func (b *Book) Order(changes []Change, e *market.Event) ([]Change, error) {
	if b.orders == nil {
		if b.levels.Len(market.Buy)+b.levels.Len(market.Sell) > 0 {
			return changes, ErrLevels
		}
		b.orders = new(market.OrderBook)
	}
	begin := len(changes)
	changes, err := changeOrder(changes, b.orders, e)
	if err != nil {
		return changes, err
	}
	for i := range changes[begin:] {
		if !changes[begin+i].Now.Size.Exact() {
			return changes, ErrSum
		}
	}
	return changes, nil
}

// changeOrder applies e and appends the resulting changes.
func changeOrder(changes []Change, o *market.OrderBook, e *market.Event) ([]Change, error) {
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
	case market.KindOrderModify, market.KindOrderReplace:
		id := e.OrderID
		if e.Kind == market.KindOrderReplace {
			id = e.NewID
		}
		var from market.Level
		was, wasTo = before(price), before(e.Price)
		_, from, to, err = o.Replace(e.OrderID, id, e.Price, e.Size)
		if err == nil && from.Price != to.Price {
			changes = append(changes, Change{side, was, from})
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
	return append(changes, Change{side, was, to}), nil
}

// Replace replaces the book by a snapshot, best first. If the snapshot has levels, the feed is one
// of levels from now on.
func (b *Book) Replace(bids, asks []market.Level) {
	if b.orders != nil {
		b.orders.Reset()
		if len(bids) > 0 || len(asks) > 0 {
			b.orders = nil
		}
	}
	m := b.Levels()
	m.Reset()
	for i := len(bids) - 1; i >= 0; i-- {
		m.Set(market.Buy, bids[i])
	}
	for i := len(asks) - 1; i >= 0; i-- {
		m.Set(market.Sell, asks[i])
	}
}

// Compact sorts changes by side, best first, merges changes of the same price, and drops those that
// change nothing. It reuses the memory of its argument.
func Compact(changes []Change) []Change {
	switch {
	case len(changes) == 1 && changes[0].Was != changes[0].Now:
		return changes // the most frequent case
	case len(changes) > 1:
		slices.SortStableFunc(changes, func(a, b Change) int {
			switch {
			case a.Side != b.Side:
				return int(a.Side) - int(b.Side)
			case a.Side == market.Sell:
				return cmp.Compare(a.Now.Price, b.Now.Price)
			}
			return cmp.Compare(b.Now.Price, a.Now.Price)
		})
	}
	kept := changes[:0]
	for _, c := range changes {
		if n := len(kept) - 1; n >= 0 && kept[n].Side == c.Side && kept[n].Now.Price == c.Now.Price {
			kept[n].Now = c.Now
		} else {
			kept = append(kept, c)
		}
	}
	return slices.DeleteFunc(kept, func(c Change) bool { return c.Was == c.Now })
}

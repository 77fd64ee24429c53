package replaytest

import (
	"fmt"
	"math/rand/v2"

	"github.com/ruedahq/rueda/market"
)

// Flow is an endless random flow of orders, the same for the same seed. Its events can be written
// in every format with orders, or its books in formats with levels. Prices are whole cents, sizes
// are whole.
type Flow struct {
	rng   *rand.Rand
	books []*market.OrderBook
	live  [][]uint64
	id    uint64
	match uint64
	time  int64
}

// NewFlow returns a flow of several instruments that begins at a time in nanoseconds.
func NewFlow(seed uint64, instruments int, begin int64) *Flow {
	f := &Flow{rng: rand.New(rand.NewPCG(seed, 1)), live: make([][]uint64, instruments), time: begin, id: 1000, match: 1}
	for range instruments {
		f.books = append(f.books, new(market.OrderBook))
	}
	return f
}

// Book returns the book of an instrument after the newest event.
func (f *Flow) Book(instrument int) *market.Book { return f.books[instrument].Book() }

// Symbol returns the symbol of an instrument.
func Symbol(instrument int) string { return fmt.Sprintf("SYM%d", instrument) }

// Next returns an order that is added, reduced (a modify with a smaller size), deleted or executed.
// An execution is a fill that also has the id and price of the trade, the side of the aggressor,
// and the previous size in OldSize. Handle is the number of the instrument.
func (f *Flow) Next() market.Event {
	h := f.rng.IntN(len(f.books))
	f.time += 1 + int64(f.rng.ExpFloat64()*20_000)
	e := market.Event{Handle: market.Handle(h), Time: f.time}
	o, live := f.books[h], f.live[h]
	if roll := f.rng.IntN(100); len(live) < 5 || roll < 48 && len(live) < 400 {
		f.add(&e, h)
		return e
	}
	i := f.rng.IntN(len(live))
	e.OrderID = live[i]
	side, price, size, _ := o.Order(e.OrderID)
	part := market.Size(1+f.rng.IntN(int(size/market.Scale))) * market.Scale
	switch roll := f.rng.IntN(100); {
	case roll < 84:
		e.Kind, e.Side, e.Price, e.OldSize = market.KindOrderDelete, side, price, size
	case roll < 90 && part < size:
		e.Kind, e.Side, e.Price, e.Size, e.OldSize = market.KindOrderModify, side, price, size-part, size
	default:
		f.match++
		e.Kind, e.Price, e.Size, e.OldSize, e.TradeID = market.KindOrderFill, price, part, size, fmt.Sprint(f.match)
		if e.Side = market.Buy; side == market.Buy {
			e.Side = market.Sell
		}
	}
	if e.Kind == market.KindOrderDelete || e.Kind == market.KindOrderFill && part == size {
		live[i] = live[len(live)-1]
		f.live[h] = live[:len(live)-1]
	}
	if err := Apply(o, &e); err != nil {
		panic(err)
	}
	return e
}

func (f *Flow) add(e *market.Event, h int) {
	f.id += 1 + uint64(f.rng.IntN(5))
	away := market.Price(1 + f.rng.IntN(30))
	e.Kind, e.OrderID, e.Side = market.KindOrderAdd, f.id, market.Buy
	mid := market.Price(1000 + 700*h)
	if e.Price = mid - away; f.rng.IntN(2) == 0 {
		e.Side, e.Price = market.Sell, mid+away
	}
	e.Price *= market.Scale / 100
	e.Size = market.Size(1+f.rng.IntN(5)) * 100 * market.Scale
	f.live[h] = append(f.live[h], f.id)
	if err := Apply(f.books[h], e); err != nil {
		panic(err)
	}
}

// Apply applies an order event to a book.
func Apply(o *market.OrderBook, e *market.Event) (err error) {
	switch e.Kind {
	case market.KindOrderAdd:
		_, err = o.Add(e.OrderID, e.Side, e.Price, e.Size)
	case market.KindOrderModify:
		_, _, _, err = o.Modify(e.OrderID, e.Price, e.Size)
	case market.KindOrderReplace:
		_, _, _, err = o.Replace(e.OrderID, e.NewID, e.Price, e.Size)
	case market.KindOrderDelete:
		_, _, err = o.Delete(e.OrderID)
	case market.KindOrderFill:
		_, _, err = o.Fill(e.OrderID, e.Size)
	}
	return err
}

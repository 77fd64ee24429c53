package replaytest

import (
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// LOBSTER writes a message file and an order book file.
type LOBSTER struct {
	Messages []byte
	Books    []byte
	Depth    int    // levels in the order book file
	More     string // columns after the direction, with their comma
	CRLF     bool   // lines end with CR and LF
}

// Line writes a line of the message file. The time is in ns after midnight, the price in units of
// 1e-4.
func (w *LOBSTER) Line(t int64, kind int, id uint64, size uint32, price int64, direction int) {
	w.LineAt(fmt.Sprintf("%d.%09d", t/1_000_000_000, t%1_000_000_000), kind, id, size, price, direction)
}

// LineAt writes a line of the message file whose time has any number of decimals. An id of all ones
// is written as -1.
func (w *LOBSTER) LineAt(time string, kind int, id uint64, size uint32, price int64, direction int) {
	w.Messages = fmt.Appendf(w.Messages, "%s,%d,%d,%d,%d,%d%s", time, kind, int64(id), size, price, direction, w.More)
	w.Messages = w.end(w.Messages)
}

// Header writes first lines that name the columns.
func (w *LOBSTER) Header() {
	w.Messages = w.end(append(w.Messages, "Time,Type,OrderID,Size,Price,Direction"...))
	if w.Depth > 0 {
		w.Books = w.end(append(w.Books, "AskPrice1,AskSize1,BidPrice1,BidSize1"...))
	}
}

func (w *LOBSTER) end(b []byte) []byte {
	if w.CRLF {
		b = append(b, '\r')
	}
	return append(b, '\n')
}

// Book writes a line of the order book file.
func (w *LOBSTER) Book(b *market.Book) {
	for i := range w.Depth {
		ask, bid := [2]int64{9_999_999_999, 0}, [2]int64{-9_999_999_999, 0}
		if i < b.Len(market.Sell) {
			l := b.At(market.Sell, i)
			ask = [2]int64{Ten(l.Price), int64(units(l.Size))}
		}
		if i < b.Len(market.Buy) {
			l := b.At(market.Buy, i)
			bid = [2]int64{Ten(l.Price), int64(units(l.Size))}
		}
		if i > 0 {
			w.Books = append(w.Books, ',')
		}
		for j, v := range [...]int64{ask[0], ask[1], bid[0], bid[1]} {
			if j > 0 {
				w.Books = append(w.Books, ',')
			}
			w.Books = strconv.AppendInt(w.Books, v, 10)
		}
	}
	w.Books = w.end(w.Books)
}

// Order writes an event of a Flow. side is the side of the order, also for an execution.
func (w *LOBSTER) Order(e *market.Event, side market.Side, midnight int64) {
	direction := 1
	if side == market.Sell {
		direction = -1
	}
	kind, size := 1, units(e.Size)
	switch e.Kind {
	case market.KindOrderModify:
		kind, size = 2, units(e.OldSize-e.Size)
	case market.KindOrderDelete:
		kind, size = 3, units(e.OldSize)
	case market.KindOrderFill:
		kind = 4
	}
	w.Line(e.Time-midnight, kind, e.OrderID, size, Ten(e.Price), direction)
}

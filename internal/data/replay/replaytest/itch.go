package replaytest

import (
	"encoding/binary"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// ITCH writes messages of NASDAQ TotalView-ITCH 5.0 to Bytes. Times are nanoseconds after midnight,
// prices have four decimals.
type ITCH struct {
	Bytes    []byte
	NoLength bool // write zeros instead of the length of a message
}

// message begins a message of a size and returns it to be filled in.
func (w *ITCH) message(kind byte, size int, locate uint16, t int64) []byte {
	length := uint16(size)
	if w.NoLength {
		length = 0
	}
	w.Bytes = binary.BigEndian.AppendUint16(w.Bytes, length)
	from := len(w.Bytes)
	w.Bytes = append(w.Bytes, make([]byte, size)...)
	m := w.Bytes[from:]
	m[0] = kind
	binary.BigEndian.PutUint16(m[1:], locate)
	binary.BigEndian.PutUint64(m[3:], uint64(t)) // the upper two bytes are the tracking number, 0
	return m
}

// text fills a field with a text, padded with spaces.
func text(dst []byte, s string) {
	for i := range dst {
		dst[i] = ' '
	}
	copy(dst, s)
}

// System writes a message of type S.
func (w *ITCH) System(t int64, code byte) { w.message('S', 12, 0, t)[11] = code }

// Directory writes a message of type R.
func (w *ITCH) Directory(t int64, locate uint16, symbol string) {
	m := w.message('R', 39, locate, t)
	text(m[11:19], symbol)
	m[19], m[20], m[25], m[26], m[29] = 'Q', 'N', 'N', 'C', 'P'
	binary.BigEndian.PutUint32(m[21:], 100)
}

// Action writes a message of type H.
func (w *ITCH) Action(t int64, locate uint16, symbol string, state byte, reason string) {
	m := w.message('H', 25, locate, t)
	text(m[11:19], symbol)
	m[19] = state
	text(m[21:25], reason)
}

// Halt writes a message of type h.
func (w *ITCH) Halt(t int64, locate uint16, symbol string, venue, action byte) {
	m := w.message('h', 21, locate, t)
	text(m[11:19], symbol)
	m[19], m[20] = venue, action
}

// Add writes a message of type A, or F if a participant is named.
func (w *ITCH) Add(t int64, locate uint16, id uint64, side byte, shares uint32, symbol string, price uint32, who string) {
	kind, size := byte('A'), 36
	if who != "" {
		kind, size = 'F', 40
	}
	m := w.message(kind, size, locate, t)
	binary.BigEndian.PutUint64(m[11:], id)
	m[19] = side
	binary.BigEndian.PutUint32(m[20:], shares)
	text(m[24:32], symbol)
	binary.BigEndian.PutUint32(m[32:], price)
	copy(m[36:], who)
}

// Execute writes a message of type E.
func (w *ITCH) Execute(t int64, locate uint16, id uint64, shares uint32, match uint64) {
	m := w.message('E', 31, locate, t)
	binary.BigEndian.PutUint64(m[11:], id)
	binary.BigEndian.PutUint32(m[19:], shares)
	binary.BigEndian.PutUint64(m[23:], match)
}

// ExecuteAt writes a message of type C.
func (w *ITCH) ExecuteAt(t int64, locate uint16, id uint64, shares uint32, match uint64, printed byte, price uint32) {
	m := w.message('C', 36, locate, t)
	binary.BigEndian.PutUint64(m[11:], id)
	binary.BigEndian.PutUint32(m[19:], shares)
	binary.BigEndian.PutUint64(m[23:], match)
	m[31] = printed
	binary.BigEndian.PutUint32(m[32:], price)
}

// Cancel writes a message of type X.
func (w *ITCH) Cancel(t int64, locate uint16, id uint64, shares uint32) {
	m := w.message('X', 23, locate, t)
	binary.BigEndian.PutUint64(m[11:], id)
	binary.BigEndian.PutUint32(m[19:], shares)
}

// Delete writes a message of type D.
func (w *ITCH) Delete(t int64, locate uint16, id uint64) {
	binary.BigEndian.PutUint64(w.message('D', 19, locate, t)[11:], id)
}

// Replace writes a message of type U.
func (w *ITCH) Replace(t int64, locate uint16, old, id uint64, shares, price uint32) {
	m := w.message('U', 35, locate, t)
	binary.BigEndian.PutUint64(m[11:], old)
	binary.BigEndian.PutUint64(m[19:], id)
	binary.BigEndian.PutUint32(m[27:], shares)
	binary.BigEndian.PutUint32(m[31:], price)
}

// Trade writes a message of type P.
func (w *ITCH) Trade(t int64, locate uint16, shares uint32, symbol string, price uint32, match uint64) {
	m := w.message('P', 44, locate, t)
	m[19] = 'B'
	binary.BigEndian.PutUint32(m[20:], shares)
	text(m[24:32], symbol)
	binary.BigEndian.PutUint32(m[32:], price)
	binary.BigEndian.PutUint64(m[36:], match)
}

// Cross writes a message of type Q.
func (w *ITCH) Cross(t int64, locate uint16, shares uint64, symbol string, price uint32, match uint64, kind byte) {
	m := w.message('Q', 40, locate, t)
	binary.BigEndian.PutUint64(m[11:], shares)
	text(m[19:27], symbol)
	binary.BigEndian.PutUint32(m[27:], price)
	binary.BigEndian.PutUint64(m[31:], match)
	m[39] = kind
}

// Broken writes a message of type B.
func (w *ITCH) Broken(t int64, locate uint16, match uint64) {
	binary.BigEndian.PutUint64(w.message('B', 19, locate, t)[11:], match)
}

// Other writes a message of any type and size, empty after its header.
func (w *ITCH) Other(t int64, locate uint16, kind byte, size int) { w.message(kind, size, locate, t) }

// Order writes an event of a Flow.
func (w *ITCH) Order(e *market.Event, midnight int64) {
	t, locate := e.Time-midnight, uint16(e.Handle)+1
	price := uint32(e.Price / (market.Scale / 10_000))
	switch e.Kind {
	case market.KindOrderAdd:
		side := byte('B')
		if e.Side == market.Sell {
			side = 'S'
		}
		w.Add(t, locate, e.OrderID, side, units(e.Size), Symbol(int(e.Handle)), price, "")
	case market.KindOrderModify:
		w.Cancel(t, locate, e.OrderID, units(e.OldSize-e.Size))
	case market.KindOrderDelete:
		w.Delete(t, locate, e.OrderID)
	case market.KindOrderFill:
		w.Execute(t, locate, e.OrderID, units(e.Size), number(e.TradeID))
	}
}

func units(z market.Size) uint32 { return uint32(z / market.Scale) }

func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

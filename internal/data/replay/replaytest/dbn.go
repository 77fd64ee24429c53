package replaytest

import (
	"encoding/binary"
	"math"

	"github.com/ruedahq/rueda/market"
)

// Schemas and flags of DBN.
const (
	SchemaMBO    = 0
	SchemaMBP1   = 1
	SchemaMBP10  = 2
	SchemaTBBO   = 3
	SchemaTrades = 4
	SchemaOHLCV  = 5
	SchemaStatus = 11
	SchemaMixed  = 0xffff

	Last     = 1 << 7
	Top      = 1 << 6
	Snapshot = 1 << 5
	BadBook  = 1 << 2
)

// Undefined marks an undefined price, in units of 1e-9.
const Undefined = math.MaxInt64

// DBN writes a file of the Databento Binary Encoding to Bytes.
type DBN struct {
	Bytes    []byte
	Version  byte
	SendTime bool // append the send time to each record
}

// Mapping is the symbol of an instrument on days from From to before To, as 20240102.
type Mapping struct {
	Symbol   string
	Number   string
	From, To uint32
}

// Header writes the header of a file.
func (w *DBN) Header(dataset string, schema uint16, mappings ...Mapping) {
	le := binary.LittleEndian
	width := 71
	if w.Version == 1 {
		width = 22
	}
	cstr := func(b []byte, s string, n int) []byte {
		field := make([]byte, n)
		copy(field, s)
		return append(b, field...)
	}
	var b []byte
	b = cstr(b, dataset, 16)
	b = le.AppendUint16(b, schema)
	b = le.AppendUint64(b, 0)              // start
	b = le.AppendUint64(b, math.MaxUint64) // end
	b = le.AppendUint64(b, 0)              // limit
	if w.Version == 1 {
		b = le.AppendUint64(b, math.MaxUint64) // number of records
	}
	b = append(b, 1, 0, 0) // from raw symbols to numbers; send time
	if w.SendTime {
		b[len(b)-1] = 1
	}
	if w.Version > 1 {
		b = le.AppendUint16(b, uint16(width))
	}
	b = append(b, make([]byte, 100-len(b))...)
	b = le.AppendUint32(b, 0) // definition of the schema
	b = le.AppendUint32(b, uint32(len(mappings)))
	for _, m := range mappings {
		b = cstr(b, m.Symbol, width)
	}
	b = le.AppendUint32(b, 0) // partly found
	b = le.AppendUint32(b, 1) // not found
	b = cstr(b, "NOSUCH", width)
	b = le.AppendUint32(b, uint32(len(mappings)))
	for _, m := range mappings {
		b = cstr(b, m.Symbol, width)
		b = le.AppendUint32(b, 1)
		b = le.AppendUint32(b, m.From)
		b = le.AppendUint32(b, m.To)
		b = cstr(b, m.Number, width)
	}
	w.Bytes = append(w.Bytes, 'D', 'B', 'N', w.Version)
	w.Bytes = le.AppendUint32(w.Bytes, uint32(len(b)))
	w.Bytes = append(w.Bytes, b...)
}

// Record holds what all records have in common. Price is in units of 1e-9.
type Record struct {
	Publisher     uint16 // 0: 2
	Instrument    uint32
	Time, Receive int64
	OrderID       uint64
	Price         int64
	Size          uint32
	Flags         byte
	Action, Side  byte
	Sequence      uint32
}

// Pair is a level of both sides.
type Pair struct {
	Bid, Ask           int64
	BidSize, AskSize   uint32
	BidCount, AskCount uint32
}

// begin appends a record of a size and returns it to be filled in.
func (w *DBN) begin(kind byte, size int, r *Record) []byte {
	from := len(w.Bytes)
	w.Bytes = append(w.Bytes, make([]byte, size)...)
	if w.SendTime {
		w.Bytes = binary.LittleEndian.AppendUint64(w.Bytes, uint64(r.Receive)+5)
	}
	m := w.Bytes[from:]
	m[0], m[1] = byte(len(m)/4), kind
	publisher := r.Publisher
	if publisher == 0 {
		publisher = 2
	}
	binary.LittleEndian.PutUint16(m[2:], publisher)
	binary.LittleEndian.PutUint32(m[4:], r.Instrument)
	binary.LittleEndian.PutUint64(m[8:], uint64(r.Time))
	return m
}

// MBO writes a record of an order.
func (w *DBN) MBO(r *Record) {
	le := binary.LittleEndian
	m := w.begin(0xa0, 56, r)
	le.PutUint64(m[16:], r.OrderID)
	le.PutUint64(m[24:], uint64(r.Price))
	le.PutUint32(m[32:], r.Size)
	m[36], m[38], m[39] = r.Flags, r.Action, r.Side
	le.PutUint64(m[40:], uint64(r.Receive))
	le.PutUint32(m[48:], 1500)
	le.PutUint32(m[52:], r.Sequence)
}

// Levels writes a record of a trade or change with no level (trades), one (MBP-1, TBBO) or ten
// (MBP-10). Missing levels are undefined.
func (w *DBN) Levels(r *Record, depth int, levels ...Pair) {
	le := binary.LittleEndian
	m := w.begin(byte(depth), 48+32*depth, r)
	le.PutUint64(m[16:], uint64(r.Price))
	le.PutUint32(m[24:], r.Size)
	m[28], m[29], m[30] = r.Action, r.Side, r.Flags
	le.PutUint64(m[32:], uint64(r.Receive))
	le.PutUint32(m[44:], r.Sequence)
	for i := range depth {
		l := Pair{Bid: Undefined, Ask: Undefined}
		if i < len(levels) {
			l = levels[i]
		}
		p := m[48+32*i:]
		le.PutUint64(p, uint64(l.Bid))
		le.PutUint64(p[8:], uint64(l.Ask))
		le.PutUint32(p[16:], l.BidSize)
		le.PutUint32(p[20:], l.AskSize)
		le.PutUint32(p[24:], l.BidCount)
		le.PutUint32(p[28:], l.AskCount)
	}
}

// Status writes a record of status.
func (w *DBN) Status(r *Record, action, reason uint16) {
	m := w.begin(0x12, 40, r)
	binary.LittleEndian.PutUint64(m[16:], uint64(r.Receive))
	binary.LittleEndian.PutUint16(m[24:], action)
	binary.LittleEndian.PutUint16(m[26:], reason)
	m[30], m[31], m[32] = '~', '~', '~'
}

// SymbolMapping writes a record that gives an instrument a symbol in live data.
func (w *DBN) SymbolMapping(r *Record, symbol string) {
	if w.Version == 1 {
		m := w.begin(0x16, 80, r)
		copy(m[16:38], "ASKED")
		copy(m[38:60], symbol)
		return
	}
	m := w.begin(0x16, 176, r)
	m[16] = 1
	copy(m[17:88], "ASKED")
	m[88] = 1
	copy(m[89:160], symbol)
}

// Other writes a record of any type and size, empty after its header.
func (w *DBN) Other(r *Record, kind byte, size int) { w.begin(kind, size, r) }

// Nano converts a price to units of 1e-9.
func Nano(p market.Price) int64 { return int64(p) * 10 }

// Order writes an event of a Flow. An execution becomes trade, fill and cancel.
func (w *DBN) Order(e *market.Event, sequence uint32) {
	side := func(s market.Side) byte {
		if s == market.Sell {
			return 'A'
		}
		return 'B'
	}
	r := Record{
		Instrument: uint32(e.Handle) + 100, Time: e.Time, Receive: e.Time + 700, OrderID: e.OrderID,
		Price: Nano(e.Price), Size: units(e.Size), Side: side(e.Side), Sequence: sequence, Flags: Last,
	}
	switch e.Kind {
	case market.KindOrderAdd:
		r.Action = 'A'
	case market.KindOrderModify:
		if r.Action = 'M'; sequence%2 == 0 {
			r.Action, r.Size = 'C', units(e.OldSize-e.Size)
		}
	case market.KindOrderDelete:
		r.Action, r.Size = 'C', units(e.OldSize)
	case market.KindOrderFill:
		r.Action, r.Flags = 'T', 0
		w.MBO(&r)
		r.Action = 'F'
		if r.Side = 'A'; e.Side == market.Sell {
			r.Side = 'B'
		}
		w.MBO(&r)
		r.Action, r.Flags = 'C', Last
	}
	w.MBO(&r)
}

// Pairs returns the ten best levels of a book.
func Pairs(b *market.Book) []Pair {
	var out []Pair
	for i := range max(min(10, b.Len(market.Buy)), min(10, b.Len(market.Sell))) {
		p := Pair{Bid: Undefined, Ask: Undefined}
		if i < b.Len(market.Buy) {
			l := b.At(market.Buy, i)
			p.Bid, p.BidSize, p.BidCount = Nano(l.Price), units(l.Size), l.Orders
		}
		if i < b.Len(market.Sell) {
			l := b.At(market.Sell, i)
			p.Ask, p.AskSize, p.AskCount = Nano(l.Price), units(l.Size), l.Orders
		}
		out = append(out, p)
	}
	return out
}

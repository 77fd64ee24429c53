package tape

import (
	"unsafe"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Row is one trade, cancel, correction, status or bar.
type Row struct {
	Pos     uint64 // in the whole stream
	At      int64  // publication
	Time    int64  // header T
	Latency int64  // header D
	Price   market.Price
	Size    market.Size
	ID      string
	More    *More     // nil: it has none of that
	Bar     *bars.Bar // of a bar; the row has no more
	Kind    market.Kind
	Side    market.Side
	Phase   market.Phase
}

// More is what few rows have.
type More struct {
	OldPrice   market.Price
	OldSize    market.Size
	RefN       uint64
	Conditions []string
	Reason     string
	Until      int64
}

// Message appends the payload of the row with sequence n.
func (r *Row) Message(b []byte, ident wire.Ident, n uint64) []byte {
	h := wire.Header{Ident: ident, N: n, Time: r.Time, Latency: r.Latency}
	if r.Bar != nil {
		k := barMessage(r.Bar)
		return wire.AppendBar(b, &h, &k)
	}
	m := r.More
	if m == nil {
		m = &More{}
	}
	if r.Kind == market.KindStatus {
		return wire.AppendStatus(b, &h, r.Phase, m.Reason, m.Until, false)
	}
	t := wire.Trade{Kind: r.Kind, Side: r.Side, Price: r.Price, Size: r.Size, ID: r.ID,
		OldPrice: m.OldPrice, OldSize: m.OldSize, RefN: m.RefN, Conditions: m.Conditions}
	return wire.AppendTrade(b, &h, &t)
}

// barMessage is a bar as it goes over the wire.
func barMessage(b *bars.Bar) wire.Bar {
	return wire.Bar{
		Interval: b.Interval, Revised: b.Revised,
		First: b.First, High: b.High, Low: b.Low, Last: b.Last,
		Volume: b.Volume, Value: b.Value, Trades: b.Trades,
	}
}

// Bytes is the memory of a row that is nobody else's.
func (r *Row) Bytes() int {
	n := int(unsafe.Sizeof(*r)) + len(r.ID)
	if r.More != nil {
		n += int(unsafe.Sizeof(*r.More))
	}
	if r.Bar != nil {
		n += int(unsafe.Sizeof(*r.Bar))
	}
	return n
}

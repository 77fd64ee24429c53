package recent

import (
	"unsafe"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Row is one trade, cancellation, correction, status or bar.
type Row struct {
	Pos     uint64 // in the whole stream
	At      int64  // time of publication
	Time    int64  // T of the header
	Latency int64  // D of the header
	Price   market.Price
	Size    market.Size
	ID      string
	More    *More     // nil: all fields are zero
	Bar     *bars.Bar // if set, the row is a bar and has no further fields
	Kind    market.Kind
	Side    market.Side
	Phase   market.Phase
}

// More holds the fields that few rows have.
type More struct {
	OldPrice market.Price
	OldSize  market.Size
	RefN     uint64
	market.TradeDetails
	Reason string
	Until  int64
}

// Message appends the payload of the row's message with N n.
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
		OldPrice: m.OldPrice, OldSize: m.OldSize, RefN: m.RefN, TradeDetails: m.TradeDetails}
	return wire.AppendTrade(b, &h, &t)
}

// barMessage converts a bar to its message.
func barMessage(b *bars.Bar) wire.Bar {
	return wire.Bar{
		Interval: b.Interval, Revised: b.Revised, TradingDate: b.Date,
		Open: b.First, High: b.High, Low: b.Low, Close: b.Last,
		Volume: b.Volume, Value: b.Value, Trades: b.Trades,
	}
}

// Bytes returns the memory used by the row alone.
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

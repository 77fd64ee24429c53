package recent

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// RowOf converts a row of the journal, of a market in a time zone; nil is UTC.
func RowOf(j *journal.Row, zone *time.Location) Row {
	r := Row{Pos: j.Position, At: j.At, Time: j.Time, Latency: j.Latency}
	switch j.Kind {
	case journal.Bar:
		b := barOf(j, zone)
		r.Bar = &b
		return r
	case journal.Status:
		r.Kind, r.Phase = market.KindStatus, j.Phase
		if j.Reason != "" || j.Until != 0 {
			r.More = &More{Reason: j.Reason, Until: j.Until}
		}
		return r
	case journal.Cancel:
		r.Kind = market.KindCancel
	case journal.Correct:
		r.Kind = market.KindCorrect
	default:
		r.Kind = market.KindTrade
	}
	r.Price, r.Size, r.Side, r.ID = j.Price, j.Size, j.Side, j.ID
	if r.Kind != market.KindTrade || !j.TradeDetails.IsZero() {
		r.More = &More{OldPrice: j.OldPrice, OldSize: j.OldSize, RefN: j.RefN, TradeDetails: j.TradeDetails.Clone()}
	}
	return r
}

// barOf returns the bar in a row of the journal.
func barOf(j *journal.Row, zone *time.Location) bars.Bar {
	return bars.Bar{
		Interval: j.Bar.Interval, Sent: true, Revised: j.Bar.Revised, Start: j.Time, End: j.Time + int64(j.Bar.Interval.Length()),
		Date: market.DateAt(j.Time, zone),
		Totals: bars.Totals{
			First: j.Bar.First, High: j.Bar.High, Low: j.Bar.Low, Last: j.Bar.Last,
			Volume: j.Bar.Volume, Value: j.Bar.Value, Trades: j.Bar.Trades,
		},
	}
}

// AppendRow appends the payload of the message that a row of the journal was made from, byte for
// byte as it was sent. For rows without such a message (books, checkpoints) it appends nothing.
// ident and zone must be those of the row's instrument and market.
func AppendRow(b []byte, ident wire.Ident, zone *time.Location, r *journal.Row) []byte {
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct, journal.Status, journal.Bar:
		t := RowOf(r, zone)
		return t.Message(b, ident, r.N)
	case journal.Quote:
		h := wire.Header{Ident: ident, N: r.N, Time: r.Time, Latency: r.Latency}
		var bid, ask market.Level
		if len(r.Bids) > 0 {
			bid = r.Bids[0]
		}
		if len(r.Asks) > 0 {
			ask = r.Asks[0]
		}
		return wire.AppendQuote(b, &h, bid, ask, false)
	}
	return b
}

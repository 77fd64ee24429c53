package rest

import (
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// appendColumns appends the first line of a table in CSV. The columns are named as in exports.
func appendColumns(b []byte, c journal.Channel) []byte {
	b = append(b, "ts,published,instrument,symbol,market,term,seq,epoch,"...)
	switch c {
	case journal.Trades:
		b = append(b, "kind,price,size,side,trade_id,ref_seq,old_price,old_size,conditions"...)
	case journal.Quotes:
		b = append(b, "bid_price,bid_size,bid_orders,ask_price,ask_size,ask_orders"...)
	case journal.Statuses:
		b = append(b, "status,reason,until"...)
	case journal.Bars:
		b = append(b, "interval,open,high,low,close,volume,turnover,vwap,trades,revised"...)
	}
	return append(b, '\n')
}

// appendRecord appends a row as a line of CSV (RFC 4180) by these columns. What is not known is an empty
// field, and when a row was published for those whom it reached late is one of those.
func appendRecord(b []byte, x *history, epoch string, r *journal.Row) []byte {
	b = append(wire.AppendTime(b, r.Time), ',')
	if x.delay == 0 {
		b = wire.AppendTime(b, r.At)
	}
	id := x.series.Instrument
	for _, s := range [...]string{id.String(), id.Symbol, id.Market, id.Term} {
		b = appendField(append(b, ','), s)
	}
	b = strconv.AppendUint(append(b, ','), r.N, 10)
	b = append(appendField(append(b, ','), epoch), ',')
	switch r.Kind {
	case journal.Quote:
		b = appendSide(b, r.Bids)
		b = appendSide(append(b, ','), r.Asks)
	case journal.Bar:
		b = appendBar(b, &r.Bar)
	case journal.Status:
		b = append(append(b, r.Phase.String()...), ',')
		b = append(appendField(b, r.Reason), ',')
		if r.Until != 0 {
			b = wire.AppendTime(b, r.Until)
		}
	default:
		b = appendTrade(b, r)
	}
	return append(b, '\n')
}

func appendTrade(b []byte, r *journal.Row) []byte {
	switch r.Kind {
	case journal.Cancel:
		b = append(b, "cancel,"...)
	case journal.Correct:
		b = append(b, "correct,"...)
	default:
		b = append(b, "trade,"...)
	}
	b = append(r.Price.Append(b), ',')
	b = append(r.Size.Append(b), ',')
	switch r.Side {
	case market.Buy:
		b = append(b, 'B')
	case market.Sell:
		b = append(b, 'S')
	}
	b = append(appendField(append(b, ','), r.ID), ',')
	if r.RefN > 0 {
		b = strconv.AppendUint(b, r.RefN, 10)
	}
	b = append(b, ',')
	if r.Kind == journal.Correct {
		b = append(r.OldPrice.Append(b), ',')
		b = append(r.OldSize.Append(b), ',')
	} else {
		b = append(b, ",,"...)
	}
	if len(r.Conditions) > 0 {
		b = appendField(b, string(wire.AppendStrings(nil, r.Conditions)))
	}
	return b
}

// appendSide appends price, size and number of orders of a quote's side.
func appendSide(b []byte, side []market.Level) []byte {
	if len(side) == 0 || side[0].Size == 0 {
		return append(b, ",,"...)
	}
	b = append(side[0].Price.Append(b), ',')
	b = append(side[0].Size.Append(b), ',')
	if side[0].Orders > 0 {
		b = strconv.AppendUint(b, uint64(side[0].Orders), 10)
	}
	return b
}

// appendBar appends the figures of a bar; turnover and average price as its message has them. A bar of
// which every trade was cancelled has no prices.
func appendBar(b []byte, r *journal.BarRow) []byte {
	b = append(b, r.Interval.String()...)
	for _, p := range [...]market.Price{r.First, r.High, r.Low, r.Last} {
		if b = append(b, ','); r.Trades > 0 {
			b = p.Append(b)
		}
	}
	b = r.Volume.Append(append(b, ','), market.SizeDecimals)
	b = r.Value.Append(append(b, ','), market.ValueDecimals)
	if b = append(b, ','); r.Volume != (market.Sum{}) {
		b = market.AppendAverage(b, r.Value, r.Volume)
	}
	b = strconv.AppendUint(append(b, ','), uint64(r.Trades), 10)
	return strconv.AppendBool(append(b, ','), r.Revised)
}

// appendField appends a field of CSV, in quotes where it needs them.
func appendField(b []byte, text string) []byte {
	if !strings.ContainsAny(text, ",\"\r\n") {
		return append(b, text...)
	}
	b = append(b, '"')
	for i := range len(text) {
		if text[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, text[i])
	}
	return append(b, '"')
}

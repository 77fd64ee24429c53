package wire

import (
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// AppendLine appends an event as a line, without a line feed. ident is that of the event's
// instrument, or of *|MARKET|* for a status or gap of a market. SQ is the event's Sequence. Set it
// to 0 unless the numbers are consecutive, because a reader treats a missing number as a loss.
// Order-by-order events have no line; AppendLine returns b unchanged for them.
func AppendLine(b []byte, ident Ident, e *market.Event) []byte {
	h := &Header{Ident: ident, Time: e.Time, Latency: -1}
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		b = AppendTrade(b, h, &Trade{
			Kind: e.Kind, Side: e.Side, Price: e.Price, Size: e.Size,
			OldPrice: e.OldPrice, OldSize: e.OldSize, ID: e.TradeID, TradeDetails: e.TradeDetails,
		})
	case market.KindQuote:
		b = AppendQuote(b, h, first(e.Bids), first(e.Asks), false)
	case market.KindSnapshot:
		b = appendHeader(b, "O", h)
		b = append(b, `,"R":true,"B":`...)
		b = appendLevels(b, e.Bids)
		b = append(b, `,"A":`...)
		b = appendLevels(b, e.Asks)
		b = append(b, '}')
	case market.KindUpdate:
		b = appendHeader(b, "O", h)
		b = appendSides(b, e.Bids, e.Asks)
		b = append(b, '}')
	case market.KindStatus:
		b = AppendStatus(b, h, e.Phase, e.Reason, e.Until, false)
	case market.KindGap:
		b = appendHeader(b, "Gap", h)
		b = appendText(b, "Y", e.Reason)
		b = append(b, '}')
	case market.KindReference:
		b = appendHeader(b, "D", h)
		if e.PreviousClose != 0 {
			b = appendPrice(b, `,"CL":`, e.PreviousClose)
		}
		if e.Settlement != 0 {
			b = appendPrice(b, `,"SE":`, e.Settlement)
		}
		b = appendSize(b, "OI", e.OpenInterest)
		b = append(b, '}')
	default:
		return b
	}
	b = b[:len(b)-1]
	if e.Sequence > 0 {
		b = append(b, `,"SQ":`...)
		b = strconv.AppendUint(b, e.Sequence, 10)
	}
	if e.Receive != 0 {
		b = append(b, `,"RT":"`...)
		b = AppendTime(b, e.Receive)
		b = append(b, '"')
	}
	return append(b, '}')
}

func first(levels []market.Level) market.Level {
	if len(levels) == 0 {
		return market.Level{}
	}
	return levels[0]
}

// AppendDefinition appends the line F that defines an instrument, without a line feed. Zero values
// are omitted, except the decimals.
func AppendDefinition(b []byte, in *market.Instrument) []byte {
	b = append(b, `{"type":"F",`...)
	b = append(b, MakeIdent(in.ID)...)
	b = appendText(b, "name", in.Name)
	b = appendText(b, "kind", in.Kind)
	b = appendText(b, "isin", in.ISIN)
	b = appendText(b, "currency", in.Currency)
	b = appendSize(b, "multiplier", in.Multiplier)
	b = append(b, `,"price_decimals":`...)
	b = strconv.AppendInt(b, int64(in.PriceDecimals), 10)
	b = append(b, `,"size_decimals":`...)
	b = strconv.AppendInt(b, int64(in.SizeDecimals), 10)
	if len(in.Ticks) > 0 {
		b = append(b, `,"tick":[`...)
		for i, t := range in.Ticks {
			if i > 0 {
				b = append(b, ',')
			}
			b = t.From.Append(append(b, '['))
			b = t.Step.Append(append(b, ','))
			b = append(b, ']')
		}
		b = append(b, ']')
	}
	b = appendSize(b, "lot", in.Lot)
	b = appendSize(b, "min_size", in.MinSize)
	if in.SettlementDays > 0 {
		b = append(b, `,"settlement_days":`...)
		b = strconv.AppendInt(b, int64(in.SettlementDays), 10)
	}
	b = appendText(b, "status", in.Phase.String())
	b = appendSwitch(b, "own_quotes", in.QuotesFromFeed)
	b = appendSwitch(b, "no_book", in.NoBook)
	b = appendSwitch(b, "virtual_clock", in.VirtualClock)
	return append(b, '}')
}

// appendText appends a string member, or nothing if text is empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = appendName(b, name)
	return AppendString(b, text)
}

func appendSize(b []byte, name string, z market.Size) []byte {
	if z == 0 {
		return b
	}
	return z.Append(appendName(b, name))
}

func appendSwitch(b []byte, name string, on bool) []byte {
	if !on {
		return b
	}
	return append(appendName(b, name), "true"...)
}

func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

package wire

import (
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/market"
)

// Ident is the part of a header that identifies the instrument, encoded once:
// `"S":"GGAL","I":"GGAL|BYMA|24hs"`.
type Ident []byte

// MakeIdent encodes the Ident of an instrument, or of *|MARKET|* (S is then "*").
func MakeIdent(id market.InstrumentID) Ident {
	b := append([]byte(nil), `"S":`...)
	b = AppendString(b, id.Symbol)
	b = append(b, `,"I":`...)
	return AppendString(b, id.String())
}

// Delayed returns the Ident of data with a delay in nanoseconds.
func (id Ident) Delayed(delay int64) Ident {
	b := append(append(Ident(nil), id...), `,"DE":`...)
	return strconv.AppendInt(b, delay/1e9, 10)
}

// Header holds the members that every data message starts with.
type Header struct {
	Ident   Ident
	N       uint64 // sequence in (channel, instrument); 0 omits N (lines of a recording), except in a state
	Time    int64  // Unix ns; 0 omits T (lines of a recording whose source gave no time)
	Latency int64  // ns from Time to publication; negative: omitted
}

func appendHeader(b []byte, kind string, h *Header) []byte {
	return appendNumbered(b, kind, h, h.N > 0)
}

func appendNumbered(b []byte, kind string, h *Header, numbered bool) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `",`...)
	b = append(b, h.Ident...)
	if numbered {
		b = append(b, `,"N":`...)
		b = strconv.AppendUint(b, h.N, 10)
	}
	if h.Time != 0 {
		b = append(b, `,"T":"`...)
		b = AppendTime(b, h.Time)
		b = append(b, '"')
	}
	if h.Latency >= 0 {
		b = append(b, `,"D":`...)
		b = strconv.AppendInt(b, h.Latency, 10)
	}
	return b
}

// Trade is a T, X or C message: a trade, a cancellation or a correction.
type Trade struct {
	Kind     market.Kind // KindTrade, KindCancel or KindCorrect
	Side     market.Side // aggressor side
	Price    market.Price
	Size     market.Size
	OldPrice market.Price // of a correction
	OldSize  market.Size
	RefN     uint64 // N of the cancelled or corrected trade; 0: from before this epoch
	ID       string // the market's trade id
	market.TradeDetails
}

// AppendTrade appends a trade message.
func AppendTrade(b []byte, h *Header, t *Trade) []byte {
	switch t.Kind {
	case market.KindCancel:
		b = appendHeader(b, "X", h)
		b = appendTradeID(b, t.ID)
		b = appendPriceSize(b, t)
	case market.KindCorrect:
		b = appendHeader(b, "C", h)
		b = appendTradeID(b, t.ID)
		b = appendPriceSize(b, t)
		b = append(b, `,"XP":`...)
		b = t.OldPrice.Append(b)
		b = append(b, `,"XZ":`...)
		b = t.OldSize.Append(b)
	default:
		b = appendHeader(b, "T", h)
		b = appendPriceSize(b, t)
		b = appendTradeID(b, t.ID)
	}
	switch t.Side {
	case market.Buy:
		b = append(b, `,"G":"B"`...)
	case market.Sell:
		b = append(b, `,"G":"S"`...)
	}
	if len(t.Conditions) > 0 {
		b = append(b, `,"C":`...)
		b = AppendStrings(b, t.Conditions)
	}
	if t.RefN > 0 {
		b = append(b, `,"XN":`...)
		b = strconv.AppendUint(b, t.RefN, 10)
	}
	return append(b, '}')
}

func appendPriceSize(b []byte, t *Trade) []byte {
	b = append(b, `,"P":`...)
	b = t.Price.Append(b)
	b = append(b, `,"Z":`...)
	return t.Size.Append(b)
}

func appendTradeID(b []byte, id string) []byte {
	if id == "" {
		return b
	}
	b = append(b, `,"X":`...)
	return AppendString(b, id)
}

// AppendQuote appends a quote: the complete best bid and offer. A side of Size 0 is empty and
// omitted. state marks a snapshot for a new subscriber.
func AppendQuote(b []byte, h *Header, bid, ask market.Level, state bool) []byte {
	b = appendHeader(b, "Q", h)
	if state {
		b = append(b, `,"R":true`...)
	}
	if bid.Size > 0 {
		b = append(b, `,"BP":`...)
		b = bid.Price.Append(b)
		b = append(b, `,"BZ":`...)
		b = bid.Size.Append(b)
	}
	if ask.Size > 0 {
		b = append(b, `,"AP":`...)
		b = ask.Price.Append(b)
		b = append(b, `,"AZ":`...)
		b = ask.Size.Append(b)
	}
	if bid.Size > 0 && bid.Orders > 0 {
		b = append(b, `,"BC":`...)
		b = strconv.AppendUint(b, uint64(bid.Orders), 10)
	}
	if ask.Size > 0 && ask.Orders > 0 {
		b = append(b, `,"AC":`...)
		b = strconv.AppendUint(b, uint64(ask.Orders), 10)
	}
	return append(b, '}')
}

// AppendBookState appends an O message that replaces the client's book. depth is the tier (0: all
// levels). Levels are best first.
func AppendBookState(b []byte, h *Header, depth int, bids, asks []market.Level, checksum uint32) []byte {
	b = appendHeader(b, "O", h)
	b = append(b, `,"R":true,"DL":`...)
	b = strconv.AppendInt(b, int64(depth), 10)
	b = append(b, `,"B":`...)
	b = appendLevels(b, bids)
	b = append(b, `,"A":`...)
	b = appendLevels(b, asks)
	return appendChecksum(b, checksum)
}

// AppendBookUpdate appends an O message that changes the book of message last (field L). A level of
// Size 0 is removed. A side without changes is omitted.
func AppendBookUpdate(b []byte, h *Header, last uint64, bids, asks []market.Level, checksum uint32) []byte {
	b = appendHeader(b, "O", h)
	b = append(b, `,"L":`...)
	b = strconv.AppendUint(b, last, 10)
	b = appendSides(b, bids, asks)
	return appendChecksum(b, checksum)
}

func appendSides(b []byte, bids, asks []market.Level) []byte {
	if len(bids) > 0 {
		b = append(b, `,"B":`...)
		b = appendLevels(b, bids)
	}
	if len(asks) > 0 {
		b = append(b, `,"A":`...)
		b = appendLevels(b, asks)
	}
	return b
}

func appendChecksum(b []byte, checksum uint32) []byte {
	b = append(b, `,"K":`...)
	b = strconv.AppendUint(b, uint64(checksum), 10)
	return append(b, '}')
}

func appendLevels(b []byte, levels []market.Level) []byte {
	b = append(b, '[')
	for i := range levels {
		if i > 0 {
			b = append(b, ',')
		}
		l := &levels[i]
		b = append(b, '[')
		b = l.Price.Append(b)
		b = append(b, ',')
		b = l.Size.Append(b)
		if l.Orders > 0 && l.Size > 0 {
			b = append(b, ',')
			b = strconv.AppendUint(b, uint64(l.Orders), 10)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// AppendStatus appends a trading status. until is the next expected change; 0 omits it. A state has
// R:true, and its N also if that is 0: there was no status before.
func AppendStatus(b []byte, h *Header, phase market.Phase, reason string, until int64, state bool) []byte {
	b = appendNumbered(b, "H", h, h.N > 0 || state)
	if state {
		b = append(b, `,"R":true`...)
	}
	b = append(b, `,"E":"`...)
	b = append(b, phase.String()...)
	b = append(b, '"')
	if reason != "" {
		b = append(b, `,"Y":`...)
		b = AppendString(b, reason)
	}
	if until != 0 {
		b = append(b, `,"U":"`...)
		b = AppendTime(b, until)
		b = append(b, '"')
	}
	return append(b, '}')
}

// Figures is a D message: the summary of the trading day of an instrument so far.
type Figures struct {
	Open, High, Low, Last market.Price // valid if Trades is above 0
	Volume, Value         market.Sum   // sum of sizes, sum of prices times sizes
	Trades                uint32
	PreviousClose         market.Price // 0: unknown
	Settlement            market.Price // 0: unknown
	OpenInterest          market.Size  // 0: unknown
}

// AppendSummary appends a summary. state marks a snapshot for a new subscriber.
func AppendSummary(b []byte, h *Header, s *Figures, state bool) []byte {
	b = appendHeader(b, "D", h)
	if state {
		b = append(b, `,"R":true`...)
	}
	if s.Trades > 0 {
		b = appendPrice(b, `,"OP":`, s.Open)
		b = appendPrice(b, `,"HI":`, s.High)
		b = appendPrice(b, `,"LO":`, s.Low)
	}
	if s.PreviousClose != 0 {
		b = appendPrice(b, `,"CL":`, s.PreviousClose)
	}
	if s.Trades > 0 {
		b = appendPrice(b, `,"LA":`, s.Last)
	}
	b = appendTurnover(b, s.Volume, s.Value, s.Trades)
	if s.Settlement != 0 {
		b = appendPrice(b, `,"SE":`, s.Settlement)
	}
	if s.OpenInterest != 0 {
		b = append(b, `,"OI":`...)
		b = s.OpenInterest.Append(b)
	}
	return append(b, '}')
}

// Bar is a K message: the bar of an interval. The time of its header is the start of the interval.
type Bar struct {
	Interval               market.Interval
	Revised                bool         // replaces a bar that was sent before
	TradingDate            market.Date  // of the trading day that it belongs to; 0: unknown
	Open, High, Low, Close market.Price // valid if Trades is above 0
	Volume, Value          market.Sum   // sum of sizes, sum of prices times sizes
	Trades                 uint32       // 0: all trades were cancelled
}

// AppendBar appends a bar.
func AppendBar(b []byte, h *Header, k *Bar) []byte {
	b = appendHeader(b, "K", h)
	b = append(b, `,"IV":"`...)
	b = append(b, k.Interval.String()...)
	b = append(b, '"')
	if k.TradingDate != 0 {
		b = append(b, `,"TD":"`...)
		b = k.TradingDate.Append(b)
		b = append(b, '"')
	}
	if k.Trades > 0 {
		b = appendPrice(b, `,"OP":`, k.Open)
		b = appendPrice(b, `,"HI":`, k.High)
		b = appendPrice(b, `,"LO":`, k.Low)
		b = appendPrice(b, `,"CL":`, k.Close)
	}
	b = appendTurnover(b, k.Volume, k.Value, k.Trades)
	b = append(b, `,"R":`...)
	b = strconv.AppendBool(b, k.Revised)
	return append(b, '}')
}

func appendPrice(b []byte, name string, p market.Price) []byte {
	return p.Append(append(b, name...))
}

// appendTurnover appends volume, value, the number of trades and the average price.
func appendTurnover(b []byte, volume, value market.Sum, trades uint32) []byte {
	b = append(b, `,"TV":`...)
	b = volume.Append(b, market.SizeDecimals)
	b = append(b, `,"EV":`...)
	b = value.Append(b, market.ValueDecimals)
	b = append(b, `,"TC":`...)
	b = strconv.AppendUint(b, uint64(trades), 10)
	if volume != (market.Sum{}) {
		b = append(b, `,"VW":`...)
		b = market.AppendAverage(b, value, volume)
	}
	return b
}

// ChecksumLevels returns the number of levels per side that the checksum of a tier covers.
func ChecksumLevels(depth int) int {
	if depth >= 1 && depth < 10 {
		return depth
	}
	return 10
}

// Checksum returns the checksum K of a book: CRC-32 (IEEE) over up to n bids, "|", up to n asks,
// "|". Levels are best first, each written as price:size in whole units of the instrument's
// decimals. Checksum uses scratch for the text and returns it for reuse.
func Checksum(scratch []byte, bids, asks []market.Level, n, priceDecimals, sizeDecimals int) (uint32, []byte) {
	b := scratch[:0]
	for _, side := range [2][]market.Level{bids, asks} {
		for i := range side[:min(n, len(side))] {
			b = market.AppendScaled(b, int64(side[i].Price), priceDecimals)
			b = append(b, ':')
			b = market.AppendScaled(b, int64(side[i].Size), sizeDecimals)
			b = append(b, ';')
		}
		b = append(b, '|')
	}
	return crc32.ChecksumIEEE(b), b
}

// AppendStrings appends a JSON array of strings.
func AppendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, s)
	}
	return append(b, ']')
}

// AppendText appends payload as one unmasked text frame (RFC 6455), as a server sends it.
func AppendText(b, payload []byte) []byte {
	b = slices.Grow(b, frame.MaxHead+len(payload))
	return append(frame.AppendHead(b, frame.Text, len(payload)), payload...)
}

package export

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// headers holds the columns of the tables, which are those of the Parquet files too.
var headers = [...]string{
	Trades: headColumns + tradeColumns,
	Quotes: headColumns + ",bid_price,bid_size,bid_orders,ask_price,ask_size,ask_orders",
	Bars:   headColumns + ",interval,open,high,low,close,volume,turnover,vwap,trades,revised,trading_date",
	Depth:  headColumns + ",kind,side,price,size,orders",
}

const headColumns = "ts,published,instrument,symbol,market,term,seq,epoch"

// flushAt is the number of bytes that are buffered before they are written.
const flushAt = 64 << 10

// csvTable writes text that follows RFC 4180, with a header and lines that end in a line feed.
// Unknown values are empty cells.
type csvTable struct {
	w    io.Writer
	b    []byte
	kind Type
}

func newCSV(w io.Writer, t Type) *csvTable {
	return &csvTable{w: w, kind: t, b: append([]byte(headers[t]), '\n')}
}

func (c *csvTable) put(in *listing, epoch string, r *journal.Row, final bool) error {
	switch c.kind {
	case Trades:
		c.b = appendTradeCells(appendHeadCells(c.b, in.cells, epoch, r, true), r, strconv.FormatBool(final)+",")
	case Quotes:
		c.b = appendQuoteCells(appendHeadCells(c.b, in.cells, epoch, r, true), r)
	case Bars:
		c.b = appendBarCells(appendHeadCells(c.b, in.cells, epoch, r, true), &r.Bar, in.date(r.Time), appendExact)
	case Depth:
		eachLevel(r, func(side market.Side, l market.Level) {
			c.b = appendLevelCells(appendHeadCells(c.b, in.cells, epoch, r, true), r.Kind, side, l)
		})
	}
	if len(c.b) < flushAt {
		return nil
	}
	return c.flush()
}

func (c *csvTable) flush() error {
	_, err := c.w.Write(c.b)
	c.b = c.b[:0]
	return err
}

func (c *csvTable) close([]Lost) error { return c.flush() }

// AppendCSVHeader appends the first line of a CSV page of history. Its columns are those of the
// exports, without final.
func AppendCSVHeader(b []byte, c journal.Channel) []byte {
	switch c {
	case journal.Trades:
		b = append(b, strings.Replace(headers[Trades], ",final", "", 1)...)
	case journal.Quotes:
		b = append(b, headers[Quotes]...)
	case journal.Bars:
		b = append(b, headers[Bars]...)
	case journal.Statuses:
		b = append(b, headColumns+",status,reason,until"...)
	}
	return append(b, '\n')
}

// AppendCSV appends a row of AppendCSVHeader. Sums have the digits of their messages. The
// publishing time is empty unless published is set.
func AppendCSV(b []byte, id market.InstrumentID, epoch string, r *journal.Row, zone *time.Location, published bool) []byte {
	var cells [96]byte
	b = appendHeadCells(b, appendInstrumentCells(cells[:0], id), epoch, r, published)
	switch r.Kind {
	case journal.Quote:
		return appendQuoteCells(b, r)
	case journal.Bar:
		return appendBarCells(b, &r.Bar, market.DateAt(r.Time, zone), func(b []byte, s market.Sum, decimals int) []byte { return s.Append(b, decimals) })
	case journal.Status:
		b = append(append(b, r.Phase.String()...), ',')
		b = append(appendCell(b, r.Reason), ',')
		if r.Until != 0 {
			b = wire.AppendTime(b, r.Until)
		}
		return append(b, '\n')
	}
	return appendTradeCells(b, r, "")
}

// appendInstrumentCells appends the cells instrument, symbol, market and term, with a trailing
// comma.
func appendInstrumentCells(b []byte, id market.InstrumentID) []byte {
	for _, s := range [...]string{id.String(), id.Symbol, id.Market, id.Term} {
		b = append(appendCell(b, s), ',')
	}
	return b
}

func appendHeadCells(b, instrument []byte, epoch string, r *journal.Row, published bool) []byte {
	b = wire.AppendTime(b, r.Time)
	b = append(b, ',')
	if published {
		b = wire.AppendTime(b, r.At)
	}
	b = append(b, ',')
	b = append(b, instrument...)
	b = strconv.AppendUint(b, r.N, 10)
	b = append(b, ',')
	b = appendCell(b, epoch)
	return append(b, ',')
}

func appendQuoteCells(b []byte, r *journal.Row) []byte {
	b = appendTop(b, r.Bids)
	b = append(b, ',')
	b = appendTop(b, r.Asks)
	return append(b, '\n')
}

// appendTop appends the best level of a side, as empty cells if the side is empty.
func appendTop(b []byte, side []market.Level) []byte {
	l, ok := top(side)
	if !ok {
		return append(b, ",,"...)
	}
	b = l.Price.Append(b)
	b = append(b, ',')
	b = l.Size.Append(b)
	b = append(b, ',')
	return appendCount(b, uint64(l.Orders))
}

func top(side []market.Level) (l market.Level, ok bool) {
	if len(side) == 0 || side[0].Size == 0 {
		return l, false
	}
	return side[0], true
}

// appendBarCells appends the cells of a bar, with sums as appendSum writes them.
func appendBarCells(b []byte, k *journal.BarRow, date market.Date, appendSum func([]byte, market.Sum, int) []byte) []byte {
	b = append(b, k.Interval.String()...)
	for _, p := range [...]market.Price{k.First, k.High, k.Low, k.Last} {
		b = append(b, ',')
		if k.Trades > 0 {
			b = p.Append(b)
		}
	}
	b = append(b, ',')
	b = appendSum(b, k.Volume, market.SizeDecimals)
	b = append(b, ',')
	b = appendSum(b, k.Value, market.ValueDecimals)
	b = append(b, ',')
	if p, ok := vwapOf(k); ok {
		b = p.Append(b)
	}
	b = append(b, ',')
	b = strconv.AppendUint(b, uint64(k.Trades), 10)
	b = append(b, ',')
	b = strconv.AppendBool(b, k.Revised)
	b = date.Append(append(b, ','))
	return append(b, '\n')
}

func appendLevelCells(b []byte, kind journal.Kind, side market.Side, l market.Level) []byte {
	b = append(b, kindWord(kind)...)
	b = append(b, ',')
	if side == market.NoSide {
		return append(b, ",,,\n"...)
	}
	b = append(b, sideWord(side)...)
	b = append(b, ',')
	b = l.Price.Append(b)
	b = append(b, ',')
	b = l.Size.Append(b)
	b = append(b, ',')
	b = appendCount(b, uint64(l.Orders))
	return append(b, '\n')
}

// appendCount appends a number, or nothing for 0 (unknown).
func appendCount(b []byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(b, n, 10)
}

// appendCell appends a text as a cell.
func appendCell(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && !strings.HasPrefix(s, " ") && !strings.HasSuffix(s, " ") {
		return append(b, s...)
	}
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// eachLevel calls do for each level of a book row, bids first. For a book that is empty or stale it
// calls do once without a side.
func eachLevel(r *journal.Row, do func(market.Side, market.Level)) {
	for _, l := range r.Bids {
		do(market.Buy, l)
	}
	for _, l := range r.Asks {
		do(market.Sell, l)
	}
	if len(r.Bids)+len(r.Asks) == 0 {
		do(market.NoSide, market.Level{})
	}
}

// kindWord returns the word of a row in the column kind.
func kindWord(k journal.Kind) string {
	switch k {
	case journal.Trade:
		return "trade"
	case journal.Cancel:
		return "cancel"
	case journal.Correct:
		return "correct"
	case journal.BookState:
		return "state"
	case journal.BookUpdate:
		return "update"
	case journal.BookLost:
		return "lost"
	}
	return ""
}

// sideWord returns the word of a side on the wire, "" for none.
func sideWord(s market.Side) string {
	switch s {
	case market.Buy:
		return "B"
	case market.Sell:
		return "S"
	}
	return ""
}

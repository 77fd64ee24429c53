package lobster

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Market is the market of the instruments.
const Market = "NASDAQ"

// Config holds what the files do not contain.
type Config struct {
	Symbol   string
	Midnight int64 // Unix nanoseconds of the midnight in New York from which times count
	Books    bool  // there is an order book file
	Complete bool  // every order of the message file is known; ignored with Books
}

// Decoder decodes a message file, alone or with its order book file, from beginning to end.
type Decoder struct {
	config Config
	listed bool
	handle market.Handle
	line   int   // of the newest line, from 1
	last   int64 // newest time
	lost   bool  // an order was unknown
	books  bool  // the order book file has begun
	orders decode.Orders
	row    row
}

// New returns a decoder.
func New(c Config) *Decoder { return &Decoder{config: c} }

// Line returns the number of the newest line, from 1.
func (d *Decoder) Line() int { return d.line }

// Lost reports whether an order was unknown.
func (d *Decoder) Lost() bool { return d.lost }

// BookError is an error in a line of the order book file.
type BookError struct{ Err error }

func (e *BookError) Error() string { return "order book: " + e.Err.Error() }

// Unwrap returns the underlying error.
func (e *BookError) Unwrap() error { return e.Err }

// Limits of lines: twice the longest message, and two hundred levels.
const (
	maxLine = 256
	maxRow  = 16 << 10
)

// Sniff reports whether data may be the beginning of a message file: whether its first lines can be
// parsed. whole means that the file ends with data.
func Sniff(data []byte, whole bool) bool {
	messages := 0
	for n := 0; n < 10; n++ {
		line, size := cutLine(data)
		if size == 0 {
			if !whole || len(data) == 0 {
				return messages > 0
			}
			line, size = data, len(data)
		}
		var m message
		switch err := m.read(line); {
		case len(line) > maxLine, err != nil && (n > 0 || !isHeader(line, messageColumns)):
			return false
		case err == nil:
			messages++
		}
		data = data[size:]
	}
	return true
}

// isHeader reports whether the first line of a file, which has at least so many columns, names
// them: whether its first field is no number.
func isHeader(line []byte, columns int) bool {
	first, _, _ := bytes.Cut(line, []byte{','})
	_, err := strconv.ParseFloat(string(bytes.TrimSpace(first)), 64)
	return err != nil && bytes.Count(line, []byte{','}) >= columns-1
}

// Columns of a line of the message file, and of one level of the order book file.
const (
	messageColumns = 6
	levelColumns   = 4
)

// cutLine returns the first line without its line feed. size is 0 if data is incomplete.
func cutLine(data []byte) (line []byte, size int) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return nil, 0
	}
	line = data[:i]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, i + 1
}

// Decode implements the decoder interface of package decode, for a message file alone.
func (d *Decoder) Decode(data []byte, b *decode.Batch) (n int, err error) {
	n, _, err = d.Pair(data, nil, b)
	return n, err
}

// End implements the decoder interface of package decode. The last line may lack its line feed.
func (d *Decoder) End(rest []byte, b *decode.Batch) error {
	if len(rest) == 0 {
		return nil
	}
	_, err := d.Decode(append(bytes.Clone(rest), '\n'), b)
	return err
}

// Pair decodes a message file and an order book file together, line by line. n and m are the bytes
// consumed of each. An error in the order book file is a *BookError.
func (d *Decoder) Pair(data, books []byte, b *decode.Batch) (n, m int, err error) {
	if !d.listed {
		d.list(b)
	}
	for !b.Full() {
		line, size := cutLine(data[n:])
		if len(line) > maxLine || size == 0 && len(data)-n > maxLine+1 {
			d.line++
			return n, m, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		if size == 0 {
			return n, m, nil
		}
		if d.line == 0 && isHeader(line, messageColumns) {
			d.line++
			b.Stats.Count(decode.OtherType)
			n += size
			continue
		}
		var levels []byte
		rowSize := 0
		if d.config.Books {
			m += d.bookHeader(books[m:])
			levels, rowSize = cutLine(books[m:])
			if len(levels) > maxRow || rowSize == 0 && len(books)-m > maxRow+1 {
				d.line++
				return n, m, &BookError{fmt.Errorf("a line of more than %d bytes", maxRow)}
			}
			if rowSize == 0 {
				return n, m, nil
			}
		}
		d.line++
		if err := d.both(line, levels, b); err != nil {
			return n, m, err
		}
		b.EndRecord()
		b.Cut()
		n += size
		m += rowSize
	}
	return n, m, nil
}

// bookHeader returns the length of the first line of the order book file if it names the columns.
func (d *Decoder) bookHeader(books []byte) int {
	line, size := cutLine(books)
	if d.books || size == 0 {
		return 0
	}
	if d.books = true; isHeader(line, levelColumns) {
		return size
	}
	return 0
}

func (d *Decoder) list(b *decode.Batch) {
	in := decode.Equity(d.config.Symbol, Market)
	switch {
	case d.config.Books:
	case d.config.Complete:
		in.StartsEmpty = true
	default:
		in.NoBook, in.QuotesFromFeed = true, true
		b.Note("no_book", "the file begins within a day and has no order book file: its book is unknown")
	}
	d.listed, d.handle = true, b.List(in)
}

// both decodes a line and the book after it.
func (d *Decoder) both(line, levels []byte, b *decode.Batch) error {
	var m message
	if err := m.read(line); err != nil {
		return err
	}
	if m.time < d.last {
		return fmt.Errorf("the time goes back by %d ns", d.last-m.time)
	}
	t := d.config.Midnight + m.time
	if d.config.Books {
		if err := d.row.read(levels); err != nil {
			return &BookError{err}
		}
	}
	d.last = m.time
	if err := d.event(&m, t, b); err != nil {
		return err
	}
	if d.config.Books {
		d.book(t, b)
	}
	return nil
}

// conditions holds the conditions of a cross.
var conditions = []string{"cross"}

func (d *Decoder) event(m *message, t int64, b *decode.Batch) error {
	switch m.kind {
	case 4, 5, 6:
		if m.size == 0 {
			b.Skip(decode.NoEffect)
			return nil
		}
		b.Stats.Trades++
		e := b.Add(market.KindTrade, d.handle)
		e.Time, e.Price, e.Size = t, m.price, units(m.size)
		if m.kind == 6 {
			e.Conditions = conditions
		} else {
			e.Side = decode.Opposite(m.side)
		}
		if m.kind != 4 {
			return nil
		}
	case 7:
		d.status(m, t, b)
		return nil
	}
	switch {
	case d.config.Books:
		return nil // the order book file has the change
	case !d.config.Complete || d.lost:
		if m.kind != 4 { // its trade was played
			b.Skip(decode.UnknownBook)
		}
		return nil
	}
	return d.order(m, t, b)
}

func (d *Decoder) status(m *message, t int64, b *decode.Batch) {
	b.Stats.Statuses++
	e := b.Add(market.KindStatus, d.handle)
	e.Time = t
	switch m.code {
	case -1:
		e.Phase, e.Reason = market.Halt, "trading_halt"
	case 0:
		e.Phase = market.Quoting
	default:
		e.Phase = market.Open
	}
}

func units(n uint32) market.Size { return market.Size(n) * market.Scale }

// order plays the change of an order.
func (d *Decoder) order(m *message, t int64, b *decode.Batch) error {
	if m.size == 0 && m.kind != 3 {
		return fmt.Errorf("order %d: no shares", m.id)
	}
	if m.kind == 1 {
		if d.orders.Len() >= decode.MaxOrders {
			return fmt.Errorf("more than %d orders at a time", decode.MaxOrders)
		}
		if !d.orders.Add(decode.Order{ID: m.id, Price: m.price, Size: m.size, Side: m.side}) {
			return fmt.Errorf("order %d exists already", m.id)
		}
		e := d.change(market.KindOrderAdd, m, t, b)
		e.Side, e.Price, e.Size = m.side, m.price, units(m.size)
		return nil
	}
	o := d.orders.Find(m.id)
	if o == nil || m.size > o.Size {
		d.lost = true
		b.Gap(d.handle, t, 0, "unknown_order")
		return nil
	}
	price, left := o.Price, o.Size-m.size
	if left == 0 || m.kind == 3 {
		d.orders.Remove(m.id)
	} else {
		o.Size = left
	}
	switch {
	case m.kind == 4:
		d.change(market.KindOrderFill, m, t, b).Size = units(m.size)
	case m.kind == 3 || left == 0:
		d.change(market.KindOrderDelete, m, t, b)
	default:
		e := d.change(market.KindOrderModify, m, t, b)
		e.Price, e.Size = price, units(left)
	}
	return nil
}

func (d *Decoder) change(kind market.Kind, m *message, t int64, b *decode.Batch) *market.Event {
	b.Stats.Orders++
	e := b.Add(kind, d.handle)
	e.Time, e.OrderID = t, m.id
	return e
}

// message is a line of the message file.
type message struct {
	time  int64 // ns after midnight
	kind  int
	id    uint64
	size  uint32
	price market.Price
	code  int64 // the price of type 7
	side  market.Side
}

var (
	errFields = errors.New("not a line of time,type,order,size,price,direction")
	errTime   = errors.New("bad time: not seconds after midnight")
	errKind   = errors.New("bad type: 1 to 7 are known")
	errRange  = errors.New("a number is out of range")
)

func (m *message) read(line []byte) error {
	at, ok := m.clock(line)
	if !ok {
		return errTime
	}
	kind, at, known := field(line, at)
	id, at, named := field(line, at)
	size, at, sized := field(line, at)
	price, at, priced := field(line, at)
	direction, at, directed := field(line, at)
	if !known || !named || !sized || !priced || !directed {
		return errFields
	}
	if at < len(line) && line[at] != ',' {
		return errFields
	}
	if kind < 1 || kind > 7 {
		return errKind
	}
	m.kind, m.id = int(kind), uint64(id)
	if kind == 7 {
		if m.code = price; price < -1 || price > 1 {
			return errRange
		}
		return nil
	}
	const unit = market.Scale / 10_000
	if size < 0 || size > math.MaxUint32 || price < 0 || price > math.MaxInt64/unit || direction != 1 && direction != -1 {
		return errRange
	}
	m.size, m.price = uint32(size), market.Price(price)*unit
	if m.side = market.Buy; direction < 0 {
		m.side = market.Sell
	}
	return nil
}

// clock parses the time of a line and returns its end.
func (m *message) clock(line []byte) (at int, ok bool) {
	seconds, at := digits(line, 0)
	if at == 0 || at > 18 || seconds >= 2*86_400 {
		return 0, false
	}
	m.time = int64(seconds) * 1_000_000_000
	if at == len(line) || line[at] != '.' {
		return at, true
	}
	from := at + 1
	fraction, at := digits(line[:min(len(line), from+nanoDigits)], from)
	if at == from {
		return 0, false
	}
	for n := at - from; n < nanoDigits; n++ {
		fraction *= 10
	}
	m.time += int64(fraction)
	if at < len(line) && line[at] >= '5' && line[at] <= '9' {
		m.time++ // times with more decimals occur; they are rounded
	}
	for at < len(line) && line[at]-'0' <= 9 {
		at++
	}
	return at, true
}

// nanoDigits is the number of decimals of a time.
const nanoDigits = 9

// field parses a comma followed by an integer.
func field(s []byte, at int) (v int64, end int, ok bool) {
	if at >= len(s) || s[at] != ',' {
		return 0, at, false
	}
	return integer(s, at+1)
}

// integer parses an integer at an offset and returns its end.
func integer(s []byte, at int) (v int64, end int, ok bool) {
	negative := at < len(s) && s[at] == '-'
	if negative {
		at++
	}
	n, end := digits(s, at)
	if v = int64(n); negative {
		v = -v
	}
	return v, end, uint(end-at-1) < 18
}

// digits parses digits at an offset and returns their end. A number of more than nineteen digits is
// meaningless.
func digits(s []byte, at int) (v uint64, end int) {
	for ; at < len(s) && s[at]-'0' <= 9; at++ {
		v = v*10 + uint64(s[at]-'0')
	}
	return v, at
}

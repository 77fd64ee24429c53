package replaytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Plain is what a plain reader of a format knows of an instrument. A plain reader is a short
// program of a test, made from the specification of the format. It shares no code with the decoder
// that it is compared with.
type Plain struct {
	Log    []string // trades, quotes, statuses and gaps, as Line returns them
	Known  bool     // the book is known
	Levels map[PlainLevel]int64
}

// PlainLevel identifies a level of a book. Prices, and the sizes of levels, are in units of 1e-8.
type PlainLevel struct {
	Sell  bool
	Price int64
}

// Set sets the size of a level; 0 removes it.
func (p *Plain) Set(sell bool, price, size int64) {
	if p.Levels == nil {
		p.Levels = map[PlainLevel]int64{}
	}
	if p.Levels[PlainLevel{sell, price}] = size; size == 0 {
		delete(p.Levels, PlainLevel{sell, price})
	}
}

// Line returns an entry of a log: the words that describe an event.
func Line(words ...any) string { return strings.TrimRight(fmt.Sprintln(words...), " \n") }

// Quote returns an entry of a log for a quote. A side of size 0 is empty.
func Quote(time, bid, bidSize, ask, askSize int64) string {
	if bidSize == 0 {
		bid = 0
	}
	if askSize == 0 {
		ask = 0
	}
	return Line("quote", bid, bidSize, ask, askSize, time)
}

// observed is what a decoder has published of an instrument.
type observed struct {
	symbol string
	log    []string
	known  bool
	orders market.OrderBook
	book   market.Book
	equal  int // entries of the log that were compared
}

// add applies an event.
func (o *observed) add(e *market.Event) error {
	side := [...]string{"", "buy", "sell"}[e.Side]
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		kind := map[market.Kind]string{market.KindTrade: "trade", market.KindCancel: "cancel", market.KindCorrect: "correct"}[e.Kind]
		o.log = append(o.log, Line(kind, e.TradeID, int64(e.Price), int64(e.Size), int64(e.OldPrice), int64(e.OldSize), e.Time, side, strings.Join(e.Conditions, " ")))
	case market.KindQuote:
		var bid, ask market.Level
		if len(e.Bids) > 0 {
			bid = e.Bids[0]
		}
		if len(e.Asks) > 0 {
			ask = e.Asks[0]
		}
		o.log = append(o.log, Quote(e.Time, int64(bid.Price), int64(bid.Size), int64(ask.Price), int64(ask.Size)))
	case market.KindStatus:
		o.log = append(o.log, Line("status", e.Phase, e.Time, e.Reason))
	case market.KindReference:
		o.log = append(o.log, Line("reference", int64(e.PreviousClose), int64(e.Settlement), int64(e.OpenInterest), e.Time))
	case market.KindGap:
		o.known = false
		o.log = append(o.log, Line("gap", e.Reason))
	case market.KindSnapshot, market.KindUpdate:
		if e.Kind == market.KindSnapshot {
			o.known = true
			o.orders.Reset()
			o.book.Reset()
		}
		for _, l := range e.Bids {
			o.book.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			o.book.Set(market.Sell, l)
		}
	default:
		return Apply(&o.orders, e)
	}
	return nil
}

// compare returns an error if the decoder and the plain reader differ.
func (o *observed) compare(p *Plain) error {
	from := min(o.equal, len(p.Log))
	if !slices.Equal(o.log[o.equal:], p.Log[from:]) {
		return fmt.Errorf("%s published\n%s\nwant\n%s", o.symbol, strings.Join(o.log[o.equal:], "\n"), strings.Join(p.Log[from:], "\n"))
	}
	o.equal = len(o.log)
	if o.known != p.Known {
		return fmt.Errorf("%s: the book is known: %v, want %v", o.symbol, o.known, p.Known)
	}
	if !p.Known {
		return nil
	}
	book := o.orders.Book()
	if o.orders.Len() == 0 {
		book = &o.book
	}
	same := book.Len(market.Buy)+book.Len(market.Sell) == len(p.Levels)
	for _, side := range [...]market.Side{market.Buy, market.Sell} {
		for i := range book.Len(side) {
			l := book.At(side, i)
			same = same && p.Levels[PlainLevel{side == market.Sell, int64(l.Price)}] == int64(l.Size)
		}
	}
	if !same {
		return fmt.Errorf("%s: the book is %v %v, want %v", o.symbol, book.Append(nil, market.Buy, 0), book.Append(nil, market.Sell, 0), p.Levels)
	}
	return nil
}

// Comparison compares a decoder with a plain reader.
type Comparison struct {
	Decoder Decoder
	Records [][]byte // of the file: its header, and one record each
	// Read has the plain reader read a record, nil at the end of the file, and returns the
	// instruments by their symbols.
	Read  func(record []byte) map[string]*Plain
	Fault []byte // a record after the others that ends the file with an error; nil: none
	Count int    // records that the file has, as the plain reader counts them; set it in Read
	// Each record is an event of the exchange: it changes a book at most once.
	Single bool

	Books int // known books that were compared; Run sets it
	Stats decode.Stats
	list  []*observed
}

// Run feeds both readers record by record. It compares all trades, quotes, statuses, gaps and books
// after each record, and at the end the number of records.
func (c *Comparison) Run() error {
	var b decode.Batch
	for n, record := range c.Records {
		size, err := c.Decoder.Decode(record, &b)
		if size != len(record) || err != nil {
			return fmt.Errorf("record %d: %d bytes of %d: %w", n, size, len(record), err)
		}
		if err := c.observe(&b); err != nil {
			return fmt.Errorf("record %d, %q: %w", n, record, err)
		}
		if err := c.equal(c.Read(record)); err != nil {
			return fmt.Errorf("record %d, %q: %w", n, record, err)
		}
	}
	if c.Fault != nil {
		if size, err := c.Decoder.Decode(c.Fault, &b); size != 0 || err == nil {
			return fmt.Errorf("%q: %d bytes, no error", c.Fault, size)
		}
	} else if err := c.end(&b); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	c.Stats = b.Stats
	all := b.Stats.Used
	for _, k := range b.Stats.Skipped {
		all += k
	}
	if all != b.Stats.Lines || c.Count != b.Stats.Lines {
		return fmt.Errorf("the file has %d records; %d are counted, %d of which are used, and %s", c.Count, b.Stats.Lines, b.Stats.Used, b.Stats.Skipped.String())
	}
	return nil
}

func (c *Comparison) end(b *decode.Batch) error {
	if err := c.Decoder.End(nil, b); err != nil {
		return err
	}
	b.Cut()
	if err := c.observe(b); err != nil {
		return err
	}
	return c.equal(c.Read(nil))
}

// observe applies the events of a batch.
func (c *Comparison) observe(b *decode.Batch) error {
	for len(c.list) < len(b.Listed) {
		in := b.Listed[len(c.list)]
		c.list = append(c.list, &observed{symbol: in.ID.Symbol, known: in.StartsEmpty})
	}
	if n := len(b.Events); n > 0 && (len(b.Cuts) == 0 || b.Cuts[len(b.Cuts)-1] != n) {
		return fmt.Errorf("%d events, cut at %v", n, b.Cuts)
	}
	changes := 0
	for i := range b.Events {
		e := &b.Events[i]
		if ChangesBook(e.Kind) {
			changes++
		}
		if changes > 1 && c.Single {
			return fmt.Errorf("a second change of the book: %+v", *e)
		}
		o := c.list[e.Handle]
		if err := o.add(e); err != nil {
			return err
		}
		for _, x := range c.list {
			x.known = x.known && (e.Kind != market.KindGap || o.symbol != market.Any) // a gap of the market
		}
	}
	b.Reset()
	return nil
}

// ChangesBook reports whether an event of a kind becomes a message with a book.
func ChangesBook(k market.Kind) bool {
	switch k {
	case market.KindUpdate, market.KindSnapshot, market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		return true
	}
	return false
}

// equal compares all instruments.
func (c *Comparison) equal(want map[string]*Plain) error {
	for _, o := range c.list {
		p := want[o.symbol]
		if p == nil {
			return fmt.Errorf("%s is listed", o.symbol)
		}
		if err := o.compare(p); err != nil {
			return err
		}
		if p.Known {
			c.Books++
		}
	}
	for _, symbol := range slices.Sorted(maps.Keys(want)) {
		if len(want[symbol].Log) > 0 && !slices.ContainsFunc(c.list, func(o *observed) bool { return o.symbol == symbol }) {
			return fmt.Errorf("%s is not listed", symbol)
		}
	}
	return nil
}

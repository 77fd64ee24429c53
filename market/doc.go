// Package market defines market data: instruments and their identifiers, exact prices and sizes,
// trades, quotes, order books, trading status and the catalogue. It is pure data: no I/O, no
// goroutines, no clock.
//
// # Instruments
//
// An [InstrumentID] is SYMBOL|MARKET|TERM: what trades, where, and when it settles.
// [ParseInstrumentID] parses one strictly. [ParsePattern] also accepts "*" for a whole part. An
// [Instrument] is a definition, a [Market] is a venue with its settlement terms and its [Schedule],
// and a [Catalog] holds both in listing order:
//
//	var c market.Catalog
//	i, err := c.Add(market.Instrument{ID: id, Currency: "ARS", PriceDecimals: 2})
//	for i, in := range c.Match(pattern) { ... }
//
// # Prices and sizes
//
// A [Price] or [Size] is a whole number of units of 1e-8. Parsing and printing are exact: a text
// that does not fit is an error, nothing is rounded, and floating point is never used.
// [Price.Exact] and [Size.Exact] report whether a reader that stores numbers as IEEE 754 doubles
// gets the value back unchanged. Values that fail this check are rejected when events come in.
//
// # Events
//
// A feed sends [Event] values: one flat struct for every [Kind]. Quantities are absolute, never
// deltas. From a KindGap to the next KindSnapshot a book is stale.
//
// # Books
//
// A [Book] holds price levels, from KindSnapshot and KindUpdate. An [OrderBook] holds single orders
// on top of a Book, from the KindOrder events; each of its methods returns the level that changed.
// Both allocate only when they grow beyond their previous size.
//
// # Concurrency
//
// Values may be read by several goroutines. [Book], [OrderBook] and [Catalog] are not locked; their
// owner must guard them.
package market

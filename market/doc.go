// Package market says what a market is: instruments and how they are named,
// exact prices and sizes, trades, quotes, order books, trading status, and the
// catalogue of what is listed. It is pure data: no I/O, no goroutine, no clock.
//
// # Instruments
//
// An [InstrumentID] is SYMBOL|MARKET|TERM: what trades, where, and when it
// settles. [ParseInstrumentID] reads one strictly; [ParsePattern] also takes "*"
// for a whole part. [Instrument] is the definition, [Market] the venue with its
// settlement terms and its [Schedule], and a [Catalog] holds them in the order of
// listing:
//
//	var c market.Catalog
//	i, err := c.Add(market.Instrument{ID: id, Currency: "ARS", PriceDecimals: 2})
//	for i, in := range c.Match(pattern) { ... }
//
// # Prices and sizes
//
// [Price] and [Size] are whole numbers of 1e-8. They are parsed and printed
// exactly; a text that does not fit is an error, never rounded, and floating
// point is nowhere on the way. [Price.Exact] and [Size.Exact] say whether a value
// comes back unchanged from a reader that holds numbers as IEEE 754 doubles. What
// fails there is refused where events come in, not where they go out.
//
// # Events
//
// A feed gives [Event] values: one flat struct for every [Kind]. Quantities are
// absolute, never deltas. From a KindGap to the next KindSnapshot a book is stale.
//
// # Books
//
// [Book] holds price levels and is fed by KindSnapshot and KindUpdate;
// [OrderBook] holds single orders on top of one and is fed by the KindOrder
// events, each of which gives the level that changed. Both allocate only when
// they grow beyond what they have held before.
//
// # Concurrency
//
// Values may be read from many goroutines. [Book], [OrderBook] and [Catalog] take
// no lock: whoever owns one guards it.
package market

// Package replay plays recorded market data as a feed.
//
// A recording is a text file, plain or gzip, of lines
//
//	1723161255088176367 {"stream":"btcusdt@trade","data":{"e":"trade",...}}
//
// the receive time in Unix nanoseconds, a space, and a message of Binance as it
// was received: streams trade, bookTicker and depth of one symbol, spot or
// USD-margined futures, and snapshots of the book as the REST interface gives them
// (lastUpdateId, bids, asks). Messages of other streams are passed over.
//
//	source, err := replay.Open("btcusdt.gz", replay.Config{Speed: 10})
//	...
//	err = source.Run(ctx, sink)
//
// One recording is one instrument, BTCUSDT|BINANCE|PERP or BTCUSDT|BINANCE|SPOT.
// Several are several sources, which run side by side.
//
// # Book
//
// Depth messages wait for a snapshot; those that ended before it are dropped; the
// first one kept must span it, and each next one must follow the one before. Where
// one does not the source says KindGap, and the book is stale until the next
// snapshot that can be joined to what came since. A recording without a snapshot
// plays trades and quotes alone. Quotes are the bookTicker messages,
// which run ahead of the depth messages.
//
// Sequence of an event is the update id of its message (u, lastUpdateId), of a
// trade its id. Update ids rise, but not by one.
//
// # Concurrency
//
// Run does everything on the goroutine that calls it. Stats may be called
// meanwhile from any other; Run itself is called once at a time.
package replay

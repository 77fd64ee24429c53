// Package replay plays recorded market data as a feed.
//
//	source, err := replay.Open("01302019.NASDAQ_ITCH50.gz", replay.Config{Speed: 10, FromName: true})
//	...
//	err = source.Run(ctx, sink)
//
// What a file is, is told by its content: its name does not matter. It may be packed with gzip
// or zstd. These are known:
//
//   - recordings of rueda record
//   - Databento DBN: MBO, MBP-1, MBP-10, TBBO, trades and status (package dbn)
//   - NASDAQ TotalView-ITCH 5.0 (package itch)
//   - captures of IEX TOPS 1.6 and DEEP 1.0, as pcap or pcapng (package iex)
//   - LOBSTER message files, with their order book files beside them (package lobster)
//   - captures of Binance, see below
//
// ITCH and LOBSTER files do not say of which day they are, and LOBSTER files not of which
// stock: Config does, or with FromName the name of the file. The order book file is found by the
// name that LOBSTER gives it (_orderbook_ for _message_). Instruments are listed as they appear, with a
// clock of their own (VirtualClock). Another format is a row in open.go.
//
// Events are published when they are due by their receive time, or where there is none by their
// event time; one that is older than those before it at once. Those of a recording of rueda record, which has them
// as they arrived, are put in the order of their event times first, as far as they arrived together.
//
// # Damage
//
// Whatever is wrong with a file, all that stands before it is played; then Run returns
// an *Error with the file and the offset, after unpacking, of the record or line. This goes for
// files that are cut off, packed or not, for those with records that cannot be, and for those whose
// records contradict one another: each decoder says which. A part of a file that means nothing to a
// market is passed over and counted in Stats; where something is left out that would have
// meant something, it is also logged, once for each reason.
//
// # Captures of Binance
//
// Such a recording is lines
//
//	1723161255088176367 {"stream":"btcusdt@trade","data":{"e":"trade",...}}
//
// the receive time in Unix nanoseconds, a space, and a message of Binance as it
// was received: streams trade, bookTicker and depth of one symbol, spot or
// USD-margined futures, and snapshots of the book as the REST interface gives them
// (lastUpdateId, bids, asks). Messages of other streams are passed over.
//
// One recording is one instrument, BTCUSDT|BINANCE|PERP or BTCUSDT|BINANCE|SPOT.
// Several are several sources, which run side by side.
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
// Run does everything on the goroutine that calls it. Stats and Progress may be called
// meanwhile from any other; Run itself is called once at a time.
package replay

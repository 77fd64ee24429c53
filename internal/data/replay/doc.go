// Package replay plays recorded market data as a feed.
//
//	source, err := replay.Open("01302019.NASDAQ_ITCH50.gz", replay.Config{
//		Speed: 10, FromName: true,
//	})
//	...
//	err = source.Run(ctx, sink)
//
// Open detects the format from the content of the file, which may be compressed with gzip or zstd.
// The known formats are:
//
//   - recordings of rueda record
//   - journals of a gateway
//   - Databento DBN: MBO, MBP-1, MBP-10, TBBO, trades and status (package dbn)
//   - NASDAQ TotalView-ITCH 5.0 (package itch)
//   - captures of IEX TOPS 1.6 and DEEP 1.0, as pcap or pcapng (package iex)
//   - LOBSTER message files, with their order book files (package lobster)
//   - captures of Binance, see below
//
// ITCH and LOBSTER files do not contain their date, and LOBSTER files not their symbol. Set them in
// Config, or set FromName to take them from the file name. The order book file must have the name
// that LOBSTER gives it (_orderbook_ instead of _message_). Instruments are listed as they appear,
// with VirtualClock set. Config.Input plays from a reader instead of a file. To add a format, add a
// row in open.go.
//
// Events are published when they are due by their receive time, or by their event time if they have
// none. An event that is older than the previous ones is published at once. A recording of rueda
// record has events in the order in which they arrived; those that arrived together are first
// sorted by event time.
//
// # Damage
//
// If a file is damaged, Run plays what comes before the damage and returns an *Error with the file
// and the offset, after decompression, of the record or line. Recordings after the damaged one
// (Source.Then) are played first, after a gap of all its instruments; Stats.Damaged counts the
// damaged ones. This applies to truncated files, compressed or not, to files with invalid records,
// and to records that contradict each other, as each decoder documents.
//
// Records that are not played are counted by reason in Stats.Skipped; with Stats.Used they are all
// records of the file. A record of an unknown type counts as lost (unsupported), because it may
// have market data. If something that has a meaning is skipped, it is also logged, once per reason,
// and is one of Source.Notes. If nothing of a recording could be played, Run returns an
// *UnusedError. At the end of the first pass the counts are logged, as a warning if market data was
// lost with more than one record in a thousand.
//
// # Captures of Binance
//
// Such a recording consists of lines
//
//	1723161255088176367 {"stream":"btcusdt@trade","data":{"e":"trade",...}}
//
// with the receive time in Unix nanoseconds, a space, and a Binance message as it was received. The
// messages are the streams trade, aggTrade, bookTicker and depth of one symbol, spot or
// USD-margined futures, and snapshots of the book in the format of the REST interface
// (lastUpdateId, bids, asks). Messages of aggTrade are played as trades if the file has none of
// trade. Streams that say nothing of trades, quotes and books, such as kline, and answers to
// requests are skipped, and so are lines that were received before the line before them, and
// repeated depth messages. Messages of other streams are counted as unsupported. Partial books
// (depth5, depth10, depth20) are not played.
//
// A recording has one instrument, BTCUSDT|BINANCE|PERP or BTCUSDT|BINANCE|SPOT. Play several
// recordings as several sources, side by side.
//
// Depth messages wait for a snapshot. Those that ended before it are dropped, the first one that is
// kept must span it, and each further message must follow the previous one. If one does not, the
// source publishes KindGap, and the book is stale until the next snapshot that connects to the
// messages since. Without a snapshot, only trades and quotes are played. Quotes are the bookTicker
// messages, which run ahead of the depth messages.
//
// The Sequence of an event is the update id of its message (u, lastUpdateId), and for a trade its
// id. Update ids rise, but not by one.
//
// # Concurrency
//
// Run does everything on the goroutine that calls it. Stats and Progress may be called from other
// goroutines meanwhile. Only one Run may be active at a time.
package replay

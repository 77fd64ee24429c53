// Package verify checks market data for consistency. It rebuilds the books of a stream and reports
// what cannot be true.
//
//	v := verify.New(verify.Config{Instruments: definitions})
//	v.Message(line, received, &message)   // for each message
//	report := v.Report()
//	report.WriteText(os.Stdout)
//
// A [Verifier] checks messages of the protocol, and a [Sink] checks the events of any feed.
// [Recording] and [Journal] read files. The constants of [Check] list what is checked:
//
//   - book updates follow each other (L);
//   - checksums (K) match the books;
//   - books are not crossed while the market is open;
//   - quotes are the top of the book, and each top is quoted;
//   - numbers have no gaps, except those of books and of conflated quotes and summaries;
//   - cancellations and corrections refer to an existing trade, and trade ids rise;
//   - bars equal the sum of their trades, and come once;
//   - summaries follow from the ones before and the trades since;
//   - aggressors take the other side of the book;
//   - levels are sorted and on the tick;
//   - times do not go back. Late trades are allowed and counted in the report.
//
// A check counts as unjudged if the data needed for it is missing: a checksum without the decimals
// of its instrument, a book before its first snapshot, a cancellation of a trade before the
// recording. At the end, findings that another channel could still have explained count as unjudged
// too. A gap that the server reported is a note and not a finding. Where quotes have a source of
// their own, what contradicts the book is a note.
//
// Memory is bounded: the books, the newest 50,000 trades of an instrument, a few seconds of quotes
// and summaries, the times of the newest bars, and the first findings of each check.
//
// verifier.go receives messages, sink.go events, journal.go rows. instrument.go has books and
// numbers, quotes.go quotes and tops of books, crossing.go statuses, trades.go and bars.go trades
// and bars, summary.go summaries, sides.go aggressors and trade ids, and missing.go whole channels.
//
// # Concurrency
//
// A Verifier must be used by one goroutine at a time. A Sink is safe for concurrent use, as package
// feed requires.
package verify

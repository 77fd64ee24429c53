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
//   - quotes are the top of the book;
//   - trades, status and bars are numbered without gaps;
//   - cancellations and corrections refer to an existing trade;
//   - bars equal the sum of their trades;
//   - levels are sorted;
//   - times do not go back. Late trades are allowed and counted in the report.
//
// A check counts as unjudged if the data needed for it is missing: a checksum without the decimals
// of its instrument, a book before its first snapshot, a cancellation of a trade before the
// recording. At the end, findings that another channel could still have explained count as unjudged
// too. A gap that the server reported is a note and not a finding.
//
// Memory is bounded: the books, the newest 50,000 trades of an instrument, a few seconds of quotes,
// and the first findings of each check.
//
// # Concurrency
//
// A Verifier must be used by one goroutine at a time. A Sink is safe for concurrent use, as package
// feed requires.
package verify
